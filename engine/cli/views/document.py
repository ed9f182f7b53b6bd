"""The parts of a report that the terminal and a page show: tables of typed columns, bars, lists of sessions.

`report_document.py` and `backtest_document.py` and `fit_document.py` make them, once for each report. What shows them
(`document_terminal.py`, and `engine/web/page/report` on a page) knows parts and no report: a new column is a `Column`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ...analysis.metrics import Proportion
from ...analysis.statistics import Interval
from ...base.sanitize import one_line
from ...http.document_page import Cell, Head, TablePart, Tone
from .figures import between, dollars, long, of, percent, short

Place = Literal["terminal", "page"]
Kind = Literal[
    "name",
    "word",
    "text",
    "bar",
    "interval_bar",
    "count",
    "mean",
    "share",
    "interval",
    "proportion",
    "tokens",
    "money",
    "time",
    "figures",
]
"""What a column holds. `name`: a name from a record or from the user. `word`: words that do not wrap. `text`: words
that wrap. `figures`: figures that are text already, since a cell has several or their unit differs from row to row."""
LEFT: frozenset[Kind] = frozenset({"name", "word", "text", "bar", "interval_bar"})
"""The kinds that are aligned left; all others are figures."""
MOST = 80
"""The most characters of a name on a page."""
Row = TypeVar("Row")


class Bar(NamedTuple):
    """A bar. `share`: 0 to 1 of the cell's width."""

    share: float
    tone: Tone = "main"


class IntervalBar(NamedTuple):
    """A value with its confidence interval, on a scale from `first` to `last`."""

    low: float
    value: float
    high: float
    first: float
    last: float
    tone: Tone = "main"


@dataclass(frozen=True)
class Column(Generic[Row]):
    """A column of a table: its name, what it holds, and its value in a row."""

    name: str
    kind: Kind
    value: Callable[[Row], Any]
    """Of the type that `FORMATS` expects for this kind; a text is shown as it is."""
    spare: int = 0
    """A narrow terminal leaves out columns in this order, from 1 on; those with 0 stay."""
    only: Place | None = None
    """Where the column is shown; None: everywhere."""
    tone: Callable[[Row], Tone | None] = lambda row: None
    """The colour of its text in a row, in a terminal."""
    link: Callable[[Row], str] = lambda row: ""
    """On a page, what the cell leads to (`view_links.py`); empty if it leads nowhere."""


@dataclass(frozen=True, kw_only=True)
class Table(Generic[Row]):
    """A table with its title and note."""

    title: str = ""
    caption: str
    """Describes the rows, for screen readers."""
    columns: Sequence[Column[Row]]
    rows: Sequence[Row]
    note: str = ""
    is_faint: Callable[[Row], bool] = lambda row: False
    """Whether a terminal shows the row in a faint colour."""

    def columns_in(self, place: Place) -> list[Column[Row]]:
        """Return the columns that are shown there."""
        return [column for column in self.columns if column.only in (None, place)]

    def figures_in(self, place: Place) -> list[int]:
        """Return the positions of the columns that are aligned right, among those that are shown there."""
        return [number for number, column in enumerate(self.columns_in(place)) if column.kind not in LEFT]

    def cells(self, columns: Sequence[Column[Row]]) -> Iterator[list[str | Bar | IntervalBar]]:
        """Yield the cells of each row in these columns, figures as text."""
        for row in self.rows:
            yield [_cell(column.kind, column.value(row)) for column in columns]

    def part(self) -> TablePart:
        """Return the table as a part of a page."""
        columns = self.columns_in("page")
        return TablePart(
            caption=self.caption,
            heads=[Head(column.name, column.kind not in LEFT) for column in columns],
            rows=[[_page_cell(column, row) for column in columns] for row in self.rows],
            note=self.note,
        )


class Listing(NamedTuple):
    """A heading and the sessions below it, each described in a line."""

    heading: str
    items: Sequence[str]


FORMATS: dict[Kind, Callable[[Any], str]] = {
    "count": "{:,}".format,
    "mean": lambda mean: "-" if mean is None else f"{mean:.1f}",
    "share": percent,
    "interval": between,
    "proportion": of,
    "tokens": short,
    "money": dollars,
    "time": long,
}
"""How a value of each kind is written."""


def _cell(kind: Kind, value: Any) -> str | Bar | IntervalBar:
    return value if isinstance(value, str | Bar | IntervalBar) else FORMATS[kind](value)


def _page_cell(column: Column[Row], row: Row) -> str | Cell:
    value = column.value(row)
    link = "" if value == 0 or (isinstance(value, Proportion) and not value.runs) else column.link(row)
    match _cell(column.kind, value):
        case Bar(share=share, tone=tone):
            return Cell(bar=min(1.0, max(0.0, share)), tone=tone)
        case IntervalBar(tone=tone) as drawn:
            return Cell(interval=drawn[:5], tone=tone)
        case str(text):
            order = _order(value)
            inner = column.kind == "name" and text.startswith("  ")
            text = one_line(text, MOST) if column.kind == "name" else text
            return Cell(text=text, link=link, order=order, inner=inner) if link or inner or order is not None else text


def _order(value: Any) -> float | None:
    """Return the number by which a page sorts a cell; None if it sorts by its text."""
    if isinstance(value, Proportion | Interval):
        value = value.value
    return value if isinstance(value, int | float) else None
