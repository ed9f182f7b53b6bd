"""The HTML page of a backtest: the values of its template (`backtest.html.j2`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ..._sanitize import one_line
from ...analysis import charts
from ...analysis.backtest import BacktestReport, PolicyTotals
from ...analysis.statistics import Interval
from .backtest import MEANING, case_words, guarantee_words, headline, recorded_under
from .html import isolated, render
from .published_table import PUBLISHED_HEAD, PUBLISHED_MEANING, published_rows

NAME = 60
"""The most characters that are shown of a policy's name."""
FILES_SHOWN = 100


def backtest_page(report: BacktestReport) -> str:
    """Render the whole page."""
    lines = list(_lines(report)) if report.swept else []
    return render(
        "backtest.html.j2",
        lead=f"{headline(report)}; {recorded_under(report)}.",
        report=report,
        curve=_curve(report, [line for line, _ in lines]),
        lines=lines,
        has_bounds=any(map(_is_bound, report.policies)),
        policies=_policies(report),
        published=_published(report) if report.published else None,
        published_meaning=PUBLISHED_MEANING,
        meaning=MEANING.split("\n"),
        guarantees=list(map(guarantee_words, report.fitted)),
        shares=list(_shares(report)),
        cases=list(_cases(report)),
        most_files=FILES_SHOWN,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTable:
    """The table of all policies."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def numeric(self) -> range:
        """The columns that hold numbers."""
        return range(1, len(self.head))


def _policies(report: BacktestReport) -> PolicyTable:
    partings = [name for name in report.policies[0].partings if any(one.partings[name] for one in report.policies)]
    rows = [
        [
            _name(totals),
            *(f"{totals.partings[name]:,}" for name in partings),
            f"{'≥ ' if _is_bound(totals) else ''}{totals.least_saved_steps:,}",
            f"{totals.supposed_saved_steps:,}",
            f"{totals.saved.output_tokens:,}",
            f"{'≥ ' if _is_bound(totals) else ''}{totals.cut:,}",
            f"{totals.false_positives:,} of {totals.passed:,}" if totals.passed else "-",
            f"{totals.supposed_before_change:,}",
            f"{totals.by_verdict['passed'].premature:,} of {totals.passed:,}" if totals.passed else "-",
            f"{totals.false_negatives:,}",
        ]
        for totals in report.policies
    ]
    head = [
        report.swept or "policy",
        *partings,
        "steps saved",
        "supposed",
        "tokens",
        "cut short",
        "good ones",
        "before change",
        "false stops",
        "goes on",
    ]
    return PolicyTable(head=head, rows=rows)


def _published(report: BacktestReport) -> PolicyTable:
    rows = [[isolated(name, NAME), *cells] for name, *cells in published_rows(report)]
    return PolicyTable(head=PUBLISHED_HEAD, rows=rows)


def _name(totals: PolicyTotals) -> Markup:
    return isolated(totals.policy, NAME)


def _shares(report: BacktestReport) -> Iterator[tuple[str, list[tuple[str, Markup, str]]]]:
    """Yield tables of shares with their confidence intervals: the caption, and a row for each policy."""
    saved = [one.least_saved_steps_share for one in report.policies]
    yield _least("Steps saved, of all steps", report), _intervals(report, saved)
    cut = [one.cut_share for one in report.policies]
    yield _least("Sessions cut short, of all sessions", report), _intervals(report, cut, "warn")
    if any(totals.passed for totals in report.policies):
        shares = [one.false_positive_share for one in report.policies]
        yield "Good sessions cut short, of those that passed", _intervals(report, shares, "bad")
        shares = [one.by_verdict["passed"].premature_share for one in report.policies]
        yield "False stops, of the sessions that passed (exact interval)", _intervals(report, shares, "bad")
    if report.against is not None:
        beyond = [one.against for one in report.policies]
        yield f"Steps saved beyond {one_line(report.against, NAME)}", _intervals(report, beyond)


def _intervals(
    report: BacktestReport, intervals: Sequence[Interval | None], tone: str = "main"
) -> list[tuple[str, Markup, str]]:
    """Return each policy's name, its interval on a scale common to all, and the same in figures."""
    last = max((interval.high for interval in intervals if interval is not None), default=0.0) or 1.0
    first = min(0.0, min((interval.low for interval in intervals if interval is not None), default=0.0))
    return [
        (
            _name(totals),
            charts.interval(interval.low, interval.value, interval.high, first, last, tone),
            f"{100 * interval.value:.1f} % ({100 * interval.low:.1f} to {100 * interval.high:.1f})",
        )
        for totals, interval in zip(report.policies, intervals, strict=True)
        if interval is not None
    ]


def _cases(report: BacktestReport) -> Iterator[tuple[str, list[str]]]:
    """Yield lists of sessions: the heading, and a description of each session."""
    for totals in report.policies:
        name = one_line(totals.policy, NAME)
        for heading, cases in (
            ("saves most in", totals.most_saved),
            ("would have cut these, which passed", totals.good_runs_cut),
            ("unknown, for instance", totals.unknown),
        ):
            if cases:
                yield f"{name}: {heading}", [case_words(case) for case in cases]


# ---- the sweep


def _lines(report: BacktestReport) -> Iterator[tuple[charts.Series, str]]:
    """Yield the lines of the chart and what they mean.

    Savings and their cost are always in one chart: savings alone would make the lowest limit look best.
    """
    policies = report.policies
    saved = _points(report, [one.least_saved_steps_share for one in policies])
    yield charts.Series(_least("steps saved", report), saved), "steps saved, of all steps"
    supposed = _points(report, [_supposed(one, report) for one in policies], bound=False)
    yield charts.Series("supposed", supposed, "quiet"), MEANING.split("\n")[0]
    cut = _points(report, [one.cut_share for one in policies])
    words = "cut short: sessions ended before their work was reported as done, of all sessions"
    yield charts.Series(_least("cut short", report), cut, "warn"), words
    if any(totals.passed for totals in policies):
        good = _points(report, [one.false_positive_share for one in policies])
        words = "good ones cut: sessions cut short, of those that passed"
        yield charts.Series(_least("good ones cut", report), good, "bad"), words


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
        least = bound and _is_bound(totals)
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


# ---- lower bounds


def _is_bound(totals: PolicyTotals) -> bool:
    """Return whether a policy's figures are lower bounds because some sessions are not fully known."""
    return totals.known < totals.sessions


def _least(name: str, report: BacktestReport) -> str:
    return f"{name} ≥" if any(map(_is_bound, report.policies)) else name
