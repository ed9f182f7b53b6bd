"""What a report shows, for the terminal (`report.py`) and the page (`report_page.py`): its sentences and tables.

The figures are those of `Report`, which `--json` prints. A column of a table is one `Column`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from ...analysis.comparison import STEPS_AFTER, GroupComparison, LimitFit, MetricDifference
from ...analysis.metrics import Proportion, RunMetrics, SavedByCuts, StepsAfter, ToolTotals
from ...analysis.report import OTHERS, Report
from ...analysis.scoring import Anchor, RatingStatistics, RunEnd
from ...analysis.session_filters import (
    ENDS,
    FALSE_POSITIVE,
    FALSE_POSITIVES,
    GOOD_AT_LIMIT,
    NEVER_CHANGED,
    REACHED,
    REPEATED,
    SOLVED,
    WENT_ON,
    WORK,
    kind_name,
)
from ...analysis.statistics import Distribution, Interval
from ...base.sanitize import one_line
from ...http.document_page import Tone
from .document import Bar, Column, IntervalBar, Table
from .figures import between, dollars, in_unit, long, of, part, percent, short
from .tables import labels_summary
from .text import counted
from .view_links import GroupLinks

END_TONES: dict[str, Tone] = {
    "completion": "main",
    "text": "main",
    "limit": "warn",
    "other": "loop",
    "unfinished": "quiet",
}
WORK_TONES: dict[str, Tone] = {
    "checked": "good",
    "said": "main",
    "said_after_failures": "warn",
    "wrong": "bad",
    "not_said": "quiet",
}

NAMED = 15
"""Rows of a table by model, policy or tool; `--json` has all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDocument:
    """A report as it is shown."""

    report: Report
    headline: str
    """The number of sessions and steps, and the most important findings."""
    endings: Table[ShareRow]
    work: Table[ShareRow]
    ratings: str
    """The users' ratings in a sentence; empty if there are none."""
    labels: str
    """How many sessions have a label; empty without labels."""
    limits: Table[LimitFit]
    steps_after: Table[StepsAfterRow]
    trouble: Table[TroubleRow]
    waste: str
    """What was used after the work was reported as done, in a sentence; empty if nothing was."""
    spending: Table[SpendingRow]
    by_model: Table[Named[RunMetrics]]
    by_policy: Table[Named[RunMetrics]]
    by_kind: Table[Named[RunMetrics]]
    tools: Table[Named[ToolTotals]]
    comparisons: Sequence[Table[MetricDifference]]
    """For each policy, its comparison with the baseline."""


def report_document(report: Report, links: GroupLinks | None = None) -> ReportDocument:
    """Build the document of a report. links: those of its figures on a page."""
    links = links or GroupLinks()
    figures, base = report.overall, report.comparison
    return ReportDocument(
        report=report,
        headline=_headline(report),
        endings=_endings(figures, links),
        work=_work(figures, links),
        ratings=_ratings(report.ratings),
        labels=labels_summary(report.labels),
        limits=_limits(report),
        steps_after=_steps_after(figures, links),
        trouble=_trouble(figures, links),
        waste=_waste(figures),
        spending=_spending(figures),
        by_model=_groups("By model", "model", report.by_model, links),
        by_policy=_groups("By policy", "policy", report.by_policy, links),
        by_kind=_groups(
            "By kind of task", "kind", {kind_name(kind): found for kind, found in report.by_kind.items()}, links
        ),
        tools=_tools(report.by_tool, links),
        comparisons=[_comparison(base.baseline, base.runs, group) for group in base.groups] if base else [],
    )


# ---- the most important findings


def _headline(report: Report) -> str:
    """Return the number of sessions and steps, and the most important findings."""
    figures = report.overall
    many = f"{counted(report.sessions, 'session')}, {counted(figures.steps, 'step')}"
    telling = list(_telling(figures))[:2]
    return f"{many}: {'; '.join(telling)}"


