"""Chunks in, events out: puts one streamed response together and says when a tool call is complete.

Fed like a protocol parser, without I/O. When is a call complete? Once its arguments form one whole JSON object with
at least one member: only white space could follow. An empty one or `{}` only when the next call or the finish
begins, because some providers send `{}` first and the arguments after it; such a `{}` is held back until then, and
dropped if more comes. What providers get wrong with ids and indexes is settled here: a missing or doubled id becomes
`{step}.{index}`, and a new id under an old index is a new call.
"""

from __future__ import annotations

import msgspec

from . import events as ev
from .chunks import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
    Voice,
)
from .messages import AssistantMessage, FinishReason, Reasoning, ToolCall, Usage


class _Building:
    """A call whose arguments are still coming."""

    __slots__ = ("ended", "held", "id", "name", "parts", "raw_id")

    def __init__(self, id: str, raw_id: str, name: str) -> None:
        self.id = id
        self.raw_id = raw_id
        self.name = name
        self.parts: list[str] = []
        self.held = ""
        """A `{}` that came first: all there is, or a placeholder for the arguments that follow."""
        self.ended = False

    @property
    def arguments(self) -> str:
        if len(self.parts) > 1:
            self.parts = ["".join(self.parts)]
        return self.parts[0] if self.parts else self.held


