"""The HTML page of a report: the values of its template (`report.html.j2`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from ...analysis import charts
from ...analysis.labels import Labels
from ...analysis.metrics import RunMetrics
from ...analysis.report import OTHERS, Report, label_runs
from ...analysis.sampling import REASONS
from ...analysis.scoring import Ratings
from ...analysis.statistics import Bin, Distribution
from .figures import dollars, long, of, part, short
from .html import render
from .report_document import cost_name, report_document
from .text import counted
from .timeline_page import BRIEF, MARKS, NOTES, SessionSection, SessionView, session_view
from .view_links import ViewLinks

MOST_WRITTEN = 30_000
"""How many steps and calls the page shows in all its sessions together, at most."""
FILES_SHOWN = 100
SESSIONS_LISTED = 20
"""The sessions beyond these are folded away."""
UNNAMED = ("unknown", OTHERS)
"""Rows of tables that stand for no name."""


def report_page(
    report: Report,
    sessions: Sequence[SessionSection],
    ratings: Ratings,
    labels: Labels | None = None,
    links: ViewLinks | None = None,
) -> str:
    """Render the whole page.

    sessions: those that can be opened. ratings, labels: those of the report. links: links into the viewer.
    """
    document, figures = report_document(report), report.overall
    links = links or ViewLinks()
    labelled = f"{document.labels[:1].upper()}{document.labels[1:]}." if document.labels else ""
    return render(
        "report.html.j2",
        lead=f"{document.headline}.",
        report=report,
        document=document,
        tiles=_tiles(report),
        ratings=" ".join(filter(None, [document.ratings, labelled])),
        steps=_steps(figures),
        used_of_limit=_used_of_limit(figures),
        sessions=list(_sessions(sessions, ratings, labels, links)),
        links=links,
        unnamed=UNNAMED,
        marks=MARKS.values(),
        notes=NOTES,
        brief=BRIEF,
        reasons=REASONS,
        reasons_shown=[name for name in REASONS if any(name in one.chosen.reasons for one in sessions)],
        most_files=FILES_SHOWN,
        most_listed=SESSIONS_LISTED,
    )


def _tiles(report: Report) -> list[tuple[str, str, str]]:
    """Return the most important figures, each as a name, a value and a few words about it."""
    one = report.overall
    judged, wrong, on = one.judged.passed, one.false_positives.runs, one.false_negatives.went_on
    done, wasted = one.steps_before_done, one.waste
    about = "about " if one.spending.estimated_runs else ""
    priced = 2 * one.spending.unpriced_runs < one.runs
    money = (cost_name(one).capitalize(), dollars(one.spending.cost_usd), long(one.spending.seconds))
    steps = ("Steps", f"{one.steps:,}", f"{counted(report.sessions, 'session')}, {counted(report.runs, 'run')}")
    return [
        *((money, steps) if priced else (steps, money)),
        ("Good, of those judged", part(judged), of(judged) if judged.of else "none was evaluated"),
        (
            "False positives",
            part(wrong),
            f"{of(wrong)} reported as done, not good" if wrong.of else "none was evaluated",
        ),
        ("Went on after the report", part(on), f"{of(on)}; {counted(wasted.steps, 'step')}"),
        (
            "Steps until reported as done",
            "-" if done.median is None else f"{done.median:g}",
            f"median; nine of ten within {done.p90}",
        ),
        ("Ended by a limit", part(one.ended["limit"]), of(one.ended["limit"])),
        ("Tokens out", f"{about}{short(one.spending.output_tokens)}", f"{about}{short(one.spending.input_tokens)} in"),
    ]


# ---- charts


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A histogram and its table."""

    title: str
    caption: str
    unit: str
    picture: Markup
    columns: Sequence[charts.HistogramColumn]


def _steps(figures: RunMetrics) -> Histogram | None:
    done = figures.steps_before_done
    if done.runs:
        return _distribution("Steps until the work was reported as done", done)
    return _distribution("Steps of a run", figures.run_steps)


def _distribution(title: str, spread: Distribution) -> Histogram | None:
    if spread.median is None or spread.p90 is None or spread.mean is None:
        return None
    lines = [
        charts.ReferenceLine(spread.median, f"median {spread.median:g}"),
        charts.ReferenceLine(spread.p90, f"9 of 10: {spread.p90:,}"),
    ]
    columns = [charts.HistogramColumn(one.low, one.high, one.runs) for one in spread.bins]
    return Histogram(
        title=title,
        caption=f"{title}: {counted(spread.runs, 'run')}, mean {spread.mean:.1f}, most {spread.largest:,}",
        unit="steps",
        picture=charts.histogram(columns, title=title, x_label="steps", y_label="runs", lines=lines),
        columns=columns,
    )


def _used_of_limit(figures: RunMetrics) -> Histogram | None:
    if not figures.limits.runs:
        return None
    title = "Used of the allowed steps"
    columns = [charts.HistogramColumn(one.low, one.high, one.runs, _up_to(one)) for one in figures.limits.used_bins]
    return Histogram(
        title=title,
        caption=f"{title}: {counted(figures.limits.runs, 'run')}",
        unit="percent",
        picture=charts.histogram(columns, title=title, x_label="percent of the limit", y_label="runs"),
        columns=columns,
    )


def _up_to(one: Bin) -> str:
    return "more" if one.high is None else f"≤{one.high}"


# ---- sessions


def _sessions(
    sections: Sequence[SessionSection], ratings: Ratings, labels: Labels | None, links: ViewLinks
) -> Iterator[SessionView]:
    """Yield the sessions in order. Once `MOST_WRITTEN` is reached, the steps of those that do not fit are left out."""
    longest = max((one.chosen.steps for one in sections), default=0)
    left = MOST_WRITTEN
    for one in sections:
        fits = one.size <= left
        left -= one.size if fits else 0
        digests = [run.digest for run in one.timeline.runs]
        whole = not one.timeline.more_runs
        verdicts = labels.verdicts_of(digests, one.chosen.record) if labels is not None and whole else ()
        runs = label_runs(digests, ratings, whole=whole, verdicts=verdicts)
        yield session_view(one, runs, longest, links, with_steps=fits)