def _telling(figures: RunMetrics) -> Iterator[str]:
    wasted, wrong = figures.waste.steps_share, figures.false_positives.runs
    repeated, passed = figures.repetition.steps_share, figures.judged.passed
    limit, completion = figures.ended["limit"], figures.ended["completion"]
    if wasted is not None and wasted.value >= 0.005:
        yield f"{percent(wasted.value)} of the steps came after the work was reported as done"
    changed = figures.anchors["changed"].overall.steps_share
    if changed is not None and changed.value >= 0.05:
        yield f"{percent(changed.value)} of the steps came after the last change of the work"
    if wrong.share is not None and wrong.share.value >= 0.05:
        yield f"{of(wrong)} evaluated runs that were reported as done were not good ({part(wrong)})"
    if limit.share is not None and limit.share.value >= 0.1:
        yield f"{part(limit)} of the runs ended at a limit"
    if repeated is not None and repeated.value >= 0.02:
        yield f"{percent(repeated.value)} of the steps repeated earlier ones"
    if passed.share is not None:
        yield f"{part(passed)} of the {passed.of:,} evaluated runs were good"
    yield f"{part(completion)} of the runs ended with a completion call"


# ---- how runs ended, and whether the work was done


class ShareRow(NamedTuple):
    """The share of the runs of one kind."""

    name: str
    tone: Tone
    share: Proportion
    link: str


SHARES: tuple[Column[ShareRow], ...] = (
    Column("", "name", lambda row: row.name),
    Column("", "bar", lambda row: Bar(row.share.value or 0.0, row.tone)),
    Column("Runs", "count", lambda row: row.share.runs, link=lambda row: row.link),
    Column("Share", "share", lambda row: row.share.value),
    Column("95 %", "interval", lambda row: row.share.share, spare=1),
)


def _endings(figures: RunMetrics, links: GroupLinks) -> Table[ShareRow]:
    endings = ", ".join(f"{one_line(ending, 60)} {many:,}" for ending, many in figures.endings.items())
    return Table(
        title="How runs ended",
        caption="Runs by how they ended, with the 95 % confidence interval of each share",
        columns=SHARES,
        rows=_shares(figures.ended, "ended", ENDS, END_TONES, links),
        note=f"In the words of the list of sessions: {endings}.",
    )


def _work(figures: RunMetrics, links: GroupLinks) -> Table[ShareRow]:
    return Table(
        title="What is known of the work",
        caption="Runs by what is known of their work, with the 95 % confidence interval of each share",
        columns=SHARES,
        rows=_shares(figures.known, "work", WORK, WORK_TONES, links),
    )


def _shares(
    shares: Mapping[str, Proportion],
    filter: str,
    words: Mapping[Any, str],
    tones: Mapping[str, Tone],
    links: GroupLinks,
) -> list[ShareRow]:
    """Return a row for each kind that occurs."""
    return [
        ShareRow(words[name], tones[name], share, links.to(filter, words[name]))
        for name, share in shares.items()
        if share.runs
    ]


def _ratings(figures: RatingStatistics) -> str:
    """Return the users' ratings in a sentence; empty if there are none."""
    if not figures.rated or figures.mean is None:
        return ""
    spread = f", standard deviation {figures.deviation:.2f}" if figures.deviation is not None else ""
    return (
        f"The users' ratings: {figures.rated:,}, mean {figures.mean:.2f} of 1{spread}, "
        f"from {figures.lowest:.2f} to {figures.highest:.2f}."
    )


# ---- what went wrong


class TroubleRow(NamedTuple):
    """One way to go wrong, counted in runs and, for some, in steps."""

    name: str
    runs: Proportion
    tone: Tone
    link: str
    steps: int | None = None
    all_steps: int = 0


TROUBLE: tuple[Column[TroubleRow], ...] = (
    Column("", "name", lambda row: row.name),
    Column("", "bar", lambda row: Bar(row.runs.value or 0.0, row.tone), spare=4),
    Column("Runs", "proportion", lambda row: row.runs, link=lambda row: row.link),
    Column("Share", "share", lambda row: row.runs.value),
    Column("95 %", "interval", lambda row: row.runs.share, spare=2),
    Column("Steps", "count", lambda row: "" if row.steps is None else row.steps, spare=3),
    Column("Of all", "share", lambda row: "" if row.steps is None else _ratio(row.steps, row.all_steps), spare=1),
)


