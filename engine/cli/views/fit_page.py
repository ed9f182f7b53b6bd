"""The HTML page of a fit: the values of its template (`fit.html.j2`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from markupsafe import Markup

from ...analysis import charts
from ...analysis.fit_report import FitReport, Rung, conditions, data_text, guarantee
from ...analysis.guarantee import percent_of
from ...analysis.statistics import Interval
from .fit import HEAD, examples_of, meaning, row_of
from .html import render

FILES_SHOWN = 100
MORE_RUNGS = 1
"""Rungs after the last one that was tested that the charts show."""


def fit_page(report: FitReport) -> str:
    """Render the whole page."""
    return render(
        "fit.html.j2",
        lead=guarantee(report),
        report=report,
        data=data_text(report),
        conditions=list(conditions(report)),
        saved=_savings(report),
        harmed=_false_stops(report),
        bound=percent_of(report.options.bound),
        head=HEAD,
        rows=list(_rows(report)),
        meaning=meaning(report).split("\n"),
        settings=report.chosen.settings if report.chosen is not None else {},
        examples=list(examples_of(report)),
        most_files=FILES_SHOWN,
    )


def _rows(report: FitReport) -> Iterator[tuple[str, ...]]:
    """Yield the rungs, numbered as in the charts."""
    for number in range(len(report.rungs)):
        changed, *cells = row_of(report, number)
        yield f"{number + 1}. {changed}", *cells


# ---- charts


def _savings(report: FitReport) -> Markup:
    lines = [
        charts.Series("bad runs", _points(report, lambda rung: rung.saved_bad)),
        charts.Series("good runs", _points(report, lambda rung: rung.saved_good), "warn"),
    ]
    return _curve(report, lines, "Steps saved")


def _false_stops(report: FitReport) -> Markup:
    bound = 100 * report.options.bound
    drawn = report.rungs[: _drawn(report)]
    flat = [charts.DataPoint(number, bound, f"the bound: {bound:g} %") for number, _ in enumerate(drawn, 1)]
    lines = [
        charts.Series("stopped too early", _points(report, lambda rung: rung.harmed_share), "bad"),
        charts.Series("bound", flat, "quiet"),
    ]
    return _curve(report, lines, "Good runs stopped too early")


def _curve(report: FitReport, lines: Sequence[charts.Series], title: str) -> Markup:
    """Return the lines, with a mark at the chosen rung."""
    return charts.curve(
        [line for line in lines if line.points],
        title=title,
        x_label="rung, from cautious to eager",
        y_label="percent",
        format_y=lambda value: f"{round(value, 2):g} %",
        marks=[] if report.certified is None else [charts.ReferenceLine(report.certified + 1, "chosen")],
    )


def _points(report: FitReport, share: Callable[[Rung], Interval | None]) -> list[charts.DataPoint]:
    """Return a point for each rung with its interval, in percent; no point for a share of nothing."""
    points = []
    for number, rung in enumerate(report.rungs[: _drawn(report)], 1):
        interval = share(rung)
        if interval is not None:
            value, low, high = (100 * one for one in (interval.value, interval.low, interval.high))
            tooltip = f"{rung.changed}: {value:.1f} % ({low:.1f} to {high:.1f})"
            points.append(charts.DataPoint(number, value, tooltip, low, high))
    return points


def _drawn(report: FitReport) -> int:
    """Return the number of rungs to draw: those tested and one more, so that the bound can be told from zero."""
    return sum(rung.trial is not None for rung in report.rungs) + MORE_RUNGS
