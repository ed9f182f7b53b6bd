"""Clock of the engine and the wrappers. Nothing else reads the time or sleeps, so tests can control time."""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from ..decision.wrong_calls import checked

if TYPE_CHECKING:
    import anyio


class Clock(Protocol):
    """Source of time for engine and wrappers."""

    def now(self) -> float:
        """Return the seconds of a monotonic clock."""
        ...

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC; for records and people only."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        ...

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """Return a cancel scope that times out after this many seconds; never if None."""
        ...


@checked
class SystemClock:
    """The system's clocks."""

    now = staticmethod(monotonic)  # not a method that wraps it, because it is called for every event
    """Seconds on the system's monotonic clock."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Sleep for this many seconds."""
        import anyio

        await anyio.sleep(seconds)

    def __repr__(self) -> str:
        return "SystemClock()"

    def deadline(self, seconds: float | None) -> anyio.CancelScope:
        """Return a cancel scope that times out after this many seconds; never if None."""
        import anyio

        return anyio.move_on_after(seconds)
