"""A bar in the terminal for a fleet: how many tasks have a result, how they ended, what was used so far.

    async with engine.run_many(tasks, limit=100) as fleet:
        with progress(fleet):
            async for result in fleet:
                ...

It looks at the fleet some times a second, from a thread of its own. Where stderr is no terminal it shows nothing
until the end, and then one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..batch import Fleet
from .bar import Shown, bar

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress(fleet: Fleet, console: Console | None = None) -> Iterator[None]:
    """Show how far a fleet is while the block is open. `console`: one of rich's, to draw elsewhere than on stderr."""
    from rich.console import Console

    with bar(lambda: Shown(fleet.finished, fleet.total, told(fleet)), console or Console(stderr=True)):
        yield


def told(fleet: Fleet) -> str:
    """How the runs ended so far, how many go on, what they used."""
    usage = fleet.usage
    parts = [f"{many:,} {status.replace('_', ' ')}" for status, many in sorted(fleet.statuses.items())]
    if fleet.running:
        parts.append(f"{fleet.running:,} running")
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} in, {usage.output_tokens:,} out")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    return " · ".join(parts)
