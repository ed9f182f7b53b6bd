"""The last AG-UI event of a run, with an interrupt for each question that is still open."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from ...decision import Outcome, Question
from . import protocol

PAUSED = "endstop:paused"
"""Id of the AG-UI interrupt for a run that a user's own rule paused without asking a question."""
INPUT_REQUIRED = "input_required"
CONFIRMATION = "confirmation"
TOOL_CALL = "tool_call"
TEXT: dict[str, Any] = {"type": "string"}
YES_NO_OR_TEXT: dict[str, Any] = {"type": ["boolean", "string"]}
YES_NO_OR_STEPS: dict[str, Any] = {"type": ["boolean", "integer", "string"], "minimum": 1}
APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "editedArgs": {"type": "object", "description": "All arguments of the call, in place of the model's."},
        "reason": {"type": "string", "description": "Why the call is denied, for the model."},
    },
    "required": ["approved"],
}
"""The answer to a call that waits for approval; the names are the protocol's (docs.ag-ui.com/concepts/interrupts)."""


def terminal_event(
    outcome: Outcome,
    thread_id: str,
    run_id: str,
    used: tuple[protocol.TokenUsage, ...],
    at: int | None,
    calls: dict[str, str],
) -> protocol.RunFinished | protocol.RunError:
    """Return the last event of a run. `calls`: ids in the stream of the calls of open questions.

    A run that reached a limit must not look like a success, so it is `cancelled` in the protocol, like a cancelled run.
    Such a run has no result there; its outcome is in `endstop.run_finished`.
    """
    if outcome.status == "failed":
        message = outcome.detail or outcome.stop_reason
        return protocol.RunError(message=message, code=outcome.stop_reason, usage=used, timestamp=at)
    how: protocol.SuccessOutcome | protocol.InterruptOutcome | protocol.CancelledOutcome
    if outcome.status == "awaiting_input":
        interrupts = tuple(_interrupt(question, calls[question.call_id]) for question in outcome.questions)
        message = outcome.answer if outcome.answer_from == "text" else outcome.detail
        paused = protocol.Interrupt(id=PAUSED, reason=INPUT_REQUIRED, message=message, response_schema=TEXT)
        how = protocol.InterruptOutcome(interrupts=interrupts or (paused,))
    elif outcome.status == "completed":
        how = protocol.SuccessOutcome()
    else:
        how = protocol.CancelledOutcome()
    result = None if isinstance(how, protocol.CancelledOutcome) else outcome
    return protocol.RunFinished(
        thread_id=thread_id, run_id=run_id, outcome=how, result=result, usage=used, timestamp=at
    )


def _interrupt(question: Question, call: str) -> protocol.Interrupt:
    asker = {} if question.asker is None else {"asker": to_builtins(question.asker)}
    if question.tool is not None:
        return protocol.Interrupt(
            id=question.call_id,
            reason=TOOL_CALL,
            message=question.text,
            tool_call_id=call,
            response_schema=APPROVAL,
            expires_at=question.expires_at or None,
            metadata={"endstop": {"tool": question.tool, "arguments": question.arguments, **asker}},
        )
    if question.extends:
        return protocol.Interrupt(
            id=question.call_id,
            reason=CONFIRMATION,
            message=question.text,
            tool_call_id=None if question.is_about_limit else call,
            response_schema=YES_NO_OR_STEPS,
            metadata={"endstop": {"extends": question.extends, **asker}},
        )
    confirms = question.confirms is not None
    more = {"confirms": question.confirms, "pending_issues": question.pending_issues} if confirms else {}
    return protocol.Interrupt(
        id=question.call_id,
        reason=CONFIRMATION if confirms else INPUT_REQUIRED,
        message=question.text,
        tool_call_id=call,
        response_schema=YES_NO_OR_TEXT if confirms else TEXT,
        metadata={"endstop": {**more, **asker}} if more or asker else None,
    )
