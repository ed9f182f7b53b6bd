"""A report in the terminal: the main findings in one line, then short tables with bars."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..._sanitize import one_line
from ...analysis.metrics import RunMetrics
from ...analysis.report import Report
from ...analysis.statistics import Bin, Distribution
from .report_tables import (
    Bar,
    Cell,
    ReportTable,
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
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table

NAME = 48
"""The most characters that are shown of a name in a table."""
LONGEST_BAR = 24
SHORTEST_BAR = 8
BINS = 8
"""Bars of a distribution, at most."""
STYLES = {"main": "blue", "good": "green", "warn": "yellow", "bad": "red", "loop": "magenta", "quiet": "dim"}
_EIGHTHS = " ▏▎▍▌▋▊▉"


def render_report(report: Report, where: str = "") -> Iterator[RenderableType]:
    """The parts of the report. `where`: what else was written, and to which file."""
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
    """By model and by policy if there are several, and by kind of task if kinds are known."""
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
        yield _FittingTable(table)
    for note in notes:
        yield Text(note, style="dim")


class _FittingTable:
    """A table with as many of its columns as fit."""

    def __init__(self, table: ReportTable) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        spare, left_out = list(self._table.spare), set[int]()
        while spare and _narrowest(console, options, self._table, left_out) > options.max_width:
            left_out.add(spare.pop(0))
        fits = _narrowest(console, options, self._table, left_out) <= options.max_width
        yield _rich_table(self._table, left_out, wraps=not fits)
        if left_out:
            yield Text(f"{counted(len(left_out), 'column')} more in a wider terminal", style="dim italic")


def _narrowest(console: Console, options: ConsoleOptions, table: ReportTable, left_out: set[int]) -> int:
    """The width of the table with the shortest bars and nothing wrapped."""
    from rich.measure import Measurement

    rich_table = _rich_table(table, left_out, wraps=False)
    bars = len(_bars(table) - left_out)
    return Measurement.get(console, options.update(width=1000), rich_table).maximum - bars * (
        LONGEST_BAR - SHORTEST_BAR
    )


def _bars(table: ReportTable) -> set[int]:
    return {number for row in table.rows for number, cell in enumerate(row) if isinstance(cell, Bar)}


def _rich_table(table: ReportTable, left_out: set[int], *, wraps: bool) -> Table:
    from rich import box
    from rich.table import Table

    rich_table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False, header_style="dim")
    bars = _bars(table)
    shown = [number for number in range(len(table.head)) if number not in left_out]
    for number in shown:
        rich_table.add_column(
            one_line(table.head[number], NAME),
            justify="right" if number in table.figures else "left",
            overflow="fold",
            no_wrap=number not in bars and not wraps,
            max_width=LONGEST_BAR if number in bars else None,
        )
    for row in table.rows:
        rich_table.add_row(*(_cell(row[number], number == 0) for number in shown))
    return rich_table


def _cell(cell: Cell, is_name: bool) -> RenderableType:
    from rich.text import Text

    if isinstance(cell, Bar):
        return _DrawnBar(cell)
    indent = len(cell) - len(cell.lstrip(" ")) if is_name else 0
    return Text(" " * indent + one_line(cell, NAME))


class _DrawnBar:
    """A bar as wide as its column, in steps of an eighth of a cell."""

    def __init__(self, bar: Bar) -> None:
        self._bar = bar

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        eighths = round(8 * options.max_width * max(0.0, min(1.0, self._bar.share)))
        if self._bar.share > 0:
            eighths = max(1, eighths)
        drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
        yield Text(drawn, style=STYLES[self._bar.tone], no_wrap=True)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        from rich.measure import Measurement

        return Measurement(SHORTEST_BAR, LONGEST_BAR)


def _distribution(title: str, spread: Distribution, unit: str) -> Iterator[RenderableType]:
    """A distribution as a table of bars, with mean, median and percentile below."""
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
    """How many runs used which share of the allowed steps, in percent."""
    found = report.overall.limits
    return Distribution(runs=found.runs, bins=found.used_bins)


def _merged(bins: Sequence[Bin]) -> list[Bin]:
    """Neighbouring bins merged into at most `BINS`, and the bin without an upper end, if there is one."""
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
