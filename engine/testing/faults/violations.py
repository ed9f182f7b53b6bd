"""What a check reports: how many points it tried, how the runs ended, and what did not hold, and where."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from ...decision import WrongUse
from .invariants import INVARIANTS, Broken

MOST_VIOLATIONS = 20
"""A check ends early after so many: they are likely the same mistake."""

Points = int | Sequence[int] | None
"""Which points to try: so many, chosen with a seed; exactly these; or None for all."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that did not hold."""

    fault: str
    """What was done to the run, such as `cancel by scope`."""
    point: int
    """Where: the turn of the event loop, or the byte or line of the record. 0 if nothing was done to the run."""
    invariant: str
    """The name of what did not hold; `INVARIANTS` says it in a sentence."""
    seen: str
    """What was seen instead."""
    repeat: str
    """The arguments that repeat it, beside those that you gave."""

    def __str__(self) -> str:
        return (
            f"{self.fault}, point {self.point}: {self.invariant} does not hold ({INVARIANTS[self.invariant]}).\n"
            f"    seen: {self.seen}\n    to repeat it: {self.repeat}"
        )


@dataclass(slots=True)
class FaultReport:
    """What a check has found. `print` shows it; in a test, write `assert report.ok, report`."""

    check: str
    """The name of the function that made it."""
    of: int = 0
    """How many points there are; with `points=None` and enough time, all are tried."""
    tried: int = 0
    """How many runs were made with a fault, or would have been the same as one that was made (`alike`)."""
    alike: int = 0
    """At how many of these points a run finds exactly what it finds at the point before, and so was not made again."""
    ends: Counter[str] = field(default_factory=Counter)
    """How often runs ended with each stop reason. `not begun`: before the run had begun."""
    violations: list[Violation] = field(default_factory=list)
    """What did not hold. A check ends early after 20 violations."""
    seconds: float = 0.0
    """Real seconds that the check took."""
    counted: str = "runs ended"
    """What `ends` counts, for people; `check_redaction` counts texts."""

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return not self.violations

    @property
    def full(self) -> bool:
        """Whether there are so many violations that the check ends early."""
        return len(self.violations) >= MOST_VIOLATIONS

    def add(self, fault: str, point: int, broken: Iterable[Broken], repeat: str) -> None:
        """Add what did not hold at a point."""
        self.violations += [Violation(fault, point, invariant, seen, repeat) for invariant, seen in broken]

    def __str__(self) -> str:
        ended = ", ".join(f"{times} {how}" for how, times in self.ends.most_common())
        alike = f" ({self.alike:,} of them leave the same as the one before)" if self.alike else ""
        tried = f"{self.tried:,} of {self.of:,} points{alike} in {self.seconds:.1f} s"
        head = f"{self.check}: {tried}; {self.counted}: {ended}"
        if self.ok:
            return f"{head}; no violations"
        early = ", ended early" if self.full else ""
        return "\n".join([head, f"{len(self.violations)} violations{early}:", *map(str, self.violations)])


class Stopwatch:
    """Ends a check after so many real seconds; None for no bound. Raises WrongUse unless they are above 0."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise WrongUse(f"seconds is {seconds!r}: give a number above 0, or None for no bound")
        self._seconds, self._began = seconds, monotonic()

    @property
    def passed(self) -> float:
        """Real seconds so far."""
        return monotonic() - self._began

    @property
    def up(self) -> bool:
        """Whether the time is up."""
        return self._seconds is not None and self.passed > self._seconds


def check_not_async(name: str, made: object) -> None:
    """Raise WrongUse for what an async function has returned. name: of the function."""
    if asyncio.iscoroutine(made):
        made.close()
        raise WrongUse(
            f"{name} is an async function, and a check calls it itself: write `def {name}(...)`. If a run needs "
            "something that has to be waited for, write `@asynccontextmanager` above the function, and `yield run`"
        )


def chosen(points: Points, there_are: Sequence[int], seed: int) -> list[int]:
    """The points to try, of those that there are. Raises WrongUse for points that cannot be."""
    if points is None:
        return list(there_are)
    if isinstance(points, bool) or (isinstance(points, int) and points < 1):
        raise WrongUse(f"points is {points!r}: give how many (1 or more), the points themselves, or None for all")
    if isinstance(points, int):
        return sorted(random.Random(seed).sample(list(there_are), min(points, len(there_are))))
    if isinstance(points, str) or not all(type(point) is int and point > 0 for point in points):
        raise WrongUse(f"points is {points!r}: points are whole numbers, 1 or more")
    if points and min(points) > len(there_are):
        raise WrongUse(f"points is {points!r}, and there are only the points 1 to {len(there_are)}: nothing is tried")
    return list(points)


def chosen_names(only: Sequence[str] | None, names: Iterable[str]) -> list[str]:
    """The names to try, of those that there are: all for None. Raises WrongUse for others."""
    known = list(names)
    if only is not None and (isinstance(only, str) or not set(only) <= set(known)):
        raise WrongUse(f"only is {only!r}: give several of {', '.join(known)}")
    return [name for name in known if only is None or name in only]


def record_in(folder: str) -> Path:
    """The path of the record of the next run, where nothing is."""
    emptied(Path(folder))
    return Path(folder) / "record.jsonl"


def emptied(folder: Path) -> None:
    """Remove everything in a folder."""
    for old in folder.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
