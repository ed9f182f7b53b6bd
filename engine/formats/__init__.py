"""Import of other loops' sessions as records, and export of records. `FORMATS` lists the import formats."""

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
