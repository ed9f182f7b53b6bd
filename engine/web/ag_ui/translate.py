"""AG-UI as a second face of a run: each of our events becomes none, one or several events of the protocol (1.0).

What has a counterpart is told by it; everything else goes out as CUSTOM under `endstop.<name of our event>`, with our
event as its value (docs/ag_ui.md has the table, which is made from `HOW`). Nothing here waits or reads a
clock: the same events give the same bytes, to every reader and at every time.

A reader that comes in the middle: feed what it has had with `skip=True`, and go on from there. Each of our events is
sent as one frame or several, of which the last has the id, so a reader that resumes gets every event of ours whole and
once; a connection that breaks between two frames of one event gets all of them again. (The protocol itself resumes
nothing and passes over ids.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...decision import AssistantMessage, Event, Outcome, Question, Usage, WrongUse
from ...decision import events as ev
from ...records.format import encode_line
from . import protocol
from .protocol import AgUiEvent, LaggedValue, custom_name, image_part, to_milliseconds

CLOSING = "closing step"
CUT_OFF = "The run ended before there was a result."
REQUESTED_AGAIN = "The process was killed while the model was answering: the response is void and requested again."


# What has been said in AG-UI and what of it is open: keeps to the protocol's legal order whatever it is told.
#
# Everything that is opened is closed, nothing twice; an identifier is never used again; every call has one result,
# but for an open question. A call without a result would look to the reader like one of its own tools, left for it to
# run.

VOID = "void"
"""The status, in a result's metadata, of a call that came to nothing: its attempt failed, or the run ended before."""
AGAIN = "Void: the same call was made again."


# How a run ends in AG-UI: our status as its outcome or error, what was used by model, open questions as interrupts.

PAUSED = "endstop:paused"
"""The id of the interrupt of a run that waits without having asked a question, by a user's own rule."""
INPUT_REQUIRED = "input_required"
CONFIRMATION = "confirmation"
TEXT: dict[str, Any] = {"type": "string"}
YES_NO_OR_TEXT: dict[str, Any] = {"type": ["boolean", "string"]}


