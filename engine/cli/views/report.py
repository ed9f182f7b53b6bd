"""A report in the terminal: the main findings in one line, then short tables with bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...analysis.comparison import Advice
from ...analysis.report import Report
from ...analysis.statistics import Bin, Distribution
from ...base.sanitize import one_line
from .document import Bar, Column, Table
from .document_terminal import NAME, bad_files, first_of, item, line, section
from .report_document import ReportDocument, report_document
from .text import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

BINS = 8
"""Bars of a distribution, at most."""


def render_report(report: Report, where: str = "") -> Iterator[RenderableType]:
    """Yield the parts of the report. `where`: what else was written, and to which file."""
    document = report_document(report)
    figures = report.overall
    yield line(document.headline, "bold")
    yield line(_made_of(document), "dim")
    yield from _advice(report.advice)
    yield from section(document.endings)
    yield from section(document.work)
    if document.ratings:
        yield line(f"\n{document.ratings}")
    yield from _distribution("Steps until reported as done", figures.steps_before_done, "steps")
    used = Distribution(runs=figures.limits.runs, bins=figures.limits.used_bins)
    yield from _distribution("Share of the allowed steps used, in percent", used, "%")
    yield from section(document.limits)
    yield from section(document.steps_after)
    yield from section(document.trouble, document.waste)
    yield from section(document.spending)
    for group in (document.by_model, document.by_policy):
        if len(group.rows) > 1:
            yield from section(group)
    if document.by_kind.rows:
        yield from section(document.by_kind)
    yield from section(document.tools)
    for comparison in document.comparisons:
        yield from section(comparison)
    unmatched = [one_line(id, 100) for id in report.ratings.unmatched]
    yield from first_of(
        f"{counted(len(unmatched), 'rating')} without a session or run in these records", unmatched, "yellow"
    )
    yield from bad_files(report.bad, report.damaged)
    if where:
        yield line(f"\n{where}", "dim")


def _made_of(document: ReportDocument) -> str:
    report = document.report
    runs = f"{counted(report.runs, 'run')}; " if report.runs != report.sessions else ""
    named = [(report.by_model, "model", "models"), (report.by_policy, "policy", "policies")]
    parts = [
        f"{one} {one_line(next(iter(found)), NAME)}" if len(found) == 1 else f"{len(found):,} {many}"
        for found, one, many in named
    ]
    bad = f"; {counted(len(report.bad), 'file')} could not be read" if report.bad else ""
    labels = f"; {document.labels}" if document.labels else ""
    return f"{runs}{', '.join(parts)}{labels}{bad}"


def _advice(found: Sequence[Advice]) -> Iterator[RenderableType]:
    if found:
        yield line("\nAdvice", "bold")
    for number, advice in enumerate(found, 1):
        yield item(f"{number}. {advice.says}", "" if advice.firm else "italic")
        yield item(f"{advice.because[:1].upper()}{advice.because[1:]}.", "dim", indent=5)


def _distribution(title: str, spread: Distribution, unit: str) -> Iterator[RenderableType]:
    """Yield a distribution as a table of bars, with mean, median and percentile below."""
    if spread.runs < 2 or not spread.bins:
        return
    bins = _merged(spread.bins)
    most = max(one.runs for one in bins)
    note = ""
    if spread.mean is not None:
        note = f"Mean {spread.mean:.1f}, median {spread.median:g}, 90th percentile {spread.p90:,}, "
        note += f"maximum {spread.largest:,}."
    columns: tuple[Column[Bin], ...] = (
        Column(unit.capitalize(), "name", _range),
        Column("", "bar", lambda one: Bar(one.runs / most)),
        Column("Runs", "count", lambda one: one.runs),
    )
    yield from section(Table(title=title, caption=title, columns=columns, rows=bins, note=note))


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