def _trouble(figures: RunMetrics, links: GroupLinks) -> Table[TroubleRow]:
    wrong, on, again = figures.false_positives, figures.false_negatives, figures.repetition

    by: dict[RunEnd, Proportion] = {"completion": wrong.by_completion, "text": wrong.by_text, "other": wrong.by_other}

    def link(trouble: str) -> str:
        return links.to("trouble", trouble)

    rows = [
        TroubleRow("false positives", wrong.runs, "bad", link(FALSE_POSITIVE)),
        *(TroubleRow(f"  {ENDS[end]}", share, "bad", link(FALSE_POSITIVES[end])) for end, share in by.items()),
        TroubleRow("false negatives: continued", on.went_on, "warn", link(WENT_ON), figures.waste.steps, figures.steps),
        TroubleRow("false negatives: limit", on.limit_passed, "warn", link(GOOD_AT_LIMIT)),
        TroubleRow("repetition", again.runs, "loop", link(REPEATED), again.steps, figures.steps),
    ]
    return Table(
        title="What went wrong",
        caption="Runs, the 95 % confidence interval of their share, and the steps concerned",
        columns=TROUBLE,
        rows=[row for row in rows if row.runs.of],
        note=(
            "False positives were reported as done and were not good. False negatives continued after they were "
            "reported as done, or were good and ended at a limit. Repetition: the same calls with the same results. "
            f"{_evaluated(figures)}"
        ),
    )


def _evaluated(figures: RunMetrics) -> str:
    """Say how many runs were evaluated, by whom, and how many of them were good."""
    judged, passed = figures.judged, figures.judged.passed
    by = [
        ("users' ratings", judged.by_rating),
        ("labels", judged.by_label),
        ("evaluation", judged.by_evaluation),
        ("reward", judged.by_reward),
    ]
    sources = ", ".join(f"{many:,} by {source}" for source, many in by if many)
    words = f"{passed.of:,} of {counted(figures.runs, 'run')} were evaluated{f': {sources}' if sources else ''}."
    if passed.of:
        words += f" {of(passed)} were good ({part(passed)}, 95 % {between(passed.share)})."
    return words


def _waste(figures: RunMetrics) -> str:
    """Say what was used after the work was reported as done, in a sentence; empty if nothing was."""
    wasted = figures.waste
    if not wasted.steps:
        return ""
    used = [
        counted(wasted.steps, "step"),
        counted(wasted.requests, "request"),
        counted(wasted.tool_calls, "tool call"),
        f"{short(wasted.input_tokens)} tokens in",
        f"{short(wasted.output_tokens)} out",
        *([dollars(wasted.cost_usd)] if wasted.cost_usd is not None else []),
        long(wasted.seconds),
    ]
    return f"Used after the work was reported as done: {', '.join(used)}."


# ---- steps after each anchor


class StepsAfterRow(NamedTuple):
    """The steps that some runs made after an anchor, or without it."""

    name: str
    tone: Tone
    steps: int
    of_steps: int
    share: Interval | None
    runs: Proportion
    link: str


STEPS_AFTER_COLUMNS: tuple[Column[StepsAfterRow], ...] = (
    Column("", "name", lambda row: row.name),
    Column("", "bar", lambda row: Bar(_ratio(row.steps, row.of_steps) or 0.0, row.tone), spare=2),
    Column("Steps", "count", lambda row: row.steps),
    Column("Of all", "share", lambda row: _ratio(row.steps, row.of_steps)),
    Column("95 %", "interval", lambda row: row.share, spare=1),
    Column("In runs", "proportion", lambda row: row.runs, spare=3, link=lambda row: row.link),
)


def _steps_after(figures: RunMetrics, links: GroupLinks) -> Table[StepsAfterRow]:
    """Return the table of steps after each anchor, over all runs and over the solved and unsolved ones."""
    rows = [row for anchor, words in STEPS_AFTER.items() for row in _anchor_rows(words, anchor, figures, links)]
    never = figures.anchors["changed"].overall
    runs = Proportion(runs=never.runs.of - never.runs.runs, of=never.runs.of, share=None)
    if runs.runs:
        words = "in runs that never changed anything"
        link = links.to("reached", NEVER_CHANGED)
        share = never.steps_without_share
        rows.append(StepsAfterRow(words, "quiet", never.steps_without, never.of_steps, share, runs, link))
    return Table(
        title="Steps after it said so, changed, checked",
        caption="Steps after each anchor as a share of all steps of these runs, with its 95 % confidence interval",
        columns=STEPS_AFTER_COLUMNS,
        rows=rows if figures.steps else (),
        note=(
            "Said: by a completion call or a final text. Changed: by a call that writes and succeeded. Checked: by a "
            "test, a gate or the evaluation that passed, with no change after it. In runs: how many have it."
        ),
    )


