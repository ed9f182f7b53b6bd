"""Pure decision logic: facts in, decision out. No I/O, clock or async."""

from typing import TYPE_CHECKING

from .assembler import Assembler
from .chunks import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ModelSelected,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from .cost import Price
from .decide import build_outcome, decide
from .decisions import Decision, GoOn, Pause, Stop, TraceEntry
from .errors import WrongUse
from .events import Event
from .facts import Facts
from .fold import fold
from .guards import GUARDS
from .limits import RECOMMENDED, Extend, Limits, SessionLimits
from .messages import (
    AssistantMessage,
    FinishReason,
    Image,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolKind,
    ToolResult,
    ToolSpec,
    Usage,
    UserMessage,
)
from .outcome import (
    STATUS_OF,
    Asker,
    CutSavings,
    EvaluationVerdict,
    LimitUse,
    Outcome,
    Question,
    Status,
    SubagentUse,
    Work,
)
from .policy import (
    POLICIES,
    Compaction,
    Deadlines,
    Degeneration,
    Echo,
    Patience,
    Policy,
    Prompts,
    Repetition,
    Stagnation,
)
from .policy_files import policy_from
from .public_names import lazy_names
from .rules import RULES, Rule
from .step_judge import StepJudge
from .text_kinds import TextKind, classify_text
from .transcript import Transcript

if TYPE_CHECKING:
    Verdict = EvaluationVerdict
else:
    __getattr__, __dir__ = lazy_names(globals(), {}, old={"Verdict": "endstop.decision.EvaluationVerdict"})

__all__ = [
    "GUARDS",
    "POLICIES",
    "RECOMMENDED",
    "RULES",
    "STATUS_OF",
    "AnyChunk",
    "Asker",
    "Assembler",
    "AssistantMessage",
    "AttemptEnded",
    "Compaction",
    "CutSavings",
    "Deadlines",
    "Decision",
    "Degeneration",
    "Echo",
    "EvaluationVerdict",
    "Event",
    "Extend",
    "Facts",
    "FinishReason",
    "FinishReport",
    "GoOn",
    "Image",
    "LimitUse",
    "Limits",
    "Message",
    "ModelSelected",
    "Outcome",
    "Patience",
    "Pause",
    "Policy",
    "Price",
    "Prompts",
    "ProviderToolReport",
    "Question",
    "Reasoning",
    "ReasoningDelta",
    "Repetition",
    "Rule",
    "SessionLimits",
    "Stagnation",
    "Status",
    "StepJudge",
    "Stop",
    "SubagentUse",
    "SystemMessage",
    "TextDelta",
    "TextKind",
    "ToolCall",
    "ToolCallDelta",
    "ToolKind",
    "ToolResult",
    "ToolSpec",
    "TraceEntry",
    "Transcript",
    "Usage",
    "UsageReport",
    "UserMessage",
    "Work",
    "WrongUse",
    "build_outcome",
    "classify_text",
    "decide",
    "fold",
    "policy_from",
]
