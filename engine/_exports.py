"""The public names of `endstop`. `__init__.py` imports this module when one of them is first used."""

from ._version import __version__
from .batch import Fleet, ProviderSummary, Summary
from .budget import Budget
from .decision import Image, Limits, Outcome, Policy, WrongUse
from .engine import Engine
from .event_bus import Bus, Lagged
from .providers import LiteLLM, OpenAICompatible
from .providers.clock import Clock, SystemClock
from .race import RaceResult
from .records.reader import SessionRecord, read_record
from .records.redaction import Redaction
from .run import Run, Subscriber
from .session import Session
from .tasks import Task, TaskResult
from .tool_execution import ThisCall, this_call
from .tools.mcp import Stdio, mcp_tools
from .tools.results import Completion, Continue, Happened, NotHappened, Phase, Unclear
from .tools.schema import InvalidArguments
from .tools.tool import Tool, Toolbox, tool
from .tools.yaml import tools_from_yaml

__all__ = [
    "Budget",
    "Bus",
    "Clock",
    "Completion",
    "Continue",
    "Engine",
    "Fleet",
    "Happened",
    "Image",
    "InvalidArguments",
    "Lagged",
    "Limits",
    "LiteLLM",
    "NotHappened",
    "OpenAICompatible",
    "Outcome",
    "Phase",
    "Policy",
    "ProviderSummary",
    "RaceResult",
    "Redaction",
    "Run",
    "Session",
    "SessionRecord",
    "Stdio",
    "Subscriber",
    "Summary",
    "SystemClock",
    "Task",
    "TaskResult",
    "ThisCall",
    "Tool",
    "Toolbox",
    "Unclear",
    "WrongUse",
    "__version__",
    "mcp_tools",
    "read_record",
    "this_call",
    "tool",
    "tools_from_yaml",
]
