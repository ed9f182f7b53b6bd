"""What happened in all processes of a case, in a file that the engine knows nothing of."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

What = Literal[
    "working",
    "submitted",
    "left",
    "taken",
    "began",
    "ended",
    "result",
    "not kept",
    "lost",
    "cancelled",
    "raised",
    "done",
]
"""`working`, `submitted` and `left` are said by a process; `taken`, `lost`, `cancelled`, `raised` and `done` of a job;
`began` and `ended` by the work of a step, `result` and `not kept` by who asked for it."""


class Note(Struct, frozen=True, omit_defaults=True):
    """One thing that happened."""

    process: str
    what: What
    run: str = ""
    key: str = ""
    by: str = ""
    """With `result`: the process whose work it is."""
    text: str = ""
    """With `result`: what is wrong with it. With `raised` and `not kept`: what was raised."""


class Notes:
    """The file. A note is on it once `add` has returned, whatever becomes of the process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._path = folder / "notes"
        self._read: list[Note] = []
        self._upto = 0

    def add(self, note: Note) -> None:
        """Write a note down."""
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, msgspec.json.encode(note) + b"\n")
        finally:
            os.close(file)

    def all(self) -> list[Note]:
        """All notes of all processes, in their order."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._upto)
                for line in file:
                    if line.endswith(b"\n"):
                        self._upto += len(line)
                        self._read.append(msgspec.json.decode(line, type=Note))
        return self._read

    def open_gate(self, name: str) -> None:
        """Let everybody pass who waits here, now or later, in any process."""
        (self.folder / f"gate-{name}").touch()

    async def gate(self, name: str) -> None:
        """Wait until this gate is open."""
        while not (self.folder / f"gate-{name}").exists():
            await asyncio.sleep(0.005)
