"""Common parts of long-running processes, servers and workers: event loop, log, and reaction to signals."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any, Literal, Protocol

from ..base.sanitize import sanitize
from ..providers._logging import log, log_warning
from .shutdown import INTERRUPT_EXIT_CODE
from .streams import flush_std_streams


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop: uvloop's if it is installed, which needs a third less time per event."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


@contextmanager
def log_to_stderr(hide: Callable[[str], str] | None = None, log_format: LogFormat = "text") -> Iterator[None]:
    """Write each of endstop's log records as one line to stderr, inside the block. stdout is only for the answer.

    This is for our programs alone: in a library, the handlers are the user's.

    hide: applied to each text, which may come from a model or a provider. Control sequences are removed from all.
    log_format: each line is `key=value` (text) or a JSON object.
    """
    logger, handler = logging.getLogger("endstop"), _LinesOnStderr(hide, log_format)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(level or logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


LogFormat = Literal["text", "json"]
_FIRST = ("timestamp", "level", "event")
"""What each line begins with."""


class _LinesOnStderr(logging.Handler):
    """A handler that writes each record as one line. It goes to the stderr of that moment."""

    def __init__(self, hide: Callable[[str], str] | None, log_format: LogFormat) -> None:
        super().__init__()
        self._hide = hide
        self._log_format = log_format

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
                _in_order,
                processors.JSONRenderer(ensure_ascii=False)
                if self._log_format == "json"
                else processors.LogfmtRenderer(),
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


def _in_order(logger: object, method: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return a log entry whose first fields are those that each has."""
    return {name: entry[name] for name in _FIRST} | {k: v for k, v in entry.items() if k not in _FIRST}


def _clean(
    hide: Callable[[str], str] | None, logger: object, method: str, entry: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Return a log entry whose texts can neither start a line nor move a terminal's cursor."""
    for name, value in entry.items():
        if not isinstance(value, int | float | None):
            text = sanitize(str(value))
            entry[name] = text if hide is None else hide(text)
    return entry


LEAVING_SECONDS = 2.0
"""Seconds after its grace period in which a process that stops ends tools and other work that is cancelled."""
SILENT_TIMES = 3
"""How often in a row a part has not answered when a process that stops leaves without it."""
ASK_SECONDS = 1.0
"""Seconds between two such questions."""


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
        if self._service.running:
            log(logging.INFO, "stopping", {self._work: self._service.running})

    def show_stopping(self) -> None:
        """Do nothing: `cancel` logs how much is still running."""

    def restore_terminal(self) -> None:
        """Do nothing: there is no live view."""

    async def run(
        self, work: Coroutine[Any, Any, None], *, grace: float, silent_parts: Callable[[], Awaitable[Sequence[str]]]
    ) -> int:
        """Do the work of this process and return its exit code.

        grace: seconds that the work gets to end once `cancel` was called. `LEAVING_SECONDS` later this ends the process
        at once, with the work unfinished, if a part that it waits for does not answer, such as a database:
        `silent_parts` returns which. Tasks and threads that wait for it would keep the process, and all that they had
        left to do needs it.
        """
        working = asyncio.create_task(work, name="endstop daemon")
        stopping = asyncio.create_task(self.stop_requested.wait(), name="endstop stop")
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        loop, silent, times = asyncio.get_running_loop(), list[str](), 0
        deadline = loop.time() + grace + LEAVING_SECONDS
        while not working.done() and (times < SILENT_TIMES or loop.time() < deadline):
            silent = [*await silent_parts()]
            times = times + 1 if silent else 0
            await asyncio.wait((working,), timeout=ASK_SECONDS)
        if not working.done():
            log_warning("stopped without an answer: other processes continue what is left", silent=", ".join(silent))
            flush_std_streams()
            os._exit(self.exit_code)
        await working
        return self.exit_code
