"""The body: everything that waits. Runs agents, calls tools, keeps records."""

from ..decision import Image
from ..providers.clock import Clock, SystemClock
from .answers import Completion, Continue, Phase
from .budget import Budget
from .bus import Bus, Lagged
from .engine import Engine
from .record import SessionRecord, read_record
from .run import Run
from .schema import InvalidArguments
from .session import Session
from .subscriber import Subscriber
from .toolbox import Toolbox
from .tools import Tool, tool
from .tools_yaml import tools_from_yaml

__all__ = [
    "Budget",
    "Bus",
    "Clock",
    "Completion",
    "Continue",
    "Engine",
    "Image",
    "InvalidArguments",
    "Lagged",
    "Phase",
    "Run",
    "Session",
    "SessionRecord",
    "Subscriber",
    "SystemClock",
    "Tool",
    "Toolbox",
    "read_record",
    "tool",
    "tools_from_yaml",
]
