"""Runs a shell command with a timeout. Everything that it started ends with it.

The output goes through our own pipe. With asyncio's pipes, the wait for the shell would last as long as any background
process holds them (Python 3.11), and a cancellation while it starts could leave processes behind.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection
from contextlib import ExitStack

import anyio
import anyio.to_thread

from .child_process import child_environment, start_child

KEPT_BYTES = 10_000
"""Number of bytes of output kept from the beginning, and the same number from the end."""
MAX_SECONDS = 600.0
"""Maximum timeout, in seconds."""
_PIECE = 65_536


async def run_shell(folder: str, command: str, timeout: float, env: Collection[str] = ()) -> str:
    """Run a command and return its exit code and output. Raises TimeoutError with the output so far.

    timeout: seconds. env: names of environment variables that it sees in addition to the allow-list of
    `child_process.py`.
    """
    seconds = max(0.1, min(timeout, MAX_SECONDS))
    output = _Output()
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)
        with ExitStack() as ending:
            try:
                visible = child_environment(env)
                started = ending.enter_context(start_child(command, folder=folder, output=writing, env=visible))
            finally:
                os.close(writing)
            process = started.process
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(output.read_until_closed, reading)
                with anyio.move_on_after(seconds) as deadline:
                    await anyio.to_thread.run_sync(process.wait, abandon_on_cancel=True)
                tasks.cancel_scope.cancel()
        output.drain(reading)
    finally:
        os.close(reading)
    if deadline.cancelled_caught:
        raise TimeoutError(f"the command was killed after {seconds:g} seconds\n{output.text()}".rstrip())
    code = process.returncode
    ending_words = f"exit code {code}" if code >= 0 else f"killed by signal {-code} ({_name(-code)})"
    return f"{ending_words}\n{output.text() or '(no output)'}"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


class _Output:
    """Buffer that keeps the beginning and the end of the data from a pipe."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    async def read_until_closed(self, pipe: int) -> None:
        """Read until the pipe is closed."""
        while self._read_piece(pipe) != b"":
            await anyio.wait_readable(pipe)

    def drain(self, pipe: int) -> None:
        """Read what is in the pipe now, up to a limit: a process that escaped may still be writing."""
        for _ in range(64):
            if not self._read_piece(pipe):
                return

    def text(self) -> str:
        """Return the kept output, with a note where bytes were left out."""
        gap = f"\n[... {self._left_out} bytes left out ...]\n".encode() if self._left_out else b""
        return (self._head + gap + self._tail).decode("utf-8", "replace")

    def _read_piece(self, pipe: int) -> bytes | None:
        """Read one piece. Return empty bytes if the pipe is closed, None if there is nothing to read now."""
        try:
            piece = os.read(pipe, _PIECE)
        except BlockingIOError:
            return None
        room = KEPT_BYTES - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        over = max(0, len(self._tail) - KEPT_BYTES)
        del self._tail[:over]
        self._left_out += over
        return piece
