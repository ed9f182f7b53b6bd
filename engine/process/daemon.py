"""Common parts of long-running processes, servers and workers: event loop, log, and reaction to signals."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Protocol

from ..base.sanitize import sanitize
from .shutdown import INTERRUPT_EXIT_CODE


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop: uvloop's if it is installed, which needs a third less time per event."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def log_to_stderr(hide: Callable[[str], str] | None = None) -> Iterator[None]:
    """Write each of endstop's log records as one line to stderr, inside the block. stdout is only for the answer.

    This is for our programs alone: in a library, the handlers are the user's.

    hide: applied to each text, which may come from a model or a provider. Control sequences are removed from all.
    """
    logger, handler = logging.getLogger("endstop"), _LinesOnStderr(hide)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level or logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class _LinesOnStderr(logging.Handler):
    """A handler that writes records as lines of `key=value`. Each goes to the stderr of that moment."""

    def __init__(self, hide: Callable[[str], str] | None) -> None:
        super().__init__()
        self._hide = hide

    @cached_property
    def _formatter(self) -> logging.Formatter:
        """Structlog's formatter, which is imported for the first record: a run without one needs none of it."""
        from structlog import processors, stdlib

        return stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                stdlib.ExtraAdder(),  # `event` and the fields, in place of the message that has both
                processors.add_log_level,
                processors.TimeStamper(fmt="iso", utc=True),
                _add_traceback_text,
            ],
            processors=[
                stdlib.ProcessorFormatter.remove_processors_meta,
                processors.format_exc_info,
                partial(_clean, self._hide),
                processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], drop_missing=True),
            ],
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        try:
            print(self._formatter.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def _add_traceback_text(logger: object, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the text of a traceback that stands on the record without its exception (`user_errors.py`)."""
    record: logging.LogRecord = entry["_record"]
    if record.exc_text and not record.exc_info:
        entry["exception"] = record.exc_text
    return entry


def _clean(
    hide: Callable[[str], str] | None, logger: object, method: str, entry: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Return a log entry whose texts can neither start a line nor move a terminal's cursor."""
    for name, value in entry.items():
        if not isinstance(value, int | float | None):
            text = sanitize(str(value))
            entry[name] = text if hide is None else hide(text)
    return entry


class Stoppable(Protocol):
    """The work of a long-running process: a service with its sessions, or a proxy with its requests."""

    @property
    def running(self) -> int:
        """The number of sessions or requests in progress."""
        ...

    def begin_stopping(self) -> None:
        """Start nothing more, and let what is in progress end. Returns immediately."""
        ...


class DaemonProcess:
    """A long-running process as `ShutdownSignals` needs it: a `Cancellable` and a `ShutdownView`.

    work: a name for people of what `service.running` counts.
    """

    begun = True

    def __init__(self, service: Stoppable, work: str = "sessions") -> None:
        self.exit_code = 0
        """0, or `INTERRUPT_EXIT_CODE` after Ctrl-C."""
        self.stop_requested = asyncio.Event()
        """Set when the process should stop."""
        self._service = service
        self._work = work

    def cancel(self, cause: str = "shutdown") -> None:
        """Begin to stop the service, and set `exit_code` and `stop_requested`. Returns immediately."""
        self.exit_code = INTERRUPT_EXIT_CODE if cause == "interrupt" else 0
        self._service.begin_stopping()
        self.stop_requested.set()

    def show_stopping(self) -> None:
        """Print how much is still running."""
        running = self._service.running
        if running:
            print(f"endstop: stopping; running {self._work}: {running}", file=sys.stderr, flush=True)

    def restore_terminal(self) -> None:
        """Do nothing: there is no live view."""
