"""Assembles one streamed response: chunks in, events out. Decides when a tool call is complete.

A protocol parser without I/O. A call is complete with the brace that closes its arguments, if they have at least one
member (`call_arguments.py`). Arguments that are empty or `{}` are complete only at the finish: some providers send
`{}` first and the arguments after it, and some start all parallel calls before they send any arguments. Whatever
arrives for a call after its closing brace is not a new fragment: a repetition is ignored, anything else is added to
the arguments, which makes them invalid. It is emitted before the next call ends, at the latest when the response does,
so that a replay of the events knows at each ToolCallEnd what was known then. A chunk may itself say that a call is
incomplete or complete (`ToolCallDelta.whole`), where the wire format or a record knows it.

Provider mistakes with ids and indexes are corrected here. A missing or duplicate id becomes `{step}.{index}`, a new
id under an old index is a new call, and so is another name once the arguments have begun. Until then a name may come in
pieces, and the id may follow it: a call is announced with its first arguments, or at its end. A call that begins after
the finish reason counts like any other.
"""

from __future__ import annotations

from collections import deque

from . import events as ev
from .call_arguments import ArgumentsBuffer, is_truncated
from .chunks import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ModelSelected,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from .messages import AssistantMessage, FinishReason, Reasoning, ToolCall, Usage, new_call, new_message


class GrowingText:
    """A name, id or signature that arrives in chunks: each has the next piece, or everything so far once more."""

    __slots__ = ("_length", "_pieces")

    def __init__(self, text: str = "") -> None:
        self._pieces = [text]
        self._length = len(text) if text else 0

    def add(self, more: str) -> None:
        """Add a chunk's piece. The pieces are joined only when a chunk is as long as all of them together."""
        if not self._length or (len(more) >= self._length and more.startswith(str(self))):
            self._pieces, self._length = [more], len(more)
        else:
            self._pieces.append(more)
            self._length += len(more)

    def __str__(self) -> str:
        if self._pieces[1:]:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def __bool__(self) -> bool:
        return self._length > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and len(other) == self._length and other == str(self)

    __hash__ = None  # type: ignore[assignment]


class _PartialCall:
    """A call whose arguments may still grow."""

    __slots__ = ("arguments", "ended", "id", "name", "number", "raw_id", "raw_name", "waiting")

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = self.name = ""
        """Id and name as they are announced."""
        self.raw_id, self.raw_name = GrowingText(), GrowingText()
        """Id and name as far as they had arrived before that."""
        self.arguments = ArgumentsBuffer()
        self.waiting: list[str] | None = []
        """Fragments to emit once the call is announced; None from then on."""
        self.ended = False


class TextLength:
    """Number of characters of all texts in a list that only grows. Each text is counted once, when asked for."""

    __slots__ = ("_characters", "_counted", "_texts")

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self._counted = self._characters = 0

    def __call__(self) -> int:
        """Return the number of characters so far."""
        self._characters += sum(map(len, self._texts[self._counted :]))
        self._counted = len(self._texts)
        return self._characters


def block_of(text: str, end: ReasoningDelta | ev.ReasoningMessageContent, length: TextLength, calls: int) -> Reasoning:
    """Return the block that `end` ends. length, calls: those of the message so far, which place the block in it."""
    if not end.vendor:
        return Reasoning(text, end.signature, end.redacted)
    return Reasoning(text, end.signature, end.redacted, end.vendor, length(), calls)


