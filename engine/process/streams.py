"""stdout and stderr of the process, at the level of file descriptors.

stdout is only for the answer. Whatever tools and libraries print, also from C code and child processes, goes to stderr.
While a live view owns the terminal, it is captured line by line and passed to the view.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_STDOUT, _STDERR = 1, 2
_open: list[StdStreams] = []
"""Those that are not closed, in the order in which they were opened."""


class StdStreams:
    """The standard streams: until closed, stdout gets only the answer, and stderr everything else that is printed.

    A process that does nothing else need not close it; what it prints at its very end is then not part of the answer.
    """

    def __init__(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.flush()
                stream.reconfigure(line_buffering=True, errors="backslashreplace")
        self.stdout = os.dup(_STDOUT)
        """The original stdout, for the answer."""
        self.stderr = os.dup(_STDERR)
        """The original stderr, also while output is captured."""
        os.dup2(self.stderr, _STDOUT)
        self._reader: threading.Thread | None = None
        _open.append(self)

    def close(self) -> None:
        """Give stdout and stderr back as they were, and close the copies of their descriptors."""
        if self not in _open:
            return
        _open.remove(self)
        self.stop_capture()
        os.dup2(self.stdout, _STDOUT)
        os.close(self.stdout)
        os.close(self.stderr)

    def write_answer(self, text: str) -> None:
        """Write to the original stdout. A reader that has closed it is not an error."""
        rest = text.encode("utf-8", "replace")
        with suppress(BrokenPipeError):
            while rest:
                rest = rest[os.write(self.stdout, rest) :]

    @property
    def stdout_is_terminal(self) -> bool:
        """Whether the answer goes to a terminal."""
        return os.isatty(self.stdout)

    def capture(self, line: Callable[[str], None]) -> None:
        """Call `line`, from a thread, with each line that is printed from now on."""
        flush_std_streams()
        read, write = os.pipe()
        os.dup2(write, _STDOUT)
        os.dup2(write, _STDERR)
        os.close(write)
        self._reader = threading.Thread(target=_read_lines, args=(read, line), name="endstop output", daemon=True)
        self._reader.start()

    def stop_capture(self) -> None:
        """End `capture` once the lines that were printed before have been passed on; waits at most 0.3 seconds."""
        flush_std_streams()
        os.dup2(self.stderr, _STDOUT)
        os.dup2(self.stderr, _STDERR)
        if self._reader is not None:
            self._reader.join(0.3)  # a child process may keep the pipe open
            self._reader = None


@contextmanager
def std_streams_given_back() -> Iterator[None]:
    """Close at the end of the block what was opened within it, the latest first."""
    before = len(_open)
    try:
        yield
    finally:
        for opened in reversed(_open[before:]):
            opened.close()


def flush_std_streams() -> None:
    """Flush stdout and stderr."""
    for descriptor, stream in ((_STDOUT, sys.stdout), (_STDERR, sys.stderr)):
        try:
            stream.flush()
        except OSError:  # it has no reader any more, and flushing at exit must not fail
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, descriptor)
            os.close(null)
        except (ValueError, AttributeError):
            pass  # closed, or None


def reopen_closed_streams() -> None:
    """Open the null device in place of a closed stdin, stdout or stderr, so that no file gets its descriptor."""
    for descriptor in (0, _STDOUT, _STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            null = os.open(os.devnull, os.O_RDWR)  # the lowest free number, so usually this one
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
    if sys.stderr is None:
        sys.stderr = open(_STDERR, "w", closefd=False)  # noqa: SIM115  until the process ends


def _read_lines(descriptor: int, line: Callable[[str], None]) -> None:
    with open(descriptor, encoding="utf-8", errors="replace", newline=None) as printed:
        for text in printed:
            line(text.rstrip("\n"))