class AgUiTranslator:
    """The translator of one reader's stream, of one run or of a session's runs one after another.

    `thread_id`: what the reader calls the session; None: its id. `run_id`: what it calls the next run that begins, as
    the run that an input asked for bears the input's id; the runs after that bear their own. `ignored`: what of the
    input was passed over; it is told once.
    """

    def __init__(self, *, thread_id: str | None = None, run_id: str | None = None, ignored: Sequence[str] = ()) -> None:
        self.run_id = run_id
        """May be set again before another run begins that was asked for by an id."""
        self._thread = thread_id
        self._ignored = tuple(ignored)
        self._state = StreamState()
        self._run = ""
        """Our id of the run that is open; empty between runs."""
        self._public_run_id = ""
        self._public_thread_id = ""
        self._model = ""
        self._began: int | None = None
        self._messages: dict[str, str] = {}
        """The message of each attempt of this step."""
        self._void = VoidIds()  # what the latest attempt had shown that failed
        self._usage = UsageByModel()

    def translate(self, event: Event, *, skip: bool = False) -> list[bytes]:
        """What this event is in AG-UI, each event one JSON object. With `skip` the reader has had it already: nothing.

        Raises WrongUse if no run is open and this event opens none.
        """
        if not self._run and type(event) is not ev.RunStarted:
            raise WrongUse(
                f"{type(event).__name__} {event.seq} belongs to a run whose beginning the translator has not had: "
                "feed it the run's earlier events with skip=True"
            )
        self._state.at = None if self._began is None else self._began + event.t
        HANDLERS.get(type(event), AgUiTranslator._custom)(self, event)
        return self._take_encoded(skip)

    def lagged(self, run_id: str, missed: int, next_seq: int) -> list[bytes]:
        """Say that `missed` events are lost to this reader, and that the run goes on with event `next_seq`.

        What is open is closed; a response that goes on afterwards is a new message. Raises WrongUse if the thread is
        unknown, as no run was seen and `thread_id` was not given.
        """
        if self._run and self._run != run_id:
            self._end_unfinished("lagged", "The end of this run did not reach the reader, who was too slow.")
        self._state.at = None
        if not self._run:
            if self._thread is None and not self._public_thread_id:
                raise WrongUse("a reader whose first run is lost to it needs a thread_id")
            self._open(run_id, self._thread or self._public_thread_id, None)
            self._began, self._model = None, ""
        self._state.pause()
        self._messages.clear()
        self._add_custom("endstop.lagged", LaggedValue(run_id=run_id, missed=missed, next_seq=next_seq))
        return self._take_encoded(False)

    def _take_encoded(self, skip: bool) -> list[bytes]:
        events, self._state.events = self._state.events, []
        return [] if skip else [encode_line(event) for event in events]

    # ---- the run

    def _run_started(self, event: ev.RunStarted) -> None:
        """`RUN_STARTED`, with the prompt as its `input` if the reader did not send it; `CUSTOM` with all the rest."""
        if self._run:
            self._end_unfinished("interrupted", "The process of this run was killed, and it was not resumed.")
        self._began = to_milliseconds(event.started_at)
        self._state.at = None if self._began is None else self._began + event.t
        self._model = event.model
        self._open(event.run_id, self._thread or event.session_id, event.prompt)
        self._custom(event)

    def _open(self, run_id: str, thread_id: str, prompt: str | None) -> None:
        """Open a run. Only a reader who did not ask for it is told the prompt, which the other has."""
        self._run, self._public_thread_id = run_id, thread_id
        self._public_run_id, asked, self.run_id = self.run_id or run_id, self.run_id, None
        self._usage, self._messages = UsageByModel(), {}
        echoed = None
        if prompt is not None and asked is None:
            message = protocol.EchoedMessage(id=f"{run_id}:prompt", role="user", content=prompt)
            echoed = protocol.EchoedInput(thread_id=thread_id, run_id=self._public_run_id, messages=(message,))
        self._state.events.append(
            protocol.RunStarted(
                thread_id=thread_id,
                run_id=self._public_run_id,
                protocol_version=protocol.PROTOCOL_VERSION,
                input=echoed,
                timestamp=self._state.at,
            )
        )
        if self._ignored:
            self._add_custom("endstop.input_ignored", self._ignored)
            self._ignored = ()

    def _run_resumed(self, event: ev.RunResumed) -> None:
        """`CUSTOM`; what the killed process had shown of an unfinished response is closed and void, its step ends."""
        self._began = self._state.at = None  # time goes on where it stopped: how long nobody ran it is not known
        self._void = self._state.void_response(self._id_of(event), REQUESTED_AGAIN)
        if event.interrupted_step is not None:
            self._state.end_step()
        self._messages.clear()
        self._custom_with_void(event)

    def _run_finished(self, event: ev.RunFinished) -> None:
        """`CUSTOM`, then `RUN_FINISHED` or, of a failed run, `RUN_ERROR`; first all that is open is closed."""
        outcome, state = event.outcome, self._state
        calls = {one.call_id: state.alias(one.call_id) for one in outcome.questions}
        state.end_run(self._id_of(event), frozenset(calls), CUT_OFF)
        self._custom(event)
        state.events.append(
            terminal_event(outcome, self._public_thread_id, self._public_run_id, self._usage.entries(), state.at, calls)
        )
        self._run = ""

    def _end_unfinished(self, code: str, message: str) -> None:
        """End a run whose end is not known."""
        self._state.at = None
        self._state.end_run(f"{self._run}:{code}", frozenset(), CUT_OFF)
        self._state.events.append(protocol.RunError(message=message, code=code, usage=self._usage.entries()))
        self._run = ""

    # ---- steps, attempts, responses

    def _step_started(self, event: ev.StepStarted) -> None:
        """`STEP_STARTED`, named `step N` or `closing step`."""
        self._messages.clear()
        name = CLOSING if event.closing else f"step {event.step}"
        self._state.begin_step(name, {"step": event.step, "round": event.round, "closing": event.closing})

    def _step_finished(self, event: ev.StepFinished) -> None:
        """`STEP_FINISHED`."""
        self._state.end_step({"cut_by": event.cut_by} if event.cut_by else None)
        self._messages.clear()

    def _attempt_started(self, event: ev.AttemptStarted) -> None:
        """`CUSTOM`; it names the message that its text and calls belong to."""
        self._messages[event.attempt] = self._id_of(event)
        self._custom(event)

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        """`CUSTOM` with what is void by it; first all that is open is closed, calls get a void `TOOL_CALL_RESULT`."""
        self._usage.add(event.model or self._model, event.usage)
        if event.beside:
            self._custom(event)
            return
        why = f"Void: the attempt at this response failed ({event.kind})."
        self._void = self._state.void_response(self._id_of(event), why)
        self._messages.clear()
        self._custom_with_void(event)

    def _attempt_retracted(self, event: ev.AttemptRetracted) -> None:
        """`CUSTOM` with what is void by it."""
        self._custom_with_void(event)  # its failure was told, and with it all was closed

    def _response_finished(self, event: ev.ResponseFinished) -> None:
        """`CUSTOM`, without the message; first all that is open is closed, and what was not streamed is told."""
        self._usage.add(event.model or self._model, event.usage)
        self._state.add_unstreamed(event.message, self._message_of(event.attempt, event), self._id_of(event))
        self._state.end_response()
        self._messages.clear()
        self._custom(replace(event, message=AssistantMessage()))

    def _text(self, event: ev.TextMessageContent) -> None:
        """`TEXT_MESSAGE_CONTENT`; the first of a response after `TEXT_MESSAGE_START`."""
        self._state.text(self._message_of(event.attempt, event), event.delta)

    def _reasoning(self, event: ev.ReasoningMessageContent) -> None:
        """`REASONING_MESSAGE_CONTENT`; the first of a block after `REASONING_START` and `REASONING_MESSAGE_START`."""
        if not event.redacted:
            self._state.reason(self._id_of(event), event.delta)
        if event.signature or event.redacted:
            self._state.stop_reasoning()

    # ---- calls

    def _call_start(self, event: ev.ToolCallStart) -> None:
        """`TOOL_CALL_START`."""
        self._state.begin_call(event.call_id, event.name, self._message_of(event.attempt, event))

    def _call_args(self, event: ev.ToolCallArgs) -> None:
        """`TOOL_CALL_ARGS`."""
        self._state.arguments(event.call_id, event.delta)

    def _call_end(self, event: ev.ToolCallEnd) -> None:
        """`TOOL_CALL_END`."""
        self._state.end_call(event.call_id)

    def _call_result(self, event: ev.ToolCallResult) -> None:
        """`TOOL_CALL_RESULT`, pictures as parts; a status other than `ok` in its metadata."""
        extra: dict[str, Any] = {"status": event.status} if event.status != "ok" else {}
        if event.attached:
            extra["attached"] = event.attached
        content: str | list[dict[str, Any]] = event.content
        if event.images:
            text = [{"type": "text", "text": event.content}] if event.content else []
            content = [*text, *map(image_part, event.images)]
        if not self._state.answer(self._id_of(event), event.call_id, content, extra):
            self._custom(event)

    def _question_answered(self, event: ev.QuestionAnswered) -> None:
        """`TOOL_CALL_RESULT` of the question's call unless it is asked again, and `CUSTOM`."""
        if event.says != "unclear":
            self._state.answer(self._id_of(event), event.call_id, event.text)
        self._custom(event)

    # ---- what else a reader sees

    def _message_added(self, event: ev.MessageAdded) -> None:
        """`CUSTOM`; what the user said, also as a text message of role `user`."""
        if event.origin == "user":
            self._state.message(self._id_of(event), "user", event.text)
        self._custom(event)

    def _completion_accepted(self, event: ev.CompletionAccepted) -> None:
        """`CUSTOM`, and the answer as a text message of its own."""
        self._custom(event)
        self._state.message(self._id_of(event), "assistant", event.answer)

    def _verdict_given(self, event: ev.VerdictGiven) -> None:
        """`CUSTOM`; what an intent's handler answered, also as a text message."""
        self._usage.add("", event.usage)
        self._custom(event)
        if event.role == "handler" and event.said == "answered":
            self._state.message(self._id_of(event), "assistant", event.detail)

    def _custom(self, event: Event) -> None:
        self._add_custom(custom_name(type(event)), event)

    def _custom_with_void(self, event: Event) -> None:
        """The same, with what of the stream is void by it."""
        self._add_custom(custom_name(type(event)), event, {"endstop": {"void": self._void}})

    def _add_custom(self, name: str, value: object, metadata: dict[str, Any] | None = None) -> None:
        self._state.events.append(protocol.Custom(name=name, value=value, timestamp=self._state.at, metadata=metadata))

    # ---- ids

    def _id_of(self, event: Event) -> str:
        """The public id of an event, which also names what it begins."""
        return f"{self._run}:{event.seq}"

    def _message_of(self, attempt: str, event: Event) -> str:
        """The message of an attempt, named by the event that began it."""
        return self._messages.get(attempt) or self._messages.setdefault(attempt, self._id_of(event))


