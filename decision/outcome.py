"""The outcome of a run, on three independent axes: why it stopped, what it used, and whether the work was good."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import force_setattr, replace

from .errors import WrongUse
from .messages import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=Any)
    """The type of a run's output; a bare `Outcome` or `Engine` in an annotation stands for any."""
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

Status = Literal["completed", "awaiting_input", "exhausted", "failed", "cancelled"]
Verdict = Literal["not_run", "passed", "failed"]
Work = Literal["said", "checked", "wrong"]
"""What is known about a run's work. `said`: reported as done, not evaluated. `checked`: an evaluation passed it.
`wrong`: an evaluation failed it."""

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
"""Status of a run by stop reason. A user's own rule may stop with `custom:<name>` and a status of its own."""


def derive_work(status: Status | None, verdict: Verdict) -> Work | None:
    """What is known about the work of a run; None if it was neither reported as done nor evaluated."""
    if verdict == "not_run":
        return "said" if status == "completed" else None
    return "checked" if verdict == "passed" else "wrong"


AnswerFrom = Literal["", "completion", "handler", "text", "closing", "latest_text", "partial_text", "not_accepted"]
"""Where an answer comes from. `completion`: the accepted completion's summary. `handler`: an intent handler, without
the model. `text`: the plain text that ended the run. `closing`: the summary of the closing step. Without any of these
it is the last text of the run: `latest_text` from a complete response, `partial_text` from one that was cut off or
failed, `not_accepted` from a completion that was rejected, or a text given again and again that ends nothing. Empty:
the model wrote no text, or the record is older."""

StageStatus = Literal["ok", "failed", "skipped", "absent", "exhausted", "awaiting_input", "cancelled"]
"""`skipped`: does not apply to a run with this outcome. `absent`: the caller provided no function for it."""

RUN_STAGE_STATUS: dict[Status, StageStatus] = {
    "completed": "ok",
    "exhausted": "exhausted",
    "failed": "failed",
    "awaiting_input": "awaiting_input",
    "cancelled": "cancelled",
}
"""Status of the stage `run`, by the status of the run."""


class LimitUse(Struct, frozen=True, kw_only=True):
    """How much of one limit was used. The unit follows from the limit's name: steps, tokens, usd, seconds."""

    used: int | float
    allowed: int | float
    soft: bool = False


class Question(Struct, frozen=True):
    """A question to the user, answered under its call id. With a `tool`, it asks to approve a call of that tool."""

    call_id: str
    text: str
    confirms: str | None = None
    """For a question that asks to confirm a completion: the answer that is then accepted."""
    pending_issues: tuple[str, ...] = ()
    percentage: int | None = None
    """The completion percentage, if that completion reports one."""
    unclear: int = 0
    """How often it was asked again because the reply was neither yes nor no."""
    tool: str | None = None
    """For a call that waits for approval: the name of its tool."""
    arguments: dict[str, Any] | None = None
    """For a call that waits for approval: the arguments that the model gave it, as plain JSON values."""
    expires_at: str = ""
    """For a call that waits for approval: the time after which it counts as denied (ISO 8601); empty: never."""


_AGAIN = "That was neither a yes nor a no. "


def ask_again(question: Question) -> Question:
    """The question to ask after a reply that is neither yes nor no."""
    text = question.text if question.text.startswith(_AGAIN) else _AGAIN + question.text
    return replace(question, text=text, unclear=question.unclear + 1)


