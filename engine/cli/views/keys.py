"""Keys as they are pressed, one by one, and the terminal as it was found afterwards."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

from ...decision import WrongUse

try:
    import termios
    import tty
except ImportError:  # not every platform has them
    _PLATFORM = False
else:
    _PLATFORM = True

ENTER, ESCAPE, BACKSPACE = "enter", "escape", "backspace"
_NAMES = {"\r": ENTER, "\n": ENTER, "\x1b": ESCAPE, "\x7f": BACKSPACE, "\b": BACKSPACE}
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[@-~])")
"""Arrows, function keys and their like."""
_STDIN = 0
_PASSED_ON = ("SIGTSTP", "SIGQUIT", "SIGHUP")
"""Signals that stop or end the process without a word to us: the terminal is put right before."""


def check_terminal(stderr: int) -> None:
    """Refuse to wait for keys where none can be pressed, or nobody would see what for."""
    if not _PLATFORM:
        raise WrongUse("--step reads keys with termios, which this platform does not have: leave it out")
    missing = [name for name, descriptor in (("stdin", _STDIN), ("stderr", stderr)) if not os.isatty(descriptor)]
    if missing:
        raise WrongUse(
            f"--step waits for keys in a terminal, and {' and '.join(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} none: leave it out"
        )


class Keys:
    """Reads keys of the terminal on stdin while it is entered, in the event loop.

    `pressed` is called with each key: a character in lower case, or `enter`, `escape`, `backspace`; with "" once
    nothing more can come. `abandon` is called before the process is stopped or ended by a signal.
    """

    def __init__(self, pressed: Callable[[str], None], abandon: Callable[[], None]) -> None:
        self._pressed = pressed
        self._abandon = abandon
        self._found: Any = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Keys:
        self._found = termios.tcgetattr(_STDIN)
        for number in (getattr(signal, name) for name in _PASSED_ON):
            if signal.getsignal(number) is signal.SIG_DFL:
                self._before[number] = signal.signal(number, self._pass_on)
        self._take()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(_STDIN, self._read)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._loop.remove_reader(_STDIN)
        self.restore()
        for number, before in self._before.items():
            signal.signal(number, before)

    def restore(self) -> None:
        """Leave the terminal as it was found. What was typed and not read is dropped: it was meant for us.

        At once: `TCSAFLUSH` waits until all that was written has been shown, and a signal that comes then undoes it.
        """
        with suppress(termios.error):  # it is gone
            termios.tcsetattr(_STDIN, termios.TCSANOW, self._found)
            termios.tcflush(_STDIN, termios.TCIFLUSH)

    def _take(self) -> None:
        tty.setcbreak(_STDIN, termios.TCSANOW)

    def _read(self) -> None:
        try:
            block = os.read(_STDIN, 1024)
        except OSError:  # how Linux says that a terminal is gone
            block = b""
        if not block:
            self._loop.remove_reader(_STDIN)
            self._pressed("")
        for character in _SEQUENCES.sub("", block.decode("utf-8", "ignore")):
            self._pressed(_NAMES.get(character, character.lower()))

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Put the terminal right, and then let the signal do what it does; after a stop, go on."""
        self.restore()
        self._abandon()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
        signal.signal(number, self._pass_on)
        self._take()
