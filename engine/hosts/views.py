"""What shows a run to people: live in a terminal, in plain lines elsewhere, or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from ...decision import Event
from ..bus import Lagged
from .channels import Channels
from .phrases import Recorded
from .plain import Plain
from .saved import Saved


class View(Protocol):
    """Shows events as they come. What it cannot show must not hurt the run."""

    @property
    def tells_answer(self) -> bool:
        """True if who looks at it has read the answer."""
        ...

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
        ...

    def recall(self, events: Sequence[Event]) -> None:
        """Begin with a run whose first events were shown elsewhere, by a process that was killed."""
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

    def recall(self, events: Sequence[Event]) -> None:
        """Nothing."""

    def stopping(self) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Careful:
    """A view that, once it fails, is off: a terminal that is gone, or a fault of ours, must not hurt the run."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._works = True

    @property
    def tells_answer(self) -> bool:
        """False if it did not get that far."""
        return self._works and self._view.tells_answer

    def show(self, event: Event | Lagged) -> None:
        """Show one more event, if it still works."""
        if self._works:
            try:
                self._view.show(event)
            except Exception as error:
                self._fail(error)

    def recall(self, events: Sequence[Event]) -> None:
        """Begin with a run whose first events were shown elsewhere."""
        try:
            self._view.recall(events)
        except Exception as error:
            self._fail(error)

    def stopping(self) -> None:
        """The user has asked to stop."""
        self._view.stopping()

    def abandon(self) -> None:
        """Leave the terminal usable at once."""
        with suppress(OSError):
            self._view.abandon()

    def close(self) -> None:
        """Leave the terminal as it was found."""
        try:
            self._view.close()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if self._works:
            self._works = False
            self.close()
            if not isinstance(error, OSError):  # if it is one, there is nobody to tell
                print(f"endstop: the view failed and is off ({type(error).__name__}: {error})", file=sys.stderr)


def choose_view(
    channels: Channels, *, quiet: bool, explain: bool, saved: Saved, recorded: Recorded | None = None
) -> View:
    """The view that fits where stderr goes: rich for a terminal, plain lines for all else."""
    if quiet:
        return Silent()
    if os.isatty(channels.stderr) and os.environ.get("TERM") not in (None, "", "dumb") and speaks_unicode():
        from .live import Live

        return Careful(Live(channels, explain=explain, saved=saved, recorded=recorded))
    return Careful(Plain(explain=explain, saved=saved, recorded=recorded))


def speaks_unicode() -> bool:
    """Whether what is printed to stderr is encoded as UTF-8."""
    return (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "") == "utf8"
