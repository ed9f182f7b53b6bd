"""What an audit tells: a session, its runs and their steps, and where each policy would have ended them."""

from __future__ import annotations

from msgspec import Struct, field

from ..decision import Status, ToolKind, Usage, Verdict, Work
from ..decision.finding import Parting
from ..decision.messages import ResultStatus


class AuditedCall(Struct, kw_only=True):
    """One call of a step."""

    id: str
    name: str
    arguments: str
    kind: ToolKind = "ordinary"
    status: ResultStatus | None = None
    """None if no result came."""
    result: str = ""
    """Its beginning."""


class AuditedStep(Struct, kw_only=True):
    """One step."""

    step: int
    t: int
    """Milliseconds since the run began."""
    text: str = ""
    calls: list[AuditedCall] = field(default_factory=list)
    usage: Usage = Usage()
    notes: list[str] = field(default_factory=list)
    """What the loop said or did before the next step: `nudge: ...`, `rejected: ...`."""
    repeats: int = 0
    """How often the same calls with the same results have come round."""
    after_done: bool = False
    """Whether it came after a completion that was accepted."""
    closing: bool = False
    """The one after a limit, in which the model only sums up; it does not count."""


class Repeated(Struct, frozen=True, kw_only=True):
    """The same call with the same result, more than once."""

    name: str
    arguments: str
    steps: tuple[int, ...]


class Stopping(Struct, frozen=True, kw_only=True):
    """Where a policy would have ended the run, and by which of its lines."""

    policy: str
    parting: Parting
    step: int | None
    """The step after which it would have stopped; None if it would not, or if that is unknown."""
    saved_steps: int
    rule: str
    """The rule or guard with its priority: `P0.5 control_flow`."""
    says: str
    line: str
    """The line of a policy file that decides it."""
    supposed: bool
    """True if that supposes that what the policy says before changes nothing."""
    why: str


class AuditedRun(Struct, kw_only=True):
    """One run of the session."""

    number: int
    prompt: str
    steps: list[AuditedStep]
    made: int
    """Steps, also those that are not kept one by one."""
    status: Status | None
    stop_reason: str
    detail: str
    answer: str
    verdict: Verdict
    work: Work | None
    """What is known of the work."""
    evaluated_by: str | None
    """The evaluator, by name; None if there was none."""
    accepted_by: tuple[str, ...]
    """Gates, the judge and the user, where they accepted the completion."""
    failed_calls: tuple[str, ...]
    """Tools whose calls failed before the work was reported as done, with no success after them."""
    done_at: int | None
    """The step at which the work was reported as done."""
    done_by: str
    """The completion tool's name, or `text`."""
    wasted_steps: int
    wasted_output_tokens: int
    repeated: list[Repeated]
    unanswered: list[AuditedCall]
    failed: dict[str, int]
    """Calls that failed, by tool."""
    stoppings: list[Stopping]


class Audit(Struct, kw_only=True):
    """A whole session."""

    session_id: str
    model: str
    engine: str
    """What wrote it: a version of endstop, or `import:<format>`."""
    usage: Usage
    duration_ms: int
    runs: list[AuditedRun]
    lost: dict[str, int] = {}
    """What was lost in reading a foreign transcript, and how often."""
