"""A report as a page in one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..._sanitize import one_line
from ..._version import __version__
from ...analysis import charts as plots
from ...analysis.comparison import GroupComparison
from ...analysis.html import Markup, bullets, figure, foreign, join, page, section, table, tag, tiles
from ...analysis.metrics import RunMetrics
from ...analysis.report import Report, label_runs
from ...analysis.sampling import REASONS, BadRecord
from ...analysis.scoring import LabelledRun, Ratings
from ...analysis.statistics import Bin, Distribution
from .report_tables import (
    Bar,
    Cell,
    Sheet,
    comparisons,
    endings,
    groups,
    headline,
    limits,
    ratings_told,
    spending,
    tools,
    trouble,
    waste,
    work,
)
from .tables import dollars, long, of, part, short
from .text import counted
from .timeline_page import Shown, key, session

MOST_WRITTEN = 30_000
"""Steps and calls that the page names, in all its sessions: some 3 MB."""
FILES_SHOWN = 100
__all__ = ["Shown", "report_page"]


def report_page(report: Report, shown: Sequence[Shown], ratings: Ratings) -> str:
    """The whole file. `shown`: the sessions to open; `ratings`: what the report was made with."""
    figures = report.overall
    return page(
        "endstop report",
        headline(report) + ".",
        _glance(report),
        section("advice", "Advice", _advice(report)),
        section("endings", "How runs ended", _sheet(endings(figures))),
        section("work", "What is known of the work", _sheet(work(figures)), _note(ratings_told(report.ratings))),
        section("steps", "Steps", *_steps(figures)),
        section("limits", "Limits", *_limits(report)),
        section("trouble", "What went wrong", _sheet(trouble(figures)), _note(waste(figures))),
        section("spending", "Steps, tokens, cost, time", _sheet(spending(figures))),
        section("groups", "By model, policy, kind of task and tool", *_groups(report)),
        section("baseline", "Beside the baseline", *_baseline(report)),
        section("sessions", "Sessions", *_sessions(report, shown, ratings)),
        section("files", "Files and ratings that did not fit", *_unfit(report)),
        foot=f"Made by endstop {__version__}. What each figure means exactly stands in its docs/report.md.",
        script=SCRIPT if shown else "",
    )


def _glance(report: Report) -> Markup:
    one = report.overall
    judged, wrong, on = one.judged.passed, one.false_positives.runs, one.false_negatives.went_on
    done, wasted = one.steps_before_done, one.waste
    about = "about " if one.spending.estimated_runs else ""
    unpriced = f"{one.spending.unpriced_runs:,} runs not priced" if one.spending.unpriced_runs else ""
    cells: list[tuple[str, object, object]] = [
        ("Sessions", f"{report.sessions:,}", f"{counted(report.runs, 'run')}, {counted(one.steps, 'step')}"),
        ("Good, of those judged", part(judged), of(judged) if judged.of else "none was judged"),
        ("False positives", part(wrong), f"{of(wrong)} reported as done, not good" if wrong.of else "none was judged"),
        ("Went on after the report", part(on), f"{of(on)}; {counted(wasted.steps, 'step')}"),
        (
            "Steps until reported as done",
            "-" if done.median is None else f"{done.median:g}",
            f"median; nine of ten within {done.p90}",
        ),
        ("Ended by a limit", part(one.ended["limit"]), of(one.ended["limit"])),
        ("Tokens out", f"{about}{short(one.spending.output_tokens)}", f"{about}{short(one.spending.input_tokens)} in"),
        ("Cost", dollars(one.spending.cost_usd), unpriced or long(one.spending.seconds)),
    ]
    return tiles(cells)


def _advice(report: Report) -> Markup:
    return bullets(
        (
            join(
                tag("p", tag("strong", _with_code(advice.says))),
                tag("p", f"{advice.because[:1].upper()}{advice.because[1:]}.", class_="faint"),
            )
            for advice in report.advice
        ),
        "advice",
    )


def _with_code(words: str) -> Markup:
    """Words with what stands between backticks as code."""
    return join(*(tag("code", part) if number % 2 else part for number, part in enumerate(words.split("`"))))


def _sheet(sheet: Sheet) -> Markup:
    """A table, and its note below."""
    rows = [[_cell(cell, number) for number, cell in enumerate(row)] for row in sheet.rows]
    head = _heads(sheet.head)
    return join(table(sheet.caption, head, rows, figures=sheet.figures), _note(sheet.note))


def _heads(names: Sequence[str]) -> list[object]:
    return [foreign(one_line(name, 60)) if name else "" for name in names]


def _cell(cell: Cell, number: int) -> object:
    if isinstance(cell, Bar):
        return plots.bar(cell.share, cell.tone)
    if number:
        return cell
    indented = cell.startswith(" ")
    name = foreign(one_line(cell, 80))
    return tag("span", name, style="padding-left:1rem") if indented else name


def _note(note: str) -> Markup:
    return tag("p", note, class_="faint") if note else Markup()


# ---- plots


def _columns(bins: Sequence[Bin]) -> list[plots.Column]:
    return [plots.Column(one.low, one.high, one.runs) for one in bins]


def _bins_table(caption: str, name: str, bins: Sequence[Bin]) -> Markup:
    columns = _columns(bins)
    return table(caption, (name, "runs"), [(plots.range_of(one), f"{one.height:,}") for one in columns], figures=(1,))


def _steps(figures: RunMetrics) -> Iterator[Markup]:
    done = figures.steps_before_done
    if done.runs:
        yield _spread("Steps until the work was reported as done", done)
    else:
        yield _spread("Steps of a run", figures.run_steps)


def _spread(title: str, spread: Distribution) -> Markup:
    if spread.median is None or spread.p90 is None or spread.mean is None:
        return Markup()
    words = f"{title}: {counted(spread.runs, 'run')}, mean {spread.mean:.1f}, most {spread.largest:,}"
    flags = [plots.Flag(spread.median, f"median {spread.median:g}"), plots.Flag(spread.p90, f"9 of 10: {spread.p90:,}")]
    picture = plots.histogram(_columns(spread.bins), title=title, across="steps", up="runs", flags=flags)
    return figure(picture, words, _bins_table(title, "steps", spread.bins))


def _limits(report: Report) -> Iterator[Markup]:
    found = report.overall.limits
    if found.runs:
        title = "Used of the allowed steps"
        columns = [plots.Column(one.low, one.high, one.runs, _up_to(one)) for one in found.used_bins]
        picture = plots.histogram(columns, title=title, across="percent of the limit", up="runs")
        yield figure(picture, f"{title}: {counted(found.runs, 'run')}", _bins_table(title, "percent", found.used_bins))
    sheet = limits(report)
    if sheet.rows:
        yield _sheet(sheet)


def _up_to(one: Bin) -> str:
    return "more" if one.high is None else f"≤{one.high}"


def _groups(report: Report) -> Iterator[Markup]:
    for title, name, found in (
        ("By model", "model", report.by_model),
        ("By policy", "policy", report.by_policy),
        ("By kind of task", "kind", report.by_kind),
    ):
        if found:
            yield _sheet(groups(title, name, found))
    yield _sheet(tools(report.by_tool))


def _baseline(report: Report) -> Iterator[Markup]:
    if report.comparison is None:
        return
    for sheet, group in zip(comparisons(report), report.comparison.groups, strict=True):
        rows = [[*row[:5], _change(group, number), row[5]] for number, row in enumerate(sheet.rows)]
        head = _heads((*sheet.head[:5], "change, -100 to +100 %", sheet.head[5]))
        yield table(sheet.caption, head, rows, figures=sheet.figures)
        yield _note(sheet.note)


def _change(group: GroupComparison, number: int) -> Markup:
    """A share's change in points, and any other figure's as a share of the baseline, from -100 to +100 %."""
    one = group.differences[number]
    whole = 1.0 if one.unit == "share" else abs(one.baseline) or 1.0
    tone = "main" if one.significant else "quiet"
    return plots.interval(one.change.low / whole, one.change.value / whole, one.change.high / whole, -1.0, 1.0, tone)


# ---- sessions


def _sessions(report: Report, shown: Sequence[Shown], ratings: Ratings) -> Iterator[Markup]:
    if not shown:
        return
    if len(shown) < report.sessions:
        how = (
            f"{len(shown):,} of {counted(report.sessions, 'session')}: the most telling ones of each kind, in turn "
            "(--sessions N shows more or fewer). "
        )
    else:
        how = "All sessions, the most telling ones first. "
    yield tag("p", how, "Each can be opened. A strip is as long as the session has steps.")
    yield tag("details", tag("summary", "How to read a timeline"), key())
    yield tag(
        "details",
        tag("summary", "How they are chosen"),
        bullets(join(tag("strong", name), f": {how}") for name, how in REASONS.items()),
    )
    yield _find(shown)
    longest = max(one.chosen.steps for one in shown)
    left = MOST_WRITTEN
    for one in shown:
        written = sum(1 + len(cell.calls) for run in one.timeline.runs for cell in run.cells)
        fits = written <= left
        left -= written if fits else 0
        yield session(one, _assessed(one, ratings), longest, with_steps=fits)


def _assessed(shown: Shown, ratings: Ratings) -> list[LabelledRun]:
    """The runs that are shown, as the report has them. The last one shown need not be the session's last."""
    digests = [run.digest for run in shown.timeline.runs]
    return label_runs(digests, ratings, whole=not shown.timeline.more_runs)