def _anchor_rows(words: str, anchor: Anchor, figures: RunMetrics, links: GroupLinks) -> Iterator[StepsAfterRow]:
    metrics = figures.anchors[anchor]
    groups: tuple[tuple[str, Tone, StepsAfter, str], ...] = (
        (words, "main", metrics.overall, ""),
        ("  solved runs", "good", metrics.solved, SOLVED[True]),
        ("  unsolved runs", "bad", metrics.unsolved, SOLVED[False]),
    )
    for name, tone, found, solved in groups:
        if found.runs.of:
            link = links.to("reached", REACHED[anchor] + solved)
            yield StepsAfterRow(name, tone, found.steps, found.of_steps, found.steps_share, found.runs, link)


# ---- limits


def _limits(report: Report) -> Table[LimitFit]:
    """Return the table of how many runs the recommended limits would suffice for."""
    found, best = report.overall.limits, report.recommended.best
    notes = [f"On average, runs used {percent(found.used_share)} of the allowed steps."] if found.runs else []
    if found.over.runs:
        notes.append(f"{of(found.over)} runs exceeded a limit ({part(found.over)}).")
    if found.over_passed.of:
        notes.append(f"Of those that were evaluated, {of(found.over_passed)} were good ({part(found.over_passed)}).")
    if report.recommended.p90 is not None:
        notes.append(f"90 % of the runs were reported as done within {counted(report.recommended.p90, 'step')}.")
    fits = report.recommended.fits
    return Table(
        title="Recommended limits",
        caption="Runs that were reported as done within the recommended step limits, by kind of task",
        columns=(
            Column("For", "name", lambda fit: kind_name(fit.kind) + ("  (fits)" if fit.kind == best else "")),
            Column(
                "",
                "bar",
                lambda fit: Bar(fit.within_soft.value or 0.0, "good" if fit.kind == best else "main"),
                spare=2,
            ),
            Column("Soft, hard", "figures", lambda fit: f"{fit.soft_steps}, {fit.steps}"),
            Column("Within soft", "proportion", lambda fit: fit.within_soft),
            Column("Share", "share", lambda fit: fit.within_soft.value, spare=3),
            Column("Within hard", "share", lambda fit: fit.within_hard.value, spare=1),
        ),
        rows=fits if fits[0].within_soft.of else (),
        note=" ".join(notes),
    )


# ---- steps, tokens, cost, time


class SpendingRow(NamedTuple):
    """What was spent of one thing, in its unit."""

    name: str
    total: str
    mean: str = ""
    median: str = ""
    p90: str = ""
    largest: str = ""


SPENDING: tuple[Column[SpendingRow], ...] = (
    Column("", "name", lambda row: row.name),
    Column("All", "figures", lambda row: row.total),
    Column("Mean per run", "figures", lambda row: row.mean),
    Column("Median", "figures", lambda row: row.median, spare=2),
    Column("90th percentile", "figures", lambda row: row.p90),
    Column("Maximum", "figures", lambda row: row.largest, spare=1),
)


def _spending(figures: RunMetrics) -> Table[SpendingRow]:
    spent, runs = figures.spending, figures.runs or 1
    time = ("-" if one is None else long(one / 1000) for one in _four(spent.run_ms))
    about = "about " if spent.estimated_runs else ""
    rows = [
        SpendingRow("steps", f"{figures.steps:,}", *_of_steps(figures.run_steps)),
        SpendingRow("tokens in", f"{about}{short(spent.input_tokens)}", short(spent.input_tokens / runs)),
        SpendingRow("  of them cached", short(spent.cached_tokens), short(spent.cached_tokens / runs)),
        SpendingRow("tokens out", f"{about}{short(spent.output_tokens)}", *map(short, _four(spent.run_output_tokens))),
        SpendingRow(cost_name(figures), dollars(spent.cost_usd), dollars(_mean_cost(figures))),
        *([SpendingRow("saved by cuts", _saved_by_cuts(figures))] if spent.saved.cuts else []),
        SpendingRow("time", long(spent.seconds), *time),
    ]
    notes = []
    if spent.estimated_runs:
        notes.append(f"The tokens of {counted(spent.estimated_runs, 'run')} are partly estimated.")
    if spent.saved.cuts:
        notes.append(_how_saved(spent.saved))
    if spent.unpriced_runs:
        notes.append(f"The cost of {counted(spent.unpriced_runs, 'run')} is unknown and not included.")
    if figures.retries:
        notes.append(f"{counted(figures.retries, 'request')} had to be repeated.")
    return Table(
        title="Steps, tokens, cost, time",
        caption="All runs together, and the distribution over runs",
        columns=SPENDING,
        rows=rows,
        note=" ".join(notes),
    )


