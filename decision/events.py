"""The events of a run. The event log is the source of truth; all other state is a fold of it.

Every event is immutable, has a number (`seq`, from 1 in each run) and a time (`t`, milliseconds since the start of the
run), and is one line of JSON with its `type`. Stream parts have AG-UI's names (docs.ag-ui.com/concepts/events); an
event without a counterpart there is sent as AG-UI's CUSTOM. Events hold everything that `decide` and the engine do not
compute themselves, so a record can be folded and replayed without the environment it was made in.

The record format is stable: there may be new events and optional fields, but a field never changes its meaning.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import Meta, Struct

from .cost import Price
from .decisions import Decision
from .errors import WrongAttribute, similar
from .messages import (
    NO_MESSAGE,
    AssistantMessage,
    FinishReason,
    Image,
    Json,
    Message,
    MessageDeltas,
    Name,
    ResultStatus,
    Text,
    ToolSpec,
    Usage,
)
from .outcome import Asker, EvaluationVerdict, Outcome, StageStatus
from .outcome import CutOff as CutOff
from .policy import Policy
from .run_origin import IMPORT_PREFIX as IMPORT_PREFIX
from .run_origin import Carried as Carried
from .run_origin import Grants as Grants
from .run_origin import Origin as Origin
from .run_origin import ParentCall as ParentCall
from .run_origin import SessionSource as SessionSource
from .run_origin import is_imported as is_imported
from .signatures import ShortSignatureMeta
from .step_history import StepJudgement
from .until_facts import CheckPlace, CheckSaid

MOST_MILLISECONDS = 2**53
Milliseconds = Annotated[int, Meta(ge=-MOST_MILLISECONDS, le=MOST_MILLISECONDS)]
"""Time since the start of a run. A line of a record with a number outside this range cannot be read."""


class _Event(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    seq: int = 0
    t: Milliseconds = 0

    if not TYPE_CHECKING:  # type checkers know the attributes of each event

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_"):
                raise AttributeError(name)
            raise WrongAttribute(partial(_told, self, name), name)


def _told(event: _Event, name: str) -> str:
    known = [known for known in dir(event) if not known.startswith("_")]
    told_apart = (
        ": events are told apart by their class, with `match event:` or isinstance; `endstop.decision.events` has the "
        f"classes (known here: {', '.join(known)})"
    )
    return f"{type(event).__name__} has no attribute {name!r}{similar(name, known) or told_apart}"


# ---- the run


class RunStarted(_Event, metaclass=ShortSignatureMeta, frozen=True, kw_only=True, tag="RUN_STARTED"):
    """A run starts. Holds everything a reader needs to understand the events that follow."""

    run_id: str
    session_id: str
    prompt: Text | None = None
    """The user's message; None if the run continues a paused one after an answer."""
    system: Text = ""
    model: Name = ""
    policy: Policy
    tools: tuple[ToolSpec, ...] = ()
    tool_choice: Name = "auto"
    settings: dict[str, Any] = {}
    """Settings of every request, such as `temperature`."""
    finish_words: dict[str, FinishReason] = {}
    """Meanings that the user gave to finish words of the provider, in addition to those in the table."""
    endpoint: str = ""
    """URL of the model's endpoint, if it was set explicitly; without user, password and query."""
    prices: dict[str, Price] = {}
    """Prices used for the run's costs, by model; empty if no price is known, and in older records."""
    functions: dict[str, tuple[Text, ...]] = {}
    """Qualified names of the user functions of the run, by role (`gate`, `judge`, ...)."""
    continues: str | None = None
    """Id of the paused run that this one continues; its usage is in `carried`."""
    carried: Carried | None = None
    before: Carried | None = None
    """Usage of the session's earlier runs, for limits of the session."""
    started_at: str = ""
    """Wall-clock time, ISO 8601 in UTC."""
    engine: Name = ""
    """Version of endstop that wrote the record."""
    origin: Origin | None = None
    """For a fork: the run that it was forked from. None for any other run."""
    source: SessionSource | None = None
    """Where an imported session was found. None for any other, and in older records."""
    parent: ParentCall | None = None
    """For a sub-agent's run: the call that runs it. None for any other."""
    images: tuple[Image, ...] = ()
    """Images of the prompt. A mark in the prompt shows where each belongs (`UserMessage`)."""
    history: tuple[Message, ...] = ()
    """Messages before the prompt of a session's first run. `system` applies; system messages among these are
    ignored."""


