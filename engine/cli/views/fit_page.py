"""The HTML page of a fit: the values of its template (`fit.html.j2`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ...analysis import charts
from ...analysis.fit_report import FitReport, Rung
from ...analysis.guarantee import percent_of
from ...analysis.statistics import Interval
from .fit_document import fit_document
from .html import render

FILES_SHOWN = 100
MORE_RUNGS = 1
"""Rungs after the last one that was tested that the charts show."""


def fit_page(report: FitReport) -> str:
    """Render the whole page."""
    document = fit_document(report)
    return render(
        "fit.html.j2",
        lead=document.guarantee,
        report=report,
        document=document,
        saved=_savings(report),
        harmed=_false_stops(report),
        bound=percent_of(report.options.bound),
        settings=report.chosen.settings if report.chosen is not None else {},
        most_files=FILES_SHOWN,
    )


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
