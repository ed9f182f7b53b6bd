"""The page of a backtest: the tables of `backtest_document.py`, the chart of a sweep, and the notable sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.backtest import BacktestReport, PolicyTotals
from ...analysis.statistics import Interval
from ...base.sanitize import one_line
from ...http.document_page import (
    Item,
    Line,
    LinesPart,
    ListPart,
    NotePart,
    Part,
    Point,
    ReportPage,
    Section,
    made_by,
)
from .backtest_document import MEANING, NAME, BacktestDocument, backtest_document, finding_words, is_bound
from .backtest_document import with_bound_sign as with_sign
from .counted_sessions import CountedSessions
from .report_page import file_parts, shown
from .view_links import ViewLinks


def backtest_page(report: BacktestReport, counted: CountedSessions, viewer: ViewLinks | None = None) -> ReportPage:
    """Build the page. counted: the sessions of the backtest. viewer: where its links lead."""
    document, viewer = backtest_document(report, counted), viewer or ViewLinks()
    first, *others = [f"{words}." for words in document.outcomes or [document.headline]]
    tested = f"{document.headline}; {document.recorded_under}." if document.outcomes else f"{document.recorded_under}."
    policies: list[Part] = [
        *shown(document.policies, document.stopped),
        ListPart(items=[Item(name=column, text=words) for column, words, _ in document.meaning]),
        *(NotePart(words, "main" if holds else "warn") for holds, words in document.guarantees),
    ]
    return ReportPage(
        title="endstop backtest",
        lead=first,
        parts=[
            *(NotePart(words, "main") for words in others),
            NotePart(f"{tested[:1].upper()}{tested[1:]}"),
            NotePart(viewer.must_run),
        ],
        sections=[
            Section("sweep", f"Trade-off of {report.swept}", [_curve(report)] if report.swept else []),
            Section(
                "published",
                "Beside the rules of other projects",
                list(shown(document.published)) if document.published is not None else [],
            ),
            Section("policies", "Results by policy", policies),
            *([] if report.swept else _without_sweep(document, counted)),
            Section(
                "files",
                "Files",
                [
                    *file_parts(report.bad, "could not be read"),
                    *file_parts(report.damaged, "could be read only in part"),
                ],
            ),
        ],
        foot=made_by("docs/guides/backtest.md"),
        view=viewer.base,
    )


def _without_sweep(document: BacktestDocument, counted: CountedSessions) -> list[Section]:
    return [
        Section("saved", "Steps saved and sessions cut short", list(shown(*document.shares))),
        Section("cases", "Notable sessions", list(_cases(document, counted))),
    ]


def _cases(document: BacktestDocument, counted: CountedSessions) -> Iterator[Part]:
    for cases in document.cases:
        yield ListPart(
            title=f"{one_line(cases.policy, NAME)}: {cases.heading}",
            items=[
                Item(name=one_line(case.record, 400), link=counted.session(case), text=finding_words(case))
                for case in cases.sessions
            ],
        )


# ---- the sweep


def _curve(report: BacktestReport) -> LinesPart:
    bounds = (
        " Open triangles and ≥ are lower bounds: not everything is known of some sessions, so the value may be higher."
    )
    return LinesPart(
        title=f"Trade-off of {report.swept}",
        caption="What is saved, and what is cut short. Bands are 95 % confidence."
        + (bounds if any(map(is_bound, report.policies)) else ""),
        x=report.swept or "",
        unit="%",
        lines=list(_lines(report)),
        categories=[] if _has_numbers(report) else [one_line(totals.policy, 12) for totals in report.policies],
    )


def _lines(report: BacktestReport) -> Iterator[Line]:
    """Yield the lines of the chart.

    Savings and their cost are always in one chart: savings alone would make the lowest limit look best.
    """
    policies = report.policies
    yield Line(
        name=with_sign("steps saved", report),
        points=_points(report, [one.least_saved_steps_share for one in policies]),
        meaning="of all steps",
    )
    yield Line(
        name="supposed",
        points=_points(report, [_supposed(one, report) for one in policies], bound=False),
        tone="quiet",
        meaning=MEANING["supposed"],
    )
    yield Line(
        name=with_sign("cut short", report),
        points=_points(report, [one.cut_share for one in policies]),
        tone="warn",
        meaning="sessions ended before their work was reported as done, of all sessions",
    )
    if any(totals.passed for totals in policies):
        yield Line(
            name=with_sign("good ones cut", report),
            points=_points(report, [one.false_positive_share for one in policies]),
            tone="bad",
            meaning="sessions cut short, of those that passed",
        )


def _points(report: BacktestReport, shares: Sequence[Interval | float | None], *, bound: bool = True) -> list[Point]:
    """Return a point for each policy, with its share in percent as y.

    x is the value of the swept setting, or the number of the policy, from 0, if not all values are numbers. bound: mark
    the points that are lower bounds.
    """
    points = []
    for number, (totals, share) in enumerate(zip(report.policies, shares, strict=True)):
        x = totals.value if _has_numbers(report) and isinstance(totals.value, int | float) else number
        least = bound and is_bound(totals)
        if isinstance(share, Interval):
            points.append(Point(x, 100 * share.value, 100 * share.low, 100 * share.high, least))
        else:
            points.append(Point(x, 100 * (share or 0.0), is_bound=least))
    return points


def _has_numbers(report: BacktestReport) -> bool:
    return all(isinstance(totals.value, int | float) for totals in report.policies)


def _supposed(totals: PolicyTotals, report: BacktestReport) -> float:
    return totals.supposed_saved_steps / report.used.steps if report.used.steps else 0.0
