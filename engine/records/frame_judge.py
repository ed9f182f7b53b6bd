"""Judgements of calls, added to the frames of their results because no recorded event contains them.

Pages show them, because they cannot ask a `CallJudge` themselves. The judgement is separate from the events, which stay
as they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ..decision import Event
from ..decision.call_judgement import JUDGED_BY, SessionJudge
from .format import DECODE_ERRORS, decode_line
from .frames import Frame, Frames, Gap

_NEEDED = tuple(f'{{"type":"{kind.__struct_config__.tag}"'.encode() for kind in JUDGED_BY)
"""Beginnings of the lines of events that a judge needs."""


class FrameJudge:
    """Judge of the calls of runs. Pass it the frames of each run in order, from the run's beginning."""

    def __init__(self) -> None:
        self._judge = SessionJudge()

    def judged(self, frames: Iterable[Frame | Gap]) -> Frames:
        """Return the same frames, with the judgement of its call added to each result."""
        return [self._judged(frame) if isinstance(frame, Frame) else frame for frame in frames]

    def _judged(self, frame: Frame) -> Frame:
        if not frame.line.startswith(_NEEDED):
            return frame
        try:
            event = decode_line(frame.line)
        except DECODE_ERRORS:
            return frame
        known = self._judge.feed(event) if isinstance(event, Event) else None
        return frame if known is None else replace(frame, judged=known)
