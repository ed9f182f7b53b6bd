"""What processes share that stand for long, a server and a worker: their event loop, their log, their place."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from ...decision import WrongUse


def new_loop() -> asyncio.AbstractEventLoop:
    """The event loop: uvloop's if it is installed, which takes a third less for each event."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def log_to_stderr() -> None:
    """Let structlog write one line for each event to stderr: stdout is for the answer alone."""
    import structlog

    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )


def default_store() -> str:
    """Where sessions are kept if nothing else was said: in the user's state folder, which is made."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    folder /= "endstop"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WrongUse(f"no sessions can be kept in {folder}: {error.strerror}; name a place with --store") from None
    return str(folder / "sessions.db")
