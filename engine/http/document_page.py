"""A report as a page: a document of typed parts, which `web/page/report/` draws, in one HTML file.

A part says what it holds and not how it looks. Links are relative to the viewer that `ReportPage.view` names:
`?tool=bash` is its list with this filter, `#s/ID` a session.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Literal

import msgspec
from msgspec import Struct

from ..analysis.verdict import StripRun, VerdictLine
from ..base.version import __version__
from .page_files import FOLDER
from .single_file import SingleFile, data_element, single_file

Tone = Literal["main", "good", "warn", "bad", "loop", "quiet"]


class Cell(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell of a table that is more than text: all of its fields may be empty."""

    text: str = ""
    link: str = ""
    order: float | None = None
    """What the table is sorted by, instead of the text."""
    inner: bool = False
    """Whether the row is part of a row above."""
    bar: float | None = None
    """The length of a bar, as a share of the cell's width (0 to 1)."""
    interval: tuple[float, float, float, float, float] | None = None
    """A value with its interval on a scale: low, value, high, and the ends of the scale."""
    tone: Tone = "main"


class Head(Struct, frozen=True, omit_defaults=True):
    """The head of a column. is_figure: whether the column is aligned right."""

    name: str
    is_figure: bool = False


class TablePart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="part", tag="table"):
    """A table. The first cell of a row is its name."""

    caption: str
    """Describes the rows, for screen readers."""
    heads: Sequence[Head]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""


class Figure(Struct, frozen=True, omit_defaults=True):
    """An important figure: its name, its value and a few words about it."""

    name: str
    value: str
    more: str = ""
    link: str = ""


class FiguresPart(Struct, frozen=True, tag_field="part", tag="figures"):
    """Figures side by side."""

    figures: Sequence[Figure]


class NotePart(Struct, frozen=True, omit_defaults=True, tag_field="part", tag="note"):
    """A paragraph. Words between backticks are code. tone: `main` for a sentence that matters, `bad` for an alarm."""

    text: str
    tone: Tone = "quiet"


class Item(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An item of a list: a name that may be a link, and words about it."""

    text: str = ""
    name: str = ""
    link: str = ""
    more: str = ""
    """What stands below, in a faint colour."""


class ListPart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="part", tag="list"):
    """A list with its title. most: how many items are shown at first; 0 for all."""

    title: str = ""
    items: Sequence[Item]
    most: int = 0


class Point(Struct, frozen=True, array_like=True):
    """A point of a line with its interval, and words about it."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    is_bound: bool = False
    """Whether `y` is a lower bound."""
    words: str = ""


class Line(Struct, frozen=True, kw_only=True):
    """A line of a chart. meaning: what it shows, in words."""

    name: str
    points: Sequence[Point]
    tone: Tone = "main"
    meaning: str = ""


class Mark(Struct, frozen=True, array_like=True):
    """A place on the horizontal axis, with its label."""

    at: float
    label: str


class LinesPart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="part", tag="lines"):
    """A chart of lines through points, which shows what changes as a setting is changed."""

    title: str
    caption: str
    x: str
    """Name of the horizontal axis."""
    unit: str
    """Unit of the vertical axis."""
    lines: Sequence[Line]
    categories: Sequence[str] = ()
    """Names of x = 0, 1, 2, ... if the setting has no numbers; the points are then not joined."""
    marks: Sequence[Mark] = ()


class HistogramColumn(Struct, frozen=True, array_like=True):
    """A column of a histogram: the values that it covers, how many there are, and a short label for the axis."""

    covers: str
    height: int
    label: str


class HistogramPart(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="part", tag="histogram"):
    """A histogram. A mark's place is a number of columns from the left."""

    title: str
    caption: str
    x: str
    y: str
    columns: Sequence[HistogramColumn]
    marks: Sequence[Mark] = ()


class ReportSession(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session in a report."""

    id: str
    """In the viewer."""
    task: str
    record: str
    ending: str
    known: str
    tone: Tone
    steps: int
    cost: str
    cost_usd: float | None = None
    origin: str = ""
    """What a fork comes from, in words."""
    reasons: Sequence[str] = ()
    strip: Sequence[StripRun] = ()
    anchors: Sequence[VerdictLine] = ()


class SessionsPart(Struct, frozen=True, kw_only=True, tag_field="part", tag="sessions"):
    """A table of sessions, of which `most` are shown at first."""

    sessions: Sequence[ReportSession]
    most: int


Part = TablePart | FiguresPart | NotePart | ListPart | LinesPart | HistogramPart | SessionsPart


class Section(Struct, frozen=True):
    """A heading and what is below it; left out if there is nothing. id: its name in addresses."""

    id: str
    title: str
    parts: Sequence[Part]


class ReportPage(Struct, frozen=True, kw_only=True):
    """A report."""

    title: str
    lead: str
    """The sentence that says most."""
    parts: Sequence[Part] = ()
    """What comes before the first section."""
    sections: Sequence[Section]
    foot: str
    """Who made the page, and where its figures are explained."""
    view: str = "./"
    """Address of the viewer that links lead to, with a `/` at its end."""


def made_by(guide: str) -> str:
    """Return the foot of a page. guide: the document that explains its figures."""
    return f"Made by endstop {__version__}. {guide} defines each figure."


def report_html(page: ReportPage) -> SingleFile:
    """Return the page as one HTML file, and the Content-Security-Policy that it needs."""
    shown = msgspec.to_builtins(
        ReportPage(
            title=page.title,
            lead=page.lead,
            parts=page.parts,
            sections=[section for section in page.sections if section.parts],
            foot=page.foot,
            view=page.view,
        )
    )
    data = json.dumps(shown, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    shell = _shell(page.title)
    held = b"".join(data_element("report", [data])).decode()
    return SingleFile(shell.html + held, shell.policy)


@cache
def _shell(title: str) -> SingleFile:
    folder = FOLDER / "report"
    files = {
        path.relative_to(FOLDER).as_posix(): path.read_text("utf-8")
        for path in [*FOLDER.glob("*.*s"), *folder.glob("*.*s")]
    }
    index = (folder / "report.html").read_text("utf-8")
    return single_file(index, "report/report.js", files, title=title, only_needed=True)
