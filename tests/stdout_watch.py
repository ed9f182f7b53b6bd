"""Who writes to stdout in this process: a library prints nothing, so nobody in endstop may but its programs.

Noted is whoever of endstop acts last before something is written: a `print` of its own, a package that it calls, a
child process that it lets write where this process does. What a test prints, or a function that a test hands in, is
the test's own. A writer that neither endstop nor a test has called, such as a thread of another package, is noted as
well. `watched()` raises for what was noted.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

STDOUT = 1
PROGRAMS = "endstop.cli"
"""The command line: output is what its programs are for."""
_OTHERS = (*{f"{sysconfig.get_path(name)}/" for name in ("stdlib", "platstdlib", "purelib", "platlib")}, "<frozen ")
"""Where code of the standard library and of installed packages begins."""
_noted: list[str] = []


@contextmanager
def watched() -> Iterator[None]:
    """Watch `sys.stdout` in the block, and file descriptor 1 and child processes from the first block on.

    Raises AssertionError at the end of the block if somebody wrote who may not, in the block or since the last one.
    """
    os.write, subprocess.Popen.__init__ = _write, _start  # type: ignore[method-assign]
    before = sys.stdout
    if hasattr(before, "buffer") and not isinstance(before.buffer, _Watched):
        before.flush()
        encoding, errors = before.encoding, before.errors
        sys.stdout = io.TextIOWrapper(_Watched(before.buffer), encoding, errors, newline="", write_through=True)
    mine = sys.stdout
    try:
        yield
    finally:
        if sys.stdout is mine:
            sys.stdout = before
    if _noted:
        told, _noted[:] = "; ".join(_noted), []
        raise AssertionError(f"endstop is a library, and wrote to stdout: {told}")


class _Watched(io.RawIOBase):
    """The bytes of a stream, which goes on without it."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        _note(repr(bytes(data[:200])) if data else "")
        written: int = self._stream.write(data)
        self._stream.flush()
        return written

    def fileno(self) -> int:
        fd: int = self._stream.fileno()
        return fd

    def isatty(self) -> bool:
        return bool(self._stream.isatty())


_os_write, _popen = os.write, subprocess.Popen.__init__


def _write(fd: int, data: Any, /) -> int:
    if fd == STDOUT:
        _note(repr(bytes(data[:200])))
    return _os_write(fd, data)


def _start(self: Any, args: Any, *rest: Any, **options: Any) -> None:
    given = rest[3] if len(rest) > 3 else options.get("stdout")
    if given in (None, STDOUT):
        _note(f"where it does, by the child process {args!r}")
    _popen(self, args, *rest, **options)


def _note(what: str) -> None:
    if what and (who := _who_may_not(sys._getframe(2))):
        _noted.append(f"{who} wrote {what}")


def _who_may_not(frame: FrameType | None) -> str:
    """Return who writes, as module and line, if that is not a program, a test or a function of a test; else empty."""
    last = "" if frame is None else _place(frame)
    while frame is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if module.startswith("endstop."):
            return "" if module.startswith(f"{PROGRAMS}.") else _place(frame)
        if not frame.f_code.co_filename.startswith(_OTHERS):
            return ""
        frame = frame.f_back
    return last


def _place(frame: FrameType) -> str:
    return f"{frame.f_globals.get('__name__')}:{frame.f_lineno}"
