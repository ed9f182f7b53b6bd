"""Pure decision logic: facts in, decision out. No I/O, clock or async."""

from .assembler import Assembler
from .chunks import (
    AnyChunk,
    AttemptEnded,
    FinishReport,
    ProviderToolReport,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    UsageReport,
    Voice,
)
from .cost import Price
from .decide import conclude, decide
from .decisions import Considered, Decision, GoOn, Pause, Stop
from .errors import WrongUse
from .events import Event
from .facts import Facts, fold
from .guards import GUARDS
from .limits import RECOMMENDED, Limits, SessionLimits
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
from .outcome import STATUS_OF, LimitUse, Outcome, Question, Status, Verdict, Work
from .policy import POLICIES, Compaction, Deadlines, Degeneration, Echo, Patience, Policy, Prompts, Repetition
from .policy_files import policy_from
from .rules import RULES, Rule
from .transcript import Transcript

__all__ = [
    "GUARDS",
    "POLICIES",
    "RECOMMENDED",
    "RULES",
    "STATUS_OF",
    "AnyChunk",
    "Assembler",
    "AssistantMessage",
    "AttemptEnded",
    "Compaction",
    "Considered",
    "Deadlines",
    "Decision",
    "Degeneration",
    "Echo",
    "Event",
    "Facts",
    "FinishReason",
    "FinishReport",
    "GoOn",
    "Image",
    "LimitUse",
    "Limits",
    "Message",
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
    "Status",
    "Stop",
    "SystemMessage",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "ToolKind",
    "ToolResult",
    "ToolSpec",
    "Transcript",
    "Usage",
    "UsageReport",
    "UserMessage",
    "Verdict",
    "Voice",
    "Work",
    "WrongUse",
    "conclude",
    "decide",
    "fold",
    "policy_from",
]
