"""The parts of a document in the terminal.

A table leaves out columns where the terminal is narrow, and its bars are as wide as there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...analysis.sampling import BadRecord
from ...base.sanitize import one_line, sanitize
from ...http.document_page import Tone
from .document import Bar, Column, Table
from .styled_lines import display_width
from .text import counted

if TYPE_CHECKING:
    from rich import table as rich_table
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement

NAME = 48
"""The most characters that are shown of a name in a table."""
LONGEST_BAR = 24
SHORTEST_BAR = 8
GAP = 2
"""Cells between two columns."""
FILES_SHOWN = 10
"""How many bad files, or ratings without a session, are listed."""
STYLES: dict[Tone, str] = {
    "main": "blue",
    "good": "green",
    "warn": "yellow",
    "bad": "red",
    "loop": "magenta",
    "quiet": "dim",
}
TEXT_STYLES: dict[Tone, str] = {**STYLES, "good": "bold green"}
_EIGHTHS = " ▏▎▍▌▋▊▉"


# ---- text


def line(text: str, style: str = "") -> RenderableType:
    """Return a text that wraps, without what could control the terminal."""
    from rich.text import Text

    return Text(sanitize(text), style=style)


def item(text: str, style: str = "", indent: int = 2) -> RenderableType:
    """Return a text that is indented."""
    from rich.padding import Padding

    return Padding(line(text, style), (0, 0, 0, indent))


def meaning(term: str, words: str) -> RenderableType:
    """Return what a term means, indented."""
    from rich.padding import Padding
    from rich.text import Text

    return Padding(Text.assemble(f"{term}: ", (words, "dim")), (0, 0, 0, 2))


def command(text: str) -> RenderableType:
    """Return a command to copy, which stays in one line."""
    from rich.text import Text

    return Text(f"    {sanitize(text)}", style="cyan", no_wrap=True)


def listing(heading: str, items: Sequence[str], style: str = "dim") -> Iterator[RenderableType]:
    """Yield the heading, then the items indented; nothing without items."""
    if items:
        yield line(f"\n{heading}", style)
        yield from map(item, items)


def first_of(heading: str, items: Sequence[str], style: str) -> Iterator[RenderableType]:
    """Yield the heading, the first items and how many more there are; nothing without items."""
    yield from listing(heading, items[:FILES_SHOWN], style)
    if len(items) > FILES_SHOWN:
        yield item(f"and {len(items) - FILES_SHOWN:,} more; --json lists them all", "dim")


def bad_files(bad: Sequence[BadRecord], damaged: Sequence[BadRecord]) -> Iterator[RenderableType]:
    """Yield the files that could not be read, and those that were read in part, each with its error."""
    for what, files in (("could not be read", bad), ("were read in part", damaged)):
        found = [one_line(f"{file.record}: {file.why}", 400) for file in files]
        yield from first_of(f"{counted(len(files), 'file')} {what}", found, "red")


# ---- tables


def section(table: Table[Any], *notes: str) -> Iterator[RenderableType]:
    """Yield a table below its title, and its notes; nothing if it has neither rows nor notes."""
    notes = tuple(note for note in (table.note, *notes) if note)
    if table.rows or notes:
        yield line(f"\n{table.title}", "bold")
    if table.rows:
        yield FittingTable(table)
    for note in notes:
        yield line(note, "dim")


class FittingTable:
    """A table with as many of its columns as fit into the terminal, and a line that says how many are left out."""

    def __init__(self, table: Table[Any]) -> None:
        self._table = table
        self._columns, self._figures = table.columns_in("terminal"), set(table.figures_in("terminal"))
        self._cells = list(table.cells(self._columns))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        columns = self._columns
        spare = sorted((n for n, column in enumerate(columns) if column.spare), key=lambda n: columns[n].spare)
        left_out = set[int]()
        while spare and self._narrowest(console, options, left_out) > options.max_width:
            left_out.add(spare.pop(0))
        fits = self._narrowest(console, options, left_out) <= options.max_width
        last = len(columns) - 1
        while last > 0 and not fits and self._narrowest_wrapped(left_out) > options.max_width:
            left_out.add(last)
            last -= 1
        yield self._rich_table(left_out, wraps=not fits)
        if left_out:
            yield line(f"{counted(len(left_out), 'column')} more in a wider terminal", "dim italic")

    def _narrowest(self, console: Console, options: ConsoleOptions, left_out: set[int]) -> int:
        """Return the width with the shortest bars, texts wrapped, and nothing else wrapped."""
        from rich.measure import Measurement

        table = self._rich_table(left_out, wraps=False)
        widest = Measurement.get(console, options.update(width=10_000), table).maximum
        kept = [number for number in range(len(self._columns)) if number not in left_out]
        bars = sum(self._columns[number].kind == "bar" for number in kept)
        texts = [number for number in kept if self._columns[number].kind == "text"]
        return (
            widest
            - bars * (LONGEST_BAR - SHORTEST_BAR)
            - sum(self._width(number) - self._longest_word(number) for number in texts)
        )

    def _narrowest_wrapped(self, left_out: set[int]) -> int:
        """Return the width with the shortest bars and each word in its own row."""
        shown = [number for number in range(len(self._columns)) if number not in left_out]
        widths = (SHORTEST_BAR if self._columns[n].kind == "bar" else self._longest_word(n) for n in shown)
        return sum(widths) + GAP * (len(shown) - 1)

    def _rich_table(self, left_out: set[int], *, wraps: bool) -> rich_table.Table:
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
        shown = [number for number in range(len(self._columns)) if number not in left_out]
        for number in shown:
            column = self._columns[number]
            is_bar, is_text = column.kind == "bar", column.kind == "text"
            table.add_column(
                _shown(column, column.name),
                justify="right" if number in self._figures else "left",
                overflow="fold",
                no_wrap=not is_bar and not is_text and (not wraps or self._longest_word(number) == self._width(number)),
                min_width=self._longest_word(number) if is_text or (wraps and not is_bar) else None,
                max_width=LONGEST_BAR if is_bar else None,
            )
        for row, cells in zip(self._table.rows, self._cells, strict=True):
            drawn = (_drawn(self._columns[number], row, cells[number]) for number in shown)
            table.add_row(*drawn, style="dim" if self._table.is_faint(row) else "")
        return table

    def _longest_word(self, number: int) -> int:
        """Return the terminal columns that this column needs so that no word or figure is broken."""
        texts = self._texts(number)
        words = [word for text in texts for word in text.split()]
        whole = texts[1:] if number in self._figures else ()
        return max(map(display_width, [*words, *whole]), default=0)

    def _width(self, number: int) -> int:
        """Return the terminal columns that this column needs so that nothing is wrapped."""
        return max(map(display_width, self._texts(number)))

    def _texts(self, number: int) -> list[str]:
        """Return the header and the cells of a column, without bars."""
        column = self._columns[number]
        texts = (column.name, *(row[number] for row in self._cells))
        return [_shown(column, text) for text in texts if isinstance(text, str)]


def _shown(column: Column[Any], text: str) -> str:
    """Return a header or a cell as it is shown: in one line, and shortened if it is not a text that wraps."""
    return text if column.kind == "text" else one_line(text, NAME)


def _drawn(column: Column[Any], row: Any, cell: object) -> RenderableType:
    from rich.text import Text

    if isinstance(cell, Bar):
        return _DrawnBar(cell)
    text = str(cell)
    indent = len(text) - len(text.lstrip(" ")) if column.kind == "name" else 0
    tone = column.tone(row)
    return Text(" " * indent + _shown(column, text), style=TEXT_STYLES[tone] if tone is not None else "")


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
