"""The checks in recorded sessions in the terminal: one table, and sessions that said done with a failing check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ...analysis.backtest import BacktestReport
from .checks_document import checks_document
from .document_terminal import FittingTable, bad_files, line, listing, meaning

if TYPE_CHECKING:
    from rich.console import RenderableType


def render_checks(report: BacktestReport) -> Iterator[RenderableType]:
    """Yield the parts of a backtest that looked for checks."""
    document = checks_document(report)
    yield line(document.headline, "bold")
    yield line(document.recorded_under, "dim")
    yield line("")
    yield FittingTable(document.groups)
    for column, words in document.meaning:
        yield meaning(column, words)
    yield from listing(*document.failing)
    yield from bad_files(report.bad, report.damaged)
