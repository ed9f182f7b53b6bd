"""stdout and stderr of the process, at the level of file descriptors.

stdout is for the answer alone. Whatever tools and libraries print, also from C code and child processes, goes to
stderr; while a live view owns the terminal, it is caught line by line and handed to the view.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

_STDOUT, _STDERR = 1, 2


class StdStreams:
    """Takes stdout away from the rest of the process, for as long as the process lives."""

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.flush()
                stream.reconfigure(line_buffering=True, errors="backslashreplace")
        self.stdout = os.dup(_STDOUT)
        """What was stdout: for the answer."""
        self.stderr = os.dup(_STDERR)
        """What was stderr, also while it is being caught."""
        os.dup2(self.stderr, _STDOUT)
        self._reader: threading.Thread | None = None

    def write_answer(self, text: str) -> None:
        """Write to what was stdout. A reader that has left is no error."""
        rest = text.encode("utf-8", "replace")
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self.stdout, rest) :]

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether the answer goes to a terminal."""
        return os.isatty(self.stdout)

    def capture(self, line: Callable[[str], None]) -> None:
        """From now on, call `line` (from a thread) with each line that anything prints."""
        flush_std_streams()
        read, write = os.pipe()
        os.dup2(write, _STDOUT)
        os.dup2(write, _STDERR)
        os.close(write)
        self._reader = threading.Thread(target=_read_lines, args=(read, line), name="endstop output", daemon=True)
        self._reader.start()

    def stop_capture(self) -> None:
        """End `capture`; what was printed before is handed over first, but for what a child keeps open."""
        flush_std_streams()
        os.dup2(self.stderr, _STDOUT)
        os.dup2(self.stderr, _STDERR)
        if self._reader is not None:
            self._reader.join(0.3)
            self._reader = None


def flush_std_streams() -> None:
    """Hand to the operating system what Python still holds."""
    for descriptor, stream in ((_STDOUT, sys.stdout), (_STDERR, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # nobody reads it any more: the interpreter must not stumble over it when it ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
        except (ValueError, AttributeError):
            pass  # closed, or there is none


def reopen_closed_streams() -> None:
    """Put the null device where whoever started us closed stdin, stdout or stderr: no file may land there."""
    for descriptor in (0, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so mostly this very one
            if nowhere != descriptor:
                os.dup2(nowhere, descriptor)
                os.close(nowhere)
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", closefd=False)  # noqa: SIM115  for as long as the process lives


def _read_lines(descriptor: int, line: Callable[[str], None]) -> None:
    with open(descriptor, encoding="utf-8", errors="replace", newline=None) as printed:
        for text in printed:
            line(text.rstrip("\n"))
