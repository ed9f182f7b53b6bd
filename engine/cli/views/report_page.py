"""The page of `endstop report`: figures, charts, the tables of `report_document.py`, and the list of sessions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...analysis.audit import audit_with_summaries
from ...analysis.endings import short_ending
from ...analysis.labels import Labels
from ...analysis.metrics import RunMetrics
from ...analysis.report import Report, label_runs
from ...analysis.sampling import REASONS, BadRecord, SampledSession
from ...analysis.scoring import LabelledRun, Ratings
from ...analysis.session_filters import FALSE_POSITIVE, WENT_ON, WORK, filter_values
from ...analysis.statistics import Bin, Distribution
from ...analysis.summary import RunSummary
from ...analysis.task_titles import TaskTitles
from ...analysis.verdict import SessionVerdict, verdict_of
from ...base.sanitize import one_line
from ...fork import describe_origin
from ...http.document_page import (
    Cell,
    Figure,
    FiguresPart,
    Head,
    HistogramColumn,
    HistogramPart,
    Item,
    ListPart,
    Mark,
    NotePart,
    Part,
    ReportPage,
    ReportSession,
    Section,
    SessionsPart,
    TablePart,
    made_by,
)
from ...records.scan import scan
from .document import Table
from .figures import dollars, long, of, part, short
from .report_document import WORK_TONES, ShareRow, cost_name, report_document
from .text import counted
from .view_links import GroupLinks, ViewLinks

FILES_SHOWN = 100
SESSIONS_LISTED = 20
"""The sessions beyond these are shown on request."""


class SessionSection(NamedTuple):
    """A session of the page: why it was chosen, its runs without copies, and the verdict on it."""

    chosen: SampledSession
    runs: tuple[RunSummary, ...]
    verdict: SessionVerdict


def read_section(path: Path) -> tuple[tuple[RunSummary, ...], SessionVerdict]:
    """Read of a record what `SessionSection` needs. Raises WrongUse if the file is not a record."""
    audited, runs = audit_with_summaries(scan(path), ())
    return tuple(run for run in runs if not run.is_copy), verdict_of(audited)


def report_page(
    report: Report,
    sections: Sequence[SessionSection],
    ratings: Ratings,
    labels: Labels | None = None,
    viewer: ViewLinks | None = None,
) -> ReportPage:
    """Build the page. sections: the sessions that it lists. ratings, labels: those of the report."""
    viewer = viewer or ViewLinks()
    labelled = [label_session(one, ratings, labels) for one in sections]
    judged = bool(len(ratings)) or labels is not None
    links = GroupLinks(_named(sections, labelled) if len(sections) == report.sessions else None, judged=judged)
    document, figures = report_document(report, links), report.overall
    words = f"{document.labels[:1].upper()}{document.labels[1:]}." if document.labels else ""
    elsewhere = f"{viewer.must_run} With `--view URL` they lead to another address." if viewer.must_run else ""
    groups = (document.by_model, document.by_policy, document.by_kind, document.tools)
    return ReportPage(
        title="endstop report",
        lead=f"{document.headline}.",
        parts=[
            FiguresPart(_figures(report, links)),
            NotePart(f"A number of runs leads to the sessions that have such runs. {elsewhere}".rstrip()),
        ],
        sections=[
            Section("advice", "Advice", list(_advice(report))),
            Section("endings", "How runs ended", list(_endings(document.endings, figures, links))),
            Section("work", "What is known of the work", [*shown(document.work), *notes(document.ratings, words)]),
            Section("steps", "Steps", list(_steps(figures))),
            Section("limits", "Limits", [*_used_of_limit(figures), *shown(document.limits)]),
            Section("after", document.steps_after.title, list(shown(document.steps_after))),
            Section("trouble", "What went wrong", [*shown(document.trouble), *notes(document.waste)]),
            Section("spending", "Steps, tokens, cost, time", list(shown(document.spending))),
            Section("groups", "By model, policy, kind of task and tool", list(shown(*groups))),
            Section("baseline", "Compared with the baseline", list(shown(*document.comparisons))),
            Section("sessions", "Sessions", list(_sessions(report, sections, labelled))),
            Section("files", "Unreadable files and unmatched ratings", list(_files(report))),
        ],
        foot=made_by("docs/guides/report.md"),
        view=viewer.base,
    )


def shown(*tables: Table[Any]) -> Iterator[TablePart]:
    """Yield the tables that have rows."""
    return (table.part() for table in tables if table.rows)


def notes(*texts: str) -> Iterator[NotePart]:
    """Yield a paragraph for each text that is not empty."""
    return map(NotePart, filter(None, texts))


def file_parts(files: Sequence[BadRecord], what: str) -> Iterator[ListPart]:
    """Yield the list of files that were not read as they should be, if there are any."""
    if files:
        items = [Item(name=one_line(file.record, 300), text=one_line(file.why, 400)) for file in files[:FILES_SHOWN]]
        if len(files) > FILES_SHOWN:
            items.append(Item(text=f"and {len(files) - FILES_SHOWN:,} more: --json lists them all"))
        yield ListPart(title=f"{counted(len(files), 'file')} {what}", items=items)


def _figures(report: Report, links: GroupLinks) -> list[Figure]:
    """Return the most important figures."""
    one = report.overall
    judged, wrong, on = one.judged.passed, one.false_positives.runs, one.false_negatives.went_on
    done, wasted, spent = one.steps_before_done, one.waste, one.spending
    about = "about " if spent.estimated_runs else ""
    money = Figure(cost_name(one).capitalize(), dollars(spent.cost_usd), long(spent.seconds))
    many = f"{counted(report.sessions, 'session')}, {counted(report.runs, 'run')}"
    steps = Figure("Steps", f"{one.steps:,}", many)
    return [
        *((money, steps) if 2 * spent.unpriced_runs < one.runs else (steps, money)),
        Figure(
            "Good, of those judged",
            part(judged),
            of(judged) if judged.of else "none was evaluated",
            links.to("work", WORK["checked"]) if judged.runs else "",
        ),
        Figure(
            "False positives",
            part(wrong),
            f"{of(wrong)} reported as done, not good" if wrong.of else "none was evaluated",
            links.to("trouble", FALSE_POSITIVE) if wrong.runs else "",
        ),
        Figure(
            "Went on after the report",
            part(on),
            f"{of(on)}; {counted(wasted.steps, 'step')}",
            links.to("trouble", WENT_ON) if on.runs else "",
        ),
        Figure(
            "Steps until reported as done",
            "-" if done.median is None else f"{done.median:g}",
            f"median; nine of ten within {done.p90}" if done.runs else "",
        ),
        Figure(
            "Ended by a limit",
            part(one.ended["limit"]),
            of(one.ended["limit"]),
            links.to("ended", "at a limit") if one.ended["limit"].runs else "",
        ),
        Figure("Tokens out", f"{about}{short(spent.output_tokens)}", f"{about}{short(spent.input_tokens)} in"),
    ]


def _advice(report: Report) -> Iterator[Part]:
    if report.advice:
        yield ListPart(
            items=[Item(name=one.says, more=f"{one.because[:1].upper()}{one.because[1:]}.") for one in report.advice]
        )


def _endings(table: Table[ShareRow], figures: RunMetrics, links: GroupLinks) -> Iterator[Part]:
    """Yield how runs ended, and the same in the words of the list of sessions."""
    for one in shown(table):
        yield replace(one, note="")  # its words are the next table
        yield TablePart(
            caption="Runs by how they ended, in the words of the list of sessions",
            heads=[Head("Ended"), Head("Runs", is_figure=True)],
            rows=[
                [one_line(ending, 60), Cell(text=f"{many:,}", link=links.to("run_ending", ending), order=many)]
                for ending, many in figures.endings.items()
            ],
        )


# ---- charts


def _steps(figures: RunMetrics) -> Iterator[Part]:
    done = figures.steps_before_done
    if done.runs:
        yield from _distribution("Steps until the work was reported as done", done)
    else:
        yield from _distribution("Steps of a run", figures.run_steps)


def _distribution(title: str, spread: Distribution) -> Iterator[Part]:
    if spread.median is None or spread.p90 is None or spread.mean is None:
        return
    marks = ((spread.median, f"median {spread.median:g}"), (spread.p90, f"9 of 10: {spread.p90:,}"))
    yield HistogramPart(
        title=title,
        caption=f"{title}: {counted(spread.runs, 'run')}, mean {spread.mean:.1f}, most {spread.largest:,}",
        x="steps",
        y="runs",
        columns=[HistogramColumn(_covers(one), one.runs, f"{one.low:,}") for one in spread.bins],
        marks=[Mark(_place(value, spread.bins), label) for value, label in marks],
    )


def _used_of_limit(figures: RunMetrics) -> Iterator[Part]:
    if figures.limits.runs:
        title = "Used of the allowed steps"
        yield HistogramPart(
            title=title,
            caption=f"{title}: {counted(figures.limits.runs, 'run')}",
            x="percent of the limit",
            y="runs",
            columns=[
                HistogramColumn(_covers(one), one.runs, "more" if one.high is None else f"≤{one.high}")
                for one in figures.limits.used_bins
            ],
        )


def _covers(one: Bin) -> str:
    """Return the values that a column covers, as in `3`, `3 to 5` or `6 or more`."""
    if one.high is None:
        return f"{one.low:,} or more"
    return f"{one.low:,}" if one.low == one.high else f"{one.low:,} to {one.high:,}"


def _place(value: float, bins: Sequence[Bin]) -> float:
    """Return the place of a value in a histogram, in columns from the left."""
    for number, one in enumerate(bins):
        if one.high is None or value <= one.high:
            span = 1 if one.high is None else one.high - one.low + 1
            return round(number + min(1.0, max(0.0, (value - one.low + 0.5) / span)), 3)
    return len(bins)


# ---- sessions


def label_session(one: SessionSection, ratings: Ratings, labels: Labels | None) -> list[LabelledRun]:
    """Label the runs of a session."""
    verdicts = labels.verdicts_of(one.runs, one.chosen.record) if labels is not None else ()
    return label_runs(one.runs, ratings, verdicts=verdicts)


def _named(
    sections: Sequence[SessionSection], labelled: Sequence[Iterable[LabelledRun]]
) -> Mapping[str, Mapping[str, list[str]]]:
    """Return the ids of the sessions by the filters that they match and their values."""
    named: dict[str, dict[str, list[str]]] = {}
    for one, runs in zip(sections, labelled, strict=True):
        for name, values in filter_values(runs).items():
            for value in values:
                named.setdefault(name, {}).setdefault(value, []).append(one.chosen.view_id)
    return named


def _sessions(
    report: Report, sections: Sequence[SessionSection], labelled: Sequence[Sequence[LabelledRun]]
) -> Iterator[Part]:
    if not sections:
        return
    all_shown = len(sections) == report.sessions
    yield NotePart(
        "All sessions, the most interesting ones first."
        if all_shown
        else f"{len(sections):,} of {counted(report.sessions, 'session')}: the most interesting ones of each kind, in "
        "turn (--sessions N shows more or fewer)."
    )
    titles = TaskTitles()
    for one in sections:
        titles.add(_task(one).task, _task(one).task_key)
    rows = [_session(one, runs[-1], titles) for one, runs in zip(sections, labelled, strict=True)]
    yield SessionsPart(sessions=rows, most=SESSIONS_LISTED)
    yield ListPart(
        title="How sessions are selected", items=[Item(name=name, text=how) for name, how in REASONS.items()]
    )


def _task(one: SessionSection) -> RunSummary:
    return next((run for run in one.runs if run.task), one.runs[0])


def _session(one: SessionSection, last: LabelledRun, titles: TaskTitles) -> ReportSession:
    task, verdict, chosen = _task(one), one.verdict, one.chosen
    spent = verdict.cost_usd
    about = "about " if any(run.used.usage.estimated for run in one.runs) else ""
    return ReportSession(
        id=chosen.view_id,
        task=one_line(titles.title(task.task, task.task_key, Path(chosen.record).stem), 140) or chosen.session_id,
        record=one_line(chosen.record, 400),
        ending=one_line(short_ending(last.digest.ending or "cut_off"), 60),
        known=WORK[last.known] + (f" by {last.by}" if last.good is not None else ""),
        tone=WORK_TONES[last.known],
        steps=chosen.steps,
        cost="unknown" if spent is None else f"{about}{dollars(spent)}",
        cost_usd=spent,
        reasons=chosen.reasons,
        origin=next((one_line(describe_origin(run.origin), 300) for run in one.runs if run.origin is not None), ""),
        strip=[run for run in verdict.strip if run.cells],
        anchors=[anchor for anchor in verdict.anchors if anchor.step],
    )


# ---- files


def _files(report: Report) -> Iterator[Part]:
    yield from file_parts(report.bad, "could not be read")
    yield from file_parts(report.damaged, "could be read only in part")
    if ids := report.ratings.unmatched:
        yield ListPart(
            title=f"{counted(len(ids), 'rating')} that match no session and no run of these records",
            items=[Item(text=one_line(id, 200)) for id in ids[:FILES_SHOWN]],
        )
