"""The stop rules of other projects next to the user's, as one table for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..._version import __version__
from ...analysis.backtest import BacktestReport, PolicyTotals
from ...analysis.statistics import Interval

if TYPE_CHECKING:
    from rich.table import Table

PUBLISHED_HEAD = ("rule", "of", "", "stopped", "steps after the stop", "good cut", "harmed")
NUMERIC = range(3, 7)
"""The columns that hold numbers."""
PUBLISHED_MEANING = """\
stops: ends the run; asks: asks the user; tells: tells the model something first.
steps after the stop: supposing that the model goes on as recorded, whatever the rule tells it or asks its user; so not
what is certainly saved. Good cut: sessions that passed their evaluation and would lose two steps or more; harmed: those
that would lose the last change of their work. In brackets: 95 % confidence interval.
Where each rule was read, and what of it is not said: docs/reference/published_rules.md"""


def published_rows(report: BacktestReport) -> Iterator[tuple[str, ...]]:
    """Yield a row for each policy of the report, as text."""
    read = {one.name: one for one in report.published}
    for totals in report.policies:
        one = read.get(totals.policy)
        yield (
            totals.policy,
            f"endstop {__version__}" if one is None else f"{one.project} {one.version}",
            "" if one is None else one.acts,
            f"{totals.supposed_stopped:,}",
            _steps(totals),
            _good(totals.supposed_good_cut, totals),
            _good(totals.supposed_harmed, totals),
        )


def _steps(totals: PolicyTotals) -> str:
    share = totals.supposed_saved_steps_share
    return f"{totals.supposed_saved_steps:,}" + (
        f"  {_percent(share)}" if share and totals.supposed_saved_steps else ""
    )


def _percent(share: Interval) -> str:
    low, value, high = (100 * part for part in (share.low, share.value, share.high))
    return f"{value:.1f} % ({low:.1f}-{high:.1f})"


def _good(sessions: int, totals: PolicyTotals) -> str:
    return f"{sessions:,} of {totals.passed:,}" if totals.passed else "-"


def published_table(report: BacktestReport) -> Table:
    """Return the rows for a terminal."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    for number, head in enumerate(PUBLISHED_HEAD):
        wraps = number in (1, 2)
        table.add_column(head, justify="right" if number in NUMERIC else "left", no_wrap=not wraps)
    for row in published_rows(report):
        table.add_row(*row)
    return table
