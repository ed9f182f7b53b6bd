"""Time as engine and wrappers see it. Nothing else reads a clock or sleeps, so tests can own time."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import Protocol

import anyio


class Clock(Protocol):
    """Where engine and wrappers get their time."""

    def now(self) -> float:
        """Seconds on a clock that never goes back."""
        ...

    def wall(self) -> datetime:
        """The time of day, in UTC; for people and records only."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        ...

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """A cancel scope that ends itself after so many seconds; never for None."""
        ...


class SystemClock:
    """The machine's time."""

    now = staticmethod(monotonic)  # itself and not a method around it: every event is dated by it
    """Seconds on the machine's monotonic clock."""

    def wall(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait so many seconds."""
        await anyio.sleep(seconds)

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """A cancel scope that ends itself after so many seconds; never for None."""
        return anyio.move_on_after(seconds)
