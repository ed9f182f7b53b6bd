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

if TYPE_CHECKING:
    from rich.console import Console
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@contextmanager
def progress(fleet: Fleet, console: Console | None = None) -> Iterator[None]:
    """Show how far a fleet is while the block is open. `console`: one of rich's, to draw elsewhere than on stderr."""
    from rich.console import Console

    with progress_bar(
        lambda: BarState(fleet.finished, fleet.total, batch_status(fleet)), console or Console(stderr=True)
    ):
        yield


def batch_status(fleet: Fleet) -> str:
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


# A bar in the terminal, drawn some times a second from a thread of its own: it asks how far things are.

REFRESH_PER_SECOND = 8
"""How often the bar is drawn."""


class BarState(NamedTuple):
    """How far it is."""

    done: int
    total: int
    words: str = ""


@contextmanager
def progress_bar(look: Callable[[], BarState], console: Console, *, stays: bool = True) -> Iterator[None]:
    """Draw what `look` says while the block is open, and leave it there at the end if it `stays`.

    `look` is called from another thread. Where `console` is no terminal there is one line, at the end.
    """
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    words = TextColumn("{task.fields[words]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = Progress(BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), words, auto_refresh=False)
    row = columns.add_task("", words="")

    def draw() -> RenderableType:
        shown = look()
        columns.update(row, completed=shown.done, total=shown.total, words=shown.words)
        return columns.get_renderable()

    with Live(get_renderable=draw, console=console, refresh_per_second=REFRESH_PER_SECOND, transient=not stays):
        yield
    if not console.is_terminal:
        console.print()  # rich leaves the last line open there
