"""The state of a run as a fold of its events (`fold.py`): everything that a decision may look at.

Facts hold counters and the latest step, never the history. Control-flow signals come from this run's own events, so an
earlier run of the session cannot stop this one and compaction cannot delete them.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

from . import events as ev
from .compared_results import ComparedResult
from .cost import Price
from .failures import Failures
from .messages import FinishReason, ToolCall, Usage, is_blank
from .outcome import CutSavings, Question, SubagentUse
from .repetition import Repetitions
from .signatures import ShortSignatureMeta
from .step_history import StepKind
from .text_kinds import TEXT_KINDS, TextKind, classify_text
from .until_facts import CheckFacts, CheckSaid

Shape = Literal["none", "tool_results", "open_question", "text", "empty"]


class Facts(Struct, metaclass=ShortSignatureMeta, frozen=True, kw_only=True, gc=False):
    """The state of a run so far. Fields under "the latest step" are reset when the next step starts."""

    # the run
    run_id: str = ""
    session_id: str = ""
    t: int = 0
    """Milliseconds from the start of the run to the latest event that is not a stream part."""
    steps: int = 0
    rounds: int = 0
    inner_steps: int = 0
    """Steps of the current round."""
    requests: int = 0
    tool_calls: int = 0
    usage: Usage = Usage()
    """Tokens and cost of the run and of its sub-agents."""
    subagents: SubagentUse | None = None
    """The part of `usage` that sub-agents used; None if there was none."""
    saved: CutSavings | None = None
    """Output that the model did not write because its responses were cut; None if none was cut."""
    prices: dict[str, Price] = {}
    """Recorded prices by model; that of the run's own model also under an empty name."""
    context_tokens: int = 0
    """Tokens of the latest request and response together: the current size of the context."""
    compactions: int = 0
    cancelled: str | None = None
    carried_ms: int = 0
    """Milliseconds used by the paused run that this one continues."""
    before: ev.Carried = ev.Carried()
    """Usage of the earlier runs of the session."""
    reminded: tuple[str, ...] = ()
    """Limits that the model has been reminded of."""
    handled: str | None = None
    """The answer of an intent handler, given without calling the model."""

    # the latest step
    attempt: str = ""
    """The latest attempt, as shown in messages: `attempt 1.1 of gpt-4o`."""
    finish: FinishReason | None = None
    raw_finish: str = ""
    """The provider's own finish reason."""
    text: str = ""
    reasoned: bool = False
    resumable: bool = False
    """Whether the response can be sent back unchanged, without a new message, and its vendor continues from there."""
    calls: int = 0
    open_calls: tuple[ToolCall, ...] = ()
    """The calls of the latest response, until the step ends."""
    results: tuple[ev.ToolCallResult, ...] = ()
    """Results of the step, until it ends. Those of calls that only read may arrive before the response is complete."""
    answered: int = 0
    failed: int = 0
    invalid: int = 0
    truncated: bool = False
    cut_by: str | None = None
    rejection: str | None = None
    provider_error: str | None = None
    error_kind: str | None = None
    degenerate: str | None = None
    """The attempt that was cut because it repeated itself, and how, until another attempt replaces it. `text` is then
    the text before the repetition."""
    latest_text: str = ""
    """The latest text that the model wrote in any step of this run, without reasoning."""
    latest_text_partial: bool = False
    """Whether the response with `latest_text` was cut off or failed."""
    completion_text: str = ""
    """The text of the latest completion call, accepted or not."""
    completion_tools: tuple[str, ...] = ()
    """Names of the completion tools."""
    unclear: str = ""
    """What the user is told after a reply to a question that is neither yes nor no (`prompts.unclear`)."""
    compared: ComparedResult = "said"
    """What of a result is compared with earlier ones (`repetition.results`)."""
    tool_choice: str = "auto"
    """The `tool_choice` of every request: `auto`, `required` or `none`."""
    text_verdict: str | None = None
    """Verdict of the user's text rule: `final`, `nudge`, `default`, or what the text is (`text_kinds.py`)."""
    text_judged: TextKind | None = None
    """What the text was judged to be when the step ended; None before that, and in records of older versions."""
    refused: ev.BudgetRefused | None = None
    """Set when the next step was not made because a shared budget is used up."""
    limit_reached: ev.LimitReached | None = None
    """The hard limit that was reached during the step, or just before it, and cut it off."""
    judged: str | None = None
    """The judge's reason for calling the task complete."""
    subagent_runs: tuple[tuple[str, int], ...] = ()
    """Sub-agents that the step has started: id of each run, and number of its event up to which its usage is
    counted."""
    closing: bool = False
    """Whether this is the closing step after a limit."""

    # control flow
    accepted: str | None = None
    """Call id of the first accepted completion."""
    accepted_in_step: int = 0
    """The step in which it was accepted."""
    answer: str = ""
    pending_issues: tuple[str, ...] = ()
    accepted_by: tuple[str, ...] = ()
    """Who accepted the completion: gates and the judge by name, and `user`."""
    confirmed: str | None = None
    """Call id of the completion that the user was asked to confirm; set once the user has answered."""
    failures: Failures = Failures()
    """Failed calls that no later success made up for, until a completion was accepted."""
    rejections: int = 0
    """Completions that were rejected, except by the user."""
    rejections_in_vain: int = 0
    """Rejected completions in a row between which no step changed the work or brought news."""
    rejected_at: int = 0
    """The step of the latest of these."""
    questions: tuple[Question, ...] = ()
    phases: tuple[dict[str, Any], ...] = ()

    check: CheckFacts | None = None
    """What the user's check of the work has said; None for a run without one."""

    # counted in a row
    empty_answers: int = 0
    truncations: int = 0
    refusals: int = 0
    unfinished: int = 0
    """Responses without calls whose finish reason is neither a success nor a limit or filter."""
    invalid_steps: int = 0
    monologue: int = 0
    """Steps without any tool call."""
    same_texts: int = 0
    """Steps without any tool call that said the same text; 1 is the first time."""
    repetitions: Repetitions = Repetitions()
    brought: StepKind = "none"
    """Kind of the latest step. `StepJudge` has written it into STEP_FINISHED."""
    stalled: int = 0
    """Points of the run: steps that bring nothing new add some, others take some away (`step_history.POINTS`)."""
    progressed: int = 0
    """The latest step that changed the work or brought news (`step_history.PROGRESS`); 0 if none did."""
    grants: ev.Grants = ev.Grants()
    """What was granted beyond the limit of steps."""
    stalled_before: int = 0
    """The points of the run before the latest step."""
    points: tuple[int, ...] = ()
    """The points of the run after each of its latest steps, `REMEMBERED_POINTS` at most, the newest last."""
    same_results: int = 0
    """Steps in a row in which the same tools gave the same results, whatever their arguments were."""
    claims: int = 0
    """Steps in a row that reported the work as done and went on with calls that changed nothing."""
    compactions_in_vain: int = 0
    overflows: int = 0
    """Requests that the provider rejected because the context was too large."""

    @property
    def repeats(self) -> int:
        """How often the latest steps made the same calls with the same results, cycles included."""
        return self.repetitions.times()

    @property
    def repeated_calls(self) -> int:
        """How often the latest steps made the same calls, whatever the results, cycles included."""
        return self.repetitions.times(by="calls")

    @property
    def check_said(self) -> CheckSaid | None:
        """The newest answer of the user's check; None without one, or before it."""
        return None if self.check is None else self.check.said

    @property
    def check_in_vain(self) -> int:
        """Answers of the user's check in a row that were no better than before."""
        return 0 if self.check is None else self.check.in_vain

    @property
    def blocked(self) -> str | None:
        """The model's accepted reason why the task cannot be done."""
        return None if self.check is None else self.check.blocked

    @property
    def text_kind(self) -> TextKind | None:
        """What the latest response says, if it has text and no calls. The user's text rule comes before the words.

        Once the step has ended, this is what was recorded then, even if the text or the phrases have changed since.
        """
        if self.shape != "text":
            return None
        if self.text_judged is not None:
            return self.text_judged
        if self.text_verdict == "final":
            return "answer"
        if self.text_verdict in TEXT_KINDS:
            return cast(TextKind, self.text_verdict)
        return classify_text(self.text)

    def answered_calls(self) -> list[tuple[ToolCall, ev.ToolCallResult]]:
        """Return each call of the current step that has a result, with its result, in the order of the calls."""
        by_id = {result.call_id: result for result in self.results}
        return [(call, by_id[call.id]) for call in self.open_calls if call.id in by_id]

    @property
    def shape(self) -> Shape:
        """The kind of the latest step's last message, whatever its finish reason says."""
        if self.finish is None:
            return "none"
        if self.calls:
            return "open_question" if self.questions else "tool_results"
        return "empty" if is_blank(self.text) else "text"


def usage_of(facts: Facts) -> ev.Carried:
    """Return what a run has used, for the run that continues it."""
    return ev.Carried(
        steps=facts.steps,
        rounds=facts.rounds,
        requests=facts.requests,
        tool_calls=facts.tool_calls,
        rejections=facts.rejections,
        usage=facts.usage,
        subagents=facts.subagents,
        saved=facts.saved,
        elapsed_ms=facts.t + facts.carried_ms,
        reminded=facts.reminded,
        grants=facts.grants,
        phases=facts.phases,
        questions=facts.questions,
        context_tokens=facts.context_tokens,
    )


def add_usage(one: ev.Carried, other: ev.Carried) -> ev.Carried:
    """Return the sum of two usages, for limits of the session."""
    return ev.Carried(
        steps=one.steps + other.steps,
        rounds=one.rounds + other.rounds,
        requests=one.requests + other.requests,
        tool_calls=one.tool_calls + other.tool_calls,
        usage=one.usage + other.usage,
        elapsed_ms=one.elapsed_ms + other.elapsed_ms,
        context_tokens=other.context_tokens,
    )