class SubagentUse(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the sub-agents of a run have used, theirs included."""

    runs: int = 0
    """How many the run itself has started."""
    requests: int = 0
    usage: Usage = Usage()


class CutOff(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model wrote after its response was cut.

    It is read only in a session with `drain=True`, for the record.
    """

    output_tokens: int = 0
    """Estimated at 4 characters per token."""
    calls: tuple[str, ...] = ()
    """Names of the tools called after the cut."""
    whole: bool = True
    """False if the rest of the response was not read to its end."""


class CutSavings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model did not write, because its responses were cut at a completion call."""

    cuts: int = 0
    """Responses that were cut before they had ended."""
    measured: int = 0
    """Those of which the rest was read (`drain`), so that it was paid for after all; the figures below are theirs."""
    output_tokens: int = 0
    """Estimated at 4 characters per token."""
    calls: int = 0
    """Tool calls that would have followed."""

    def __add__(self, other: CutSavings | None) -> CutSavings:
        if other is None:
            return self
        return CutSavings(
            cuts=self.cuts + other.cuts,
            measured=self.measured + other.measured,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
        )

    @property
    def estimated_tokens(self) -> int | None:
        """The output tokens that all cuts saved, if the others saved what the measured ones did on average.

        None if there was a cut and none is measured.
        """
        if not self.measured:
            return None if self.cuts else 0
        return round(self.output_tokens * self.cuts / self.measured)

    def __str__(self) -> str:
        tokens = self.estimated_tokens
        if tokens is None:
            return f"? ({self.cuts} cut)"
        return f"{tokens:,}" if self.measured == self.cuts else f"about {tokens:,}"


class Outcome(Struct, Generic[OutputT], frozen=True, kw_only=True, dict=True):
    """The result of a run."""

    run_id: str
    session_id: str
    status: Status
    stop_reason: str
    """A key of `STATUS_OF`, or `custom:<name>`."""
    detail: str = ""
    """What happened, where, and what to do, in a sentence."""
    answer: str = ""
    """The result as text. Empty only if the model wrote no text in this run."""
    answer_from: AnswerFrom = ""
    """Where the answer comes from."""
    steps: int = 0
    rounds: int = 0
    requests: int = 0
    """Model requests, retries included; those of sub-agents are in `subagents`."""
    usage: Usage = Usage()
    """Tokens and cost of the run and of its sub-agents."""
    subagents: SubagentUse | None = None
    """The part of `usage` that sub-agents used; None if none was started."""
    saved: CutSavings | None = None
    """What cuts of this run's own responses saved; None if none was cut."""
    limits: dict[str, LimitUse] = {}
    exceeded_limit: bool = False
    """Whether a limit ended the run, or any hard or soft limit was exceeded."""
    verdict: Verdict = "not_run"
    work: Work | None = None
    """What is known about the work. Always derived from status and verdict; a value given here is ignored."""
    accepted_by: tuple[str, ...] = ()
    """Who accepted the completion: gates and the judge by name, and `user`. An evaluation is in `verdict` instead."""
    failed_calls: tuple[str, ...] = ()
    """Tools whose calls failed before the work was reported as done, with no success after them (`failures.py`)."""
    evaluation: dict[str, Any] | None = None
    phases: tuple[dict[str, Any], ...] = ()
    """Progress reported by a completion tool (`completion_percentage`, `next_phase`, `summary`)."""
    pending_issues: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    """Open questions, when the status is `awaiting_input`."""
    duration_ms: int = 0

    def __post_init__(self) -> None:
        """Derive `work`: outcomes of older records get it too, and it never contradicts the verdict."""
        force_setattr(self, "work", derive_work(self.status, self.verdict))

    def to_dict(self) -> dict[str, Any]:
        """The outcome as plain JSON data: what the server answers to `GET /runs/RUN/outcome`.

        With `Engine(output=...)`, a run that has completed has its output there, too: what `answer` says as JSON.
        What JSON cannot express becomes its `repr`, and a number that is none (NaN, infinity) None.
        """
        text = json.dumps(to_builtins(self, str_keys=True, enc_hook=repr))
        data: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
        if self._has_output():
            data["output"] = json.loads(self.answer)
        return data

    def _has_output(self) -> bool:
        """Whether there is an output other than the answer itself. One that was redacted in a record may be none."""
        try:
            return _READ in self.__dict__ and self.status == "completed" and self.output is not self.answer
        except WrongUse:
            return False

    @property
    def output(self) -> OutputT:
        """The result as `Engine(output=...)` wants it, read from `answer`; without such an engine the answer itself.

        Raises WrongUse for a run that has not completed, and for an answer that is no such output.
        """
        if self.status != "completed":
            raise WrongUse(
                f"run {self.run_id} is {self.status} ({self.stop_reason}) and has no output: look at "
                "`outcome.status` first; `outcome.answer` has what the model wrote"
            )
        kept = self.__dict__
        if _OUTPUT not in kept:
            kept[_OUTPUT] = kept[_READ](self.answer) if _READ in kept else self.answer
        output: OutputT = kept[_OUTPUT]
        return output

    def reading_output(self, read: Callable[[str], OutputT]) -> Outcome[OutputT]:
        """The same outcome, whose `output` is what `read` makes of the answer. It is no field: no record holds it."""
        outcome = replace(self)
        outcome.__dict__[_READ] = read
        return outcome


_READ, _OUTPUT = "_read", "_output"
