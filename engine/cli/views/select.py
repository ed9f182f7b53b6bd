"""Choice of the view of a run or a race: live in a terminal, plain lines elsewhere, or none.

Does not import rich unless it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from ...process.streams import StdStreams
from .plain import PlainView, print_plain, speaks_unicode
from .race import PlainRaceView, RaceView
from .run_view import RunView, fault_tolerant
from .styled_lines import Line, plain_text
from .text import Asking, Recorded, Saved


def choose_view(
    std_streams: StdStreams,
    *,
    quiet: bool,
    explain: bool,
    saved: Saved,
    recorded: Recorded | None = None,
    asking: Asking | None = None,
) -> RunView:
    """Return the view of a run that suits stderr: live in a terminal, else plain lines.

    With `quiet`, it shows nothing.
    """
    if quiet:
        return RunView()
    if can_draw(std_streams.stderr):
        from .live import LiveView

        return fault_tolerant(LiveView(std_streams, explain=explain, saved=saved, recorded=recorded, asking=asking))
    return fault_tolerant(PlainView(explain=explain, saved=saved, recorded=recorded, asking=asking))


def choose_race_view(std_streams: StdStreams, names: Sequence[str], prompt: str, *, quiet: bool) -> RaceView:
    """Return the view of a race that suits stderr; see `choose_view`."""
    if quiet:
        return RaceView()
    if can_draw(std_streams.stderr):
        from .race_live import LiveRaceView

        return fault_tolerant(LiveRaceView(std_streams, names, prompt))
    return fault_tolerant(PlainRaceView(names))


def print_lines(std_streams: StdStreams, lines: Iterable[Line]) -> None:
    """Print lines that belong to no view to stderr: with their shades in a terminal, else plain.

    Only the terminal breaks a line that is too long, so that a command in it can be copied.
    """
    if can_draw(std_streams.stderr):
        from .terminal import print_styled

        print_styled(std_streams.stderr, lines)
        return
    for line in lines:
        print_plain(plain_text(line), whole=True)


def can_draw(descriptor: int) -> bool:
    """Return whether this is a terminal that can move its cursor, has a size and shows Unicode.

    The terminal of many containers has 0 columns and 0 lines; nothing drawn on it would be visible.
    """
    if not os.isatty(descriptor) or os.environ.get("TERM") in (None, "", "dumb") or not speaks_unicode():
        return False
    try:
        return min(os.get_terminal_size(descriptor)) > 0
    except OSError:
        return False
