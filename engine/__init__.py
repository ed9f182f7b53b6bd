"""The body: everything that waits. Runs agents, calls tools, keeps records."""

from ..decision import Image
from ..providers.clock import Clock, SystemClock
from .answers import Completion, Continue, Phase
from .archive.redaction import Redaction
from .budget import Budget
from .bus import Bus, Lagged
from .engine import Engine
from .fleet import Fleet
from .mcp_connection import Stdio
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

__all__ = [
    "Budget",
    "Bus",
    "Clock",
    "Completion",
    "Continue",
    "Engine",
    "Fleet",
    "Image",
    "InvalidArguments",
    "Lagged",
    "Phase",
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
    "Tool",
    "Toolbox",
    "mcp_tools",
    "read_record",
    "tool",
    "tools_from_yaml",
]
