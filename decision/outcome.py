"""The outcome of a run, on three independent axes: why it stopped, what it used, and whether the work was good."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import force_setattr, replace

from .errors import WrongUse
from .messages import Name, Text, Usage
from .wrong_attributes import Refused, explained_attributes
from .wrong_calls import ExplainedStruct

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    OutputT = TypeVar("OutputT", default=Any)
    """Type of `Outcome.output`. An annotation without it, such as `Outcome` or `Engine`, allows any type."""
else:
    from typing import TypeVar

    OutputT = TypeVar("OutputT")

Status = Literal["completed", "awaiting_input", "exhausted", "failed", "cancelled"]
"""How a run ended; `STATUS_OF` has the stop reasons of each status."""
EvaluationVerdict = Literal["not_run", "passed", "failed"]
"""What an evaluation said of a run's work."""
Work = Literal["said", "checked", "wrong"]
"""What is known about a run's work. `said`: reported as done, not evaluated. `checked`: an evaluation passed it.
`wrong`: an evaluation failed it."""

STATUS_OF: dict[str, Status] = {
    "completed": "completed",
    "text_final": "completed",
    "judged": "completed",
    "handled": "completed",
    "until_met": "completed",
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
    "until_stalled": "exhausted",
    "blocked": "exhausted",
    "refusal": "failed",
    "provider_error": "failed",
    "internal_error": "failed",
    "cancelled": "cancelled",
}
"""Status of a run by stop reason. A user's rule may stop with `custom:<name>` and its own status."""


def derive_work(status: Status | None, verdict: EvaluationVerdict) -> Work | None:
    """Return what is known about the work of a run; None if it was neither reported as done nor evaluated."""
    if verdict == "not_run":
        return "said" if status == "completed" else None
    return "checked" if verdict == "passed" else "wrong"


OUTPUT_TOOL = "final_result"
"""Name of the completion tool of an engine with an output type."""
OUTPUT_ARGUMENT = "result"
"""Name of that tool's argument for an output that is not a JSON object."""

AnswerFrom = Literal["", "completion", "handler", "text", "closing", "latest_text", "partial_text", "not_accepted"]
"""Source of an answer. `completion`: the accepted completion's summary. `handler`: an intent handler, without the
model. `text`: the plain text that ended the run. `closing`: the summary of the closing step. Without any of these, the
answer is the last text of the run: `latest_text` from a complete response, `partial_text` from one that was cut off or
failed, `not_accepted` from a completion that was rejected (with an output type, all of its value as JSON), or a
repeated text that does not end the run. Empty: the model wrote no text, or the record is older."""

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


