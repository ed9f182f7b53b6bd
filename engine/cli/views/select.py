"""What shows a run to people: live in a terminal, in plain lines elsewhere, or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ...decision import Event
from ...event_bus import Lagged
from ...process.streams import Channels
from .base import Careful
from .plain import Plain
from .race import CarefulRace, PlainRace, RaceView, SilentRace
from .styled_lines import Line
from .text import Recorded, Saved

Draw = Callable[[int], Iterable[Line]]
"""Lines that fit into so many columns."""


class View(Protocol):
    """Shows events as they come. What it cannot show must not hurt the run."""

    @property
    def tells_answer(self) -> bool:
        """True if who looks at it has read the answer."""
        ...

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        ...

    def recall(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Take in events that were shown elsewhere or are passed over.

        `inside`: show the step in which they end, as far as it has come.
        """
        ...

    def explain(self, on: bool) -> None:
        """From now on show each decision with all that was considered, or do not."""
        ...

    def say(self, draw: Draw) -> None:
        """Show lines that are no event's."""
        ...

    def wait(self, lines: Sequence[str]) -> None:
        """Say at the foot what is waited for; nothing to take it away."""
        ...

    def stopping(self) -> None:
        """The user has asked to stop. May be called from a signal handler."""
        ...

    def abandon(self) -> None:
        """Leave the terminal usable at once, whatever else is lost."""
        ...

    def close(self) -> None:
        """Leave the terminal as it was found."""
        ...


class Silent:
    """Shows nothing."""

    tells_answer = False

    def show(self, event: Event | Lagged) -> None:
        """Nothing."""

    def recall(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Nothing."""

    def explain(self, on: bool) -> None:
        """Nothing."""

    def say(self, draw: Draw) -> None:
        """Nothing."""

    def wait(self, lines: Sequence[str]) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class CarefulView(Careful[View]):
    """The view of one run, off once it fails."""

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        self._if_it_works(lambda: self._view.show(event))

    def recall(self, events: Sequence[Event], *, inside: bool = False) -> None:
        """Take in events that were shown elsewhere or are passed over."""
        self._if_it_works(lambda: self._view.recall(events, inside=inside))

    def explain(self, on: bool) -> None:
        """From now on show each decision with all that was considered, or do not."""
        self._if_it_works(lambda: self._view.explain(on))

    def say(self, draw: Draw) -> None:
        """Show lines that are no event's."""
        self._if_it_works(lambda: self._view.say(draw))

    def wait(self, lines: Sequence[str]) -> None:
        """Say at the foot what is waited for."""
        self._if_it_works(lambda: self._view.wait(lines))


def choose_view(
    channels: Channels, *, quiet: bool, explain: bool, saved: Saved, recorded: Recorded | None = None
) -> View:
    """The view that fits where stderr goes: rich for a terminal, plain lines for all else."""
    if quiet:
        return Silent()
    if can_draw(channels.stderr):
        from .live import Live

        return CarefulView(Live(channels, explain=explain, saved=saved, recorded=recorded))
    return CarefulView(Plain(explain=explain, saved=saved, recorded=recorded))


def choose_race_view(channels: Channels, names: Sequence[str], prompt: str, *, quiet: bool) -> RaceView:
    """The view that fits where stderr goes."""
    if quiet:
        return SilentRace()
    if can_draw(channels.stderr):
        from .race_live import LiveRace

        return CarefulRace(LiveRace(channels, names, prompt))
    return CarefulRace(PlainRace(names))


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
