"""The public names of `endstop`. `__init__.py` imports this module when one of them is first used.

What only some programs need is imported when it is first used: a redaction's rules alone are hundreds of patterns.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__
from .approvals import Approve, Deny
from .batch import Fleet, ProviderSummary, Summary
from .budget import Budget
from .config import Observers
from .decision import Extend, Image, Limits, Outcome, Policy, WrongUse
from .durability import ResumeRefused
from .engine import Engine
from .evaluation import Evaluation, EvaluationInput
from .event_bus import Bus, Lagged
from .hooks import Accept, Answer, ModelCompactor, ModelJudge, Prepare, Progress, Reject, Verdict
from .option_groups import Hooks, ModelOptions, RecordOptions, Runtime
from .providers import LiteLLM, OpenAICompatible
from .providers.clock import Clock, SystemClock
from .race import RaceResult
from .records.reader import SessionRecord, read_record
from .run import Run
from .session import Session
from .subscribers import Subscriber
from .tasks import Task, TaskResult
from .tools.results import Completion, Continue, Happened, NotHappened, Phase, ProgressUpdate, Unclear
from .tools.run_context import RunContext, this_call
from .tools.schema import InvalidArguments
from .tools.tool import Tool, Toolbox, tool

if TYPE_CHECKING:
    from .records.redaction import Redaction
    from .tools.mcp import Stdio, mcp_tools
    from .tools.yaml import tools_from_yaml
else:
    _MODULES = {
        "Redaction": "records.redaction",
        "Stdio": "tools.mcp",
        "mcp_tools": "tools.mcp",
        "tools_from_yaml": "tools.yaml",
    }

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(f".{_MODULES[name]}", __package__), name)
        return value


__all__ = [
    "Accept",
    "Answer",
    "Approve",
    "Budget",
    "Bus",
    "Clock",
    "Completion",
    "Continue",
    "Deny",
    "Engine",
    "Evaluation",
    "EvaluationInput",
    "Extend",
    "Fleet",
    "Happened",
    "Hooks",
    "Image",
    "InvalidArguments",
    "Lagged",
    "Limits",
    "LiteLLM",
    "ModelCompactor",
    "ModelJudge",
    "ModelOptions",
    "NotHappened",
    "Observers",
    "OpenAICompatible",
    "Outcome",
    "Phase",
    "Policy",
    "Prepare",
    "Progress",
    "ProgressUpdate",
    "ProviderSummary",
    "RaceResult",
    "RecordOptions",
    "Redaction",
    "Reject",
    "ResumeRefused",
    "Run",
    "RunContext",
    "Runtime",
    "Session",
    "SessionRecord",
    "Stdio",
    "Subscriber",
    "Summary",
    "SystemClock",
    "Task",
    "TaskResult",
    "Tool",
    "Toolbox",
    "Unclear",
    "Verdict",
    "WrongUse",
    "__version__",
    "mcp_tools",
    "read_record",
    "this_call",
    "tool",
    "tools_from_yaml",
]
