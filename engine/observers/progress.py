"""Progress bars in the terminal, above all for a batch of runs: tasks done, how they ended, tokens and cost so far.

    async with engine.run_many(tasks, limit=100) as fleet:
        with progress(fleet):
            async for result in fleet:
                ...

A thread redraws the bar several times a second. If stderr is not a terminal, only one line is printed, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..batch import Fleet
from ..decision.wrong_calls import explained

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

REFRESH_PER_SECOND = 8
"""How often a bar is redrawn."""


@explained
@contextmanager
def progress(fleet: Fleet, console: Console | None = None) -> Iterator[None]:
    """Show the progress of a batch of runs inside the block. `console`: where to draw, if not on stderr."""
    from rich.console import Console

    with progress_bar(
        lambda: BarState(fleet.finished, fleet.total, batch_status(fleet)), console or Console(stderr=True)
    ):
        yield


def batch_status(fleet: Fleet) -> str:
    """Say how many runs have ended with which status, how many are running, and the tokens and cost so far."""
    usage = fleet.usage
    parts = [f"{many:,} {status.replace('_', ' ')}" for status, many in sorted(fleet.statuses.items())]
    if fleet.running:
        parts.append(f"{fleet.running:,} running")
    if usage.input_tokens or usage.output_tokens:
        parts.append(f"{usage.input_tokens:,} in, {usage.output_tokens:,} out")
    if usage.cost_usd is not None:
        parts.append(f"${usage.cost_usd:.4f}")
    return " · ".join(parts)


class BarState(NamedTuple):
    """What a progress bar shows."""

    done: int
    total: int
    words: str = ""
    """The text after the bar."""


@contextmanager
def progress_bar(look: Callable[[], BarState], console: Console, *, stays: bool = True) -> Iterator[None]:
    """Draw a progress bar inside the block.

    look: returns the current state; called from another thread.
    stays: whether the bar stays on the screen at the end.

    If `console` is not a terminal, only one line is printed, at the end.
    """
    from rich.live import Live
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    words = TextColumn("{task.fields[words]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis"))
    columns = Progress(BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), words, auto_refresh=False)
    row = columns.add_task("", words="")

    def draw() -> RenderableType:
        state = look()
        columns.update(row, completed=state.done, total=state.total, words=state.words)
        return columns.get_renderable()

    with Live(get_renderable=draw, console=console, refresh_per_second=REFRESH_PER_SECOND, transient=not stays):
        yield
    if not console.is_terminal:
        console.print()  # rich does not end the last line there
