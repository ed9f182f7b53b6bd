"""Tables and text as the answer on stdout: in colour for a terminal, plain for a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import TYPE_CHECKING

from ..._sanitize import one_line
from ...analysis.sampling import BadRecord
from ...process.streams import StdStreams
from .text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
import argparse
import sys
from collections.abc import Callable
from contextlib import contextmanager
from time import monotonic

from ...analysis.comparison import MetricDifference
from ...analysis.metrics import Proportion
from ...analysis.statistics import Interval
from ...decision import WrongUse
from ...observers.progress import Shown, bar
from ...records.index import Index
from ...records.parallel import ProgressCallback
from .select import can_draw
from .text import duration

WIDE = 120
"""Columns for whoever is no terminal."""
NARROWEST = 50
BAD_SHOWN = 10
"""Files that are named."""


def show(std_streams: StdStreams, parts: Iterable[RenderableType]) -> None:
    """Print each part on a line of its own."""
    from rich.console import Console

    terminal = std_streams.stdout_is_terminal
    text = StringIO()
    console = Console(
        file=text,
        width=max(NARROWEST, _columns(std_streams)) if terminal else WIDE,
        force_terminal=terminal,
        highlight=False,
        markup=False,
        emoji=False,
    )
    for part in parts:
        console.print(part)
    lines = text.getvalue().split("\n")
    std_streams.write_answer("\n".join(line if terminal else line.rstrip() for line in lines))


def bad_files(what: str, files: Sequence[BadRecord]) -> Iterator[RenderableType]:
    """The first of these files and what is wrong with each, under what they have in common."""
    from rich.padding import Padding
    from rich.text import Text

    if not files:
        return
    yield Text(f"\n{counted(len(files), 'file')} {what}", style="red")
    for file in files[:BAD_SHOWN]:
        yield Padding(Text(one_line(f"{file.record}: {file.why}", 400)), (0, 0, 0, 2))
    if len(files) > BAD_SHOWN:
        yield Padding(Text(f"and {len(files) - BAD_SHOWN:,} more; --json lists them all", style="dim"), (0, 0, 0, 2))


def _columns(std_streams: StdStreams) -> int:
    try:
        return os.get_terminal_size(std_streams.stdout).columns
    except OSError:
        return WIDE


# Figures of many runs in words, the same in the terminal and on a page.


def percent(share: float | None) -> str:
    """A share in percent, with a decimal where it is small; `-` for nothing."""
    if share is None:
        return "-"
    figure = 100 * share + (1e-9 if share >= 0 else -1e-9)  # a half is rounded away from zero
    return f"{figure:.1f} %" if 0 < abs(figure) < 9.95 and round(figure, 1) != round(figure) else f"{figure:.0f} %"


def between(interval: Interval | None) -> str:
    """A share's 95 % confidence interval, in percent."""
    if interval is None:
        return "-"
    low, high = 100 * interval.low, 100 * interval.high
    digits = 1 if high < 10 else 0
    return f"{low:.{digits}f} to {high:.{digits}f}"


def of(share: Proportion) -> str:
    """`10 of 80`; `-` of nothing."""
    return f"{share.runs:,} of {share.of:,}" if share.of else "-"


def part(share: Proportion) -> str:
    """The share alone, in percent."""
    return percent(share.share.value if share.share is not None else None)


def short(number: float | None) -> str:
    """`950`, `12.3k`, `4.56M`; `-` for nothing."""
    if number is None:
        return "-"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= 10 * size or (abs(number) >= size and size > 1e3):
            return f"{number / size:.3g}{letter}" if abs(number) < 100 * size else f"{number / size:,.0f}{letter}"
    return f"{number:,.0f}" if number == round(number) or abs(number) >= 100 else f"{number:.1f}"


def dollars(amount: float | None) -> str:
    """US dollars to two decimals, of small amounts to four; `-` where no price is known."""
    if amount is None:
        return "-"
    return f"${amount:,.4f}" if 0 < amount < 1 else f"${amount:,.2f}"


def long(seconds: float) -> str:
    """A time that may be days."""
    if seconds < 3600:
        return duration(1000 * seconds)
    hours = seconds / 3600
    return f"{hours:,.1f} h" if hours < 48 else f"{hours / 24:,.1f} days"


def in_unit(difference: MetricDifference, value: float, *, signed: bool = False) -> str:
    """A value of a comparison in its unit."""
    sign = "+" if signed and value > 0 else "-" if value < 0 else ""
    amount = abs(value)
    match difference.unit:
        case "share":
            return f"{sign}{100 * amount:.1f} {'points' if signed else '%'}"
        case "usd":
            return f"{sign}{dollars(amount)}"
        case "seconds":
            return f"{sign}{long(amount)}"
        case "tokens":
            return f"{sign}{short(amount)}"
        case "steps":
            return f"{sign}{amount:.1f}"


# What commands over many records share: the bar while they are read, and the index of what was made of them.

_STDERR = 2
_RATE_AFTER = 1.0
"""Seconds after which the rate says something."""


@contextmanager
def progress(given: argparse.Namespace, doing: str) -> Iterator[ProgressCallback | None]:
    """Whom `each` of `records/parallel.py` may tell how far it is: a bar on stderr, with the rate and the time left.

    None where stderr is no terminal, and with `--quiet`. `doing`: what is done, in a word.
    """
    if given.quiet or not can_draw(_STDERR):
        yield None
        return
    from rich.console import Console

    read = _ReadProgress(doing)
    with bar(read.shown, Console(stderr=True), stays=False):
        yield read.tell


class _ReadProgress:
    """How far it is, told by one thread and shown by another."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._far = (0, 0)
        self._began = monotonic()

    def tell(self, done: int, total: int) -> None:
        self._far = done, total

    def shown(self) -> Shown:
        (done, total), seconds = self._far, monotonic() - self._began
        words = [self._doing]
        if done and seconds >= _RATE_AFTER:
            rate = done / seconds
            words += [f"{rate:,.0f} a second", f"{duration((total - done) / rate * 1000)} left"]
        return Shown(done, total, " · ".join(words))


@contextmanager
def indexed(given: argparse.Namespace, make: Callable[[str | None], Index]) -> Iterator[Index | None]:
    """The index that `--index` and `--no-index` choose. Whatever is wrong with it is told and hinders nobody."""
    if given.no_index:
        if given.index is not None:
            raise WrongUse("--index and --no-index: give one of the two")
        yield None
        return
    with make(given.index) as index:
        yield index
    if index.problem and not given.quiet:
        print(f"endstop: {index.problem}", file=sys.stderr)
