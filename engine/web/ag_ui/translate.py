"""Translation of our events into AG-UI 1.0: each becomes none, one or several events of the protocol.

An event without a counterpart becomes a `CUSTOM` event named `endstop.<our event>`, with our event as its value. The
table in docs/guides/ag_ui.md is made from `HANDLERS`. Nothing here does I/O or reads a clock: the same events always
give the same bytes.

For a reader that joins in the middle, translate the events that it already has with `skip=True` and continue from
there. The last AG-UI event of each of our events has the SSE id. So a reader that resumes gets each of our events
completely: once, or again if its connection broke between two of its AG-UI events. (The protocol itself has no
resumption and ignores ids.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...decision import AssistantMessage, Event, Question, Usage, UserMessage, WrongUse
from ...decision import events as ev
from ...decision.wrong_calls import checked
from ...records.format import encode_line
from . import protocol
from .interrupts import terminal_event
from .protocol import AgUiEvent, LaggedValue, content_of, custom_name, to_milliseconds

CLOSING = "closing step"
CUT_OFF = "The run ended before there was a result."
REQUESTED_AGAIN = "The process was killed while the model was answering: the response is void and requested again."

VOID = "void"
"""Status, in the metadata of a result, of a call that was never executed: its attempt failed, or the run ended."""
AGAIN = "Void: the same call was made again."


@checked
class AgUiTranslator:
    """Translator of the events of a run, or of a session's runs in turn, for one reader.

    thread_id: the reader's name for the session; None: the session id. run_id: the reader's name for the next run that
    starts. The protocol wants the id of the input for the run that it asked for; later runs have their own.
    ignored: what was ignored of the input; sent once, as `endstop.input_ignored`.
    """

    def __init__(self, *, thread_id: str | None = None, run_id: str | None = None, ignored: Sequence[str] = ()) -> None:
        self.run_id = run_id
        """The reader's id for the next run that starts; None: it uses our id. It is None again once that run has
        started; set it before each further run for which the reader has its own id."""
        self._thread = thread_id
        self._ignored = tuple(ignored)
        self._state = StreamState()
        self._run = ""
        """Our id of the open run; empty between runs."""
        self._public_run_id = ""
        self._public_thread_id = ""
        self._model = ""
        self._began: int | None = None
        self._messages: dict[str, str] = {}
        """The message id of each attempt of this step."""
        self._void = VoidIds()  # what was streamed of the latest failed attempt
        self._usage = UsageByModel()
        self._no_results: set[str] = set()
        """Ids of the questions whose answers are not results of calls: approvals, limits, and all of sub-agents."""

    def translate(self, event: Event, *, skip: bool = False) -> list[bytes]:
        """Return the AG-UI events for this event, each as a JSON object.

        With `skip`: none, as the reader already has it.

        Raises WrongUse if no run is open and the event is not `RUN_STARTED`.
        """
        if not self._run and type(event) is not ev.RunStarted:
            raise WrongUse(
                f"{type(event).__name__} {event.seq} belongs to a run whose start the translator has not seen: "
                "translate the earlier events of the run with skip=True"
            )
        self._state.at = None if self._began is None else self._began + event.t
        HANDLERS.get(type(event), AgUiTranslator._custom)(self, event)
        return self._take_encoded(skip)

    def lagged(self, run_id: str, missed: int, next_seq: int) -> list[bytes]:
        """Return the AG-UI events for a gap: `missed` events are lost to this reader, and `next_seq` is the next event.

        Everything open is closed; text that follows is a new message. Raises WrongUse if the thread is not known
        because no run has been seen and `thread_id` was not given.
        """
        if self._run and self._run != run_id:
            self._end_unfinished("lagged", "The end of this run did not reach the reader, which was too slow.")
        self._state.at = None
        if not self._run:
            if self._thread is None and not self._public_thread_id:
                raise WrongUse("the start of the first run is lost to this reader, so AgUiTranslator needs a thread_id")
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
        """`RUN_STARTED`, with the prompt as its `input` unless the reader sent it; `CUSTOM` with everything else."""
        if self._run:
            self._end_unfinished("interrupted", "The process of this run was killed, and it was not resumed.")
        self._began = to_milliseconds(event.started_at)
        self._state.at = None if self._began is None else self._began + event.t
        self._model = event.model
        if event.carried is not None:
            self._no_results.update(one.call_id for one in event.carried.questions if _answer_is_no_result(one))
        prompt = None if event.prompt is None else UserMessage(event.prompt, event.images)
        self._open(event.run_id, self._thread or event.session_id, prompt)
        self._custom(event)

    def _open(self, run_id: str, thread_id: str, prompt: UserMessage | None) -> None:
        """Open a run. The prompt is sent only to a reader that did not ask for the run itself."""
        self._run, self._public_thread_id = run_id, thread_id
        self._public_run_id, requested, self.run_id = self.run_id or run_id, self.run_id, None
        self._usage, self._messages = UsageByModel(), {}
        echoed = None
        if prompt is not None and requested is None:
            message = protocol.EchoedMessage(id=f"{run_id}:prompt", role="user", content=content_of(prompt.parts))
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
        """`CUSTOM`; an unfinished response is closed and void, and its step ends."""
        self._began = self._state.at = None  # event times do not count the time until it was resumed
        self._void = self._state.void_response(self._id_of(event), REQUESTED_AGAIN)
        if event.interrupted_step is not None:
            self._state.end_step()
        self._messages.clear()
        self._custom_with_void(event)

    def _run_finished(self, event: ev.RunFinished) -> None:
        """Everything open is closed; then `CUSTOM`, and `RUN_FINISHED` or, for a failed run, `RUN_ERROR`."""
        outcome, state = event.outcome, self._state
        calls = {one.call_id: state.alias(one.waiting_call) for one in outcome.questions}
        held = state.unanswered if any(one.lets_call_run for one in outcome.questions) else frozenset()
        state.end_run(self._id_of(event), held | frozenset(calls), CUT_OFF)
        self._custom(event)
        state.events.append(
            terminal_event(outcome, self._public_thread_id, self._public_run_id, self._usage.entries(), state.at, calls)
        )
        self._run = ""

    def _end_unfinished(self, code: str, message: str) -> None:
        """End a run with `RUN_ERROR`, because its last event is lost or will never come."""
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
        """`CUSTOM`; its id becomes the id of the message with the attempt's text and calls."""
        self._messages[event.attempt] = self._id_of(event)
        self._custom(event)

    def _attempt_failed(self, event: ev.AttemptFailed) -> None:
        """Everything open is closed, calls get a void `TOOL_CALL_RESULT`; then `CUSTOM` with what is void."""
        self._usage.add(event.model or self._model, event.usage)
        if event.beside:
            self._custom(event)
            return
        why = f"Void: the attempt at this response failed ({event.kind})."
        self._void = self._state.void_response(self._id_of(event), why)
        self._messages.clear()
        self._custom_with_void(event)

    def _attempt_retracted(self, event: ev.AttemptRetracted) -> None:
        """`CUSTOM` with what is void."""
        self._custom_with_void(event)  # everything was closed when the attempt failed

    def _response_finished(self, event: ev.ResponseFinished) -> None:
        """What was not streamed is sent, everything open is closed; then `CUSTOM` without the message."""
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
        """`TOOL_CALL_RESULT` with images as parts; a status other than `ok` is in its metadata."""
        extra: dict[str, Any] = {"status": event.status} if event.status != "ok" else {}
        if event.attached:
            extra["attached"] = event.attached
        content = content_of((event.content, *event.images))
        if not self._state.answer(self._id_of(event), event.call_id, content, extra):
            self._custom(event)

    def _question_asked(self, event: ev.QuestionAsked) -> None:
        """`CUSTOM`."""
        if _answer_is_no_result(event):
            self._no_results.add(event.call_id)
        self._custom(event)

    def _question_answered(self, event: ev.QuestionAnswered) -> None:
        """`TOOL_CALL_RESULT` of the question's call, unless it is asked again, an approval or a grant; `CUSTOM`."""
        if event.says != "unclear" and event.call_id not in self._no_results:
            content = content_of(UserMessage(event.text, event.images).parts)
            self._state.answer(self._id_of(event), event.call_id, content)
        self._custom(event)

    # ---- what else a reader sees

    def _message_added(self, event: ev.MessageAdded) -> None:
        """`CUSTOM`; a user's message also as a text message with the role `user`."""
        if event.origin == "user":
            self._state.message(self._id_of(event), "user", event.text)
        self._custom(event)

    def _completion_accepted(self, event: ev.CompletionAccepted) -> None:
        """`CUSTOM`, and the answer as a separate text message."""
        self._custom(event)
        self._state.message(self._id_of(event), "assistant", event.answer)

    def _verdict_given(self, event: ev.VerdictGiven) -> None:
        """`CUSTOM`; a prompt handler's answer also as a text message."""
        self._usage.add("", event.usage)
        self._custom(event)
        if event.role == "handler" and event.said == "answered":
            self._state.message(self._id_of(event), "assistant", event.detail)

    def _custom(self, event: Event) -> None:
        self._add_custom(custom_name(type(event)), event)

    def _custom_with_void(self, event: Event) -> None:
        """As `_custom`, with the ids of the messages and calls that the event makes void in the metadata."""
        self._add_custom(custom_name(type(event)), event, {"endstop": {"void": self._void}})

    def _add_custom(self, name: str, value: object, metadata: dict[str, Any] | None = None) -> None:
        self._state.events.append(protocol.Custom(name=name, value=value, timestamp=self._state.at, metadata=metadata))

    # ---- ids

    def _id_of(self, event: Event) -> str:
        """Return the public id of an event, and of the message that it starts."""
        return f"{self._run}:{event.seq}"

    def _message_of(self, attempt: str, event: Event) -> str:
        """Return the id of an attempt's message: that of the event that started it."""
        return self._messages.get(attempt) or self._messages.setdefault(attempt, self._id_of(event))


