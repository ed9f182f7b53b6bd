"""What has been said in AG-UI and what of it is open: keeps to the protocol's legal order whatever it is told.

Everything that is opened is closed, nothing twice; an identifier is never used again; every call has one result, but
for an open question. A call without a result would look to the reader like one of its own tools, left for it to run.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ...decision import AssistantMessage
from . import protocol as say
from .protocol import AgUiEvent

VOID = "void"
"""The status, in a result's metadata, of a call that came to nothing: its attempt failed, or the run ended before."""

AGAIN = "Void: the same call was made again."


class Void(Struct, frozen=True, rename="camel"):
    """What of a stream is void, by its ids there."""

    message_ids: tuple[str, ...] = ()
    tool_call_ids: tuple[str, ...] = ()


class Stream:
    """One reader's stream. What is to be sent gathers in `said`; `at` is the timestamp of what is said now."""

    def __init__(self) -> None:
        self.said: list[AgUiEvent] = []
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
            self.said.append(say.TextMessageStart(message_id=message_id, role="assistant", timestamp=self.at))
        self.said.append(say.TextMessageContent(message_id=self._text, delta=delta, timestamp=self.at))

    def message(self, message_id: str, role: str, text: str) -> None:
        """A whole message that is none of the model's responses."""
        if text:
            self.said += (
                say.TextMessageStart(message_id=message_id, role=role, timestamp=self.at),
                say.TextMessageContent(message_id=message_id, delta=text, timestamp=self.at),
                say.TextMessageEnd(message_id=message_id, timestamp=self.at),
            )

    def reason(self, message_id: str, delta: str) -> None:
        """More of the reasoning; `message_id` is for a span that begins with it."""
        if not delta:
            return
        if not self._reasoning:
            self._reasoning = message_id
            self._thoughts.append(message_id)
            self.said += (
                say.ReasoningStart(message_id=message_id, timestamp=self.at),
                say.ReasoningMessageStart(message_id=message_id, role="reasoning", timestamp=self.at),
            )
        self.said.append(say.ReasoningMessageContent(message_id=self._reasoning, delta=delta, timestamp=self.at))

    def stop_reasoning(self) -> None:
        """The span of reasoning ends, if one is open."""
        if self._reasoning:
            self.said += (
                say.ReasoningMessageEnd(message_id=self._reasoning, timestamp=self.at),
                say.ReasoningEnd(message_id=self._reasoning, timestamp=self.at),
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
        self.said.append(
            say.ToolCallStart(tool_call_id=alias, tool_call_name=name, parent_message_id=parent, timestamp=self.at)
        )

    def arguments(self, call_id: str, delta: str) -> None:
        """More of a call's arguments; nothing for a call that is not open, whose beginning the reader missed."""
        if delta and call_id in self._writing:
            self.said.append(say.ToolCallArgs(tool_call_id=self._writing[call_id], delta=delta, timestamp=self.at))

    def end_call(self, call_id: str) -> None:
        """A call is whole."""
        if (alias := self._writing.pop(call_id, None)) is not None:
            self.said.append(say.ToolCallEnd(tool_call_id=alias, timestamp=self.at))

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
        self.said.append(
            say.ToolCallResult(
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

    def tell_whole(self, message: AssistantMessage, message_id: str, mark: str) -> None:
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
            self.said.append(say.TextMessageEnd(message_id=self._text, timestamp=self.at))
            self._text = ""
        for call_id in tuple(self._writing):
            self.end_call(call_id)

    def end_response(self) -> Void:
        """The response is over; gives what was said of it."""
        self.pause()
        shown = Void((*self._thoughts, *self._texts), tuple(self._begun.values()))
        self._begun, self._texts, self._thoughts = {}, [], []
        return shown

    def void_response(self, mark: str, why: str) -> Void:
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
        self.said.append(say.StepStarted(step_name=name, timestamp=self.at, metadata=metadata))

    def end_step(self, extra: dict[str, Any] | None = None) -> None:
        """The open step ends, if there is one."""
        self.end_response()
        if self._step:
            metadata = {"endstop": extra} if extra else None
            self.said.append(say.StepFinished(step_name=self._step, timestamp=self.at, metadata=metadata))
            self._step = ""

    def end_run(self, mark: str, open_questions: frozenset[str], why: str) -> None:
        """Close everything, and answer every call that has no result but these."""
        self.pause()
        for call_id in tuple(self._unanswered):
            if call_id not in open_questions:
                self.answer(f"{mark}:{call_id}", call_id, why, {"status": VOID})
        self._unanswered = {}
        self.end_step()
