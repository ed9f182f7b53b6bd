"""Reports of checks: how many points were tried, how the runs ended, and which invariants were broken, and where."""

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
from ...decision.wrong_calls import checked
from .invariants import INVARIANTS, Broken

MOST_VIOLATIONS = 20
"""Number of violations after which a check ends early: they are probably the same mistake."""

Points = int | Sequence[int] | None
"""Points to try: this many, chosen with a seed; exactly these; or None for all."""


@checked
@dataclass(frozen=True, slots=True)
class Violation:
    """One broken invariant."""

    fault: str
    """Fault that was caused, such as `cancel by scope`."""
    point: int
    """Place: the turn of the event loop, or the byte or line of the record. 0 if there was no fault."""
    invariant: str
    """Name of the broken invariant; `INVARIANTS` has its description."""
    seen: str
    """What was seen instead."""
    repeat: str
    """Arguments that repeat it, in addition to those that you gave."""

    def __str__(self) -> str:
        return (
            f"{self.fault}, point {self.point}: {self.invariant} does not hold ({INVARIANTS[self.invariant]}).\n"
            f"    seen: {self.seen}\n    to repeat it: {self.repeat}"
        )


@checked
@dataclass(slots=True)
class FaultReport:
    """Report of a check. `print` shows it; in a test, write `report.check()`."""

    name: str
    """Name of the check's function."""
    of: int = 0
    """Number of points; with `points=None` and enough time, all are tried."""
    tried: int = 0
    """Number of runs that were made with a fault, or would have been the same as one that was made (`alike`)."""
    alike: int = 0
    """Number of these points at which a run finds exactly the same as at the previous point, so that it was not made
    again."""
    ends: Counter[str] = field(default_factory=Counter)
    """Number of runs by stop reason. `not begun`: ended before the run had begun."""
    violations: list[Violation] = field(default_factory=list)
    """Broken invariants. A check ends early after 20 violations."""
    seconds: float = 0.0
    """Real seconds that the check took."""
    counted: str = "runs ended"
    """Description of what `ends` counts; `check_redaction` counts texts."""

    @property
    def ok(self) -> bool:
        """Whether all invariants held."""
        return not self.violations

    @property
    def full(self) -> bool:
        """Whether there are enough violations for the check to end early."""
        return len(self.violations) >= MOST_VIOLATIONS

    def check(self) -> None:
        """Raise AssertionError with the whole report if an invariant was broken."""
        __tracebackhide__ = True  # pytest then shows the test, not this line
        if not self.ok:
            raise AssertionError(str(self))

    def add(self, fault: str, point: int, broken: Iterable[Broken], repeat: str) -> None:
        """Add the broken invariants at a point."""
        self.violations += [Violation(fault, point, invariant, seen, repeat) for invariant, seen in broken]

    def __str__(self) -> str:
        ended = ", ".join(f"{times} {how}" for how, times in self.ends.most_common())
        alike = f" ({self.alike:,} of them leave the same as the one before)" if self.alike else ""
        tried = f"{self.tried:,} of {self.of:,} points{alike} in {self.seconds:.1f} s"
        head = f"{self.name}: {tried}; {self.counted}: {ended}"
        if self.ok:
            return f"{head}; no violations"
        early = ", ended early" if self.full else ""
        return "\n".join([head, f"{len(self.violations)} violations{early}:", *map(str, self.violations)])


class Stopwatch:
    """Timer that ends a check after this many seconds; None for no limit. Raises WrongUse unless above 0."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise WrongUse(f"seconds is {seconds!r}: give a number above 0, or None for no limit")
        self._seconds, self._began = seconds, monotonic()

    @property
    def passed(self) -> float:
        """Elapsed real seconds."""
        return monotonic() - self._began

    @property
    def up(self) -> bool:
        """Whether the time is up."""
        return self._seconds is not None and self.passed > self._seconds


def check_not_async(name: str, made: object) -> None:
    """Raise WrongUse if an async function returned this value. name: the function's name."""
    if asyncio.iscoroutine(made):
        made.close()
        raise WrongUse(
            f"{name} is an async function, and a check calls it itself: write `def {name}(...)`. If a run needs "
            "something that must be awaited, write `@asynccontextmanager` above the function, and `yield run`"
        )


def chosen(points: Points, there_are: Sequence[int], seed: int) -> list[int]:
    """Return the points to try out of those that exist. Raises WrongUse for invalid points."""
    if points is None:
        return list(there_are)
    if isinstance(points, bool) or (isinstance(points, int) and points < 1):
        raise WrongUse(f"points is {points!r}: give a number of points (1 or more), a list of points, or None for all")
    if isinstance(points, int):
        return sorted(random.Random(seed).sample(list(there_are), min(points, len(there_are))))
    if isinstance(points, str) or not all(type(point) is int and point > 0 for point in points):
        raise WrongUse(f"points is {points!r}: points are whole numbers, 1 or more")
    if points and min(points) > len(there_are):
        raise WrongUse(f"points is {points!r}, but there are only the points 1 to {len(there_are)}: nothing is tried")
    return list(points)


def chosen_names(only: Sequence[str] | None, names: Iterable[str]) -> list[str]:
    """Return the names to try out of those that exist, all for None. Raises WrongUse for others."""
    known = list(names)
    if only is not None and (isinstance(only, str) or not set(only) <= set(known)):
        raise WrongUse(f"only is {only!r}: give a list of some of {', '.join(known)}")
    return [name for name in known if only is None or name in only]


def record_in(folder: str) -> Path:
    """Return a path for the record of the next run, where no file exists."""
    emptied(Path(folder))
    return Path(folder) / "record.jsonl"


def emptied(folder: Path) -> None:
    """Remove everything in a folder."""
    for old in folder.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
