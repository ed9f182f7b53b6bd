"""What a recorded run holds for a replay: tools as they answered, and what each call's function returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import Event, ToolSpec
from ..decision import events as ev
from ..decision.text import not_accepted
from ..records.reader import RecordedRun
from ..tool_calls import noted
from ..tools.results import Asked, Completion, Continue, Phase, Settled
from ..tools.schema import InvalidArguments
from ..tools.tool import Tool


class Value(Struct, frozen=True):
    """What a tool returned then, and when (milliseconds since the run began)."""

    t: int
    value: Any


class RecordedTool(Tool):
    """A tool that is known only by its spec and by what it made of each call's arguments."""

    def __init__(self, spec: ToolSpec, complaints: Mapping[str, str], not_final: frozenset[str]) -> None:
        self.name, self.kind = spec.name, spec.kind
        self.spec = spec
        self.timeout = self.check = None
        self._complaints = complaints
        self._not_final = not_final

    def parse(self, arguments: str) -> dict[str, Any]:
        """The arguments as they are; those that were invalid then are invalid now."""
        if arguments in self._complaints:
            raise InvalidArguments(self._complaints[arguments])
        try:
            value = msgspec.json.decode(arguments or "{}")
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidArguments(str(error)) from None
        return {"arguments": arguments, "value": value}

    def is_final(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a completion by these arguments could be the last one."""
        return arguments["arguments"] not in self._not_final

    async def run(self, arguments: Mapping[str, Any]) -> Any:
        """Never: a replay answers calls from the record."""
        raise NotImplementedError("a recorded tool has no function")


_PARTS = frozenset({ev.ToolCallStart, ev.ToolCallArgs, ev.ResponseFinished})


def recorded_tools(recorded: RecordedRun) -> list[Tool]:
    """The tools of a recorded run, those included that were called and answered though the record does not list them.

    A record from elsewhere may not know what was offered.
    """
    calls: dict[str, tuple[str, list[str]]] = {}
    noted: list[tuple[ev.ToolCallResult | ev.ToolCallEnd, str | None]] = []
    specs = {spec.name: spec for spec in recorded.started.tools}
    for event in recorded.events:
        kind = type(event)
        if kind in _PARTS:
            _gather(event, calls)
        if kind is not ev.ToolCallResult and kind is not ev.ToolCallEnd:
            continue
        match event:
            case ev.ToolCallResult(call_id=id, status="invalid") | ev.ToolCallEnd(call_id=id, may_end=False):
                noted.append((event, "".join(calls[id][1]) if id in calls else None))
            case ev.ToolCallResult(name=name, status="ok" | "error") if name not in specs:
                specs[name] = ToolSpec(name=name, description="not listed in the record", parameters={})
            case _:
                pass
    complaints: dict[str, dict[str, str]] = {}
    not_final: dict[str, set[str]] = {}
    for event, until_then in noted:
        if event.call_id not in calls:
            continue
        name, pieces = calls[event.call_id]
        given = {"".join(pieces)} if until_then is None else {"".join(pieces), until_then}  # more came after it
        if isinstance(event, ev.ToolCallResult):
            complaints.setdefault(name, {}).update(dict.fromkeys(given, event.content))
        else:
            not_final.setdefault(name, set()).update(given)
    return [
        RecordedTool(spec, complaints.get(name, {}), frozenset(not_final.get(name, ()))) for name, spec in specs.items()
    ]


def _gather(event: Event, parts: dict[str, tuple[str, list[str]]]) -> None:
    """Add to the name and the arguments of each call, by call id; also of calls whose response failed."""
    match event:
        case ev.ToolCallStart(call_id=id, name=name):
            parts[id] = (name, [])
        case ev.ToolCallArgs(call_id=id, delta=delta) if id in parts:
            parts[id][1].append(delta)
        case ev.ResponseFinished(message=message):
            parts |= {call.id: (call.name, [call.arguments]) for call in message.calls}
        case _:
            pass


def values_of(recorded: RecordedRun) -> dict[str, Value]:
    """What each call's function returned, by call id. Calls that were cut off have none."""
    events = unstreamed(recorded)
    results = {e.call_id: e for e in events if isinstance(e, ev.ToolCallResult)}
    cut_off = next((e.seq for e in events if isinstance(e, ev.LimitReached)), None)
    kinds = {spec.name: spec.kind for spec in recorded.started.tools}
    completing = {spec.name for spec in recorded.started.tools if spec.completes}
    named = {call.id: call.name for e in events if isinstance(e, ev.ResponseFinished) for call in e.message.calls}
    values = {
        id: Value(result.t, Settled(content=result.content, status=result.status, images=result.images))
        for id, result in results.items()
        if result.status in ("ok", "error", "unknown", "skipped")  # begins early in a replay, and not in the record
        or (result.status == "cancelled" and cut_off is not None and result.seq > cut_off)
    }
    for event in events:
        match event:
            case ev.CompletionAccepted(call_id=id, answer=answer, pending_issues=pending):
                content = results[id].content if id in results else None
                phase = values[id].value if id in values else None  # the last one, which the completion itself reports
                values[id] = Value(
                    event.t,
                    Completion(
                        answer=answer,
                        content=content,
                        pending_issues=pending,
                        percentage=phase.percentage if isinstance(phase, Phase) else None,
                    ),
                )
            case ev.CompletionRejected(call_id=id, reason=reason, by="tool"):
                values[id] = Value(event.t, Continue(reason, _besides(results.get(id), not_accepted(reason))))
            case ev.CompletionRejected(call_id=id, by=by) if by != "user" and (
                by not in ("failed_call", "open_question") or named.get(id) in completing
            ):  # a gate's name: its verdict is recalled
                besides = _besides(results.get(id), not_accepted(event.reason))
                values[id] = Value(event.t, Completion(answer="", content=besides))
            case ev.PhaseReported(call_id=id):
                besides = _besides(results.get(id), noted(event.percentage, event.next_phase))
                phase = Phase(
                    percentage=event.percentage,
                    summary=event.summary,
                    next_phase=event.next_phase,
                    content=besides,
                )
                values[id] = Value(event.t, phase)
            case ev.QuestionAsked(call_id=id, text=text, confirms=str() as answer, pending_issues=pending):
                asked = Completion(answer=answer, confirm=text, pending_issues=pending, percentage=event.percentage)
                values[id] = Value(event.t, asked)
            case ev.QuestionAsked(call_id=id, text=text) if kinds.get(named.get(id, ""), "question") != "question":
                values[id] = Value(event.t, Asked(text))  # what became of the call when its process died
            case ev.QuestionAsked(call_id=id, text=text) | ev.ThoughtRecorded(call_id=id, text=text):
                values[id] = Value(event.t, text)
            case _:
                pass
    return values


def _besides(result: ev.ToolCallResult | None, said: str) -> str | None:
    """What a call's result says after what became of the completion."""
    if result is None or not result.content.startswith(f"{said}\n"):
        return None
    return result.content[len(said) + 1 :]


def void_calls(recorded: RecordedRun) -> set[str]:
    """Calls of attempts that came to nothing. What of them had begun never had a result, and was given up."""
    failed = {e.attempt for e in unstreamed(recorded) if isinstance(e, ev.AttemptFailed | ev.AttemptRetracted)}
    if not failed:
        return set()
    return {e.call_id for e in recorded.events if isinstance(e, ev.ToolCallStart) and e.attempt in failed}


def unstreamed(recorded: RecordedRun) -> list[Event]:
    """The events of a run without the parts of streams, which are most of them."""
    return [event for event in recorded.events if type(event) not in ev.STREAM_PARTS]
