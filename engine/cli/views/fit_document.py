"""What a fit shows, for the terminal (`fit.py`) and the page (`fit_page.py`): its sentences and its table of rungs.

The figures are those of `FitReport`, which `--json` prints. A column of the table is one `Column`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...analysis.fit_report import EarlyStop, FitReport, Rung, conditions, data_text, guarantee, result_text
from ...http.document_page import Tone
from .document import Column, Table
from .figures import between, percent
from .view_links import sessions_link

TONES: dict[str, Tone] = {"chosen": "good", "failed": "bad", "too few data": "bad", "not tested": "quiet"}
"""The colours of results; the others have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitDocument:
    """A fit as it is shown."""

    report: FitReport
    guarantee: str
    """What is guaranteed, or why nothing is."""
    data: str
    """The sessions, the labels and how they were split, in a line."""
    conditions: Sequence[str]
    """What the guarantee supposes or does not promise."""
    rungs: Table[RungRow]
    meaning: Sequence[str]
    """What the columns of the rungs mean, line by line."""
    examples: Sequence[tuple[str, Sequence[EarlyStop]]]
    """With a heading, good runs that are stopped too early: by the chosen policy, and by the one that failed."""


class RungRow(NamedTuple):
    """A rung with its number, from 0, and how it came out of the test."""

    number: int
    rung: Rung
    result: str


def fit_document(report: FitReport) -> FitDocument:
    """Build the document of a fit."""
    return FitDocument(
        report=report,
        guarantee=guarantee(report),
        data=data_text(report),
        conditions=list(conditions(report)),
        rungs=_rungs(report),
        meaning=_meaning(report),
        examples=list(_examples(report)),
    )


def _rungs(report: FitReport) -> Table[RungRow]:
    first, units = "from cautious to eager", report.testing.units
    return Table(
        caption="each rung keeps the settings of those above and moves one",
        columns=(
            Column(first, "text", lambda row: row.rung.changed, only="terminal"),
            Column(first, "text", lambda row: f"{row.number + 1}. {row.rung.changed}", only="page"),
            Column("saved", "share", lambda row: row.rung.saved and row.rung.saved.value, spare=3),
            Column("of good", "share", lambda row: row.rung.saved_good and row.rung.saved_good.value, spare=1),
            Column("of bad", "share", lambda row: row.rung.saved_bad and row.rung.saved_bad.value, spare=2),
            Column(
                "too early",
                "figures",
                lambda row: f"{row.rung.harmed:,} of {units:,}",
                link=lambda row: sessions_link(row.rung.early),
            ),
            Column("interval", "figures", _interval, spare=4),
            Column("test", "word", lambda row: row.result, tone=lambda row: TONES.get(row.result)),
        ),
        rows=[RungRow(number, rung, result_text(report, number)) for number, rung in enumerate(report.rungs)],
        is_faint=lambda row: row.rung.trial is None,
    )


def _interval(row: RungRow) -> str:
    return "-" if row.rung.harmed_share is None else f"{between(row.rung.harmed_share)} %"


def _meaning(report: FitReport) -> tuple[str, ...]:
    units = (
        "tasks with a good run that is stopped too early" if report.counted == "task" else "good runs stopped too early"
    )
    return (
        "each row keeps the settings of those above and moves one; all figures are of the part that tests",
        "saved: share of the steps after the stop, supposing that the model goes on as recorded",
        f"too early: {units}; interval: exact, at {percent(report.options.confidence)}",
    )


def _examples(report: FitReport) -> Iterator[tuple[str, Sequence[EarlyStop]]]:
    chosen = report.chosen
    failed = next((rung for rung in report.rungs if rung.trial is not None and not rung.trial.passed), None)
    if chosen is not None and chosen.examples:
        yield "the chosen policy stops these good runs too early", chosen.examples
    if failed is not None and failed.examples:
        yield f"the one that failed ({failed.changed}) stops these good runs too early", failed.examples
