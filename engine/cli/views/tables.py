"""Common parts of commands over many records: progress, the index, and printing of tables."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from io import StringIO
from time import monotonic
from typing import TYPE_CHECKING

from ...analysis.labels import LabelStatistics, unmatched_warning
from ...base.sanitize import one_line
from ...decision import WrongUse
from ...observers.progress import BarState, progress_bar
from ...process.streams import StdStreams
from ...records.index import Index
from ...records.parallel import ProgressCallback
from .select import can_draw
from .text import counted, duration

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDE = 120
"""Columns if stdout is not a terminal."""
NARROWEST = 30
"""Columns; a terminal that says it has fewer breaks the lines itself."""
_STDERR = 2
_RATE_AFTER = 1.0
"""Seconds after which the rate and the time left are shown."""


def print_parts(std_streams: StdStreams, parts: Iterable[RenderableType]) -> None:
    """Print the parts to stdout: in colour to a terminal, plain to a pipe. A text that may not wrap stays one line."""
    from rich.console import Console
    from rich.text import Text

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
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    lines = text.getvalue().split("\n")
    std_streams.write_answer("\n".join(line if terminal else line.rstrip() for line in lines))


def labels_summary(labels: LabelStatistics | None) -> str:
    """Return in words how many sessions have a label; empty without labels."""
    if labels is None:
        return ""
    none = f", {labels.unlabelled:,} without" if labels.unlabelled else ""
    return f"labels of {one_line(labels.file, 200)}: {counted(labels.sessions - labels.unlabelled, 'session')}{none}"


def warn_of_unmatched(labels: LabelStatistics | None, quiet: bool) -> None:
    """Print to stderr which labels found no session, if there are any."""
    warning = unmatched_warning(labels) if labels is not None else None
    if warning is not None and not quiet:
        print(f"warning: {warning}", file=sys.stderr)


def _columns(std_streams: StdStreams) -> int:
    try:
        return os.get_terminal_size(std_streams.stdout).columns
    except OSError:
        return WIDE


# ---- reading many records


@contextmanager
def progress(args: argparse.Namespace, doing: str) -> Iterator[ProgressCallback | None]:
    """Show a progress bar on stderr and yield its callback for `records/parallel.py`.

    `doing` is the word next to the bar.
    """
    if args.quiet or not can_draw(_STDERR):
        yield None
        return
    from rich.console import Console

    read = _ReadProgress(doing)
    with progress_bar(read.shown, Console(stderr=True), stays=False):
        yield read.set


class _ReadProgress:
    """The progress of reading, set by one thread and shown by another."""

    def __init__(self, doing: str) -> None:
        self._doing = doing
        self._counts = (0, 0)
        self._began = monotonic()

    def set(self, done: int, total: int) -> None:
        self._counts = done, total

    def shown(self) -> BarState:
        (done, total), seconds = self._counts, monotonic() - self._began
        words = [self._doing]
        if done and seconds >= _RATE_AFTER:
            rate = done / seconds
            words += [f"{rate:,.0f} a second", f"{duration((total - done) / rate * 1000)} left"]
        return BarState(done, total, " · ".join(words))


@contextmanager
def indexed(args: argparse.Namespace, make: Callable[[str | None], Index]) -> Iterator[Index | None]:
    """Yield the index for `--index`; None for `--no-index`. An index with a problem is reported and not used."""
    if args.no_index:
        if args.index is not None:
            raise WrongUse("--index and --no-index: give one of the two")
        yield None
        return
    with make(args.index) as index:
        yield index
    if index.problem and not args.quiet:
        print(f"endstop: {index.problem}", file=sys.stderr)
