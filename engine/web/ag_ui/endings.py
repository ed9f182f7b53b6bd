"""How a run ends in AG-UI: our status as its outcome or error, what was used by model, open questions as interrupts."""

from __future__ import annotations

from typing import Any

from ...decision import Outcome, Question, Usage
from . import protocol as say

PAUSED = "endstop:paused"
"""The id of the interrupt of a run that waits without having asked a question, by a user's own rule."""
INPUT_REQUIRED = "input_required"
CONFIRMATION = "confirmation"
TEXT: dict[str, Any] = {"type": "string"}
YES_OR_TEXT: dict[str, Any] = {"type": ["boolean", "string"]}


def ending(
    outcome: Outcome,
    thread_id: str,
    run_id: str,
    used: tuple[say.TokenUsage, ...],
    at: int | None,
    calls: dict[str, str],
) -> say.RunFinished | say.RunError:
    """The terminal event. `calls`: the ids in the stream of the calls that the questions stand for.

    An exhausted run was stopped at a limit, which the protocol calls cancelled, as it must not look like a success:
    neither has a result there (both have their outcome in `endstop.run_finished`).
    """
    if outcome.status == "failed":
        message = outcome.detail or outcome.stop_reason
        return say.RunError(message=message, code=outcome.stop_reason, usage=used, timestamp=at)
    how: say.Success | say.Interrupted | say.CancelledOutcome
    if outcome.status == "awaiting_input":
        asked = tuple(_interrupt(question, calls[question.call_id]) for question in outcome.questions)
        paused = say.Interrupt(id=PAUSED, reason=INPUT_REQUIRED, message=outcome.detail, response_schema=TEXT)
        how = say.Interrupted(interrupts=asked or (paused,))
    elif outcome.status == "completed":
        how = say.Success()
    else:
        how = say.CancelledOutcome()
    result = None if isinstance(how, say.CancelledOutcome) else outcome
    return say.RunFinished(thread_id=thread_id, run_id=run_id, outcome=how, result=result, usage=used, timestamp=at)


def _interrupt(question: Question, call: str) -> say.Interrupt:
    confirms = question.confirms is not None
    more = {"confirms": question.confirms, "pending_issues": question.pending_issues}
    return say.Interrupt(
        id=question.call_id,
        reason=CONFIRMATION if confirms else INPUT_REQUIRED,
        message=question.text,
        tool_call_id=call,
        response_schema=YES_OR_TEXT if confirms else TEXT,
        metadata={"endstop": more} if confirms else None,
    )


class Used:
    """What each model used in one run."""

    def __init__(self) -> None:
        self._by_model: dict[str, Usage] = {}

    def add(self, model: str, usage: Usage | None) -> None:
        """One more attempt or verdict."""
        if usage is not None:
            self._by_model[model] = self._by_model.get(model, Usage()) + usage

    def told(self) -> tuple[say.TokenUsage, ...]:
        """One entry a model; none for what used nothing."""
        return tuple(
            say.TokenUsage(
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
