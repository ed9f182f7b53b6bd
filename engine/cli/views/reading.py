"""What commands over many records share: the bar while they are read, and the index of what was made of them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from ...decision import WrongUse
from ...observers.progress import Shown, bar
from ...records.index import Index
from ...records.parallel import Progress
from .select import can_draw
from .text import duration

_STDERR = 2
_TELLING = 1.0
"""Seconds after which the rate says something."""


@contextmanager
def progress(given: argparse.Namespace, doing: str) -> Iterator[Progress | None]:
    """Whom `each` of `records/parallel.py` may tell how far it is: a bar on stderr, with the rate and the time left.

    None where stderr is no terminal, and with `--quiet`. `doing`: what is done, in a word.
    """
    if given.quiet or not can_draw(_STDERR):
        yield None
        return
    from rich.console import Console

    read = _Read(doing)
    with bar(read.shown, Console(stderr=True), stays=False):
        yield read.tell


class _Read:
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
        if done and seconds >= _TELLING:
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
    if index.trouble and not given.quiet:
        print(f"endstop: {index.trouble}", file=sys.stderr)
