"""What views that draw in a terminal share: the terminal itself, a region that is drawn anew, rows that fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from rich.cells import cell_len
from rich.console import Console, ConsoleDimensions, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live

from .telling import Shade

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
REFRESHES = 12
"""A second."""
SHADES: dict[Shade, str] = {
    "quiet": "dim",
    "loop": "magenta",
    "good": "green",
    "warning": "yellow",
    "bad": "red",
    "user": "blue",
}
"""How each shade of a story looks."""


class Drawn:
    """A region as it is at the moment of drawing."""

    def __init__(self, draw: Callable[[], RenderableType]) -> None:
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self._draw()


class Terminal(Console):
    """A console on a descriptor of its own, which asks that descriptor for its size."""

    def __init__(self, descriptor: int) -> None:
        file = open(descriptor, "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115
        super().__init__(file=file, highlight=False, markup=False, emoji=False)

    @property
    def size(self) -> ConsoleDimensions:
        """Columns and lines, now."""
        try:
            return ConsoleDimensions(*os.get_terminal_size(self.file.fileno()))
        except OSError:
            return ConsoleDimensions(80, 25)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        """The terminal decides, nobody else."""


def region(draw: Callable[[], RenderableType], console: Console) -> Live:
    """A region at the foot of the terminal that is drawn anew by hand, and leaves nothing behind."""
    return Live(
        Drawn(draw),
        console=console,
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        vertical_overflow="crop",
    )


def rows_of(text: str, width: int) -> Iterator[str]:
    """The text in rows of at most so many cells."""
    for line in text.split("\n"):
        yield from wrapped(line, width)


def wrapped(line: str, width: int) -> Iterator[str]:
    """The line in rows of at most so many cells, broken at spaces where there are any."""
    while cell_len(line) > width:
        cells = end = 0
        while cells + cell_len(line[end]) <= width:
            cells += cell_len(line[end])
            end += 1
        space = line.rfind(" ", 1, end + 1)
        if space > 0 and line[:space].strip():
            yield line[:space]
            line = line[space + 1 :]
        else:
            yield line[: max(1, end)]
            line = line[max(1, end) :]
    yield line