HANDLERS: dict[type, Callable[[AgUiTranslator, Any], None]] = {
    ev.RunStarted: AgUiTranslator._run_started,
    ev.RunResumed: AgUiTranslator._run_resumed,
    ev.MessageAdded: AgUiTranslator._message_added,
    ev.RunFinished: AgUiTranslator._run_finished,
    ev.StepStarted: AgUiTranslator._step_started,
    ev.AttemptStarted: AgUiTranslator._attempt_started,
    ev.AttemptFailed: AgUiTranslator._attempt_failed,
    ev.AttemptRetracted: AgUiTranslator._attempt_retracted,
    ev.ResponseFinished: AgUiTranslator._response_finished,
    ev.StepFinished: AgUiTranslator._step_finished,
    ev.TextMessageContent: AgUiTranslator._text,
    ev.ReasoningMessageContent: AgUiTranslator._reasoning,
    ev.ToolCallStart: AgUiTranslator._call_start,
    ev.ToolCallArgs: AgUiTranslator._call_args,
    ev.ToolCallEnd: AgUiTranslator._call_end,
    ev.ToolCallResult: AgUiTranslator._call_result,
    ev.CompletionAccepted: AgUiTranslator._completion_accepted,
    ev.QuestionAnswered: AgUiTranslator._question_answered,
    ev.VerdictGiven: AgUiTranslator._verdict_given,
}
"""How each of our events is told, first line of the docstring; those that are missing here go out as CUSTOM."""


