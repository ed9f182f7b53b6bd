"""A table that leaves out columns in a narrow terminal, and whose bars are as wide as there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._sanitize import one_line
from .document import Bar, Cell, ReportTable
from .styled_lines import display_width
from .text import counted

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table

NAME = 48
"""The most characters that are shown of a name in a table."""
LONGEST_BAR = 24
SHORTEST_BAR = 8
GAP = 2
"""Cells between two columns."""
STYLES = {"main": "blue", "good": "green", "warn": "yellow", "bad": "red", "loop": "magenta", "quiet": "dim"}
_EIGHTHS = " ▏▎▍▌▋▊▉"


class FittingTable:
    """A table with as many of its columns as fit into the terminal, and a line that says how many are left out."""

    def __init__(self, table: ReportTable) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        spare, left_out = list(self._table.spare), set[int]()
        while spare and _narrowest(console, options, self._table, left_out) > options.max_width:
            left_out.add(spare.pop(0))
        fits = _narrowest(console, options, self._table, left_out) <= options.max_width
        last = len(self._table.head) - 1
        while last > 0 and not fits and _narrowest_wrapped(self._table, left_out) > options.max_width:
            left_out.add(last)
            last -= 1
        yield _rich_table(self._table, left_out, wraps=not fits)
        if left_out:
            yield Text(f"{counted(len(left_out), 'column')} more in a wider terminal", style="dim italic")


def _narrowest(console: Console, options: ConsoleOptions, table: ReportTable, left_out: set[int]) -> int:
    """Return the width of the table with the shortest bars and nothing wrapped."""
    from rich.measure import Measurement

    rich_table = _rich_table(table, left_out, wraps=False)
    bars = len(_bars(table) - left_out)
    return Measurement.get(console, options.update(width=1000), rich_table).maximum - bars * (
        LONGEST_BAR - SHORTEST_BAR
    )


def _bars(table: ReportTable) -> set[int]:
    return {number for row in table.rows for number, cell in enumerate(row) if isinstance(cell, Bar)}


def _rich_table(table: ReportTable, left_out: set[int], *, wraps: bool) -> Table:
    from rich import box
    from rich.table import Table

    rich_table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    bars = _bars(table)
    shown = [number for number in range(len(table.head)) if number not in left_out]
    for number in shown:
        rich_table.add_column(
            one_line(table.head[number], NAME),
            justify="right" if number in table.figures else "left",
            overflow="fold",
            no_wrap=number not in bars and (not wraps or _longest_word(table, number) == _width(table, number)),
            min_width=_longest_word(table, number) if wraps and number not in bars else None,
            max_width=LONGEST_BAR if number in bars else None,
        )
    for row in table.rows:
        rich_table.add_row(*(_cell(row[number], number == 0) for number in shown))
    return rich_table


def _narrowest_wrapped(table: ReportTable, left_out: set[int]) -> int:
    """Return the width of the table with the shortest bars and each word in its own row."""
    bars, shown = _bars(table), [number for number in range(len(table.head)) if number not in left_out]
    return sum(SHORTEST_BAR if n in bars else _longest_word(table, n) for n in shown) + GAP * (len(shown) - 1)


def _longest_word(table: ReportTable, number: int) -> int:
    """Return the terminal columns that this table column needs so that no word or figure is broken."""
    texts = _texts(table, number)
    words = [word for text in texts for word in text.split()]
    return max(map(display_width, [*words, *(texts[1:] if number in table.figures else ())]), default=0)


def _width(table: ReportTable, number: int) -> int:
    """Return the terminal columns that this table column needs so that nothing is wrapped."""
    return max(map(display_width, _texts(table, number)))


def _texts(table: ReportTable, number: int) -> list[str]:
    """Return the header and the cells of a column, without bars."""
    cells = (row[number] for row in table.rows)
    return [one_line(text, NAME) for text in (table.head[number], *cells) if isinstance(text, str)]


def _cell(cell: Cell, is_name: bool) -> RenderableType:
    from rich.text import Text

    if isinstance(cell, Bar):
        return _DrawnBar(cell)
    indent = len(cell) - len(cell.lstrip(" ")) if is_name else 0
    return Text(" " * indent + one_line(cell, NAME))


class _DrawnBar:
    """A bar as wide as its column, in steps of an eighth of a cell."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        eighths = round(8 * options.max_width * max(0.0, min(1.0, self._bar.share)))
        if self._bar.share > 0:
            eighths = max(1, eighths)
        drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        yield Text(drawn, style=STYLES[self._bar.tone], no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(SHORTEST_BAR, LONGEST_BAR)
