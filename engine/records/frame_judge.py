"""Adds to the frames of a loop that is not ours what is known of each of its calls, which no event of a record says.

Pages show it: they cannot ask a `CallJudge` themselves. It stands beside the events, which stay as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..decision import Event
from ..decision.call_judgement import JUDGED_BY, SessionJudge
from .format import DECODE_ERRORS, RUN_STARTED_PREFIX, decode_line
from .frames import Frame, Frames, Gap

_NEEDED = tuple(f'{{"type":"{kind.__struct_config__.tag}"'.encode() for kind in JUDGED_BY)
"""How the lines begin of events that a judge needs."""


class FrameJudge:
    """Judges the calls of the runs whose frames it gets, from the beginning of a run on and in their order."""

    def __init__(self) -> None:
        self._judge = SessionJudge()

    @property
    def is_needed(self) -> bool:
        """Whether the run is that of a loop that is not ours: only its calls are judged."""
        return self._judge.is_needed

    def judged(self, frames: Iterable[Frame | Gap]) -> Frames:
        """The same frames; those of results with the judgement of their calls."""
        return [self._judged(frame) if isinstance(frame, Frame) else frame for frame in frames]

    def _judged(self, frame: Frame) -> Frame:
        if not frame.line.startswith(_NEEDED if self._judge.is_needed else RUN_STARTED_PREFIX):
            return frame
        try:
            event = decode_line(frame.line)
        except DECODE_ERRORS:
            return frame
        known = self._judge.feed(event) if isinstance(event, Event) else None
        return frame if known is None else replace(frame, judged=known)