@explained_attributes
class LimitUse(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """How much of one limit was used. The unit follows from the limit's name: steps, tokens, usd, seconds."""

    used: int | float
    allowed: int | float
    soft: bool = False


class Asker(ExplainedStruct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """The sub-agent that asks a question which its caller passes on to the user."""

    call_id: Name
    """The call of the run itself that runs the sub-agent. It continues once all its questions are answered."""
    session_id: str
    run_id: str
    """The run of the sub-agent that paused with the question."""
    names: tuple[Name, ...]
    """Names of the tools that are sub-agents, from the run's own down to the one that asks."""


@explained_attributes
class Question(ExplainedStruct, frozen=True, repr_omit_defaults=True):
    """A question to the user, answered under its call id.

    `session.answer(question.call_id, "yes")`, or `session.approve(question.call_id)` for a call that waits.
    With a `tool`, it asks to approve a call of that tool; with `extends`, whether the run may make more steps.

    call_id: the id of the call that waits. text: what is asked.
    tool, arguments, expires_at: of a call that waits for approval, its tool, what the model gave it, and the time (ISO
        8601) after which it counts as denied.
    confirms, pending_issues, percentage: of a completion to confirm, its answer, what is open, and how much is done.
    extends: the number of steps that the run asks for. asker: the sub-agent that asks; None for the run itself.
    unclear: how often it was asked again because the reply was neither yes nor no.
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __getitem__ = Refused("Question", "[]")

    call_id: Name
    """The call that waits; a separate id if none does (`extends`). For a question of a sub-agent it begins with the
    run's own call: `CALL/CALL OF THE SUB-AGENT`, and so on for nested ones."""
    text: Text
    confirms: Text | None = None
    """For a question that asks to confirm a completion: the answer that is then accepted."""
    pending_issues: tuple[Text, ...] = ()
    percentage: int | None = None
    """The completion percentage, if that completion reports one."""
    unclear: int = 0
    """Number of times it was asked again because the reply was neither yes nor no."""
    tool: Name | None = None
    """For a call that waits for approval: the name of its tool."""
    arguments: dict[str, Any] | None = None
    """For a call that waits for approval: the arguments that the model gave it, as plain JSON values."""
    expires_at: str = ""
    """For a call that waits for approval: time after which it counts as denied (ISO 8601); empty: never."""
    asker: Asker | None = None
    """For a question of a sub-agent: which one asks. None: the run itself."""
    extends: int = 0
    """For the question whether the run may make more steps than its limit: the number it proposes. The answer is a
    whole number of steps, a yes for the proposed number, or a no, which ends the run."""

    def __hash__(self) -> int:
        return hash((self.call_id, self.text))  # its arguments have none

    @property
    def wants_yes_or_no(self) -> bool:
        """Whether the answer is a yes or a no, as opposed to any text."""
        return self.confirms is not None or self.tool is not None or self.extends > 0

    @property
    def is_about_limit(self) -> bool:
        """Whether the run itself asks for more steps, so that no call waits for the answer."""
        return self.extends > 0 and self.asker is None

    @property
    def waiting_call(self) -> str:
        """The call of the run itself that waits for the answer."""
        return self.call_id if self.asker is None else self.asker.call_id

    @property
    def lets_call_run(self) -> bool:
        """Whether the answer lets the waiting call run or continue; otherwise the answer is the result of the call."""
        return self.tool is not None or self.asker is not None


def ask_again(question: Question, unclear: str) -> Question:
    """Return the question to ask after an unclear reply. unclear: text said before it, once."""
    text = question.text if question.unclear or not unclear else f"{unclear} {question.text}"
    return replace(question, text=text, unclear=question.unclear + 1)


class SubagentUse(ExplainedStruct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Usage of all sub-agents of a run together, including nested sub-agents."""

    runs: int = 0
    """Number of sub-agents that the run itself has started."""
    requests: int = 0
    """Model requests, retries included."""
    usage: Usage = Usage()


class CutOff(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the model wrote after its response was cut.

    The rest of a response is read only in a session with `drain=True`, for the record.
    """

    output_tokens: int = 0
    """Estimated at 4 characters per token."""
    calls: tuple[Name, ...] = ()
    """Names of the tools called after the cut."""
    whole: bool = True
    """False if the rest of the response was not read to its end."""


class CutSavings(ExplainedStruct, frozen=True, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """Output that the model did not write because its responses were cut at a completion call."""

    cuts: int = 0
    """Number of responses that were cut before they had ended."""
    measured: int = 0
    """Number of these whose rest was read, and so paid for, to measure it (`drain`). The figures below count only what
    these responses contain after the cut."""
    output_tokens: int = 0
    """Estimated at 4 characters per token."""
    calls: int = 0
    """Number of tool calls after the cut."""
    priced: int = 0
    """Number of cut responses whose model has a known price."""
    measured_priced: int = 0
    """Number of these whose rest was read."""
    cost_usd: float = 0.0
    """Price of the output tokens of these."""

    def __add__(self, other: CutSavings | None) -> CutSavings:
        if other is None:
            return self
        return CutSavings(
            cuts=self.cuts + other.cuts,
            measured=self.measured + other.measured,
            output_tokens=self.output_tokens + other.output_tokens,
            calls=self.calls + other.calls,
            priced=self.priced + other.priced,
            measured_priced=self.measured_priced + other.measured_priced,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def estimated_tokens(self) -> int | None:
        """Output tokens that all cuts saved, if each saved as many as the measured ones did on average.

        None if there was a cut and none was measured.
        """
        if not self.measured:
            return None if self.cuts else 0
        return round(self.output_tokens * self.cuts / self.measured)

    @property
    def estimated_cost_usd(self) -> float | None:
        """US dollars that all cuts at a known price saved, estimated like the tokens.

        None if no cut at a known price was measured.
        """
        return self.cost_usd * self.priced / self.measured_priced if self.measured_priced else None

    def __str__(self) -> str:
        tokens, cost = self.estimated_tokens, self.estimated_cost_usd
        if tokens is None:
            return f"? ({self.cuts} cut)"
        money = "" if cost is None else f" (${cost:.4f}{'+' if self.priced < self.cuts else ''})"
        return f"{'' if self.measured == self.cuts else 'about '}{tokens:,}{money}"


@explained_attributes
class Outcome(ExplainedStruct, Generic[OutputT], frozen=True, kw_only=True, dict=True, repr_omit_defaults=True):
    """The result of a run.

    output: the result, in the type of `Engine(output=...)`. answer: the result as a text.
    status, stop_reason, detail: how the run ended (`completed`, `awaiting_input`, `exhausted`, `failed`, `cancelled`),
        by which rule, and what happened, where and what to do.
    questions: what the user is asked, if the status is `awaiting_input`; `session.answer` or `approve` goes on.
    steps, requests, duration_ms, usage, limits: what it used, with that of its `subagents`, and how much of each limit.
    verdict, work, accepted_by, checked_by, evaluation: what is known about the work, and who looked at it.
    run_id, session_id: ids of the run, and of the conversation that it belongs to.
    `to_dict()` returns it as plain JSON data. `str(outcome)` says in short how the run ended, and with what.
    """

    if not TYPE_CHECKING:  # type checkers refuse these uses themselves
        __await__ = Refused("Outcome", "await")
        __iter__ = Refused("Outcome", "for")
        __aiter__ = Refused("Outcome", "async for")
        __getitem__ = Refused("Outcome", "[]")

    run_id: str
    """Id of the run, unique everywhere."""
    session_id: str
    """Id of its session: the conversation that it belongs to."""
    status: Status
    """How the run ended: `completed`, `awaiting_input`, `exhausted`, `failed` or `cancelled`."""
    stop_reason: str
    """A key of `STATUS_OF`, or `custom:<name>`."""
    detail: Text = ""
    """What happened, where, and what to do, in one sentence."""
    never_started: bool = False
    """Whether a mistake of use ended the run before its first request, such as a check that cannot be executed."""
    answer: Text = ""
    """The result as text, with an output type as JSON. Of a run that has not completed, what the model wrote last:
    `answer_from` says whether that is a text or a result that was not accepted. Empty only if it wrote neither."""
    answer_from: AnswerFrom = ""
    """Where the answer comes from."""
    steps: int = 0
    """Model steps: responses, with their calls."""
    rounds: int = 0
    """Rounds of steps, after each of which the policy decided."""
    requests: int = 0
    """Model requests, retries included; those of sub-agents are in `subagents`."""
    usage: Usage = Usage()
    """Tokens and cost of the run and of its sub-agents."""
    subagents: SubagentUse | None = None
    """The part of `usage` that sub-agents used; None if none was started."""
    saved: CutSavings | None = None
    """Output that cuts of this run's own responses saved; None if none was cut."""
    limits: dict[str, LimitUse] = {}
    """How much of each limit that is set was used, by its name."""
    exceeded_limit: bool = False
    """Whether a limit ended the run, or any hard or soft limit was exceeded."""
    verdict: EvaluationVerdict = "not_run"
    """What the evaluation or the check said of the work: `passed`, `failed`, or `not_run`."""
    work: Work | None = None
    """What is known about the work. Always derived from status and verdict; a given value is ignored."""
    accepted_by: tuple[Text, ...] = ()
    """Who accepted the completion, in their order: each gate and the judge as the record names them
    (`module:function`), and `user` for a confirmation. Empty if there is none of these, or if the run has not
    completed. A check of `until` is in `checked_by`, an evaluation in `verdict`."""
    failed_calls: tuple[Name, ...] = ()
    """Tools whose calls failed before the work was reported as done, with no success after them (`failures.py`)."""
    evaluation: dict[str, Any] | None = None
    """Details that the evaluation gave, as JSON values; None without one."""
    checked_by: Text = ""
    """The check (`until`) whose last answer is the verdict; empty without one, or if an evaluation replaced it."""
    judged_by: Name = ""
    """The model that judged the work, if the check asks one; the work is then only `said`."""
    check_score: float | None = None
    """The last score of the check; None without one."""
    check_of: float | None = None
    """The most that the score can be; None if that is not known."""
    guard_changed: tuple[Text, ...] = ()
    """Files that the check stands on and that the agent changed: the check passes only with the changed ones."""
    phases: tuple[dict[str, Any], ...] = ()
    """Progress reported by a completion tool (`completion_percentage`, `next_phase`, `summary`)."""
    pending_issues: tuple[Text, ...] = ()
    """What the completion left open, one text each."""
    questions: tuple[Question, ...] = ()
    """Open questions, when the status is `awaiting_input`."""
    duration_ms: int = 0
    """Milliseconds from the start of the run to its end."""

    def __post_init__(self) -> None:
        """Derive `work`, so that outcomes of older records have it too, and it never contradicts the verdict."""
        force_setattr(self, "work", derive_work(self.status, self.verdict))

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain JSON data, as the server does for `GET /runs/RUN/outcome`.

        With `Engine(output=...)`, a completed run also has `output`, decoded from the JSON in `answer`. A value that
        JSON cannot express becomes its `repr`; NaN and infinity become None.
        """
        text = json.dumps(to_builtins(self, str_keys=True, enc_hook=repr))
        data: dict[str, Any] = json.loads(text, parse_constant=lambda name: None)
        if self._has_output():
            data["output"] = json.loads(self.answer)
        return data

    def _has_output(self) -> bool:
        """Return whether the output differs from the answer. False if the answer cannot be read, as if redacted."""
        try:
            return _READ in self.__dict__ and self.status == "completed" and self.output is not self.answer
        except WrongUse:
            return False

    @property
    def output(self) -> OutputT:
        """The result in the type of `Engine(output=...)`, read from `answer`; without a type, `answer` itself.

        Raises WrongUse if the run has not completed, or if the answer cannot be read as that type.
        """
        if self.status != "completed":
            raise WrongUse(self._why_no_output())
        kept = self.__dict__
        if _OUTPUT not in kept:
            kept[_OUTPUT] = kept[_READ](self.answer) if _READ in kept else self.answer
        output: OutputT = kept[_OUTPUT]
        return output

    def _why_no_output(self) -> str:
        """Return why there is no output, and where to look instead."""
        reason = ": ".join(filter(None, (self.stop_reason, self.detail)))
        kind, found = (self.__dict__.get(name) for name in (_KIND, _WHY))
        said = f"run {self.run_id} is {self.status} ({reason}) and has no output{f' of type {kind}' if kind else ''}"
        if found:
            said += f" ({found.rstrip('.')})"
        if self.questions:
            said += f": it asks {self.questions[0].text!r}, so answer `outcome.questions`"
        if not self.answer:
            return f"{said}: look at `outcome.status` first; the model wrote no answer"
        source = f" ({self.answer_from})" if self.answer_from else ""
        return f"{said}: look at `outcome.status` first; `outcome.answer` has what the model wrote{source}"

    def __str__(self) -> str:
        """Return in short how the run ended, and with what: its output, or why there is none."""
        if self.status != "completed":
            return f"{self._why_no_output()}{': ' + repr(self.answer) if self.answer else ''}"
        try:
            return f"run {self.run_id} is completed ({self.stop_reason}): {self.output!r}"
        except WrongUse as error:
            return f"run {self.run_id} is completed ({self.stop_reason}), and {error}: {self.answer!r}"

    def reading_output(self, read: Callable[[str], OutputT], kind: str = "", why: str = "") -> Outcome[OutputT]:
        """Return a copy whose `output` is `read(answer)`. The output is not a field, so it is not recorded.

        kind: the type's name. why: for a run that has not completed, what became of the model's last output.
        """
        outcome = replace(self)
        outcome.__dict__.update({_READ: read, _KIND: kind, _WHY: why})
        return outcome


_READ, _OUTPUT, _KIND, _WHY = "_read", "_output", "_kind", "_why"
