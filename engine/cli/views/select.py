"""What shows a run to people: live in a terminal, in plain lines elsewhere, or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ...process.streams import StdStreams
from .base import RunView, fault_tolerant
from .plain import PlainView
from .race import PlainRaceView, RaceView
from .text import Recorded, Saved


def choose_view(
    std_streams: StdStreams, *, quiet: bool, explain: bool, saved: Saved, recorded: Recorded | None = None
) -> RunView:
    """The view that fits where stderr goes: rich for a terminal, plain lines for all else."""
    if quiet:
        return RunView()
    if can_draw(std_streams.stderr):
        from .live import LiveView

        return fault_tolerant(LiveView(std_streams, explain=explain, saved=saved, recorded=recorded))
    return fault_tolerant(PlainView(explain=explain, saved=saved, recorded=recorded))


def choose_race_view(std_streams: StdStreams, names: Sequence[str], prompt: str, *, quiet: bool) -> RaceView:
    """The view that fits where stderr goes."""
    if quiet:
        return RaceView()
    if can_draw(std_streams.stderr):
        from .race_live import LiveRaceView

        return fault_tolerant(LiveRaceView(std_streams, names, prompt))
    return fault_tolerant(PlainRaceView(names))


def can_draw(descriptor: int) -> bool:
    """Whether there is a terminal that can be drawn on: one that moves its cursor, has a size and speaks Unicode.

    Many containers have a terminal of 0 columns and 0 lines, on which nothing that is drawn would be seen.
    """
    if not os.isatty(descriptor) or os.environ.get("TERM") in (None, "", "dumb") or not speaks_unicode():
        return False
    try:
        return min(os.get_terminal_size(descriptor)) > 0
    except OSError:
        return False


def speaks_unicode() -> bool:
    """Whether what is printed to stderr is encoded as UTF-8."""
    return (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "") == "utf8"
