"""A report in the terminal: the main findings in one line, then short tables with bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..._sanitize import one_line
from ...analysis.metrics import RunMetrics
from ...analysis.report import Report
from ...analysis.statistics import Bin, Distribution
from .document import Bar, ReportTable
from .document_terminal import NAME, FittingTable
from .report_document import (
    comparisons,
    endings,
    groups,
    headline,
    limits,
    ratings_summary,
    spending,
    steps_after,
    tools,
    trouble,
    waste,
    work,
)
from .tables import BAD_SHOWN, bad_files, labels_summary
from .text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

BINS = 8
"""Bars of a distribution, at most."""


def render_report(report: Report, where: str = "") -> Iterator[RenderableType]:
    """Yield the parts of the report. `where`: what else was written, and to which file."""
    from rich.text import Text

    figures = report.overall
    yield Text(headline(report), style="bold")
    yield Text(_made_of(report), style="dim")
    yield from _advice(report)
    yield from _section(endings(figures))
    yield from _section(work(figures))
    if summary := ratings_summary(report.ratings):
        yield Text(f"\n{summary}")
    yield from _distribution("Steps until reported as done", figures.steps_before_done, "steps")
    yield from _distribution("Share of the allowed steps used, in percent", _percents(report), "%")
    yield from _section(limits(report))
    yield from _section(steps_after(figures))
    yield from _section(trouble(figures), waste(figures))
    yield from _section(spending(figures))
    for title, name, found in _groups(report):
        yield from _section(groups(title, name, found))
    yield from _section(tools(report.by_tool))
    for table in comparisons(report):
        yield from _section(table)
    yield from _unmatched(report.ratings.unmatched)
    yield from bad_files("could not be read", report.bad)
    yield from bad_files("were read in part", report.damaged)
    if where:
        yield Text(f"\n{where}", style="dim")


def _made_of(report: Report) -> str:
    runs = f"{counted(report.runs, 'run')}; " if report.runs != report.sessions else ""
    named = [(report.by_model, "model"), (report.by_policy, "policy")]
    parts = [
        f"{name} {one_line(next(iter(found)), NAME)}" if len(found) == 1 else f"{len(found):,} {_many(name)}"
        for found, name in named
    ]
    bad = f"; {counted(len(report.bad), 'file')} could not be read" if report.bad else ""
    labels = f"; {words}" if (words := labels_summary(report.labels)) else ""
    return f"{runs}{', '.join(parts)}{labels}{bad}"


def _many(name: str) -> str:
    return "policies" if name == "policy" else f"{name}s"


def _groups(report: Report) -> Iterator[tuple[str, str, dict[str, RunMetrics]]]:
    """Yield groups by model and by policy, if there are several, and by kind of task, if kinds are known."""
    found = (("By model", "model", report.by_model), ("By policy", "policy", report.by_policy))
    for title, name, by in found:
        if len(by) > 1:
            yield title, name, by
    if report.by_kind:
        yield "By kind of task", "kind", report.by_kind


def _advice(report: Report) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    if not report.advice:
        return
    yield Text("\nAdvice", style="bold")
    for number, advice in enumerate(report.advice, 1):
        yield Padding(Text(f"{number}. {advice.says}", style="" if advice.firm else "italic"), (0, 0, 0, 2))
        yield Padding(Text(f"{advice.because[:1].upper()}{advice.because[1:]}.", style="dim"), (0, 0, 0, 5))


def _section(table: ReportTable, *notes: str) -> Iterator[RenderableType]:
    from rich.text import Text

    notes = tuple(note for note in (table.note, *notes) if note)
    if table.rows or notes:
        yield Text(f"\n{table.title}", style="bold")
    if table.rows:
        yield FittingTable(table)
    for note in notes:
        yield Text(note, style="dim")


def _distribution(title: str, spread: Distribution, unit: str) -> Iterator[RenderableType]:
    """Yield a distribution as a table of bars, with mean, median and percentile below."""
    if spread.runs < 2 or not spread.bins:
        return
    bins = _merged(spread.bins)
    most = max(one.runs for one in bins)
    rows = [(_range(one), Bar(one.runs / most), f"{one.runs:,}") for one in bins]
    note = ""
    if spread.mean is not None:
        note = f"Mean {spread.mean:.1f}, median {spread.median:g}, 90th percentile {spread.p90:,}, "
        note += f"maximum {spread.largest:,}."
    yield from _section(
        ReportTable(title=title, caption=title, head=(unit, "", "runs"), rows=rows, figures=(2,), note=note)
    )


def _percents(report: Report) -> Distribution:
    """Return the distribution of runs over the share of allowed steps used, in percent."""
    found = report.overall.limits
    return Distribution(runs=found.runs, bins=found.used_bins)


def _merged(bins: Sequence[Bin]) -> list[Bin]:
    """Merge neighbouring bins into at most `BINS`.

    Returns them with the bin without an upper end, if there is one.
    """
    closed = [one for one in bins if one.high is not None]
    together = -(-len(closed) // BINS) or 1
    merged = []
    for first in range(0, len(closed), together):
        some = closed[first : first + together]
        merged.append(Bin(low=some[0].low, high=some[-1].high, runs=sum(one.runs for one in some)))
    return [*merged, *(one for one in bins if one.high is None)]


def _range(one: Bin) -> str:
    if one.high is None:
        return f"{one.low:,} or more"
    return f"{one.low:,}" if one.low == one.high else f"{one.low:,} to {one.high:,}"


def _unmatched(ids: Sequence[str]) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    if not ids:
        return
    yield Text(f"\n{counted(len(ids), 'rating')} without a session or run in these records", style="yellow")
    for id in ids[:BAD_SHOWN]:
        yield Padding(Text(one_line(id, 100)), (0, 0, 0, 2))
    if len(ids) > BAD_SHOWN:
        yield Padding(Text(f"and {len(ids) - BAD_SHOWN:,} more; --json lists them all", style="dim"), (0, 0, 0, 2))
