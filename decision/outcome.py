"""How a run ended: three axes that never mix (why it stopped, what it used, whether the work was good)."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from .messages import Usage

Status = Literal["completed", "awaiting_input", "exhausted", "failed", "cancelled"]
Verdict = Literal["not_run", "passed", "failed"]
Work = Literal["said", "checked", "wrong"]
"""What is known of a run's work. `said`: it was reported as done, and no evaluation has looked. `checked`: an
evaluation passed it. `wrong`: an evaluation failed it."""

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
    "degenerate": "exhausted",
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


def derive_work(status: Status | None, verdict: Verdict) -> Work | None:
    """What is known of the work of a run that ended so; None if nobody even said that it was done."""
    if verdict == "not_run":
        return "said" if status == "completed" else None
    return "checked" if verdict == "passed" else "wrong"


AnswerFrom = Literal["", "completion", "handler", "text", "closing", "latest_text", "partial_text", "not_accepted"]
"""Where an answer comes from. `completion`: the accepted completion's summary. `handler`: a handler answered, without
the model. `text`: the plain text that ended the run. `closing`: what the model summed up in the closing step.
Whatever else the model wrote last in this run stands in where none of these is there: `latest_text` is a whole
response's, `partial_text` of one that was cut off or failed, `not_accepted` the summary of a completion that was handed
back. Empty: the model wrote no text, or the record is older."""


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
    unclear: int = 0
    """How often it was answered with neither yes nor no, and asked again."""


_AGAIN = "That was neither a yes nor a no. "


def ask_again(question: Question) -> Question:
    """The question after a reply that is neither yes nor no."""
    text = question.text if question.text.startswith(_AGAIN) else _AGAIN + question.text
    return replace(question, text=text, unclear=question.unclear + 1)


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
    """The result in words. It is empty only if the model wrote no text in this run, whatever ended it."""
    answer_from: AnswerFrom = ""
    """What the answer is."""
    steps: int = 0
    rounds: int = 0
    requests: int = 0
    """Attempts made at model requests, retries included."""
    usage: Usage = Usage()
    limits: dict[str, LimitUse] = {}
    exceeded_limit: bool = False
    """Whether a limit ended the run, or more was used than one allows, hard or soft, whatever ended the run."""
    verdict: Verdict = "not_run"
    work: Work | None = None
    """What is known of the work. Always what status and verdict make of it, whatever is given here."""
    accepted_by: tuple[str, ...] = ()
    """Who accepted the completion, if somebody was asked: gates and the judge by name, and `user`. None of them is an
    evaluation: its verdict stands in `verdict`."""
    failed_calls: tuple[str, ...] = ()
    """Tools whose calls failed before the work was reported as done, with no success after them (`failures.py`)."""
    evaluation: dict[str, Any] | None = None
    phases: tuple[dict[str, Any], ...] = ()
    """What a completion tool reported on the way (`completion_percentage`, `next_phase`, `summary`)."""
    pending_issues: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    """Open questions, when the status is `awaiting_input`."""
    duration_ms: int = 0

    def __post_init__(self) -> None:
        """Derive `work`, so that it is there in outcomes of older records, too, and never contradicts the verdict."""
        force_setattr(self, "work", derive_work(self.status, self.verdict))