def _four(spread: Distribution) -> tuple[float | None, ...]:
    return spread.mean, spread.median, spread.p90, spread.largest


def _of_steps(spread: Distribution) -> tuple[str, ...]:
    mean, *rest = _four(spread)
    return "-" if mean is None else f"{mean:.1f}", *("-" if one is None else f"{one:,g}" for one in rest)


def _saved_by_cuts(figures: RunMetrics) -> str:
    """Return the output tokens that cuts saved, and their price: counted, estimated ("about") or unknown ("?")."""
    saved = figures.spending.saved
    if not saved.cuts:
        return "-"
    if saved.output_tokens is None:
        return "?"
    money = "" if saved.cost_usd is None else f" ({dollars(saved.cost_usd)}{'+' if saved.priced < saved.cuts else ''})"
    return f"{'' if saved.measured == saved.cuts else 'about '}{short(saved.output_tokens)}{money}"


def _how_saved(saved: SavedByCuts) -> str:
    """Return how the tokens that cuts saved are known."""
    cut = f"{counted(saved.cuts, 'response')} {'was' if saved.cuts == 1 else 'were'} cut at a completion call"
    if not saved.measured:
        return f"{cut}; what that saved is unknown, since none was read to its end (drain)."
    if saved.measured == saved.cuts:
        return f"{cut}, and read to {'its' if saved.cuts == 1 else 'their'} end to count what that saves."
    return f"{cut}; {saved.measured:,} of them were read to their end, and the others are taken to be like these."


def cost_name(figures: RunMetrics) -> str:
    """Return the name of the cost; with the number of runs of which it is known, if not of all."""
    unpriced = figures.spending.unpriced_runs
    return f"cost of {figures.runs - unpriced:,} of {figures.runs:,} runs" if unpriced else "cost"


def _mean_cost(figures: RunMetrics) -> float | None:
    """Return the mean cost of the runs whose price is known; None if there are none."""
    priced = figures.runs - figures.spending.unpriced_runs
    cost = figures.spending.cost_usd
    return cost / priced if cost is not None and priced else None


# ---- by model, policy, kind of task and tool

T = TypeVar("T")


class Named(NamedTuple, Generic[T]):
    """What is known of a group of runs, or of a tool, with its name."""

    name: str
    figures: T
    link: str
    """The sessions of it; empty for the rest together."""


GROUPS: tuple[Column[Named[RunMetrics]], ...] = (
    Column("Runs", "count", lambda group: group.figures.runs, link=lambda group: group.link),
    Column("Good", "share", lambda group: group.figures.judged.passed.value),
    Column("False pos.", "share", lambda group: group.figures.false_positives.runs.value),
    Column("Continued", "share", lambda group: group.figures.false_negatives.went_on.value, spare=7),
    Column("After change", "share", lambda group: _after_change(group.figures), spare=8),
    Column("At limit", "share", lambda group: group.figures.ended["limit"].value, spare=4),
    Column("Steps to done", "mean", lambda group: group.figures.steps_before_done.mean, spare=5),
    Column("Tokens out", "tokens", lambda group: _per_run(group, group.figures.spending.output_tokens), spare=3),
    Column("Cost", "money", lambda group: _mean_cost(group.figures), spare=6),
    Column("Time", "time", lambda group: _per_run(group, group.figures.spending.seconds), spare=2),
)
"""The columns of the tables by model, policy and kind of task: shares of the runs for which it is known, and means."""
SAVED_BY_CUTS: Column[Named[RunMetrics]] = Column(
    "Saved by cuts", "figures", lambda group: _saved_by_cuts(group.figures), spare=1
)