class RunResumed(_Event, frozen=True, kw_only=True, tag="RUN_RESUMED"):
    """A run whose process was killed continues under its own id."""

    interrupted_step: int | None = None
    """The step whose response is incomplete; it is requested again and not counted twice."""


class ResumeDiverged(_Event, frozen=True, kw_only=True, tag="RESUME_DIVERGED"):
    """A resumed run continues differently from its record: its policy, a hook, a tool or endstop itself has changed.

    It continues with every recorded result. Written once, for the first difference that is seen.
    """

    at: int
    """Sequence number of the recorded event that the run does not repeat."""
    recorded: str
    """What the record has there: the type of event and what it is about, or the decision and its rule. As in
    `VERDICT_GIVEN gate checks:tested`; without any text of a model or a user."""
    now: str
    """What the run does instead, in the same form."""


class MessageAdded(_Event, frozen=True, kw_only=True, tag="MESSAGE_ADDED"):
    """A message in the user's role other than the prompt: from the user, or from the loop itself.

    An ephemeral message is sent once and never becomes part of the transcript.
    """

    text: Text
    origin: Literal["user", "nudge", "reminder", "next_step", "closing", "handler"]
    ephemeral: bool = False
    topics: tuple[str, ...] = ()
    """For a reminder: the limits that it is about. There is one reminder per limit and run."""
    message_id: Name = ""
    """For a message that the user sent during the run: the id under which it was accepted."""
    images: tuple[Image, ...] = ()
    """Images of the message. A mark in the text shows where each belongs (`UserMessage`)."""


class CancelRequested(_Event, frozen=True, kw_only=True, tag="CANCEL_REQUESTED"):
    """The run was cancelled from outside: `caller`, `disconnect`, `timeout`, `shutdown` or the caller's own word."""

    cause: Text


class RunFinished(_Event, frozen=True, kw_only=True, tag="RUN_FINISHED"):
    """The run ended. This is always its last event."""

    outcome: Outcome


# ---- rounds, steps and attempts


class RoundStarted(_Event, frozen=True, kw_only=True, tag="ROUND_STARTED"):
    """The outer loop starts a round of steps."""

    round: int


class StepStarted(_Event, frozen=True, kw_only=True, tag="STEP_STARTED"):
    """A model request is about to be made."""

    step: int
    round: int
    closing: bool = False
    """True for the closing step, in which the model sums up after a limit; it is not counted."""


class AttemptStarted(_Event, frozen=True, kw_only=True, tag="ATTEMPT_STARTED"):
    """One attempt at a step's request. `attempt` is `{step}.{number}`, and is repeated in every delta."""

    attempt: str
    model: Name = ""


class AttemptFailed(_Event, frozen=True, kw_only=True, tag="ATTEMPT_FAILED"):
    """An attempt failed: because of the provider, the caller (kind `cancelled`) or the engine (kind `degenerate`)."""

    attempt: str
    model: Name = ""
    kind: str
    """One of `providers.errors.KINDS`."""
    message: Text
    status: int | None = None
    """HTTP status, if there was one."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait."""
    after_output: bool = False
    """True if part of the response had already been emitted."""
    usage: Usage | None = None
    """Usage of the attempt, if any; nearly always estimated."""
    beside: bool = False
    """True if it ran in parallel with another attempt that was chosen (a race): the request itself did not fail."""
    text: Text = ""
    """The text received by then; for a response that repeated itself (kind `degenerate`), its text before the
    repetition."""


