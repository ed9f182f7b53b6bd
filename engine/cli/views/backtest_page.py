"""The HTML page of a backtest: the values of its template (`backtest.html.j2`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from ...analysis import charts
from ...analysis.backtest import BacktestReport, PolicyTotals
from ...analysis.statistics import Interval
from ...base.sanitize import one_line
from .backtest_document import MEANING, NAME, backtest_document, finding_words, is_bound, with_bound_sign
from .html import render
from .view_links import ViewLinks

FILES_SHOWN = 100


def backtest_page(report: BacktestReport) -> str:
    """Render the whole page."""
    document, links = backtest_document(report), ViewLinks()
    lines = list(_lines(report)) if report.swept else []
    cases = [
        (
            f"{one_line(cases.policy, NAME)}: {cases.heading}",
            [(links.session(case.session_id), case.record, finding_words(case)) for case in cases.sessions],
        )
        for cases in document.cases
    ]
    return render(
        "backtest.html.j2",
        lead=f"{next(iter(document.outcomes), document.headline)}.",
        links=links,
        report=report,
        document=document,
        curve=_curve(report, [line for line, _ in lines]),
        lines=lines,
        has_bounds=any(map(is_bound, report.policies)),
        cases=cases,
        most_files=FILES_SHOWN,
    )


# ---- the sweep


def _lines(report: BacktestReport) -> Iterator[tuple[charts.Series, str]]:
    """Yield the lines of the chart and what they mean.

    Savings and their cost are always in one chart: savings alone would make the lowest limit look best.
    """
    policies = report.policies
    saved = _points(report, [one.least_saved_steps_share for one in policies])
    yield charts.Series(with_bound_sign("steps saved", report), saved), "steps saved, of all steps"
    supposed = _points(report, [_supposed(one, report) for one in policies], bound=False)
    yield charts.Series("supposed", supposed, "quiet"), f"supposed: {MEANING['supposed']}"
    cut = _points(report, [one.cut_share for one in policies])
    words = "cut short: sessions ended before their work was reported as done, of all sessions"
    yield charts.Series(with_bound_sign("cut short", report), cut, "warn"), words
    if any(totals.passed for totals in policies):
        good = _points(report, [one.false_positive_share for one in policies])
        words = "good ones cut: sessions cut short, of those that passed"
        yield charts.Series(with_bound_sign("good ones cut", report), good, "bad"), words


def _curve(report: BacktestReport, lines: Sequence[charts.Series]) -> Markup:
    return charts.curve(
        lines,
        title=f"Trade-off of {report.swept}",
        x_label=report.swept or "",
        y_label="percent",
        format_y=lambda value: f"{round(value, 1):g} %",
        categories=() if _has_numbers(report) else [one_line(totals.policy, 12) for totals in report.policies],
    )


def _points(
    report: BacktestReport, shares: Sequence[Interval | float | None], *, bound: bool = True
) -> list[charts.DataPoint]:
    """Return a point for each policy, with its share in percent as y.

    x is the value of the swept setting, or the number of the policy, from 0, if not all values are numbers. bound: mark
    the points that are lower bounds.
    """
    points = []
    for number, (totals, share) in enumerate(zip(report.policies, shares, strict=True)):
        x = totals.value if _has_numbers(report) and isinstance(totals.value, int | float) else number
        least = bound and is_bound(totals)
        if isinstance(share, Interval):
            low, high = 100 * share.low, 100 * share.high
            points.append(charts.DataPoint(x, 100 * share.value, low=low, high=high, bound=least))
        else:
            points.append(charts.DataPoint(x, 100 * (share or 0.0), bound=least))
    return points


def _has_numbers(report: BacktestReport) -> bool:
    return all(isinstance(totals.value, int | float) for totals in report.policies)


def _supposed(totals: PolicyTotals, report: BacktestReport) -> float:
    return totals.supposed_saved_steps / report.used.steps if report.used.steps else 0.0
