"""A terminal for tests: a real pseudo-terminal, and as much of a screen as the live view and questions use."""

from __future__ import annotations

import asyncio
import codecs
import fcntl
import os
import pty
import re
import struct
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ...console import COMMAND, PATIENCE, environment, started_in_terminal
from ...forked import Started

_PIECES = re.compile(
    r"\x1b\[(?P<codes>[?\d;]*)(?P<final>[A-Za-z])|(?P<control>[\r\n\x07\b])|(?P<text>[^\x1b\r\n\x07\b]+)"
)

Process = asyncio.subprocess.Process | Started
"""A new one, or a fork."""
_BEGUN = re.compile(r"\x1b(\[[?\d;]*)?$")


class Terminal:
    """What a person sees: `lines`, everything that scrolled away included. Unknown sequences fail the test."""

    def __init__(self, descriptor: int, columns: int, found: list[Any]) -> None:
        self.raw = ""
        self.lines = [""]
        self.cursor_shown = True
        self.found = found
        """How it treated what is typed before anybody used it."""
        self._columns = columns
        self._row = self._column = 0
        self._descriptor = descriptor
        self._news = asyncio.Event()
        self._closed = False
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._begun = ""
        """A sequence whose end has not come yet."""
        asyncio.get_running_loop().add_reader(descriptor, self._read)

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(line.rstrip() for line in self.lines)

    @property
    def modes(self) -> list[Any]:
        """How the terminal treats what is typed."""
        return termios.tcgetattr(self._descriptor)

    @property
    def echoes(self) -> bool:
        """Whether it shows what is typed, as a shell expects it."""
        return bool(self.modes[3] & termios.ECHO)

    def press(self, keys: bytes) -> None:
        """Type."""
        os.write(self._descriptor, keys)

    async def shows(self, text: str) -> None:
        """Wait until this can be read."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.text:
                assert not self._closed, self.text
                self._news.clear()
                await self._news.wait()

    async def prompts(self, text: str, times: int) -> None:
        """Wait until a line is read below this prompt, which is shown so many times in all."""
        async with asyncio.timeout(PATIENCE):
            while self.text.count(text) < times:
                assert not self._closed, self.text
                self._news.clear()
                await self._news.wait()

    async def opened(self) -> None:
        """Wait until something is written, so that somebody else holds it open."""
        async with asyncio.timeout(PATIENCE):
            await self._news.wait()

    async def closed(self) -> None:
        """Wait until nobody can write to it any more."""
        async with asyncio.timeout(PATIENCE):
            while not self._closed:
                self._news.clear()
                await self._news.wait()

    def _read(self) -> None:
        try:
            block = os.read(self._descriptor, 65536)
        except OSError:  # how Linux says that the other side is closed
            block = b""
        self._news.set()
        if not block:
            self._closed = True
            asyncio.get_running_loop().remove_reader(self._descriptor)
            return
        text = self._begun + self._decode(block)
        begun = _BEGUN.search(text)
        self._begun = begun[0] if begun else ""
        self._show(text.removesuffix(self._begun))

    def _show(self, text: str) -> None:
        self.raw += text
        for piece in _PIECES.finditer(text):
            if piece["text"]:
                self._write(piece["text"])
            elif piece["control"] == "\r":
                self._column = 0
            elif piece["control"] == "\b":
                self._column -= 1
            elif piece["control"] == "\n":
                self._row += 1
                self._grow()
            elif piece["final"]:
                self._obey(piece["codes"], piece["final"])
        assert "".join(piece[0] for piece in _PIECES.finditer(text)) == text, f"unknown sequence in {text!r}"

    def _write(self, text: str) -> None:
        for character in text:
            if self._column == self._columns:
                self._column = 0
                self._row += 1
                self._grow()
            line = self.lines[self._row].ljust(self._column)
            self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
            self._column += 1

    def _obey(self, codes: str, final: str) -> None:
        match codes, final:
            case _, "m":
                pass
            case "2", "K":
                self.lines[self._row] = ""
            case "" | "0", "K":
                self.lines[self._row] = self.lines[self._row][: self._column]
            case _, "C":
                self._column += int(codes or 1)
            case _, "A":
                self._row = max(0, self._row - int(codes or 1))
            case "?2004" | "?1034", "l" | "h":
                pass  # keys: what is pasted is marked as such
            case "?25", "l" | "h":
                self.cursor_shown = final == "h"
            case _:
                raise AssertionError(f"unknown sequence {codes}{final}")

    def _grow(self) -> None:
        while self._row >= len(self.lines):
            self.lines.append("")


@asynccontextmanager
async def in_terminal(
    *arguments: object, columns: int = 80, rows: int = 40, env: Mapping[str, str] | None = None, forked: bool = True
) -> AsyncIterator[tuple[Terminal, Process]]:
    """`endstop` with stdin, stdout and stderr in a terminal of this size, which it controls (Ctrl-C works)."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    terminal = Terminal(ours, columns or 80, termios.tcgetattr(theirs))
    given = {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **(env or {})}
    start = started_in_terminal if forked else _newly_started
    process = await start(theirs, *arguments, env=given)
    try:
        await terminal.opened()
        os.close(theirs)
        yield terminal, process
    finally:
        asyncio.get_running_loop().remove_reader(ours)
        if isinstance(process, Started):
            await process.leave()
        elif process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


async def _newly_started(terminal: int, *arguments: object, env: Mapping[str, str]) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        f'exec "$0" "$@" <>{os.ttyname(terminal)} >&0 2>&0',  # what a session's leader opens first controls it
        COMMAND,
        *map(str, arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        env=environment(env),
    )
