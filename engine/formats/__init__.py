"""Sessions of other loops as records of ours, and records as what others read. The table of formats is `table.py`."""

from .imported_session import (
    ImportedEnding,
    ImportedMessage,
    ImportedSession,
    ImportedVerdict,
    ImportOptions,
    Unreadable,
)
from .session_files import FORMATS, Format, FoundSession, SkippedSession, detect_format, find_sessions
from .to_events import events_of

__all__ = [
    "FORMATS",
    "Format",
    "FoundSession",
    "ImportOptions",
    "ImportedEnding",
    "ImportedMessage",
    "ImportedSession",
    "ImportedVerdict",
    "SkippedSession",
    "Unreadable",
    "detect_format",
    "events_of",
    "find_sessions",
]
