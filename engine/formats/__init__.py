"""Sessions of other loops as records of ours, and records as what others read. The table of formats is `table.py`."""

from .imported_session import Ending, Foreign, Judged, Kinds, Said, Unreadable
from .session_files import FORMATS, Format, Found, Skipped, found_in, guess
from .to_events import events_of

__all__ = [
    "FORMATS",
    "Ending",
    "Foreign",
    "Format",
    "Found",
    "Judged",
    "Kinds",
    "Said",
    "Skipped",
    "Unreadable",
    "events_of",
    "found_in",
    "guess",
]
