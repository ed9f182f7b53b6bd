"""A fit as text: the guarantee, the path from cautious to eager, and the limits of the guarantee."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...analysis.fit_report import FitReport, Rung, conditions, data_text, guarantee, result_text, settings_text
from ...analysis.statistics import Interval
from .figures import between, percent
from .tables import bad_files

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

RESULT_STYLES = {"chosen": "bold green", "failed": "red", "too few data": "red", "not tested": "dim", "passed": ""}


def render_fit(report: FitReport, written: Sequence[str] = (), warning: str | None = None) -> Iterator[RenderableType]:
    """Yield the parts of the report.

    written: where the policy and the page are. warning: what is unusual about the labels.
    """
    from rich.padding import Padding
    from rich.text import Text

    chosen = report.chosen
    yield Text(guarantee(report), style="bold green" if chosen is not None else "bold red")
    yield Text(data_text(report), style="dim")
    if warning:
        yield Text(warning, style="yellow")
    yield Text("")
    yield _table(report)
    yield Text(meaning(report), style="dim")
    if chosen is not None:
        yield Text("\nchosen", style="dim")
        yield Padding(Text(settings_text(chosen.settings)), (0, 0, 0, 2))
    for heading, examples in examples_of(report):
        yield Text(f"\n{heading}", style="dim")
        for example in examples:
            yield Padding(Text(example), (0, 0, 0, 2))
    yield Text("\nwhat this means, and what it does not promise", style="dim")
    for sentence in conditions(report):
        yield Padding(Text(f"- {sentence}"), (0, 0, 0, 2))
    yield from bad_files("could not be read", report.bad)
    yield from bad_files("were read in part", report.damaged)
    if written:
        yield Text("\n" + "\n".join(f"{place}." for place in written))
    elif chosen is not None:
        yield Text("\nNo file was written: give -o FILE for the policy.", style="dim")


def _table(report: FitReport) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    table.add_column("from cautious to eager")
    for head in HEAD[1:-1]:
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column(HEAD[-1], no_wrap=True)
    for number, rung in enumerate(report.rungs):
        result = result_text(report, number)
        *cells, _ = row_of(report, number)
        style = "dim" if rung.trial is None else ""
        table.add_row(*cells, Text(result, style=RESULT_STYLES[result]), style=style)
    return table


HEAD = ("from cautious to eager", "saved", "of good", "of bad", "too early", "interval", "test")
"""The columns of the table of rungs."""


def row_of(report: FitReport, number: int) -> tuple[str, ...]:
    """Return the cells of one rung."""
    rung = report.rungs[number]
    return (
        rung.changed,
        _value(rung.saved),
        _value(rung.saved_good),
        _value(rung.saved_bad),
        f"{rung.harmed:,} of {report.testing.units:,}",
        f"{between(rung.harmed_share)} %" if rung.harmed_share is not None else "-",
        result_text(report, number),
    )


def _value(share: Interval | None) -> str:
    return percent(share.value if share is not None else None)


def meaning(report: FitReport) -> str:
    """Return the explanation of the columns, shown below the table."""
    units = (
        "tasks with a good run that is stopped too early" if report.counted == "task" else "good runs stopped too early"
    )
    return (
        "each row keeps the settings of those above and moves one; all figures are of the part that tests\n"
        "saved: share of the steps after the stop, supposing that the model goes on as recorded\n"
        f"too early: {units}; interval: exact, at {percent(report.options.confidence)}"
    )


def examples_of(report: FitReport) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield good runs that the chosen policy stops too early, and those of the policy that failed."""
    chosen, failed = report.chosen, _failed(report)
    if chosen is not None and chosen.examples:
        yield "the chosen policy stops these good runs too early", chosen.examples
    if failed is not None and failed.examples:
        yield f"the one that failed ({failed.changed}) stops these good runs too early", failed.examples


def _failed(report: FitReport) -> Rung | None:
    return next((rung for rung in report.rungs if rung.trial is not None and not rung.trial.passed), None)