class Assembler:
    """Assembles one attempt at one response. `taken`: call ids used before in the session; new ones are added to it."""

    def __init__(self, step: int, attempt: str, taken: set[str]) -> None:
        self.finish: FinishReason | None = None
        self.raw_finish = ""
        self.usage: Usage | None = None
        self.truncated: str | None = None
        """The call in whose arguments the response was cut off; of several, the last one."""
        self.without_arguments: tuple[str, ...] = ()
        """Calls without arguments in a response that was cut off: their arguments may not have arrived yet."""
        self._step = step
        self._attempt = attempt
        self._taken = taken
        self._text: list[str] = []
        self._length = TextLength(self._text)
        self._reasoning: list[Reasoning] = []
        self._thinking: list[str] = []
        self._calls: list[_PartialCall] = []
        self._followed: list[_PartialCall] = []
        """Calls with trailing fragments that were not emitted yet."""
        self._open: deque[_PartialCall] = deque()
        """Calls in order, from the first that has not ended; keeps `all_complete_before` O(1) for very many calls."""
        self._announced = 0
        """Number of calls with a ToolCallStart."""
        self._numbers: dict[str, int] = {}
        self._at: dict[int, _PartialCall] = {}

    def feed(self, chunk: AnyChunk) -> list[ev.Event]:
        """Return the events that follow from this chunk. After a ToolCallEnd, `call` returns the complete call."""
        match chunk:
            case TextDelta():  # first and without a nested pattern: nearly all chunks are text
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
                return [*self._end_all(), ev.FinishReported(attempt=self._attempt, reason=reason, raw=raw)]
            case UsageReport(usage):
                self.usage = usage = usage.completed_by(self.usage)
                return [ev.UsageReported(attempt=self._attempt, usage=usage)]
            case ModelSelected() | AttemptEnded():
                return []  # about other attempts
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
        """Return the call with this id, as far as it has arrived."""
        building = self._calls[self._numbers[call_id]]
        return new_call(building.id, building.name, building.arguments.text)

    def close(self) -> list[ev.Event]:
        """End the stream: emit trailing fragments and the calls that began after the finish."""
        events = [] if self.finish is None else self._end_all()
        self._show_late(events)
        return events

    def all_complete_before(self, call_id: str) -> bool:
        """Return whether every call that began before this one is complete."""
        waiting = self._open
        while waiting and waiting[0].ended:
            waiting.popleft()
        return not waiting or waiting[0].number > self._numbers[call_id]

    def close_truncated(self) -> list[ev.Event]:
        """End a stream that was cut off: a call that is not complete was truncated."""
        events: list[ev.Event] = []
        empty: list[str] = []
        for building in self._open:
            if building.ended or building.waiting is not None:
                continue
            if building.arguments.whole:
                self._show(building, building.arguments.finish(), events)
                self._end(building, events)
                continue
            building.ended, self.truncated = True, building.id
            if building.arguments.text.strip() in ("", "{}"):
                empty.append(building.id)
        self.without_arguments = tuple(empty)
        self._open.clear()
        return events

    @property
    def message(self) -> AssistantMessage:
        """The response so far, with every announced call."""
        reasoning = self._reasoning
        if self._thinking:
            reasoning = [*reasoning, Reasoning("".join(self._thinking))]
        calls = tuple(new_call(b.id, b.name, b.arguments.text) for b in self._calls[: self._announced])
        return new_message("".join(self._text), calls, tuple(reasoning))

    def _reason(self, chunk: ReasoningDelta) -> list[ev.Event]:
        text, signature = chunk.text, chunk.signature
        if chunk.redacted:
            self._reasoning.append(block_of(text, chunk, self._length, self._announced))
        else:
            if text:
                self._thinking.append(text)
            if signature:
                self._reasoning.append(block_of("".join(self._thinking), chunk, self._length, self._announced))
                self._thinking = []
        if not (text or signature):
            return []
        shown = ev.ReasoningMessageContent(
            attempt=self._attempt, delta=text, signature=signature, redacted=chunk.redacted, vendor=chunk.vendor
        )
        return [shown]

    def _call_delta(self, chunk: ToolCallDelta) -> list[ev.Event]:
        building = self._at.get(chunk.index)
        if building is None or self._is_another(building, chunk):
            if not (chunk.name or chunk.id or chunk.arguments):
                return []
            building = self._begin(chunk.index)
        if building.waiting is not None:
            if chunk.name:
                building.raw_name.add(chunk.name)
            if chunk.id:
                building.raw_id.add(chunk.id)
        events: list[ev.Event] = []
        arguments, fragment = building.arguments, chunk.arguments
        shown = ""
        if fragment:
            if building.ended:
                self._followed.append(building)
            shown = arguments.feed(fragment) if chunk.whole is None else arguments.add(fragment)
        if building.waiting is not None and building.raw_name and (fragment or chunk.whole is not None):
            self._announce(building, events)
        self._show(building, shown, events)
        if ((arguments.whole and not arguments.doubtful) or chunk.whole) and not building.ended:
            self._end(building, events)
        return events

    def _is_another(self, building: _PartialCall, chunk: ToolCallDelta) -> bool:
        """Return whether a chunk starts another call under the same index.

        It does if it has a name and also a new id, or a name that differs from that of the call whose arguments have
        begun, or no id after the end of that call.
        """
        if not chunk.name:
            return False
        if building.waiting is None and chunk.name != building.name:
            return True
        if chunk.id and building.waiting is not None and not building.raw_id:
            return bool(building.raw_name) and building.raw_name != chunk.name  # else this id follows the call's name
        return bool(chunk.id and chunk.id != building.raw_id) or (building.ended and not chunk.id)

    def _begin(self, index: int) -> _PartialCall:
        building = _PartialCall(len(self._calls))
        self._calls.append(building)
        self._open.append(building)
        self._at[index] = building
        return building

    def _announce(self, building: _PartialCall, events: list[ev.Event]) -> None:
        """Emit a call's start, after those of the calls before it, so that the events are in order."""
        for each in self._calls[self._announced : building.number + 1]:
            id = str(each.raw_id)
            if not id or id in self._taken:
                id = f"{self._step}.{each.number}"
            while id in self._taken:  # a provider may use ids of the same form
                id += "+"
            self._taken.add(id)
            each.id, each.name = id, str(each.raw_name)
            self._numbers[id] = each.number
            events.append(ev.ToolCallStart(attempt=self._attempt, call_id=id, name=each.name))
            shown, each.waiting = "".join(each.waiting or ()), None
            self._show(each, shown, events)
        self._announced = building.number + 1

    def _show(self, building: _PartialCall, shown: str, events: list[ev.Event]) -> None:
        if not shown:
            return
        if building.waiting is not None:
            building.waiting.append(shown)
        else:
            events.append(ev.ToolCallArgs(attempt=self._attempt, call_id=building.id, delta=shown))

    def _show_late(self, events: list[ev.Event]) -> None:
        for building in self._followed:
            self._show(building, building.arguments.settle(), events)
        self._followed.clear()

    def _end(self, building: _PartialCall, events: list[ev.Event]) -> None:
        if building.waiting is not None:
            self._announce(building, events)
        self._show_late(events)
        building.ended = True
        events.append(ev.ToolCallEnd(attempt=self._attempt, call_id=building.id))

    def _end_all(self) -> list[ev.Event]:
        """End all calls at the finish, except those that were truncated."""
        events: list[ev.Event] = []
        begun, self._open = self._open, deque()
        empty: list[str] = []
        for building in begun:
            if building.ended:
                continue
            if building.waiting is not None:
                self._announce(building, events)
            self._show(building, building.arguments.finish(), events)
            arguments = building.arguments.text
            if is_truncated(arguments, self.finish):
                self.truncated = building.id
                building.ended = True
                if arguments.strip() in ("", "{}"):
                    empty.append(building.id)
            else:
                self._end(building, events)
        self.without_arguments += tuple(empty)
        return events
