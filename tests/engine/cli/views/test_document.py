"""Tables of typed columns: what is shown where, how it is aligned, and what a narrow terminal leaves out."""

from __future__ import annotations

from io import StringIO
from typing import get_args

import pytest
from endstop.cli.views.document import FORMATS, LEFT, Bar, Column, IntervalBar, Kind, Table
from endstop.cli.views.document_terminal import FittingTable, line
from endstop.http.document_page import Cell
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

COLUMNS: tuple[Column[int], ...] = (
    Column("name", "name", lambda row: f"number {row}", link=lambda row: f"?number={row}"),
    Column("bar", "bar", lambda row: Bar(row / 9, "bad"), spare=2),
    Column("calls", "count", lambda row: 1000 * row),
    Column("why", "text", lambda row: "because it had to be said in more words than fit"),
    Column("cost", "money", lambda row: row / 10, spare=1),
    Column("drawn", "interval_bar", lambda row: IntervalBar(0.1, 0.2, 0.3, 0, 1), only="page"),
    Column("plain", "share", lambda row: None, only="terminal"),
)
TABLE = Table(caption="numbers", columns=COLUMNS, rows=(1, 2), note="a note")


def shown(table: Table[int], width: int) -> str:
    console = Console(file=StringIO(), width=width, force_terminal=False, highlight=False, markup=False)
    with console.capture() as captured:
        console.print(FittingTable(table))
    return captured.get()


def test_a_column_is_aligned_by_what_it_holds() -> None:
    assert TABLE.figures_in("terminal") == [2, 4, 5]
    assert TABLE.figures_in("page") == [2, 4]


def test_every_kind_of_column_is_text_a_picture_or_has_a_way_to_write_it() -> None:
    assert {*LEFT, *FORMATS, "figures"} == set(get_args(Kind))
    assert not LEFT & set(FORMATS)


def test_the_cells_of_a_row_are_written_as_their_column_says() -> None:
    _, (name, bar, calls, _, cost, plain) = TABLE.cells(TABLE.columns_in("terminal"))
    assert (name, bar, calls, cost, plain) == ("number 2", Bar(2 / 9, "bad"), "2,000", "$0.2000", "-")


@pytest.mark.parametrize(
    ("width", "missing"),
    [(120, set()), (60, set()), (46, {"cost"}), (38, {"cost", "bar"})],
)
def test_a_narrow_terminal_wraps_texts_and_then_leaves_out_the_columns_that_can_be_spared(
    width: int, missing: set[str]
) -> None:
    out = shown(TABLE, width)
    head = out.splitlines()[0].split()
    assert {"name", "bar", "calls", "why", "cost", "plain"} - set(head) == missing
    assert ("more in a wider terminal" in out) is bool(missing)
    assert "2,000" in out, "no figure is cut"


@given(st.integers(30, 130))
def test_a_table_is_never_wider_than_the_terminal_and_cuts_no_word(width: int) -> None:
    lines = shown(TABLE, width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "…" not in "".join(lines)


def test_a_page_gets_heads_and_cells_with_what_sorts_them_and_where_they_lead() -> None:
    part = TABLE.part()
    assert [(head.name, head.is_figure) for head in part.heads] == [
        ("name", False),
        ("bar", False),
        ("calls", True),
        ("why", False),
        ("cost", True),
        ("drawn", False),
    ]
    name, bar, calls, why, cost, drawn = part.rows[1]
    assert name == Cell(text="number 2", link="?number=2")
    assert bar == Cell(bar=2 / 9, tone="bad")
    assert calls == Cell(text="2,000", order=2000)
    assert why == "because it had to be said in more words than fit"
    assert cost == Cell(text="$0.2000", order=0.2)
    assert drawn == Cell(interval=(0.1, 0.2, 0.3, 0, 1))
    assert (part.caption, part.note) == ("numbers", "a note")


def test_a_name_that_begins_with_spaces_is_part_of_the_row_above_and_nothing_leads_nowhere() -> None:
    column: Column[int] = Column("", "name", lambda row: "  below")
    none: Column[int] = Column("", "count", lambda row: 0, link=lambda row: "?x=y")
    rows = Table(caption="c", columns=(column, none), rows=(1,)).part().rows
    assert rows == [[Cell(text="below", inner=True), Cell(text="0", order=0)]]


def test_a_line_cannot_control_the_terminal() -> None:
    assert str(line("\x1b[2Jevil\u202e")) == "evil"
