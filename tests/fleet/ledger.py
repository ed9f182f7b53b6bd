"""What the side logs say: what was asked of the model and what the tools did, whatever the records say.

A response counts as finished as soon as anything that came after it is seen: a call of it began, or a later step was
asked for. A call counts as finished once a request holds its result. What is done between the work and its keeping may
have to be done again, if the process dies there: those are counted as `repeated`, and are no fault unless they write.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .script import READS, WRITES, Script

Line = dict[str, Any]


@dataclass
class Ledger:
    """The lines of one session, in the order of their times."""

    who: str
    lines: list[Line] = field(default_factory=list)

    @property
    def requests(self) -> list[Line]:
        """The requests to the model."""
        return [line for line in self.lines if line["what"] == "begun"]

    @property
    def calls(self) -> list[Line]:
        """The calls of the tools that began."""
        return [line for line in self.lines if line["what"] == "began"]

    @property
    def askers(self) -> list[str]:
        """Who asked the model, each time that it was somebody else than before."""
        names = [line["by"] for line in self.requests]
        return [name for name, before in zip(names, ["", *names], strict=False) if name != before]

    def faults(self, script: Script, excused: Callable[[Line], bool] = lambda line: False) -> list[str]:
        """What must never be, in words. excused: of which lines it is known why they come again; none may write."""
        found = [f"a request that no run may send: {line}" for line in self.lines if line["what"] == "torn"]
        for later, line in enumerate(self.lines):
            if excused(line):
                continue
            if line["what"] == "begun":
                found += self._asked_again(line, self.lines[:later])
            elif line["what"] == "began":
                found += self._called_again(line, self.lines[:later])
        writes = Counter(_call(line) for line in self.calls if line["tool"] == WRITES)
        found += [f"{self.who}: call {call} wrote {times} times" for call, times in writes.items() if times > 1]
        asked = {line["step"] for line in self.requests}
        missing = sorted(set(range(1, script.steps + 1)) - asked)
        return found + ([f"{self.who}: steps {missing} were never asked for"] if missing else [])

    @property
    def repeated_requests(self) -> int:
        """Requests for a step that had been asked for already."""
        return len(self.requests) - len({line["step"] for line in self.requests})

    @property
    def repeated_calls(self) -> int:
        """Calls that began again."""
        return len(self.calls) - len({_call(line) for line in self.calls})

    def not_begun(self, script: Script) -> int:
        """Calls that never began: their process died before, and whether it had is not known."""
        wanted = {
            (step, name) for step in range(1, script.steps) for name in script.calls(step) if name in (READS, WRITES)
        }
        return len(wanted - {_call(line) for line in self.calls})

    def _asked_again(self, line: Line, before: list[Line]) -> Iterable[str]:
        """A request for a step whose response was finished."""
        for other in before:
            later = other["what"] == "begun" and other["step"] > line["step"]
            if later or (other["what"] == "began" and other["step"] >= line["step"]):
                yield f"{self.who}: a finished step was asked for again: {line}, after {other}"
                return

    def _called_again(self, line: Line, before: list[Line]) -> Iterable[str]:
        """A call whose result a request has held."""
        for other in before:
            if other["what"] == "begun" and other["step"] > line["step"]:
                yield f"{self.who}: a finished call began again: {line}, after {other}"
                return


class SideLog:
    """The file, read on as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._ledgers: dict[str, Ledger] = defaultdict(lambda: Ledger(""))

    def look(self) -> dict[str, Ledger]:
        """All sessions, as far as the log is written."""
        data = b""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        touched: set[str] = set()
        for text in whole.splitlines():
            line = json.loads(text)
            ledger = self._ledgers[line["who"]]
            ledger.who = line["who"]
            ledger.lines.append(line)
            touched.add(line["who"])
        for who in touched:
            self._ledgers[who].lines.sort(key=lambda line: int(line["t"]))
        return self._ledgers

    def of(self, who: str) -> Ledger:
        """One session."""
        return self.look().get(who) or Ledger(who)


def _call(line: Line) -> tuple[int, str]:
    """Which call of its session it is; a step never calls a tool twice."""
    return line["step"], line["tool"]
