"""Work that a check is about: a file to which a tool adds lines, right once it has enough of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from endstop import Until

GOAL = 3
CHECK = f"""n=$(wc -l < work.txt); echo "$n passed, $(({GOAL} - n)) failed"; test "$n" -ge {GOAL}"""


class CheckedWork:
    """The work in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.file = self.folder / "work.txt"
        self.file.write_text("")

    def work(self, n: int) -> str:
        """Add a line."""
        with self.file.open("a") as opened:
            opened.write("line\n")
        return "ok"

    @property
    def lines(self) -> int:
        """Lines so far."""
        return len(self.file.read_text().splitlines())

    def until(self, command: str = CHECK, **more: Any) -> Until:
        """A command that checks it."""
        return Until(command, folder=self.folder, **more)
