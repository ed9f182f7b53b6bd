"""Progress of a call: what a tool reports before it has a result.

If a tool's function is a generator, each item that it yields is reported at once, and the last one is also the result:

    @tool
    async def index(folder: str) -> AsyncIterator[str]:
        "Index a folder."
        for number, file in enumerate(files, 1):
            await add(file)
            yield f"{number} of {len(files)} files"
        yield f"Indexed {len(files)} files."

A `ProgressUpdate` is only progress and never the result. A plain generator works, too: it runs in a thread, one item at
a time, and its return value is the result. Progress is for people: the model does not read it, and no rule sees it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import GeneratorType
from typing import Any

from anyio.lowlevel import checkpoint

from .results import (
    CallOutcome,
    Completion,
    Continue,
    Phase,
    ProgressUpdate,
    contains_iterator,
    render_result,
    truncate,
)
from .user_functions import call_user_function

MAX_PROGRESS_CHARACTERS = 2000
"""Maximum number of recorded characters of one item's text."""
MAX_PROGRESS_EVENTS = 1000
"""Maximum number of recorded items of one call."""
PROGRESS_BLOCK = 100
"""Number of recorded items of a call after which every second of the next ones is recorded; after as many again, every
fourth, and so on."""

_reporter: ContextVar[Callable[[Any], None]] = ContextVar("endstop_progress")


@contextmanager
def progress_to(report: Callable[[ProgressUpdate], None]) -> Iterator[None]:
    """Call `report` with the progress of the call that runs inside the block, within the limits above.

    Progress reported after the block is dropped.
    """
    progress = _CallProgress(report)
    token = _reporter.set(progress.take)
    try:
        yield
    finally:
        progress.open = False
        _reporter.reset(token)


def progress_reporter() -> Callable[[Any], None]:
    """Return the function that takes the progress of the running call. Outside a call it does nothing."""
    return _reporter.get(_ignore)


def _ignore(item: Any) -> None:
    """Drop an item, because no call is running."""


class _CallProgress:
    """Receiver of the items of one call, which reports those that are to be recorded."""

    def __init__(self, report: Callable[[ProgressUpdate], None]) -> None:
        self.open = True
        self._report = report
        self._taken = self._recorded = 0
        self._every = 1

    def take(self, item: Any) -> None:
        self._taken += 1
        if not self.open or self._taken % self._every or self._recorded >= MAX_PROGRESS_EVENTS:
            return
        update = _update_of(item)
        if update is None:
            return
        self._recorded += 1
        if self._recorded % PROGRESS_BLOCK == 0:
            self._every *= 2
        self._report(update)


def _update_of(item: Any) -> ProgressUpdate | None:
    """Return an item as progress; None for a result, and for an iterator, which would be consumed."""
    if isinstance(item, CallOutcome | Completion | Continue | Phase) or contains_iterator(item):
        return None
    if not isinstance(item, ProgressUpdate):
        return ProgressUpdate(truncate(render_result(item)[0], MAX_PROGRESS_CHARACTERS))
    return ProgressUpdate(truncate(item.text, MAX_PROGRESS_CHARACTERS), item.progress, item.total)


async def last_item(items: AsyncGenerator[Any] | GeneratorType[Any, Any, Any]) -> Any:
    """Report each item that a tool's generator yields, and return its result. The generator is always closed."""
    report, last = progress_reporter(), None
    async with aclosing(_from_threads(items) if isinstance(items, GeneratorType) else items) as each:
        async for item in each:
            if isinstance(item, _Returned):
                return item.value
            report(item)
            last = item
            await checkpoint()  # lets a generator that never waits be cancelled
    return None if isinstance(last, ProgressUpdate) else last


@dataclass(frozen=True, slots=True)
class _Returned:
    """The return value of a plain generator."""

    value: Any


async def _from_threads(items: GeneratorType[Any, Any, Any]) -> AsyncGenerator[Any]:
    """Yield the items of a plain generator, each made in a thread, and then its return value unless that is None.

    After a cancellation the thread still finishes its item. Nothing refers to the generator then, so Python closes it.
    """

    def step() -> Any:
        try:
            return next(items)
        except StopIteration as end:
            return _Returned(end.value)

    try:
        while not isinstance(item := await call_user_function(step), _Returned):
            yield item
        if item.value is not None:
            yield item
    finally:
        if not items.gi_running:
            await call_user_function(items.close)