class AttemptRetracted(_Event, frozen=True, kw_only=True, tag="ATTEMPT_RETRACTED"):
    """The output of this attempt is void; the attempt `by` replaces it."""

    attempt: str
    by: str = ""


class ResponseFinished(_Event, frozen=True, kw_only=True, tag="RESPONSE_FINISHED"):
    """The model's whole response, complete or cut. Written before any tool with side effects runs."""

    step: int
    attempt: str = ""
    model: Name = ""
    """The model that was chosen, if a wrapper uses several."""
    message: AssistantMessage = NO_MESSAGE
    deltas: MessageDeltas | None = None
    """In a record: the deltas that hold the content of `message`, which is then left out. None if `message` is whole:
    readers get it whole, unless some of its deltas are missing."""
    finish: FinishReason
    raw_finish: Name = ""
    usage: Usage = Usage()
    cut_at: Name | None = None
    """Call id of the completion at which the stream was cut; nothing after it was used."""
    truncated: Name | None = None
    """The call in whose arguments the response was cut off; of several, the last one."""
    without_arguments: tuple[Name, ...] = ()
    """Calls without arguments in a response that was cut off: they do not run, because arguments may have been
    missing."""
    cut_for: str = ""
    """Why the engine stopped reading the response before its end, other than at a completion: the limit that was
    reached (`seconds`, `output_tokens`, `cost_usd`), `response_tokens` for the limit on one response, `check` because
    the user's check of the work is met, or `closing` for the closing step's deadline. The message is what had arrived
    by then, and the usage is estimated."""
    cut_at_end: bool = False
    """For a response that was cut: whether the stream had already reported its end, so that nothing is missing."""
    after_cut: CutOff | None = None
    """For a response that was cut: what came after the cut. None if it was not read."""


class StepFinished(_Event, frozen=True, kw_only=True, tag="STEP_FINISHED"):
    """All calls of a step have a result, except open questions."""

    step: int
    cut_by: Name | None = None
    """Call id of the completion that was accepted and cancelled everything in flight."""
    judged: StepJudgement | None = None
    """Judgement of the step by `StepJudge`. None in records of older versions: such a step adds no points."""


class DecisionMade(_Event, frozen=True, kw_only=True, tag="DECISION_MADE"):
    """What the outer loop decided after a round, with its trace."""

    round: int
    decision: Decision


# ---- the stream, as AG-UI names its parts


class TextMessageContent(_Event, frozen=True, kw_only=True, tag="TEXT_MESSAGE_CONTENT"):
    """A further piece of the answer's text arrived."""

    attempt: str
    delta: Text


class ReasoningMessageContent(_Event, frozen=True, kw_only=True, tag="REASONING_MESSAGE_CONTENT"):
    """A further piece of the reasoning arrived."""

    attempt: str
    delta: Text = ""
    signature: Name = ""
    redacted: bool = False
    vendor: Name = ""
    """The wire format that wrote the signature; see `Reasoning`."""


