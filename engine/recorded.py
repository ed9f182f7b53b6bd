"""What a recorded run holds for a replay: responses as exchanges, tools as they answered."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    ToolSpec,
    UsageReport,
    Voice,
)
from ..decision import events as ev
from ..providers import Exchange, Failure
from .answers import Completion, Continue, Phase, Settled
from .record import RecordedRun
from .schema import InvalidArguments
from .tools import Tool


class Value(Struct, frozen=True):
    """What a tool returned then, and when (milliseconds since the run began)."""

    t: int
    value: Any


class RecordedTool(Tool):
    """A tool that is known only by its spec and by what it made of each call's arguments."""

    def __init__(self, spec: ToolSpec, recorded: RecordedRun) -> None:
        self.name, self.kind = spec.name, spec.kind
        self.spec = spec
        self.timeout = None
        arguments = _arguments(recorded, spec.name)
        self._complaints: dict[str, str] = {}
        self._not_final: set[str] = set()
        for event in recorded.events:
            if isinstance(event, ev.ToolCallResult) and event.status == "invalid" and event.call_id in arguments:
                self._complaints[arguments[event.call_id]] = event.content
            if isinstance(event, ev.ToolCallEnd) and event.may_end is False and event.call_id in arguments:
                self._not_final.add(arguments[event.call_id])

    def parse(self, arguments: str) -> dict[str, Any]:
        """The arguments as they are; those that were invalid then are invalid now."""
        if arguments in self._complaints:
            raise InvalidArguments(self._complaints[arguments])
        try:
            value = msgspec.json.decode(arguments or "{}")
        except msgspec.DecodeError as error:
            raise InvalidArguments(str(error)) from None
        return {"arguments": arguments, "value": value}

    def is_final(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a completion by these arguments could be the last one."""
        return arguments["arguments"] not in self._not_final

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Never: a replay answers calls from the record."""
        raise NotImplementedError("a recorded tool has no function")


def _arguments(recorded: RecordedRun, name: str) -> dict[str, str]:
    """The arguments of each call of a tool, by call id; also of calls whose response failed."""
    parts: dict[str, list[str]] = {}
    for event in recorded.events:
        match event:
            case ev.ToolCallStart(call_id=id) if event.name == name:
                parts[id] = []
            case ev.ToolCallArgs(call_id=id, delta=delta) if id in parts:
                parts[id].append(delta)
            case ev.ResponseFinished(message=message):
                parts |= {call.id: [call.arguments] for call in message.calls if call.name == name}
            case _:
                pass
    return {id: "".join(pieces) for id, pieces in parts.items()}


def values_of(recorded: RecordedRun) -> dict[str, Value]:
    """What each call's function returned, by call id. Calls that were cut off have none."""
    results = {e.call_id: e for e in recorded.events if isinstance(e, ev.ToolCallResult)}
    values = {
        id: Value(result.t, Settled(content=result.content, status=result.status, images=result.images))
        for id, result in results.items()
        if result.status in ("ok", "error", "unknown")
    }
    for event in recorded.events:
        match event:
            case ev.CompletionAccepted(call_id=id, answer=answer, pending_issues=pending):
                content = results[id].content if id in results else None
                values[id] = Value(event.t, Completion(answer=answer, content=content, pending_issues=pending))
            case ev.CompletionRejected(call_id=id, reason=reason, by="tool"):
                values[id] = Value(event.t, Continue(reason))
            case ev.CompletionRejected(call_id=id, by=by) if by not in ("failed_call", "open_question", "user"):
                values[id] = Value(event.t, Completion(answer=""))  # a gate's name: its verdict is recalled
            case ev.PhaseReported(call_id=id):
                phase = Phase(percentage=event.percentage, summary=event.summary, next_phase=event.next_phase)
                values[id] = Value(event.t, phase)
            case ev.QuestionAsked(call_id=id, text=text, confirms=str() as answer, pending_issues=pending):
                asked = Completion(answer=answer, confirm=text, pending_issues=pending, percentage=event.percentage)
                values[id] = Value(event.t, asked)
            case ev.QuestionAsked(call_id=id, text=text) | ev.ThoughtRecorded(call_id=id, text=text):
                values[id] = Value(event.t, text)
            case _:
                pass
    return values


def exchanges_of(recorded: RecordedRun) -> list[tuple[int, Exchange]]:
    """The responses of a run, with the time at which each was asked for; all attempts of one response in one."""
    beside = {e.attempt for e in recorded.events if isinstance(e, ev.AttemptFailed) and e.beside}
    responses: dict[str, _Response] = {}
    for event in recorded.events:
        if isinstance(event, ev.StepStarted):
            responses[str(event.step)] = _Response(beside)  # one that was killed is asked for again: the later counts
        elif (response := responses.get(_step_of(getattr(event, "attempt", "")))) is not None:
            response.take(event)
    for rest in recorded.after_cut:
        if (response := responses.get(_step_of(rest.attempt))) is not None:
            response.after_cut.append(rest.chunk)
    return [(response.start, response.exchange()) for response in responses.values() if response.start is not None]


def _step_of(attempt: str) -> str:
    return attempt.partition(".")[0]


class _Response:
    """One step's response as one stream, in which an attempt that took over is announced as it was then."""

    def __init__(self, beside: Collection[str]) -> None:
        self.start: int | None = None
        self.after_cut: list[AnyChunk] = []
        self._beside = beside
        self._attempt = ""
        self._chunks: list[AnyChunk] = []
        self._times: list[int] = []
        self._index: dict[str, int] = {}
        self._failed: ev.AttemptFailed | None = None
        """The latest failure, as long as no other attempt has taken over."""
        self._ended = False

    def take(self, event: ev.Event) -> None:
        match event:
            case ev.AttemptStarted(attempt=attempt):
                if attempt not in self._beside:
                    self._started(event)
            case ev.AttemptFailed(beside=True):
                self._add(event.t, _ended(event))
            case ev.AttemptFailed(kind="cancelled"):
                pass  # not its end: that came from outside
            case ev.AttemptFailed():
                self._failed = event
            case ev.ResponseFinished():
                self._ended = True
                if event.model:
                    self._speaks(event)
            case _:
                chunk = self._chunk(event)
                if chunk is not None:
                    self._add(event.t, chunk)

    def exchange(self) -> Exchange:
        failed = self._failed
        return Exchange(
            attempt=self._attempt,
            model="",
            chunks=tuple(self._chunks),
            times=tuple(self._times),
            ended="finished" if self._ended or failed is not None else "cancelled",
            failure=None if failed is None else _failure(failed),
            after_cut=tuple(self.after_cut),
        )

    def _started(self, event: ev.AttemptStarted) -> None:
        if self.start is None:
            self.start, self._attempt = event.t, event.attempt
        if self._failed is not None:
            self._add(self._failed.t, _ended(self._failed))
            self._add(event.t, Voice(event.model))
            self._failed, self._index = None, {}

    def _add(self, t: int, chunk: AnyChunk) -> None:
        assert self.start is not None
        self._chunks.append(chunk)
        self._times.append(t - self.start)

    def _speaks(self, event: ev.ResponseFinished) -> None:
        """Say at its beginning who was heard in the first attempt; for later ones it stands there already."""
        if event.attempt == self._attempt:
            self._chunks.insert(0, Voice(event.model))
            self._times.insert(0, 0)

    def _chunk(self, event: ev.Event) -> AnyChunk | None:
        match event:
            case ev.TextMessageContent(delta=delta):
                return TextDelta(delta)
            case ev.ReasoningMessageContent(delta=delta, signature=signature, redacted=redacted):
                return ReasoningDelta(delta, signature, redacted)
            case ev.ToolCallStart(call_id=id, name=name):
                self._index[id] = len(self._index)
                return ToolCallDelta(self._index[id], id, name)
            case ev.ToolCallArgs(call_id=id, delta=delta):
                return ToolCallDelta(self._index[id], arguments=delta)
            case ev.ProviderToolReported():
                return ProviderToolReport(event.id, event.name, event.arguments, event.result)
            case ev.FinishReported(reason=reason, raw=raw):
                return FinishReport(reason, raw)
            case ev.UsageReported(usage=usage):
                return UsageReport(usage)
            case _:
                return None


def _failure(event: ev.AttemptFailed) -> Failure:
    return Failure(kind=event.kind, message=event.message, status=event.status, retry_after=event.retry_after)


def _ended(event: ev.AttemptFailed) -> AttemptEnded:
    return AttemptEnded(
        model=event.model,
        kind=event.kind,
        message=event.message,
        status=event.status,
        retry_after=event.retry_after,
        usage=event.usage,
        beside=event.beside,
    )
