"""What `endstop backtest --until` shows: when the checks in the records passed, and what came after.

The figures are those of `BacktestReport.checks`, which `--json` prints. A column of a table is one `Column`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...analysis.backtest import BacktestReport, CheckedSession
from ...analysis.statistics import Interval
from ...analysis.until_totals import CheckTotals
from ...base.sanitize import one_line
from .backtest_document import headline, recorded_under
from .document import Column, Listing, Table
from .figures import dollars

GROUPS: dict[str, str] = {"all": "all", "passed": "good", "failed": "bad", "not_run": "unknown"}
"""The words for each group of sessions, in the order of the rows."""
COMMAND = 60
"""The most characters that are shown of a command."""
MEANING = {
    "with a check": "sessions in which the agent ran tests of the work",
    "passed": "sessions in which a check passed after the last change of the work",
    "steps after": "steps after the first such check, in brackets as a share of all steps",
    "until stops": "sessions that would have ended at the first check that passed after the first change",
    "too early": "of these, sessions whose work was changed after that: their check did not cover all of the task",
    "saved": "steps after that stop",
    "failing, done": "sessions that said that they were done although their last check failed",
}
"""What the columns mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChecksDocument:
    """The checks in the records as they are shown."""

    headline: str
    recorded_under: str
    groups: Table[GroupRow]
    meaning: Sequence[tuple[str, str]]
    failing: Listing


class GroupRow(NamedTuple):
    """The sessions of one group."""

    name: str
    found: CheckTotals


def checks_document(report: BacktestReport) -> ChecksDocument:
    """Build the document of a backtest that looked for checks."""
    return ChecksDocument(
        headline=headline(report),
        recorded_under=recorded_under(report),
        groups=_groups(report),
        meaning=list(MEANING.items()),
        failing=Listing(
            "said that they were done although their last check failed, for example", list(_failing(report))
        ),
    )


def _groups(report: BacktestReport) -> Table[GroupRow]:
    """Return the table of all sessions, and of the good and bad ones apart if any is known to be one."""
    known = {"passed", "failed"} & report.checks.keys()
    names = [name for name in GROUPS if name in report.checks and (known or name == "all")]
    priced = any(one.cost_usd_after_met is not None for one in report.checks.values())
    return Table(
        caption="checks in the records",
        columns=(
            Column("sessions", "word", lambda row: GROUPS[row.name]),
            Column("", "count", lambda row: row.found.sessions),
            Column("with a check", "count", lambda row: row.found.checked),
            Column("passed", "count", lambda row: row.found.met),
            Column("steps after", "figures", _steps_after),
            *([Column[GroupRow]("cost after", "figures", _cost, spare=2)] if priced else []),
            Column("until stops", "count", lambda row: row.found.stopped, spare=4),
            Column("too early", "count", lambda row: row.found.changed_after_stop, spare=3),
            Column("saved", "figures", _saved_steps),
            Column("failing, done", "count", lambda row: row.found.failing_but_done, spare=1),
        ),
        rows=[GroupRow(name, report.checks[name]) for name in names],
    )


def _steps_after(row: GroupRow) -> str:
    return _steps(row.found.steps_after_met, row.found.steps_after_met_share)


def _saved_steps(row: GroupRow) -> str:
    return _steps(row.found.saved_steps, row.found.saved_steps_share)


def _steps(number: int, share: Interval | None) -> str:
    return f"{number:,}" + ("" if share is None else f" ({100 * share.value:.1f} %)")


def _cost(row: GroupRow) -> str:
    return "-" if row.found.cost_usd_after_met is None else dollars(row.found.cost_usd_after_met)


def _failing(report: BacktestReport) -> Iterator[str]:
    for session in report.failing_but_done:
        yield f"{session.record}: {_last_failure(session)}"


def _last_failure(session: CheckedSession) -> str:
    check = next(check for check in reversed(session.until.checks) if check.said == "failed")
    counted = "" if check.failed is None else f", {check.failed:,} failed"
    return f"step {check.step} of {session.used.steps}: {one_line(check.command, COMMAND)}{counted}"
