"""The page of a fit: what is guaranteed, the chosen thresholds, two charts, and examples of false stops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...analysis.fit_report import FitReport, Rung
from ...analysis.guarantee import percent_of
from ...analysis.statistics import Interval
from ...http.document_page import (
    Head,
    Item,
    Line,
    LinesPart,
    ListPart,
    Mark,
    NotePart,
    Part,
    Point,
    ReportPage,
    Section,
    TablePart,
    made_by,
)
from .fit_document import FitDocument, fit_document
from .report_page import file_parts, shown
from .view_links import ViewLinks, session_link

MORE_RUNGS = 1
"""Rungs after the last one that was tested that the charts show."""


def fit_page(report: FitReport, viewer: ViewLinks | None = None) -> ReportPage:
    """Build the page. viewer: where its links lead."""
    document, viewer = fit_document(report), viewer or ViewLinks()
    rungs: list[Part] = [*shown(document.rungs), ListPart(items=[Item(text=line) for line in document.meaning])]
    return ReportPage(
        title="endstop fit",
        lead=document.guarantee,
        parts=[NotePart(document.data), NotePart(viewer.must_run)],
        sections=[
            Section(
                "promise",
                "What this means, and what it does not promise",
                [ListPart(items=[Item(text=sentence) for sentence in document.conditions])],
            ),
            Section("settings", "The chosen thresholds", _settings(report)),
            Section("curve", "Savings and false stops", [_savings(report), _false_stops(report), *rungs]),
            Section("cases", "False stops", _examples(document)),
            Section(
                "files",
                "Files",
                [
                    *file_parts(report.bad, "could not be read"),
                    *file_parts(report.damaged, "could be read only in part"),
                ],
            ),
        ],
        foot=made_by("docs/guides/fit.md"),
        view=viewer.base,
    )


def _settings(report: FitReport) -> list[TablePart]:
    if report.chosen is None or not report.chosen.settings:
        return []
    return [
        TablePart(
            caption=f"settings that were moved, from the policy {report.base}",
            heads=[Head("setting"), Head("value", is_figure=True)],
            rows=[(name, str(value)) for name, value in report.chosen.settings.items()],
        )
    ]


def _examples(document: FitDocument) -> list[ListPart]:
    return [
        ListPart(
            title=f"{heading[:1].upper()}{heading[1:]}",
            items=[Item(name=one.record, link=session_link(one.view_id), text=one.why) for one in examples],
        )
        for heading, examples in document.examples
    ]


# ---- charts


def _savings(report: FitReport) -> LinesPart:
    caption = (
        "Steps saved in the part of the data that tests, supposing that the model goes on as recorded. Bands are 95 % "
        "confidence. The table below has all rungs."
    )
    lines = [
        Line(name="bad runs", points=_points(report, lambda rung: rung.saved_bad)),
        Line(name="good runs", points=_points(report, lambda rung: rung.saved_good), tone="warn"),
    ]
    return _chart(report, "Steps saved", caption, lines)


def _false_stops(report: FitReport) -> LinesPart:
    what = "Tasks with a good run that is" if report.counted == "task" else "Good runs that are"
    caption = (
        f"{what} stopped too early, of {report.testing.units:,}, with the exact interval. The bound is "
        f"{percent_of(report.options.bound)}."
    )
    flat = [Point(number, 100 * report.options.bound) for number, _ in enumerate(_drawn(report), 1)]
    lines = [
        Line(name="stopped too early", points=_points(report, lambda rung: rung.harmed_share), tone="bad"),
        Line(name="bound", points=flat, tone="quiet"),
    ]
    return _chart(report, "Good runs stopped too early", caption, lines)


def _chart(report: FitReport, title: str, caption: str, lines: Sequence[Line]) -> LinesPart:
    """Return the lines, with a mark at the chosen rung."""
    return LinesPart(
        title=title,
        caption=caption,
        x="rung, from cautious to eager",
        unit="%",
        lines=[line for line in lines if line.points],
        marks=[] if report.certified is None else [Mark(report.certified + 1, "chosen")],
    )


def _points(report: FitReport, share: Callable[[Rung], Interval | None]) -> list[Point]:
    """Return a point for each rung with its interval, in percent; no point for a share of nothing."""
    points = []
    for number, rung in enumerate(_drawn(report), 1):
        interval = share(rung)
        if interval is not None:
            value, low, high = (100 * one for one in (interval.value, interval.low, interval.high))
            words = f"{rung.changed}: {value:.1f} % ({low:.1f} to {high:.1f})"
            points.append(Point(number, value, low, high, words=words))
    return points


def _drawn(report: FitReport) -> Sequence[Rung]:
    """Return the rungs to draw: those tested and one more, so that the bound can be told from zero."""
    return report.rungs[: sum(rung.trial is not None for rung in report.rungs) + MORE_RUNGS]
