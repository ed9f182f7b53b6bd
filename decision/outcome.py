"""How a run ended: three axes that never mix (why it stopped, what it used, whether the work was good)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .messages import Usage

Status = Literal["completed", "awaiting_input", "exhausted", "failed", "cancelled"]
Verdict = Literal["not_run", "passed", "failed"]

STATUS_OF: dict[str, Status] = {
    "completed": "completed",
    "text_final": "completed",
    "judged": "completed",
    "handled": "completed",
    "awaiting_input": "awaiting_input",
    "step_limit": "exhausted",
    "token_limit": "exhausted",
    "cost_limit": "exhausted",
    "time_limit": "exhausted",
    "tool_call_limit": "exhausted",
    "stuck": "exhausted",
    "compaction_stalled": "exhausted",
    "completion_rejected": "exhausted",
    "no_answer": "exhausted",
    "invalid_calls": "exhausted",
    "refusal": "failed",
    "provider_error": "failed",
    "internal_error": "failed",
    "cancelled": "cancelled",
}
"""The one table from stop reason to status. A user's own rule names `custom:<name>` and brings its status."""


class LimitUse(Struct, frozen=True, kw_only=True):
    """One limit in the outcome, under its name. Units follow the name: steps, tokens, usd, seconds."""

    used: int | float
    allowed: int | float
    soft: bool = False


class Question(Struct, frozen=True):
    """A question to the user that waits for an answer under its call id."""

    call_id: str
    text: str
    confirms: str | None = None
    """If it asks to confirm a completion: the answer that is then accepted."""
    pending_issues: tuple[str, ...] = ()
    percentage: int | None = None
    """If that completion reports phases: its own."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The one result of a run."""

    run_id: str
    session_id: str
    status: Status
    stop_reason: str
    """A key of `STATUS_OF`, or `custom:<name>`."""
    detail: str = ""
    """The stop reason in a sentence: what happened, where, what to do."""
    answer: str = ""
    steps: int = 0
    rounds: int = 0
    requests: int = 0
    """Attempts made at model requests, retries included."""
    usage: Usage = Usage()
    limits: dict[str, LimitUse] = {}
    exceeded_limit: bool = False
    verdict: Verdict = "not_run"
    evaluation: dict[str, Any] | None = None
    phases: tuple[dict[str, Any], ...] = ()
    """What a completion tool reported on the way (`completion_percentage`, `next_phase`, `summary`)."""
    pending_issues: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    """Open questions, when the status is `awaiting_input`."""
    duration_ms: int = 0