class VoidIds(Struct, frozen=True, rename="camel"):
    """What of a stream is void, by its ids there."""

    message_ids: tuple[str, ...] = ()
    tool_call_ids: tuple[str, ...] = ()


class StreamState:
    """One reader's stream. What is to be sent gathers in `said`; `at` is the timestamp of what is said now."""

    def __init__(self) -> None:
        self.events: list[AgUiEvent] = []
        self.at: int | None = None
        self._text = ""
        """The text message that is open."""
        self._reasoning = ""
        """The span of reasoning that is open, and the message in it."""
        self._step = ""
        self._writing: dict[str, str] = {}
        """Calls whose arguments are open, by their ids of ours: those in the stream."""
        self._begun: dict[str, str] = {}
        """All calls since the response began, likewise."""
        self._unanswered: dict[str, str] = {}
        self._alias: dict[str, str] = {}
        """The latest id in the stream of each call; another one than ours only where ours was used before."""
        self._known: set[str] = set()
        """Every call's id in the stream, and those that have a result."""
        self._answered: set[str] = set()
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        """Messages of this response."""

    # ---- messages

    def text(self, message_id: str, delta: str) -> None:
        """More of the response's text."""
        if not delta:
            return
        self.stop_reasoning()
        if not self._text:
            self._text = message_id
            self._texts.append(message_id)
            self.events.append(protocol.TextMessageStart(message_id=message_id, role="assistant", timestamp=self.at))
        self.events.append(protocol.TextMessageContent(message_id=self._text, delta=delta, timestamp=self.at))

    def message(self, message_id: str, role: str, text: str) -> None:
        """A whole message that is none of the model's responses."""
        if text:
            self.events += (
                protocol.TextMessageStart(message_id=message_id, role=role, timestamp=self.at),
                protocol.TextMessageContent(message_id=message_id, delta=text, timestamp=self.at),
                protocol.TextMessageEnd(message_id=message_id, timestamp=self.at),
            )

    def reason(self, message_id: str, delta: str) -> None:
        """More of the reasoning; `message_id` is for a span that begins with it."""
        if not delta:
            return
        if not self._reasoning:
            self._reasoning = message_id
            self._thoughts.append(message_id)
            self.events += (
                protocol.ReasoningStart(message_id=message_id, timestamp=self.at),
                protocol.ReasoningMessageStart(message_id=message_id, role="reasoning", timestamp=self.at),
            )
        self.events.append(protocol.ReasoningMessageContent(message_id=self._reasoning, delta=delta, timestamp=self.at))

    def stop_reasoning(self) -> None:
        """The span of reasoning ends, if one is open."""
        if self._reasoning:
            self.events += (
                protocol.ReasoningMessageEnd(message_id=self._reasoning, timestamp=self.at),
                protocol.ReasoningEnd(message_id=self._reasoning, timestamp=self.at),
            )
            self._reasoning = ""

    # ---- calls

    def begin_call(self, call_id: str, name: str, parent: str) -> None:
        """A call begins. An id that the stream had before gets a number, as a second start would go on with the old."""
        if call_id in self._writing:
            return
        self.stop_reasoning()
        if call_id in self._unanswered:
            self.answer(f"{parent}:{self.alias(call_id)}", call_id, AGAIN, {"status": VOID})
        alias, number = call_id, 1
        while alias in self._known:
            number += 1
            alias = f"{call_id}~{number}"
        self._alias[call_id] = self._writing[call_id] = self._begun[call_id] = self._unanswered[call_id] = alias
        self._known.add(alias)
        self.events.append(
            protocol.ToolCallStart(tool_call_id=alias, tool_call_name=name, parent_message_id=parent, timestamp=self.at)
        )

    def arguments(self, call_id: str, delta: str) -> None:
        """More of a call's arguments; nothing for a call that is not open, whose beginning the reader missed."""
        if delta and call_id in self._writing:
            self.events.append(
                protocol.ToolCallArgs(tool_call_id=self._writing[call_id], delta=delta, timestamp=self.at)
            )

    def end_call(self, call_id: str) -> None:
        """A call is whole."""
        if (alias := self._writing.pop(call_id, None)) is not None:
            self.events.append(protocol.ToolCallEnd(tool_call_id=alias, timestamp=self.at))

    def answer(
        self, message_id: str, call_id: str, content: str | list[dict[str, Any]], extra: dict[str, Any] | None = None
    ) -> bool:
        """The result of a call of this run or an earlier one; False if it has one, and nothing was said."""
        alias = self.alias(call_id)
        if alias in self._answered:
            return False
        self.end_call(call_id)
        self._unanswered.pop(call_id, None)
        self._answered.add(alias)
        self.events.append(
            protocol.ToolCallResult(
                message_id=message_id,
                tool_call_id=alias,
                content=content,
                role="tool",
                timestamp=self.at,
                metadata={"endstop": extra} if extra else None,
            )
        )
        return True

    def alias(self, call_id: str) -> str:
        """The id of a call in the stream."""
        return self._alias.get(call_id, call_id)

    # ---- responses, steps, the run

    def add_unstreamed(self, message: AssistantMessage, message_id: str, mark: str) -> None:
        """What of a response was not streamed: in records from elsewhere all of it. `mark` begins ids of reasoning."""
        if not self._thoughts:
            for number, block in enumerate(message.reasoning):
                if not block.redacted:
                    self.reason(f"{mark}:{number}", block.text)
                    self.stop_reasoning()
        if not self._texts:
            self.text(message_id, message.text)
        for call in message.calls:
            if call.id not in self._begun:
                self.begin_call(call.id, call.name, message_id)
                self.arguments(call.id, call.arguments)
                self.end_call(call.id)

    def pause(self) -> None:
        """Close what is open but the step: the reader missed what follows."""
        self.stop_reasoning()
        if self._text:
            self.events.append(protocol.TextMessageEnd(message_id=self._text, timestamp=self.at))
            self._text = ""
        for call_id in tuple(self._writing):
            self.end_call(call_id)

    def end_response(self) -> VoidIds:
        """The response is over; gives what was said of it."""
        self.pause()
        shown = VoidIds((*self._thoughts, *self._texts), tuple(self._begun.values()))
        self._begun, self._texts, self._thoughts = {}, [], []
        return shown

    def void_response(self, mark: str, why: str) -> VoidIds:
        """The response came to nothing: its calls are answered so. `mark` begins the ids of these results."""
        self.pause()
        for call_id in self._begun:
            if call_id in self._unanswered:
                self.answer(f"{mark}:{call_id}", call_id, why, {"status": VOID})
        return self.end_response()

    def begin_step(self, name: str, extra: dict[str, Any] | None) -> None:
        """A step begins; one that is open ends."""
        self.end_step()
        self._step = name
        metadata = {"endstop": extra} if extra else None
        self.events.append(protocol.StepStarted(step_name=name, timestamp=self.at, metadata=metadata))

    def end_step(self, extra: dict[str, Any] | None = None) -> None:
        """The open step ends, if there is one."""
        self.end_response()
        if self._step:
            metadata = {"endstop": extra} if extra else None
            self.events.append(protocol.StepFinished(step_name=self._step, timestamp=self.at, metadata=metadata))
            self._step = ""

    def end_run(self, mark: str, open_questions: frozenset[str], why: str) -> None:
        """Close everything, and answer every call that has no result but these."""
        self.pause()
        for call_id in tuple(self._unanswered):
            if call_id not in open_questions:
                self.answer(f"{mark}:{call_id}", call_id, why, {"status": VOID})
        self._unanswered = {}
        self.end_step()


