"""Restore what the functions of tools returned in a recorded run, as far as its events show it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from .decision import Asker, ToolSpec
from .decision import events as ev
from .decision.fold import question_of
from .decision.rules import rejection_message
from .tools.results import CallOutcome, Completion, Continue, NeedsUserInput, Phase, SubagentAsks, phase_reply


class RecordedValue(Struct, frozen=True):
    """Value that a tool's function returned."""

    t: int
    """Time of the return, in milliseconds since the run began."""
    value: Any


def recorded_values(events: Sequence[ev.Event], tools: Sequence[ToolSpec]) -> dict[str, RecordedValue]:
    """Return what the function of each call returned, by call id. Calls that were cut off have no value.

    events: those of one run; stream parts (deltas) may be left out. tools: those of the run.
    """
    results = {e.call_id: e for e in events if isinstance(e, ev.ToolCallResult)}
    cut_off = next((e.seq for e in events if isinstance(e, ev.LimitReached)), None)
    kinds = {spec.name: spec.kind for spec in tools}
    completing = {spec.name for spec in tools if spec.completes}
    named = {id: result.name for id, result in results.items()}
    named |= {call.id: call.name for e in events if isinstance(e, ev.ResponseFinished) for call in e.message.calls}
    values = {
        id: RecordedValue(result.t, CallOutcome(content=result.content, status=result.status, images=result.images))
        for id, result in results.items()
        if result.status in ("ok", "error", "unknown", "skipped")  # a skipped call may start early in a replay
        or (result.status == "cancelled" and cut_off is not None and result.seq > cut_off)
    }
    for event in events:
        match event:
            case ev.CompletionAccepted(call_id=id, answer=answer, pending_issues=pending):
                content = results[id].content if id in results else None
                phase = values[id].value if id in values else None  # the last phase, reported by the completion itself
                values[id] = RecordedValue(
                    event.t,
                    Completion(
                        answer=answer,
                        content=content,
                        pending_issues=pending,
                        percentage=phase.percentage if isinstance(phase, Phase) else None,
                    ),
                )
            case ev.CompletionRejected(call_id=id, reason=reason, by="tool"):
                values[id] = RecordedValue(
                    event.t, Continue(reason, _rest_of_content(results.get(id), rejection_message(reason)))
                )
            case ev.CompletionRejected(call_id=id, by=by) if by != "user" and (
                by not in ("failed_call", "open_question") or named.get(id) in completing
            ):  # rejected by a gate, whose verdict is in the record
                rest = _rest_of_content(results.get(id), rejection_message(event.reason))
                values[id] = RecordedValue(event.t, Completion(answer="", content=rest))
            case ev.PhaseReported(call_id=id):
                rest = _rest_of_content(results.get(id), phase_reply(event.percentage, event.next_phase))
                phase = Phase(
                    percentage=event.percentage,
                    summary=event.summary,
                    next_phase=event.next_phase,
                    content=rest,
                )
                values[id] = RecordedValue(event.t, phase)
            case ev.QuestionAsked(asker=Asker(call_id=id)):
                before = values[id].value if id in values else None
                so_far = before.questions if isinstance(before, SubagentAsks) else ()
                values[id] = RecordedValue(event.t, SubagentAsks((*so_far, question_of(event))))
            case ev.QuestionAsked(tool=str()):
                pass  # the call waits for approval: its function has not been called
            case ev.QuestionAsked() if event.extends:
                pass  # no call asks
            case ev.QuestionAsked(call_id=id, text=text, confirms=str() as answer, pending_issues=pending):
                asked = Completion(answer=answer, confirm=text, pending_issues=pending, percentage=event.percentage)
                values[id] = RecordedValue(event.t, asked)
            case ev.QuestionAsked(call_id=id, text=text) if kinds.get(named.get(id, ""), "question") != "question":
                values[id] = RecordedValue(
                    event.t, NeedsUserInput(text)
                )  # what became of the call when its process died
            case ev.QuestionAsked(call_id=id, text=text) | ev.ThoughtRecorded(call_id=id, text=text):
                values[id] = RecordedValue(event.t, text)
            case _:
                pass
    return values


def _rest_of_content(result: ev.ToolCallResult | None, first_line: str) -> str | None:
    """Return the rest of a result's content after this first line; None if it begins differently."""
    if result is None or not result.content.startswith(f"{first_line}\n"):
        return None
    return result.content[len(first_line) + 1 :]
