"""The public names of `endstop`. `__init__.py` imports this module when one of them is first used."""

from .answers import Completion, Continue, Happened, NotHappened, Phase, Unclear
from .archive.redaction import Redaction
from .budget import Budget
from .bus import Bus, Lagged
from .decision import Image, Limits, Outcome, Policy, WrongUse
from .engine import Engine
from .fleet import Fleet
from .identity import ThisCall, this_call
from .mcp_connection import Stdio
from .providers import LiteLLM, OpenAICompatible
from .providers.clock import Clock, SystemClock
from .race import RaceResult
from .record import SessionRecord, read_record
from .run import Run
from .schema import InvalidArguments
from .session import Session
from .subscriber import Subscriber
from .summary import ProviderSummary, Summary
from .tasks import Task, TaskResult
from .toolbox import Toolbox
from .tools import Tool, tool
from .tools_mcp import mcp_tools
from .tools_yaml import tools_from_yaml
from .version import __version__

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