class UsageByModel:
    """What each model used in one run."""

    def __init__(self) -> None:
        self._by_model: dict[str, Usage] = {}

    def add(self, model: str, usage: Usage | None) -> None:
        """One more attempt or verdict."""
        if usage is not None:
            self._by_model[model] = self._by_model.get(model, Usage()) + usage

    def entries(self) -> tuple[protocol.TokenUsage, ...]:
        """One entry a model; none for what used nothing."""
        return tuple(
            protocol.TokenUsage(
                model=model or None,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                total_tokens=usage.input_tokens + usage.output_tokens,
                cached_input_tokens=usage.cached_tokens or None,
                reasoning_tokens=usage.reasoning_tokens or None,
            )
            for model, usage in self._by_model.items()
            if usage.input_tokens or usage.output_tokens
        )


def terminal_event(
    outcome: Outcome,
    thread_id: str,
    run_id: str,
    used: tuple[protocol.TokenUsage, ...],
    at: int | None,
    calls: dict[str, str],
) -> protocol.RunFinished | protocol.RunError:
    """The terminal event. `calls`: the ids in the stream of the calls that the questions stand for.

    An exhausted run was stopped at a limit, which the protocol calls cancelled, as it must not look like a success:
    neither has a result there (both have their outcome in `endstop.run_finished`).
    """
    if outcome.status == "failed":
        message = outcome.detail or outcome.stop_reason
        return protocol.RunError(message=message, code=outcome.stop_reason, usage=used, timestamp=at)
    how: protocol.SuccessOutcome | protocol.InterruptOutcome | protocol.CancelledOutcome
    if outcome.status == "awaiting_input":
        asked = tuple(_interrupt(question, calls[question.call_id]) for question in outcome.questions)
        paused = protocol.Interrupt(id=PAUSED, reason=INPUT_REQUIRED, message=outcome.detail, response_schema=TEXT)
        how = protocol.InterruptOutcome(interrupts=asked or (paused,))
    elif outcome.status == "completed":
        how = protocol.SuccessOutcome()
    else:
        how = protocol.CancelledOutcome()
    result = None if isinstance(how, protocol.CancelledOutcome) else outcome
    return protocol.RunFinished(
        thread_id=thread_id, run_id=run_id, outcome=how, result=result, usage=used, timestamp=at
    )


def _interrupt(question: Question, call: str) -> protocol.Interrupt:
    confirms = question.confirms is not None
    more = {"confirms": question.confirms, "pending_issues": question.pending_issues}
    return protocol.Interrupt(
        id=question.call_id,
        reason=CONFIRMATION if confirms else INPUT_REQUIRED,
        message=question.text,
        tool_call_id=call,
        response_schema=YES_NO_OR_TEXT if confirms else TEXT,
        metadata={"endstop": more} if confirms else None,
    )
