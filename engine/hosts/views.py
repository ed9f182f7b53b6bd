"""What shows a run to people: live in a terminal, in plain lines elsewhere, or not at all."""

from __future__ import annotations

import os
import sys
from typing import Protocol

from ...decision import Event
from ..bus import Lagged
from .channels import Channels
from .plain import Plain
from .saved import Saved


class View(Protocol):
    """Shows events as they come. What it cannot show must not hurt the run."""

    tells_answer: bool
    """True if who looks at it has read the answer."""

    def show(self, event: Event | Lagged) -> None:
        """Show one more event."""
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

    def stopping(self) -> None:
        """Nothing."""

    def abandon(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def choose_view(channels: Channels, *, quiet: bool, explain: bool, saved: Saved, record: str | None = None) -> View:
    """The view that fits where stderr goes: rich for a terminal, plain lines for all else."""
    if quiet:
        return Silent()
    if os.isatty(channels.stderr) and os.environ.get("TERM") not in (None, "", "dumb") and _speaks_unicode():
        from .live import Live

        return Live(channels, explain=explain, saved=saved, record=record)
    return Plain(explain=explain, saved=saved, record=record)


def _speaks_unicode() -> bool:
    return (getattr(sys.stderr, "encoding", None) or "").lower().replace("-", "") == "utf8"
