"""The HTML page of a fit: what its template (`fit.html.j2`) shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

from ...analysis import charts
from ...analysis.fit_report import FitReport, Rung, conditions, data_text, guarantee
from ...analysis.guarantee import percent_of
from ...analysis.statistics import Interval
from .fit import HEAD, examples_of, meaning, row_of
from .html import render

FILES_SHOWN = 100


def fit_page(report: FitReport) -> str:
    """The whole page."""
    return render(
        "fit.html.j2",
        lead=guarantee(report),
        report=report,
        data=data_text(report),
        conditions=list(conditions(report)),
        saved=_savings(report),
        harmed=_false_stops(report),
        bound=percent_of(report.options.bound),
        head=("rung", *HEAD),
        rows=[(f"{number + 1}", *row_of(report, number)) for number in range(len(report.rungs))],
        meaning=meaning(report).split("\n"),
        settings=report.chosen.settings if report.chosen is not None else {},
        examples=list(examples_of(report)),
        most_files=FILES_SHOWN,
    )


def _savings(report: FitReport) -> Markup:
    lines = [
        charts.Series("bad runs", _points(report, lambda rung: rung.saved_bad)),
        charts.Series("all", _points(report, lambda rung: rung.saved), "quiet"),
        charts.Series("good runs", _points(report, lambda rung: rung.saved_good), "warn"),
    ]
    return _curve(report, lines, "Steps saved", lambda rung: rung.saved)


def _false_stops(report: FitReport) -> Markup:
    bound = 100 * report.options.bound
    flat = [charts.DataPoint(number + 1, bound, f"the bound: {bound:g} %") for number in range(len(report.rungs))]
    lines = [
        charts.Series("stopped too early", _points(report, lambda rung: rung.harmed_share), "bad"),
        charts.Series("bound", flat, "quiet"),
    ]
    return _curve(report, lines, "Good runs stopped too early", lambda rung: rung.harmed_share)


def _curve(
    report: FitReport, lines: Sequence[charts.Series], title: str, share: Callable[[Rung], Interval | None]
) -> Markup:
    """The lines, and the chosen rung on the line of `share`."""
    chosen = [] if report.certified is None else _points(report, share)[report.certified : report.certified + 1]
    return charts.curve(
        [line for line in [*lines, charts.Series("chosen", chosen, "good")] if line.points],
        title=title,
        x_label="rung, from cautious to eager",
        y_label="percent",
        format_y=lambda value: f"{round(value, 2):g} %",
    )


def _points(report: FitReport, share: Callable[[Rung], Interval | None]) -> list[charts.DataPoint]:
    """A point for each rung with its interval, in percent; none where there is nothing to have a share of."""
    points = []
    for number, rung in enumerate(report.rungs, 1):
        interval = share(rung)
        if interval is not None:
            value, low, high = (100 * one for one in (interval.value, interval.low, interval.high))
            tooltip = f"{rung.changed}: {value:.1f} % ({low:.1f} to {high:.1f})"
            points.append(charts.DataPoint(number, value, tooltip, low, high))
    return points
