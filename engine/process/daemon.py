"""What processes share that stand for long, a server and a worker: their event loop, their log, their place."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .shutdown import INTERRUPT_EXIT_CODE

if TYPE_CHECKING:
    from ..service.service import Service


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The event loop: uvloop's if it is installed, which takes a third less for each event."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def log_to_stderr() -> Iterator[None]:
    """While it is entered, let structlog write one line for each event to stderr: stdout is for the answer alone."""
    import structlog

    before = structlog.get_config() if structlog.is_configured() else None
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
        ],
        logger_factory=lambda *named: structlog.PrintLogger(sys.stderr),  # as it is when something is said
        cache_logger_on_first_use=False,
    )
    try:
        yield
    finally:
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)


class DaemonProcess:
    """Such a process as a signal meets it: it stops as its service does. `exit_code` is 0, or that of Ctrl-C."""

    begun = True

    def __init__(self, service: Service) -> None:
        self.exit_code = 0
        self.stop_requested = asyncio.Event()
        """Set once it is to stop."""
        self._service = service

    def cancel(self, cause: str = "shutdown") -> None:
        """Begin to stop."""
        self.exit_code = INTERRUPT_EXIT_CODE if cause == "interrupt" else 0
        self._service.begin_stopping()
        self.stop_requested.set()

    def show_stopping(self) -> None:
        """Say that it is about to stop."""
        running = self._service.running
        if running:
            print(f"endstop: stopping; sessions that are running: {running}", file=sys.stderr, flush=True)

    def restore_terminal(self) -> None:
        """There is no screen to leave."""
