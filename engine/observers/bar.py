"""A bar in the terminal, drawn some times a second from a thread of its own: it asks how far things are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

A_SECOND = 8
"""How often the bar is drawn."""


class Shown(NamedTuple):
    """How far it is."""

    done: int
    total: int
    words: str = ""


@contextmanager
def bar(look: Callable[[], Shown], console: Console, *, stays: bool = True) -> Iterator[None]:
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

    with Live(get_renderable=draw, console=console, refresh_per_second=A_SECOND, transient=not stays):
        yield
    if not console.is_terminal:
        console.print()  # rich leaves the last line open there