def _answer_is_no_result(question: Question | ev.QuestionAsked) -> bool:
    return question.tool is not None or question.asker is not None or question.extends > 0


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
    ev.QuestionAsked: AgUiTranslator._question_asked,
    ev.QuestionAnswered: AgUiTranslator._question_answered,
    ev.VerdictGiven: AgUiTranslator._verdict_given,
}
"""The handler of each of our events. Its docstring is a row of docs/guides/ag_ui.md. Others become CUSTOM."""


class VoidIds(Struct, frozen=True, rename="camel"):
    """Messages and calls that a client should discard, because their attempt failed or their process was killed.

    The ids are those in the stream.
    """

    message_ids: tuple[str, ...] = ()
    tool_call_ids: tuple[str, ...] = ()


class StreamState:
    """What one reader has been sent and which parts are still open, in the order that the protocol demands.

    Everything that is opened is closed once; no id is used twice; each call has one result, unless it is an open
    question. A call without a result would look to the client like a call of its own tools, for it to execute.

    events: what is to be sent. at: timestamp of what is added now, in milliseconds since 1970.
    """

    def __init__(self) -> None:
        self.events: list[AgUiEvent] = []
        self.at: int | None = None
        self._text = ""
        """Id of the open text message."""
        self._reasoning = ""
        """Id of the open span of reasoning and of the message in it."""
        self._step = ""
        self._writing: dict[str, str] = {}
        """Calls with incomplete arguments: their ids in the stream, by our ids."""
        self._begun: dict[str, str] = {}
        """All calls of this response: their ids in the stream, by our ids."""
        self._unanswered: dict[str, str] = {}
        """Calls without a result: their ids in the stream, by our ids."""
        self._alias: dict[str, str] = {}
        """The latest id of each call in the stream, by our id. It differs from ours only if ours was used before."""
        self._known: set[str] = set()
        """Ids in the stream of all calls."""
        self._answered: set[str] = set()
        """Ids in the stream of calls with a result."""
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        """Ids of the messages of this response: of text (`_texts`) and of reasoning."""

    # ---- messages

    def text(self, message_id: str, delta: str) -> None:
        """Add text to the response."""
        if not delta:
            return
        self.stop_reasoning()
        if not self._text:
            self._text = message_id
            self._texts.append(message_id)
            self.events.append(protocol.TextMessageStart(message_id=message_id, role="assistant", timestamp=self.at))
        self.events.append(protocol.TextMessageContent(message_id=self._text, delta=delta, timestamp=self.at))

    def message(self, message_id: str, role: str, text: str) -> None:
        """Add a complete message that is not a response of the model."""
        if text:
            self.events += (
                protocol.TextMessageStart(message_id=message_id, role=role, timestamp=self.at),
                protocol.TextMessageContent(message_id=message_id, delta=text, timestamp=self.at),
                protocol.TextMessageEnd(message_id=message_id, timestamp=self.at),
            )

    def reason(self, message_id: str, delta: str) -> None:
        """Add reasoning to the open span, or to a new one with the id `message_id`."""
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
        """End the open span of reasoning, if there is one."""
        if self._reasoning:
            self.events += (
                protocol.ReasoningMessageEnd(message_id=self._reasoning, timestamp=self.at),
                protocol.ReasoningEnd(message_id=self._reasoning, timestamp=self.at),
            )
            self._reasoning = ""

    # ---- calls

    def begin_call(self, call_id: str, name: str, parent: str) -> None:
        """Start a call. An id that was used before gets a number: a client would add a second start to the old call."""
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
        """Add to the arguments of a call. Does nothing if the reader missed the start of the call."""
        if delta and call_id in self._writing:
            self.events.append(
                protocol.ToolCallArgs(tool_call_id=self._writing[call_id], delta=delta, timestamp=self.at)
            )

    def end_call(self, call_id: str) -> None:
        """End the arguments of a call."""
        if (alias := self._writing.pop(call_id, None)) is not None:
            self.events.append(protocol.ToolCallEnd(tool_call_id=alias, timestamp=self.at))

    def answer(
        self, message_id: str, call_id: str, content: str | list[dict[str, Any]], extra: dict[str, Any] | None = None
    ) -> bool:
        """Add the result of a call of this or an earlier run; False, without an event, if the call has one already."""
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
        """Return the id in the stream of one of our calls."""
        return self._alias.get(call_id, call_id)

    @property
    def unanswered(self) -> frozenset[str]:
        """Our ids of the calls that have no result."""
        return frozenset(self._unanswered)

    # ---- responses, steps, the run

    def add_unstreamed(self, message: AssistantMessage, message_id: str, mark: str) -> None:
        """Add what was not streamed of a response: all of it in imported records. `mark`: prefix of reasoning ids."""
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
        """Close the open text, reasoning and calls, but not the step."""
        self.stop_reasoning()
        if self._text:
            self.events.append(protocol.TextMessageEnd(message_id=self._text, timestamp=self.at))
            self._text = ""
        for call_id in tuple(self._writing):
            self.end_call(call_id)

    def end_response(self) -> VoidIds:
        """End the response; returns the ids of its messages and calls."""
        self.pause()
        sent = VoidIds((*self._thoughts, *self._texts), tuple(self._begun.values()))
        self._begun, self._texts, self._thoughts = {}, [], []
        return sent

    def void_response(self, mark: str, why: str) -> VoidIds:
        """End the response as void: its calls get a void result. `mark`: prefix of the ids of these results."""
        self.pause()
        for call_id in self._begun:
            if call_id in self._unanswered:
                self.answer(f"{mark}:{call_id}", call_id, why, {"status": VOID})
        return self.end_response()

    def begin_step(self, name: str, extra: dict[str, Any] | None) -> None:
        """Start a step; an open one ends."""
        self.end_step()
        self._step = name
        metadata = {"endstop": extra} if extra else None
        self.events.append(protocol.StepStarted(step_name=name, timestamp=self.at, metadata=metadata))

    def end_step(self, extra: dict[str, Any] | None = None) -> None:
        """End the open step, if there is one."""
        self.end_response()
        if self._step:
            metadata = {"endstop": extra} if extra else None
            self.events.append(protocol.StepFinished(step_name=self._step, timestamp=self.at, metadata=metadata))
            self._step = ""

    def end_run(self, mark: str, waiting: frozenset[str], why: str) -> None:
        """Close everything. Calls without a result get a void one, except those that wait for the user."""
        self.pause()
        for call_id in tuple(self._unanswered):
            if call_id not in waiting:
                self.answer(f"{mark}:{call_id}", call_id, why, {"status": VOID})
        self._unanswered = {}
        self.end_step()


class UsageByModel:
    """Adds up the usage of each model in a run."""

    def __init__(self) -> None:
        self._by_model: dict[str, Usage] = {}

    def add(self, model: str, usage: Usage | None) -> None:
        """Add the usage of an attempt or a verdict."""
        if usage is not None:
            self._by_model[model] = self._by_model.get(model, Usage()) + usage

    def entries(self) -> tuple[protocol.TokenUsage, ...]:
        """Return one entry per model; none for a model that used nothing."""
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
