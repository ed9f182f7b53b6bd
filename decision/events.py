"""What happened: the one union of events. The event log is the truth; all else is a fold of it.

Every event is frozen, numbered (`seq`, from 1 in each run) and dated (`t`, milliseconds since the run began), and
is one line of JSON under its `type`. Stream parts bear AG-UI's names (docs.ag-ui.com/concepts/events); an event
without a counterpart there goes out as AG-UI's CUSTOM. Whatever `decide` or the engine does not compute itself
stands here, so that a record can be folded and replayed without the world it was made in.

The format is decided once: an event may gain optional fields, and new events may come; a field never changes its
meaning. Events that no part emits yet (marked "reserved") hold their place for the parts to come.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from .cost import Price
from .decisions import Decision
from .messages import AssistantMessage, FinishReason, Image, Message, ResultStatus, ToolSpec, Usage
from .outcome import Outcome, Question, Verdict
from .policy import Policy


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    seq: int = 0
    t: int = 0


# ---- the run


class RunStarted(_Event, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A run begins. It carries all that a reader needs to understand what follows."""

    run_id: str
    session_id: str
    prompt: str | None = None
    """The user's message; None if the run only goes on after an answer."""
    system: str = ""
    model: str = ""
    policy: Policy
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: str = "auto"
    settings: dict[str, Any] = {}
    """What every request passes to the provider, such as `temperature`."""
    finish_words: dict[str, FinishReason] = {}
    """What words of the provider's were taught to mean, beside those of the table."""
    endpoint: str = ""
    """Where the provider reaches its model, if that was set by hand; without user, password and query."""
    prices: dict[str, Price] = {}
    """What the run's costs are reckoned by, by model; empty where no price is known, or in older records."""
    functions: dict[str, tuple[str, ...]] = {}
    """The user functions that had a say, by role (`gate`, `judge`, ...) and qualified name."""
    continues: str | None = None
    """The paused run that this one goes on from; its used limits are in `carried`."""
    carried: Carried | None = None
    before: Carried | None = None
    """What the session's runs before this one had used, for limits of the session."""
    started_at: str = ""
    """Wall-clock time, ISO 8601 in UTC."""
    engine: str = ""
    """Version of endstop that wrote this."""