def _find(shown: Sequence[Shown]) -> Markup:
    """What the script uses; hidden without it."""
    reasons = [reason for reason in REASONS if any(reason in one.chosen.reasons for one in shown)]
    options = [tag("option", "all", value=""), *(tag("option", one, value=one.replace(" ", "-")) for one in reasons)]
    return tag(
        "div",
        tag("label", "Show", tag("select", *options, id="why")),
        tag("label", "With the words", tag("input", type="search", id="words", autocomplete="off")),
        tag("span", role="status", id="found", class_="faint"),
        class_="find",
        id="find",
        hidden=True,
    )


SCRIPT = """\
(() => {
  const find = document.getElementById('find');
  if (!find) return;
  const why = document.getElementById('why'), words = document.getElementById('words');
  const found = document.getElementById('found');
  const sessions = [...document.querySelectorAll('details.session')];
  find.hidden = false;
  const look = () => {
    const wanted = words.value.toLowerCase();
    let many = 0;
    for (const session of sessions) {
      const fits = (!why.value || session.dataset.why.split(' ').includes(why.value)) &&
        (!wanted || session.textContent.toLowerCase().includes(wanted));
      session.hidden = !fits;
      many += fits;
    }
    found.textContent = many + ' of ' + sessions.length + ' sessions';
  };
  why.addEventListener('change', look);
  words.addEventListener('input', look);
  look();
})();
"""
"""Shows the sessions of one kind, or with some words in them."""


# ---- what did not fit


def _unfit(report: Report) -> Iterator[Markup]:
    yield from _files("could not be read", report.bad)
    yield from _files("were read in part", report.damaged)
    if report.ratings.unmatched:
        ids = report.ratings.unmatched
        yield tag("p", f"{counted(len(ids), 'rating')} for no session and no run of these records:")
        yield bullets(foreign(one_line(id, 200)) for id in ids[:FILES_SHOWN])


def _files(what: str, files: Sequence[BadRecord]) -> Iterator[Markup]:
    if not files:
        return
    rows = [(foreign(one_line(file.record, 300)), foreign(one_line(file.why, 400))) for file in files[:FILES_SHOWN]]
    yield table(f"{counted(len(files), 'file')} {what}", ("file", "why"), rows)
    if len(files) > FILES_SHOWN:
        yield _note(f"And {len(files) - FILES_SHOWN:,} more: --json lists them all.")