def _groups(title: str, name: str, found: Mapping[str, RunMetrics], links: GroupLinks) -> Table[Named[RunMetrics]]:
    """Return a table that compares groups of runs, with a row for each group. name: what the runs are grouped by."""
    saves = any(one.spending.saved.cuts for one in found.values())
    return Table(
        title=title,
        caption=f"{title}: shares of the runs for which it is known, and means per run",
        columns=(
            Column(name.capitalize(), "name", lambda group: group.name, link=lambda group: group.link),
            *GROUPS,
            *([SAVED_BY_CUTS] if saves else []),
        ),
        rows=_first_named(found, name, links),
        note=_more_named(found),
    )


def _after_change(figures: RunMetrics) -> float | None:
    changed = figures.anchors["changed"].overall
    return _ratio(changed.steps, changed.of_steps)


def _per_run(group: Named[RunMetrics], total: float) -> float:
    return total / group.figures.runs


def _tools(found: Mapping[str, ToolTotals], links: GroupLinks) -> Table[Named[ToolTotals]]:
    most = max((tool.calls for tool in found.values()), default=1) or 1

    def failed(tool: Named[ToolTotals]) -> str:
        return links.to("failed", tool.name) if tool.figures.failed else ""

    return Table(
        title="By tool",
        caption="By tool: calls, and how they ended",
        columns=(
            Column("Tool", "name", lambda tool: tool.name, link=lambda tool: tool.link),
            Column("", "bar", lambda tool: Bar(tool.figures.calls / most), spare=4),
            Column("Calls", "count", lambda tool: tool.figures.calls),
            Column("Runs", "count", lambda tool: tool.figures.runs, spare=5, link=lambda tool: tool.link),
            Column("Failed", "count", lambda tool: tool.figures.failed, link=failed),
            Column("Share", "share", lambda tool: tool.figures.failed_share and tool.figures.failed_share.value),
            Column("Rejected", "count", lambda tool: tool.figures.handed_back, spare=3),
            Column("Not run", "count", lambda tool: tool.figures.not_run, spare=1),
            Column("Time", "time", lambda tool: tool.figures.seconds, spare=2),
        ),
        rows=_first_named(found, "tool", links),
        note=_more_named(found),
    )


def _first_named(found: Mapping[str, T], filter: str, links: GroupLinks) -> list[Named[T]]:
    return [
        Named(name, figures, "" if name == OTHERS else links.to(filter, name))
        for name, figures in list(found.items())[:NAMED]
    ]


def _more_named(found: Mapping[str, object]) -> str:
    return f"And {len(found) - NAMED:,} more: --json lists them all." if len(found) > NAMED else ""


# ---- compared with the baseline


def _comparison(baseline: str, runs: int, group: GroupComparison) -> Table[MetricDifference]:
    """Return the table of a policy that is compared with the baseline."""
    return Table(
        title=f"{group.name} compared with {baseline}",
        caption=f"{group.name} compared with {baseline}: means per run, or shares of runs",
        columns=(
            Column("", "name", lambda one: one.name),
            Column(baseline, "figures", lambda one: in_unit(one, one.baseline)),
            Column(group.name, "figures", lambda one: in_unit(one, one.value), spare=2),
            Column("Change", "figures", lambda one: in_unit(one, one.change.value, signed=True)),
            Column("95 %", "figures", _change_between),
            Column("Change, -100 to +100 %", "interval_bar", _change_bar, only="page"),
            Column("Significant", "word", lambda one: "yes" if one.significant else "may be chance", spare=1),
        ),
        rows=group.differences,
        note=f"{counted(group.runs, 'run')} compared with {counted(runs, 'run')}. Differences between their tasks or "
        "models are part of the change.",
    )


def _change_between(one: MetricDifference) -> str:
    low, high = (in_unit(one, end, signed=True).removesuffix(" points") for end in (one.change.low, one.change.high))
    return f"{low} to {high}"


def _change_bar(one: MetricDifference) -> IntervalBar:
    """Return the change from the baseline, from -100 to +100 %.

    A share's change is in points, that of any other figure a share of the baseline.
    """
    whole = 1.0 if one.unit == "share" else abs(one.baseline) or 1.0
    low, value, high = (end / whole for end in (one.change.low, one.change.value, one.change.high))
    return IntervalBar(low, value, high, -1.0, 1.0, "main" if one.significant else "quiet")


def _ratio(some: int, whole: int) -> float | None:
    return some / whole if whole else None