class Assembler:
    """One attempt at one response. `taken` are the call ids used before in the session; it is added to."""

    def __init__(self, step: int, attempt: str, taken: set[str]) -> None:
        self.finish: FinishReason | None = None
        self.raw_finish = ""
        self.usage: Usage | None = None
        self.truncated: str | None = None
        """The call in whose arguments the response broke off."""
        self._step = step
        self._attempt = attempt
        self._taken = taken
        self._text: list[str] = []
        self._reasoning: list[Reasoning] = []
        self._thinking: list[str] = []
        self._calls: list[_Building] = []
        self._open: list[_Building] = []
        """Those that may not have ended yet: a response may hold many thousands that have."""
        self._at: dict[int, _Building] = {}

    def feed(self, chunk: AnyChunk) -> list[ev.Event]:
        """The events that this chunk makes; a ToolCallEnd means that `call` now gives the whole call."""
        match chunk:
            case TextDelta():  # no pattern inside: nearly all chunks come by here, and patterns cost
                if not chunk.text:
                    return []
                self._text.append(chunk.text)
                return [ev.TextMessageContent(attempt=self._attempt, delta=chunk.text)]
            case ToolCallDelta():
                return self._call_delta(chunk)
            case ReasoningDelta():
                return self._reason(chunk)
            case FinishReport(reason, raw):
                self.finish, self.raw_finish = reason, raw
                return [
                    *self._end_all(last_is_whole=False),
                    ev.FinishReported(attempt=self._attempt, reason=reason, raw=raw),
                ]
            case UsageReport(usage):
                self.usage = usage
                return [ev.UsageReported(attempt=self._attempt, usage=usage)]
            case Voice() | AttemptEnded():
                return []  # about attempts, of which this is one
            case ProviderToolReport():
                return [
                    ev.ProviderToolReported(
                        attempt=self._attempt,
                        id=chunk.id,
                        name=chunk.name,
                        arguments=chunk.arguments,
                        result=chunk.result,
                    )
                ]

    def call(self, call_id: str) -> ToolCall:
        """The call of this id, as far as it has come."""
        building = next(b for b in reversed(self._calls) if b.id == call_id)
        return ToolCall(building.id, building.name, building.arguments)

    @property
    def message(self) -> AssistantMessage:
        """The response as it stands, with every call that was begun."""
        reasoning = self._reasoning
        if self._thinking:
            reasoning = [*reasoning, Reasoning("".join(self._thinking))]
        calls = tuple(ToolCall(b.id, b.name, b.arguments) for b in self._calls)
        return AssistantMessage("".join(self._text), calls, tuple(reasoning))

    def _reason(self, chunk: ReasoningDelta) -> list[ev.Event]:
        text, signature = chunk.text, chunk.signature
        if chunk.redacted:
            self._reasoning.append(Reasoning(text, signature, True))
        else:
            if text:
                self._thinking.append(text)
            if signature:
                self._reasoning.append(Reasoning("".join(self._thinking), signature))
                self._thinking = []
        if not (text or signature):
            return []
        shown = ev.ReasoningMessageContent(
            attempt=self._attempt, delta=text, signature=signature, redacted=chunk.redacted
        )
        return [shown]

    def _call_delta(self, chunk: ToolCallDelta) -> list[ev.Event]:
        events: list[ev.Event] = []
        building = self._at.get(chunk.index)
        if building is None or self._is_another(building, chunk):
            if self.finish is not None or not (chunk.name or chunk.id or chunk.arguments):
                return []  # nothing begins after the finish
            events += self._end_all(last_is_whole=True)
            building = self._begin(chunk)
            events.append(ev.ToolCallStart(attempt=self._attempt, call_id=building.id, name=building.name))
        fragment = chunk.arguments
        if not fragment or building.ended:
            return events
        if not building.parts and (fragment.strip() == "{}" or (building.held and not fragment.strip())):
            building.held = building.held or fragment
            return events
        building.parts.append(fragment)
        events.append(ev.ToolCallArgs(attempt=self._attempt, call_id=building.id, delta=fragment))
        if fragment.rstrip().endswith("}") and members(building.arguments):
            events.append(self._end(building))
        return events

    def _is_another(self, building: _Building, chunk: ToolCallDelta) -> bool:
        """Some providers give every call the same index: a new id with a name, or a name after the end."""
        if not chunk.name:
            return False
        return bool(chunk.id and chunk.id != building.raw_id) or (building.ended and not chunk.id)

    def _begin(self, chunk: ToolCallDelta) -> _Building:
        id = chunk.id
        if not id or id in self._taken:
            id = f"{self._step}.{len(self._calls)}"
        while id in self._taken:  # a model may use ids like ours
            id += "+"
        self._taken.add(id)
        building = _Building(id, chunk.id, chunk.name)
        self._calls.append(building)
        self._open.append(building)
        self._at[chunk.index] = building
        return building

    def _end(self, building: _Building) -> ev.ToolCallEnd:
        building.ended = True
        return ev.ToolCallEnd(attempt=self._attempt, call_id=building.id)

    def _end_all(self, last_is_whole: bool) -> list[ev.Event]:
        """End the calls that can be ended: those without members when the next begins, all at the finish."""
        events: list[ev.Event] = []
        begun, self._open = self._open, []
        for building in begun:
            if building.ended:
                continue
            if last_is_whole and members(building.arguments) is None and building.arguments.strip():
                self._open.append(building)  # broken JSON so far: interleaved fragments may still complete it
                continue
            if not last_is_whole and broken_off(building.arguments, self.finish):
                self.truncated = building.id
                building.ended = True
                continue
            if building.held and not building.parts:
                events.append(ev.ToolCallArgs(attempt=self._attempt, call_id=building.id, delta=building.held))
            events.append(self._end(building))
        return events


def members(arguments: str) -> int | None:
    """How many members the JSON object in `arguments` has; None if it is no whole JSON object."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return len(value) if isinstance(value, dict) else None


def broken_off(arguments: str, finish: FinishReason | None) -> bool:
    """True if the response ended inside these arguments, whatever its finish reason says."""
    if arguments.strip() in ("", "{}"):
        return finish in ("length", "context_full")  # the arguments may have been about to come
    try:
        msgspec.json.decode(arguments)
    except msgspec.DecodeError as error:
        why = str(error)
        return "truncated" in why or ("invalid number" in why and arguments[-1] in "-+.eE")  # cut inside a number
    except (RecursionError, ValueError):
        return False
    return False
