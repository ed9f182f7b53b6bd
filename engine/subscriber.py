"""Subscribers: functions that are told every event, each in a task of its own, so that none can hurt a run.

    def on_event(event: Event | Lagged, run: Run) -> None: ...      # or async

A subscriber that raises is logged and gets the next event; one that is slow gets a `Lagged` where it missed events;
one that never returns is left behind when the run ends.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from ._logging import complain
from .decision import Event
from .decision.errors import error_text
from .event_bus import Lagged

if TYPE_CHECKING:
    from .run import Run

Subscriber = Callable[[Any, "Run"], Awaitable[None] | None]
"""Takes an `Event` or `Lagged`, and the run it belongs to."""


async def deliver(subscriber: Subscriber, run: Run) -> None:
    """Tell a subscriber every event of a run."""
    async for event in run:
        try:
            told = subscriber(event, run)
            if told is not None and isawaitable(told):
                await told
        except Exception as error:
            _complain(subscriber, event, run, error)


def _complain(subscriber: Subscriber, event: Event | Lagged, run: Run, error: Exception) -> None:
    complain(
        "subscriber raised",
        subscriber=getattr(subscriber, "__qualname__", repr(subscriber)),
        event_type=type(event).__name__,
        run_id=run.id,
        error=error_text(error),
    )
