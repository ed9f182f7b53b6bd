"""What the scripts of the frameworks share: the tools of the agent, the user's check, and how the end is told.

Only the standard library, since each framework has an environment of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Literal, NamedTuple

PROMPT = "Write five lines into work.txt. The work is right once `sh check.sh` passes."
ATTEMPTS = 10
"""Attempts that each goal has which counts them."""
IMPOSSIBLE = 3
"""Exit code of a check that says that the work cannot be done."""


class Checked(NamedTuple):
    """What the check says. reason: the end of its output."""

    said: Literal["met", "not_met", "impossible"]
    reason: str

    @property
    def met(self) -> bool:
        """Whether the work is right."""
        return self.said == "met"


class Impossible(Exception):
    """Raised by a check of the work that says that it cannot be done, where a framework has no answer for that."""


class Trial(NamedTuple):
    """One scene, as the script of a framework gets it on its command line."""

    url: str
    folder: str
    command: str
    timeout: float
    sessions: str
    resumed: bool

    def check(self) -> Checked:
        """Run the check as a user would who writes it for a framework. Raises subprocess.TimeoutExpired."""
        done = subprocess.run(
            self.command,
            shell=True,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self.timeout,
            check=False,
        )
        said: dict[int, Any] = {0: "met", IMPOSSIBLE: "impossible"}
        return Checked(said.get(done.returncode, "not_met"), done.stdout[-2000:])

    def add_line(self, n: int) -> str:
        """Add a line to the work."""
        with Path(self.folder, "work.txt").open("a") as file:
            file.write(f"line {n}\n")
        return f"line {n} is there"

    def look(self, n: int) -> str:
        """Look at the work."""
        return f"look {n}: {len(Path(self.folder, 'work.txt').read_text().splitlines())} lines"

    def weaken_check(self, n: int) -> str:
        """Make the check pass without the work."""
        Path(self.folder, "check.sh").write_text(Path(self.folder, "..", "weak.sh").read_text())
        return f"change {n} is made"


def play(goal: Callable[[Trial], Coroutine[Any, Any, str] | str]) -> None:
    """Run an agent on the scene of the command line, and print how it ended: what `goal` returns, or its exception."""
    trial = Trial(**json.loads(sys.argv[1]))
    try:
        told = goal(trial)
        ended = told if isinstance(told, str) else asyncio.run(told)
    except Exception as error:
        ended = type(error).__name__
        print(repr(error), file=sys.stderr)
    print(f"ENDED {ended}", flush=True)
