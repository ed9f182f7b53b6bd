"""Import of other loops' sessions as records, and export of records. `FORMATS` lists the import formats.

A name is imported when it is first used: a record of a loop that is followed needs none of the formats.
"""

from typing import TYPE_CHECKING

from ..decision.public_names import lazy_names

if TYPE_CHECKING:
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
else:
    __getattr__, __dir__ = lazy_names(
        globals(),
        {
            "imported_session": """
                ImportOptions ImportedEnding ImportedMessage ImportedSession ImportedVerdict Unreadable
            """,
            "session_files": "FORMATS Format FoundSession SkippedSession detect_format find_sessions",
            "to_events": "events_of",
        },
    )

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
