"""Responses of a recorded run, each as one stream of chunks with their times, as a provider would send it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ..decision import (
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
from ..decision import events as ev
from ..decision.messages import Reasoning, ToolCall, message_parts
from ..decision.run_origin import is_foreign
from ..providers import Exchange, RecordedError
from ..records.reader import RecordedRun


class RecordedResponse(Struct, frozen=True):
    """Response of one step: the chunks of all its attempts as one stream, with their times."""

    start: int
    """When it was requested, in milliseconds since the run began."""
    end: int
    """When it was complete, or its stream was closed."""
    closing: bool
    """Whether its step is the closing step."""
    exchange: Exchange
    pauses: frozenset[int]
    """Indices of the chunks before which a tool call started."""


def recorded_responses(recorded: RecordedRun) -> dict[int, RecordedResponse]:
    """Return the responses of a run, by step. For a step that was repeated after a kill, return the last one."""
    beside = {e.attempt for e in recorded.events if isinstance(e, ev.AttemptFailed) and e.beside}
    foreign = is_foreign(recorded.started.engine)  # its responses keep their length, whatever a policy would cut
    marked = bool(recorded.started.engine) or any(type(event) is ev.ToolCallEnd for event in recorded.events)
    gathered: dict[str, _ResponseBuilder] = {}
    latest: _ResponseBuilder | None = None
    for event in recorded.events:
        attempt: str | None = getattr(event, "attempt", None)
        if attempt is not None:
            step = attempt.partition(".")[0] if attempt else str(getattr(event, "step", ""))
            if (response := gathered.get(step)) is not None:
                response.feed(event)
        elif isinstance(event, ev.StepStarted):
            latest = gathered[str(event.step)] = _ResponseBuilder(beside, marked, event, cut_again=not foreign)
        elif isinstance(event, ev.ToolExecutionStarted) and latest is not None:
            latest.add_pause()
    for rest in recorded.after_cut:
        if (response := gathered.get(rest.attempt.partition(".")[0])) is not None:
            response.after_cut.append(rest.chunk)
    return {response.step: response.build() for response in gathered.values() if response.asked}


class _ResponseBuilder:
    """Builder of the response of one step from its events.

    A failed attempt and the start of the next one become the chunks with which a provider reports them, `AttemptEnded`
    and `ModelSelected`.
    """

    def __init__(self, beside: Collection[str], marked: bool, started: ev.StepStarted, *, cut_again: bool) -> None:
        self.step = started.step
        self._cut_again = cut_again
        self.asked = False
        self.after_cut: list[AnyChunk] = []
        self._closing = started.closing
        self._start = self._end = started.t
        self._beside = beside
        self._marked = False if marked else None
        """`ToolCallDelta.whole` of deltas before a call's end: None if the record does not say where calls end."""
        self._attempt = ""
        self._chunks: list[AnyChunk] = []
        self._times: list[int] = []
        self._pauses: set[int] = set()
        self._spoken = 0
        """Number of chunks when the current attempt began."""
        self._announced = ""
        """Model with which a later attempt began; empty for the first one."""
        self._index: dict[str, int] = {}
        self._failed: ev.AttemptFailed | None = None
        """Latest failure, until another attempt begins."""
        self._ended = False

    def feed(self, event: ev.Event) -> None:
        if type(event) in ev.STREAM_PARTS:  # nearly all events
            chunk = self._chunk(event)
            if chunk is not None:
                self._add(event.t, chunk)
            return
        match event:
            case ev.AttemptStarted(attempt=attempt):
                if attempt not in self._beside:
                    self._started(event)
            case ev.AttemptFailed(beside=True):
                self._add(event.t, _attempt_ended(event))
            case ev.AttemptFailed(kind="cancelled"):
                pass  # cancelled from outside: the replay does this itself
            case ev.AttemptFailed():
                self._failed = event
            case ev.ResponseFinished():
                self._finish(event)
            case ev.FinishReported(reason=reason, raw=raw):
                self._add(event.t, FinishReport(reason, raw))
            case ev.UsageReported(usage=usage):
                self._add(event.t, UsageReport(usage))
            case _:
                pass

    def add_pause(self) -> None:
        """Note that a tool call started before the next chunk."""
        self._pauses.add(len(self._chunks))

    def build(self) -> RecordedResponse:
        failed = self._failed
        exchange = Exchange(
            attempt=self._attempt,
            model="",
            chunks=tuple(self._chunks),
            times=tuple(self._times),
            ended="finished" if self._ended or failed is not None else "cancelled",
            failure=None if failed is None else _failure(failed),
            after_cut=tuple(self.after_cut),
        )
        return RecordedResponse(self._start, self._end, self._closing, exchange, frozenset(self._pauses))

    def _started(self, event: ev.AttemptStarted) -> None:
        if not self.asked:
            self.asked, self._start, self._attempt = True, event.t, event.attempt
        if self._failed is not None:
            self._add(self._failed.t, _attempt_ended(self._failed))
            self._add(event.t, ModelSelected(event.model))
            self._announced = event.model
            self._failed, self._index, self._spoken = None, {}, len(self._chunks)

    def _add(self, t: int, chunk: AnyChunk) -> None:
        self._chunks.append(chunk)
        self._times.append(max(0, t - self._start))

    def _finish(self, event: ev.ResponseFinished) -> None:
        self.asked = self._ended = True
        self._end = event.t
        if event.cut_at is not None and event.cut_at_end:
            self._end_at_finish(event.cut_at)
        self._complete(event)
        if event.model and (event.attempt == self._attempt or event.model != self._announced):
            self._chunks.insert(self._spoken, ModelSelected(event.model))
            self._times.insert(self._spoken, 0)
            self._pauses = {number + (number >= self._spoken) for number in self._pauses}

    def _end_at_finish(self, completion: str) -> None:
        """Unmark the ends of calls at which the replay would cut the response earlier than the record did."""
        open_calls = set(range(self._index.get(completion, -1) + 1))
        for number, chunk in enumerate(self._chunks[self._spoken :], self._spoken):
            if type(chunk) is ToolCallDelta and chunk.whole:
                open_calls.discard(chunk.index)
                if not open_calls:
                    self._chunks[number] = replace(chunk, whole=False)

    def _complete(self, event: ev.ResponseFinished) -> None:
        """Add chunks that a record of another program may lack, because it has responses but no deltas."""
        kinds = {type(chunk) for chunk in self._chunks[self._spoken :]}
        if not kinds & {TextDelta, ReasoningDelta, ToolCallDelta}:
            message = event.message
            numbers = {call.id: number for number, call in enumerate(message.calls)}
            for part in message_parts(message):
                self._add(event.t, _part_chunk(part, numbers, whole=None if self._marked is None else True))
        if UsageReport not in kinds and not event.usage.estimated and event.usage.input_tokens:
            self._add(event.t, UsageReport(event.usage))
        cut = event.cut_at is not None and self._cut_again and not (event.cut_at_end or event.raw_finish)
        if FinishReport not in kinds and not cut and not event.cut_for:
            self._add(event.t, FinishReport(event.finish, event.raw_finish))

    def _chunk(self, event: ev.Event) -> AnyChunk | None:
        match event:
            case ev.TextMessageContent(delta=delta):
                return TextDelta(delta)
            case ev.ReasoningMessageContent(delta=delta, signature=signature, redacted=redacted, vendor=vendor):
                return ReasoningDelta(delta, signature, redacted, vendor)
            case ev.ToolCallStart(call_id=id, name=name):
                self._index[id] = len(self._index)
                return ToolCallDelta(self._index[id], id, name, whole=self._marked)
            case ev.ToolCallArgs(call_id=id, delta=delta) if id in self._index:
                return ToolCallDelta(self._index[id], arguments=delta, whole=self._marked)
            case ev.ToolCallEnd(call_id=id) if id in self._index:
                return ToolCallDelta(self._index[id], whole=True)
            case ev.ProviderToolReported():
                return ProviderToolReport(event.id, event.name, event.arguments, event.result)
            case _:
                return None


def _part_chunk(part: str | ToolCall | Reasoning, numbers: Mapping[str, int], whole: bool | None) -> AnyChunk:
    if isinstance(part, str):
        return TextDelta(part)
    if isinstance(part, Reasoning):
        return ReasoningDelta(part.text, part.signature, part.redacted, part.vendor)
    return ToolCallDelta(numbers[part.id], part.id, part.name, part.arguments, whole=whole)


def _failure(event: ev.AttemptFailed) -> RecordedError:
    return RecordedError(
        kind=event.kind,
        message=event.message,
        status=event.status,
        retry_after=event.retry_after,
        text=event.text,
    )


def _attempt_ended(event: ev.AttemptFailed) -> AttemptEnded:
    return AttemptEnded(
        model=event.model,
        kind=event.kind,
        message=event.message,
        status=event.status,
        retry_after=event.retry_after,
        usage=event.usage,
        beside=event.beside,
        text=event.text,
    )
