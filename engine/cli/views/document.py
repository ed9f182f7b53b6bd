"""The parts of a report that the terminal and a page show: tables, and bars in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["main", "good", "warn", "bad", "loop", "quiet"]


@dataclass(frozen=True, slots=True)
class Bar:
    """A cell with a bar. `share`: 0 to 1 of the cell's width."""

    share: float
    tone: Tone = "main"


Cell = str | Bar


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTable:
    """A table with its title and notes. The first column has names; the columns in `figures` are aligned right."""

    title: str
    caption: str
    """Describes the rows, for screen readers."""
    head: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    figures: tuple[int, ...] = ()
    spare: tuple[int, ...] = ()
    """Columns to leave out in a narrow terminal, the least important first."""
    note: str = ""
    filter: str = ""
    """The filter of `endstop view` whose values are the names in the first column; empty if there is none."""