class Carried(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a paused run had used when its question was asked."""

    steps: int = 0
    rounds: int = 0
    requests: int = 0
    tool_calls: int = 0
    rejections: int = 0
    usage: Usage = Usage()
    elapsed_ms: int = 0
    reminded: tuple[str, ...] = ()
    phases: tuple[dict[str, Any], ...] = ()
    questions: tuple[Question, ...] = ()
    """Questions that are still open; the answer to one of them begins the run."""
    context_tokens: int = 0
    """Size of the context at its end: if it is too large, it is compacted before the next request."""


class RunResumed(_Event, frozen=True, kw_only=True, tag="RUN_RESUMED"):
    """A run whose process was killed goes on under its own id."""

    interrupted_step: int | None = None
    """The step whose response never came whole; it is requested again and not counted twice."""


class MessageAdded(_Event, frozen=True, kw_only=True, tag="MESSAGE_ADDED"):
    """A message in the user's role that is not the prompt: from the user, or from the loop itself.

    An ephemeral one is shown to the model once and never becomes part of the transcript.
    """

    text: str
    origin: Literal["user", "nudge", "reminder", "next_step", "closing", "handler"]
    ephemeral: bool = False
    topics: tuple[str, ...] = ()
    """Of a reminder: the limits that it is about. Each is reminded of once in a run."""
    message_id: str = ""
    """Of what the user said while the run was going: the id that it was given then."""


class CancelRequested(_Event, frozen=True, kw_only=True, tag="CANCEL_REQUESTED"):
    """Somebody outside ended the run: `caller`, `disconnect`, `timeout`, `shutdown` or a word of their own."""

    cause: str


class RunFinished(_Event, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """The one terminal event of a run, and its last."""

    outcome: Outcome


# ---- rounds, steps and attempts


class RoundStarted(_Event, frozen=True, kw_only=True, tag="ROUND_STARTED"):
    """The outer loop calls the step-runner."""

    round: int


class StepStarted(_Event, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A model request is about to be made."""

    step: int
    round: int
    closing: bool = False
    """The one step after a hard limit in which the model sums up; not counted."""


class AttemptStarted(_Event, frozen=True, kw_only=True, tag="ATTEMPT_STARTED"):
    """One try at a step's request. `attempt` is `{step}.{try}`; deltas carry it."""

    attempt: str
    model: str = ""


class AttemptFailed(_Event, frozen=True, kw_only=True, tag="ATTEMPT_FAILED"):
    """A provider gave up on a request, or the caller did (kind `cancelled`), or the engine (kind `degenerate`)."""

    attempt: str
    model: str = ""
    kind: str
    """One of `providers.errors.KINDS`."""
    message: str
    status: int | None = None
    """HTTP status, if there was one."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait."""
    after_output: bool = False
    """True if part of the response had already been shown."""
    usage: Usage | None = None
    """What was used until then, where something was; nearly always estimated."""
    beside: bool = False
    """True if it was made beside another one that is heard instead (a race): nothing has failed by it."""
    text: str = ""
    """The text that had come by then; of a response that repeated itself (kind `degenerate`), its text before that."""


class AttemptRetracted(_Event, frozen=True, kw_only=True, tag="ATTEMPT_RETRACTED"):
    """What this attempt has shown is void: the attempt `by` takes its place."""

    attempt: str
    by: str = ""


class CutOff(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came after a cut, where it was read into the record (`drain`) and nothing of it was used."""

    output_tokens: int = 0
    """Reckoned, 4 characters a token."""
    calls: tuple[str, ...] = ()
    """Names of the tools that it called."""
    whole: bool = True
    """False if it was not read to its end: it may have gone on."""


class ResponseFinished(_Event, frozen=True, kw_only=True, tag="RESPONSE_FINISHED"):
    """The model's response as a whole, complete or cut. It comes before any tool that writes is run."""

    step: int
    attempt: str = ""
    model: str = ""
    """The model that was heard, where a wrapper chose among several."""
    message: AssistantMessage
    finish: FinishReason
    raw_finish: str = ""
    usage: Usage = Usage()
    cut_at: str | None = None
    """The completion call at which the stream was cut; what came after it was not used."""
    truncated: str | None = None
    """The call in whose arguments the response broke off; of several the last one."""
    without_arguments: tuple[str, ...] = ()
    """Calls without arguments in a response that broke off: theirs may have been about to come, so they do not run."""
    cut_for: str = ""
    """Why the engine itself left the response before its end, other than at a completion: the limit that was used up
    in its middle (`seconds`, `output_tokens`, `cost_usd`), `response_tokens` for the bound on one response, or
    `closing` for the closing step's deadline. Its message is what had come by then, and its usage is estimated."""
    cut_at_end: bool = False
    """Of a response that was cut: whether its stream had said before that it ends there, so that nothing is missing."""
    after_cut: CutOff | None = None
    """Of a response that was cut: what came after the cut. None if nobody knows."""


class StepFinished(_Event, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """All calls of a step are settled, but for open questions."""

    step: int
    cut_by: str | None = None
    """The completion call that was accepted and ended all that was in flight (the shared scope's cause)."""


class DecisionMade(_Event, frozen=True, kw_only=True, tag="DECISION_MADE"):
    """What the outer loop decided after a round, with its trace."""

    round: int
    decision: Decision


# ---- the stream, as AG-UI names its parts


class TextMessageContent(_Event, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """More of the answer's text."""

    attempt: str
    delta: str


class ReasoningMessageContent(_Event, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """More of the reasoning."""

    attempt: str
    delta: str = ""
    signature: str = ""
    redacted: bool = False


class ToolCallStart(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The model begins a call. `call_id` is unique in the run: `{step}.{index}` if the model gave none."""

    attempt: str
    call_id: str
    name: str


class ToolCallArgs(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """More of a call's arguments."""

    attempt: str
    call_id: str
    delta: str


class ToolCallEnd(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """A call is complete: nothing can be added to its arguments any more."""

    attempt: str
    call_id: str
    may_end: bool | None = None
    """Of a completion: whether its arguments are valid and make it a final one, so that the stream is cut at it."""


class ProviderToolReported(_Event, frozen=True, kw_only=True, tag="PROVIDER_TOOL_REPORTED"):
    """A tool that the provider runs itself; shown, never executed and never waited for."""

    attempt: str
    id: str
    name: str
    arguments: str = ""
    result: str = ""


class FinishReported(_Event, frozen=True, kw_only=True, tag="FINISH_REPORTED"):
    """The stream's own word on why it ends."""

    attempt: str
    reason: FinishReason
    raw: str = ""


class UsageReported(_Event, frozen=True, kw_only=True, tag="USAGE_REPORTED"):
    """The provider's count; a later one replaces an earlier one of the same attempt."""

    attempt: str
    usage: Usage


# ---- calls


class ToolExecutionStarted(_Event, frozen=True, kw_only=True, tag="TOOL_EXECUTION_STARTED"):
    """A tool is about to run. Without a result after it, a crash left its effect unknown."""

    call_id: str
    name: str


class ToolCallResult(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """The one answer to a call."""

    call_id: str
    name: str
    content: str
    status: ResultStatus = "ok"
    fingerprint: str = ""
    """Hash of name, arguments, content and images: equal for the same call with the same result."""
    images: tuple[Image, ...] = ()
    attached: str = ""
    """In a record: the file beside it that holds the whole content, of which `content` is the beginning."""


class CompletionAccepted(_Event, frozen=True, kw_only=True, tag="COMPLETION_ACCEPTED"):
    """The work is accepted as done. Only the first one of a run is an event; its answer is the run's."""

    call_id: str
    name: str
    answer: str
    pending_issues: tuple[str, ...] = ()


class CompletionRejected(_Event, frozen=True, kw_only=True, tag="COMPLETION_REJECTED"):
    """A completion was handed back. `by`: `tool`, `failed_call`, `open_question`, `user` or a gate's name."""

    call_id: str
    """Empty, as the name is, for plain text that would have ended the run."""
    name: str
    reason: str
    by: str


class PhaseReported(_Event, frozen=True, kw_only=True, tag="PHASE_REPORTED"):
    """A completion tool reported progress: a part of the work is said to be done."""

    call_id: str
    percentage: int
    summary: str = ""
    next_phase: str | None = None


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="QUESTION_ASKED"):
    """The model asks the user. The call stays open until QuestionAnswered or an `unanswered` result."""

    call_id: str
    text: str
    confirms: str | None = None
    """If it asks to confirm a completion: the answer that the run then has."""
    pending_issues: tuple[str, ...] = ()
    percentage: int | None = None


class QuestionAnswered(_Event, frozen=True, kw_only=True, tag="QUESTION_ANSWERED"):
    """The user's answer, in the run that goes on after the pause. One that is unclear leaves the question open."""

    call_id: str
    text: str
    says: Literal["yes", "no", "unclear"] | None = None
    """Of an answer to a confirmation. None: another question, or a record from before it was written."""


class ThoughtRecorded(_Event, frozen=True, kw_only=True, tag="THOUGHT_RECORDED"):
    """A think call: a summary of a stage. It never ends a run."""

    call_id: str
    text: str


# ---- what functions that are not ours said, and what was made of the context


class VerdictGiven(_Event, frozen=True, kw_only=True, tag="VERDICT_GIVEN"):
    """What a function that is not ours said: a gate, judge, text rule, handler, compactor or check, by its name."""

    role: Literal["gate", "judge", "text_rule", "handler", "compactor", "check"]
    name: str
    said: str
    """gate: accept, reject. judge: complete, incomplete. text_rule: final, nudge, default. handler: answered,
    prepared, passed. check (of a call that had begun when its process died): happened, not_happened, unclear. Any of
    them: failed, if it raised, hung or answered nonsense; refused, if it was not asked
    because a budget that the run shares with others is used up."""
    detail: str = ""
    call_id: str | None = None
    usage: Usage | None = None
    duration_ms: int = 0


class ContextCompacted(_Event, frozen=True, kw_only=True, tag="CONTEXT_COMPACTED"):
    """The context was made smaller; the transcript from here on is a projection through this event."""

    strategy: Literal["shorten_results", "summarise", "drop_oldest"]
    before_tokens: int
    after_tokens: int
    keep_results: int = 0
    """For shorten_results: the latest results that stayed whole."""
    dropped: int = 0
    """For the other strategies: how many of the oldest messages after the system prompt are gone."""
    put_first: tuple[Message, ...] = ()
    """What stands in their place."""
    not_enough: bool = False
    """True if the context was still over its threshold, so that another strategy is tried next."""
    in_vain: bool = False
    """True if the context was still over its threshold afterwards, or no smaller than before."""


StageStatus = Literal["ok", "failed", "skipped", "absent", "exhausted", "awaiting_input", "cancelled"]
"""`skipped`: not made because of how the run stands. `absent`: nobody was brought who could make it."""


class StageFinished(_Event, frozen=True, kw_only=True, tag="STAGE_FINISHED"):
    """A stage of the run ended, with a status of its own."""

    stage: Literal["prepare", "run", "evaluate"]
    status: StageStatus
    detail: str = ""
    duration_ms: int = 0


class EvaluationFinished(_Event, frozen=True, kw_only=True, tag="EVALUATION_FINISHED"):
    """Whether the work was good, by the caller's evaluator. It changes no status."""

    verdict: Verdict
    name: str = ""
    details: dict[str, Any] = {}


class BudgetRefused(_Event, frozen=True, kw_only=True, tag="BUDGET_REFUSED"):
    """A budget that the run shares with others has no room for one more step, which is therefore not made."""

    step: int
    """The step that was not made."""
    limit: str
    """`cost_usd`, `input_tokens` or `output_tokens`."""
    used: float
    """What all its runs have used together, in the limit's unit."""
    allowed: float


class LimitReached(_Event, frozen=True, kw_only=True, tag="LIMIT_REACHED"):
    """A hard limit was used up in the middle of a step: what was under way is cut off, and the run ends."""

    step: int
    """The step that was under way, or that was therefore not begun."""
    limit: str
    """The limit by name: `seconds`, `output_tokens`, `cost_usd`, ..."""
    scope: Literal["", "session", "budget"] = ""
    """Whose limit it is: the run's own, its session's, or that of a budget which it shares."""
    used: float
    """What was used by then, in the limit's unit."""
    allowed: float
    attempt: str = ""
    """The attempt whose response was cut off; empty if none was being read."""
    estimated: bool = False
    """True if what was used is an estimate, as tokens and cost are before a response is whole."""


Event = (
    RunStarted
    | RunResumed
    | MessageAdded
    | CancelRequested
    | RunFinished
    | RoundStarted
    | StepStarted
    | AttemptStarted
    | AttemptFailed
    | AttemptRetracted
    | ResponseFinished
    | StepFinished
    | DecisionMade
    | TextMessageContent
    | ReasoningMessageContent
    | ToolCallStart
    | ToolCallArgs
    | ToolCallEnd
    | ProviderToolReported
    | FinishReported
    | UsageReported
    | ToolExecutionStarted
    | ToolCallResult
    | CompletionAccepted
    | CompletionRejected
    | PhaseReported
    | QuestionAsked
    | QuestionAnswered
    | ThoughtRecorded
    | VerdictGiven
    | ContextCompacted
    | StageFinished
    | EvaluationFinished
    | BudgetRefused
    | LimitReached
)

STREAM_PARTS: frozenset[type] = frozenset(
    {TextMessageContent, ReasoningMessageContent, ToolCallStart, ToolCallArgs, ToolCallEnd, ProviderToolReported}
)
"""Parts of a stream, most of all events: they change neither facts nor transcript, the whole response does."""