class ToolCallStart(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_START"):
    """The model starts a call. `call_id` is unique in the run; `{step}.{index}` if the provider sent no id."""

    attempt: str
    call_id: Name
    name: Name


class ToolCallArgs(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_ARGS"):
    """A further piece of a call's arguments arrived."""

    attempt: str
    call_id: Name
    delta: Json


class ToolCallEnd(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_END"):
    """A call is complete: its arguments cannot change any more."""

    attempt: str
    call_id: Name
    may_end: bool | None = None
    """For a completion: whether its arguments are valid and it can end the run, so that the stream is cut here."""


class ProviderToolReported(_Event, frozen=True, kw_only=True, tag="PROVIDER_TOOL_REPORTED"):
    """The provider ran one of its own tools; reported only, never executed here."""

    attempt: str
    id: Name
    name: Name
    arguments: Json = ""
    result: Text = ""


class FinishReported(_Event, frozen=True, kw_only=True, tag="FINISH_REPORTED"):
    """The stream reported its finish reason."""

    attempt: str
    reason: FinishReason
    raw: Name = ""


class UsageReported(_Event, frozen=True, kw_only=True, tag="USAGE_REPORTED"):
    """The provider reported usage; a later report replaces an earlier one of the same attempt."""

    attempt: str
    usage: Usage


# ---- calls


class ToolExecutionStarted(_Event, frozen=True, kw_only=True, tag="TOOL_EXECUTION_STARTED"):
    """A tool is about to run. If no result follows, the process died and the tool's effect is unknown."""

    call_id: Name
    name: Name


class ToolCallResult(_Event, frozen=True, kw_only=True, tag="TOOL_CALL_RESULT"):
    """A call has its result."""

    call_id: Name
    name: Name
    content: Text
    status: ResultStatus = "ok"
    fingerprint: str = ""
    """Hash of name, arguments, images and what the tool said (`repetition.results`), equal for the same call with the
    same result; empty if the call does not count as repetition."""
    images: tuple[Image, ...] = ()
    attached: str = ""
    """In a record: hash of the whole content, under which it is kept as an attachment; `content` is then only its
    beginning. Empty if `content` is whole."""


class CompletionAccepted(_Event, frozen=True, kw_only=True, tag="COMPLETION_ACCEPTED"):
    """A completion was accepted. Only the first one of a run is an event; its answer is the run's answer."""

    call_id: Name
    name: Name
    answer: Text
    pending_issues: tuple[Text, ...] = ()


class CompletionRejected(_Event, frozen=True, kw_only=True, tag="COMPLETION_REJECTED"):
    """A completion was rejected. `by`: `tool`, `failed_call`, `open_question`, `user` or a gate's name."""

    call_id: Name
    """Empty, like `name`, for plain text that would have ended the run."""
    name: Name
    reason: Text
    by: str


class PhaseReported(_Event, frozen=True, kw_only=True, tag="PHASE_REPORTED"):
    """A completion tool reported progress: part of the work is done."""

    call_id: Name
    percentage: int
    summary: Text = ""
    next_phase: Text | None = None


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="QUESTION_ASKED"):
    """The model asks the user. The call stays open until QuestionAnswered, or a result `unanswered`.

    With `extends` the run itself asks, at its limit of steps, and no call is involved.
    """

    call_id: Name
    text: Text
    confirms: Text | None = None
    """For a question that asks to confirm a completion: the run's answer if the user confirms."""
    pending_issues: tuple[Text, ...] = ()
    percentage: int | None = None
    tool: Name | None = None
    """For a call that waits for the user's approval: the name of its tool. The call runs only after a yes."""
    arguments: dict[str, Any] | None = None
    """For a call that waits for the user's approval: its arguments."""
    expires_at: str = ""
    """For a call that waits for the user's approval: time (ISO 8601) after which it counts as denied; empty: never."""
    asker: Asker | None = None
    """For a question of a sub-agent: which one asks. Its call continues once all its questions are answered."""
    extends: int = 0
    """For the question whether the run may make more steps than its limit: the number it proposes."""

    @property
    def waiting_call(self) -> str:
        """The call of the run itself that waits for the answer."""
        return self.call_id if self.asker is None else self.asker.call_id


class QuestionAnswered(_Event, frozen=True, kw_only=True, tag="QUESTION_ANSWERED"):
    """The user answered, in the run that continues after the pause. An unclear answer leaves the question open."""

    call_id: Name
    text: Text
    says: Literal["yes", "no", "unclear"] | None = None
    """How an answer to a yes-or-no question was understood. None for other questions, and in older records."""
    arguments: dict[str, Any] | None = None
    """For an approved call: the arguments that the user gave in place of the model's; None if it keeps the model's."""
    expired: bool = False
    """True if nobody answered before the question's `expires_at`, so that the call is denied."""
    images: tuple[Image, ...] = ()
    extends: int = 0
    """For a yes to the question whether the run may make more steps: the number that the user grants."""


class ThoughtRecorded(_Event, frozen=True, kw_only=True, tag="THOUGHT_RECORDED"):
    """A think call recorded its text. It never ends a run."""

    call_id: Name
    text: Text


# ---- the user's check of the work (`until`)


class CheckStarted(_Event, frozen=True, kw_only=True, tag="CHECK_STARTED"):
    """The user's check of the work begins, beside the run."""

    step: int
    """The step before the check."""
    place: CheckPlace
    name: Text
    """Name of the check: its commands, or the name of its function."""
    work: str = ""
    """Fingerprint of the work that is checked; a check is not repeated as long as it is the same."""


class CheckEnded(_Event, frozen=True, kw_only=True, tag="CHECK_ENDED"):
    """The loop looks at the answer of a check. Written where it looks, so that a replay looks at the same place."""

    step: int
    """The latest step that had begun."""
    place: CheckPlace
    said: CheckSaid
    detail: Text = ""
    """Why it is not met, cannot be, or could not tell: the failing lines and the end of the output."""
    score: float | None = None
    of: float | None = None
    """The most that the score can be."""
    failure: int = 0
    """Mark of what failed, for a check without a score: the same for the same failing lines."""
    guard_changed: tuple[Text, ...] = ()
    """Files that the check stands on and that were changed. If it is met, it passes only with the changed ones."""
    timed_out: bool = False
    usage: Usage | None = None
    """Usage of a check that asks a model."""
    judged_by: Name = ""
    """The model that judged, for a check that asks one."""
    duration_ms: int = 0


class BlockReported(_Event, frozen=True, kw_only=True, tag="BLOCK_REPORTED"):
    """The model reported that it cannot do the task. The first report may be handed back to it."""

    call_id: Name
    reason: Text
    tried: tuple[Text, ...] = ()
    accepted: bool = False


# ---- verdicts of user functions, and compaction


class VerdictGiven(_Event, frozen=True, kw_only=True, tag="VERDICT_GIVEN"):
    """A user function gave its verdict: gate, judge, text rule, handler, compactor, check, approval, system prompt."""

    role: Literal["gate", "judge", "text_rule", "handler", "compactor", "check", "approval", "system"]
    name: Text
    said: str
    """gate: accept, reject. judge: complete, incomplete. text_rule: final, nudge, default, or a kind of text. handler:
    answered, prepared, passed. compactor: summarised, replaced, passed. system: changed (`detail` is the prompt),
    unchanged. check (of a call that was running when its process died): happened, not_happened, unclear. approval
    (whether a call needs the user's approval; it does unless the function says no): needed, not_needed. Any of them:
    failed, if it raised, timed out or returned an invalid value; refused, if it was not called because a shared budget
    is used up."""
    detail: Json = ""
    call_id: Name | None = None
    usage: Usage | None = None
    duration_ms: int = 0


class ContextCompacted(_Event, frozen=True, kw_only=True, tag="CONTEXT_COMPACTED"):
    """The context was compacted; the transcript applies this event to all messages before it."""

    strategy: Literal["shorten_results", "summarise", "drop_oldest", "compactor"]
    before_tokens: int
    after_tokens: int
    keep_results: int = 0
    """For shorten_results: number of latest results that were kept whole."""
    dropped: int = 0
    """For the other strategies: number of oldest messages after the system prompt that were removed."""
    put_first: tuple[Message, ...] = ()
    """The messages that replace them."""
    not_enough: bool = False
    """True if the context is still over its threshold, so that the next strategy is tried."""
    in_vain: bool = False
    """True if the context is still over its threshold after the last strategy, or no smaller than before."""


class StageFinished(_Event, frozen=True, kw_only=True, tag="STAGE_FINISHED"):
    """A stage of the run ended, with its own status."""

    stage: Literal["prepare", "run", "evaluate"]
    status: StageStatus
    detail: Text = ""
    duration_ms: int = 0


class EvaluationFinished(_Event, frozen=True, kw_only=True, tag="EVALUATION_FINISHED"):
    """The evaluator gave its verdict on the work. It does not change the run's status."""

    verdict: EvaluationVerdict
    name: Text = ""
    details: dict[str, Any] = {}


class BudgetRefused(_Event, frozen=True, kw_only=True, tag="BUDGET_REFUSED"):
    """A step was not made because a budget shared with other runs had no room for it."""

    step: int
    """The step that was not made."""
    limit: str
    """`cost_usd`, `input_tokens` or `output_tokens`."""
    used: float
    """Total use by all runs of the budget, in the limit's unit."""
    allowed: float


class LimitReached(_Event, frozen=True, kw_only=True, tag="LIMIT_REACHED"):
    """A hard limit was reached during a step: work in progress is cut off, and the run ends."""

    step: int
    """The step in progress, or the one that was not started because of the limit."""
    limit: str
    """Name of the limit: `seconds`, `output_tokens`, `cost_usd`, ..."""
    scope: Literal["", "session", "budget"] = ""
    """Whose limit it is: the run's (empty), its session's, or a shared budget's."""
    used: float
    """Amount used, in the limit's unit."""
    allowed: float
    attempt: str = ""
    """The attempt whose response was cut off; empty if there was none."""
    estimated: bool = False
    """True if `used` is an estimate, as tokens and cost are before a response is complete."""


class LimitExtended(_Event, frozen=True, kw_only=True, tag="LIMIT_EXTENDED"):
    """The run reached its limit of steps and was granted more (`limits.extend`)."""

    by: int
    """Number of steps that were granted."""
    allowed: int
    """Total number of steps that the run may make from now on."""


class SubagentStarted(_Event, frozen=True, kw_only=True, tag="SUBAGENT_STARTED"):
    """A call started a sub-agent: a separate run, whose RUN_STARTED names this call as its `parent`."""

    call_id: Name
    name: Name
    """The tool's name."""
    run_id: str
    session_id: str
    model: Name = ""
    record: Text = ""
    """Path of its record, relative to the folder of this record; empty if it has none."""
    continues: str | None = None
    """Id of its paused run that this one continues with the user's answers. None for a new sub-agent."""


class SubagentUsed(_Event, frozen=True, kw_only=True, tag="SUBAGENT_USED"):
    """A sub-agent reported what it used since its last event of this type; it counts as used by this run."""

    call_id: Name
    run_id: str
    at: int
    """Number of the sub-agent's own event up to which its usage is counted here."""
    requests: int = 0
    usage: Usage


class ToolProgress(_Event, frozen=True, kw_only=True, tag="TOOL_PROGRESS"):
    """A running tool reported progress. This is not a result, and no rule sees it."""

    call_id: Name
    name: Name
    text: Text = ""
    progress: float | None = None
    """Amount of `total` that is done, in a unit that the tool chooses; None if the tool did not say."""
    total: float | None = None


class AlarmRaised(_Event, frozen=True, kw_only=True, tag="ALARM_RAISED"):
    """A policy that only watches would have stopped this foreign loop as stuck or over a limit.

    Recorded once per run, when the next step begins. It changes nothing, and no rule sees it.
    """

    policy: str
    rule: str
    reason: str
    """The stop reason."""
    detail: Text
    step: int
    """The step after which the run would have ended."""


Event = (
    RunStarted
    | RunResumed
    | ResumeDiverged
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
    | CheckStarted
    | CheckEnded
    | BlockReported
    | VerdictGiven
    | ContextCompacted
    | StageFinished
    | EvaluationFinished
    | BudgetRefused
    | LimitReached
    | SubagentStarted
    | SubagentUsed
    | ToolProgress
    | AlarmRaised
    | LimitExtended
)
"""Every event of a run. In a record, `type` says which one it is."""

STREAM_PARTS: frozenset[type] = frozenset(
    {TextMessageContent, ReasoningMessageContent, ToolCallStart, ToolCallArgs, ToolCallEnd, ProviderToolReported}
)
"""Parts of a streamed response. They change neither facts nor transcript: `ResponseFinished` has the whole response."""


def is_copied(event: Event, started: RunStarted) -> bool:
    """Return whether a fork copied this event, which then counts in the run it was copied from."""
    return started.origin is not None and event.seq < started.origin.at
