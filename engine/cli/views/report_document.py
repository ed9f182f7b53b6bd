"""The tables of a report, for the terminal (`report.py`) and the page (`report_page.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...analysis.comparison import STEPS_AFTER
from ...analysis.metrics import AnchorMetrics, Proportion, RunMetrics, SavedByCuts, StepsAfter, ToolTotals
from ...analysis.report import Report
from ...analysis.scoring import RatingStatistics
from ...analysis.statistics import Distribution, Interval
from .document import Bar, Cell, ReportTable, Tone
from .figures import between, dollars, in_unit, long, of, part, percent, short
from .text import TEXT_KINDS, counted

ENDS: dict[str, tuple[str, Tone]] = {
    "completion": ("with a completion call", "main"),
    "text": ("with a plain text", "main"),
    "limit": ("at a limit", "warn"),
    "other": ("in another way", "loop"),
    "unfinished": ("not at all: the record is incomplete", "quiet"),
}
KNOWN: dict[str, tuple[str, Tone]] = {
    "checked": ("checked and good", "good"),
    "said": ("reported as done, not checked", "main"),
    "said_after_failures": ("reported as done after calls that failed", "warn"),
    "wrong": ("checked and wrong", "bad"),
    "not_said": ("did not end as done", "quiet"),
}

NAMED = 15
"""Rows of a table by model, policy or tool; `--json` has all."""


def headline(report: Report) -> str:
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


def ratings_summary(figures: RatingStatistics) -> str:
    """Return the users' ratings in a sentence; empty if there are none."""
    if not figures.rated or figures.mean is None:
        return ""
    spread = f", standard deviation {figures.deviation:.2f}" if figures.deviation is not None else ""
    return (
        f"The users' ratings: {figures.rated:,}, mean {figures.mean:.2f} of 1{spread}, "
        f"from {figures.lowest:.2f} to {figures.highest:.2f}."
    )


def _last_texts(figures: RunMetrics) -> str:
    """Say of what kinds the texts are that runs ended on, in a sentence; empty if no run ended on a text."""
    if not figures.last_texts:
        return ""
    kinds = ", ".join(f"{TEXT_KINDS[kind]} {many:,}" for kind, many in figures.last_texts.items())
    return f" The text that a run ended on: {kinds}."


def endings(figures: RunMetrics) -> ReportTable:
    """Return the table of how runs ended."""
    reasons = ", ".join(f"{reason} {many:,}" for reason, many in figures.stop_reasons.items())
    return _shares(
        figures.ended,
        ENDS,
        title="How runs ended",
        caption="Runs by how they ended, with the 95 % confidence interval of each share",
        note=f"Stop reasons: {reasons}.{_last_texts(figures)}",
    )


def work(figures: RunMetrics) -> ReportTable:
    """Return the table of whether the work was done, as far as is known."""
    return _shares(
        figures.known,
        KNOWN,
        title="What is known of the work",
        caption="Runs by what is known of their work, with the 95 % confidence interval of each share",
    )


def _shares(
    shares: Mapping[str, Proportion], words: Mapping[str, tuple[str, Tone]], *, title: str, caption: str, note: str = ""
) -> ReportTable:
    """Return a table with one row for each kind that occurs, with its share of all runs."""
    rows: list[tuple[Cell, ...]] = []
    for name, share in shares.items():
        if share.runs:
            text, tone = words[name]
            rows.append((text, Bar(share.runs / share.of, tone), f"{share.runs:,}", part(share), between(share.share)))
    return ReportTable(
        title=title,
        caption=caption,
        head=("", "", "runs", "share", "95 %"),
        rows=rows,
        figures=(2, 3, 4),
        spare=(4,),
        note=note,
    )


def trouble(figures: RunMetrics) -> ReportTable:
    """Show what went wrong, counted in runs and in steps."""
    wrong, on, again = figures.false_positives, figures.false_negatives, figures.repetition
    rows = [
        _row("false positives", wrong.runs, "bad"),
        _row("  with a completion call", wrong.by_completion, "bad"),
        _row("  with a plain text", wrong.by_text, "bad"),
        _row("  in another way", wrong.by_other, "bad"),
        _row("false negatives: continued", on.went_on, "warn", figures.waste.steps, figures.steps),
        _row("false negatives: limit", on.limit_passed, "warn"),
        _row("repetition", again.runs, "loop", again.steps, figures.steps),
    ]
    judged = figures.judged
    by = [
        ("users' ratings", judged.by_rating),
        ("labels", judged.by_label),
        ("evaluation", judged.by_evaluation),
        ("reward", judged.by_reward),
    ]
    sources = ", ".join(f"{many:,} by {source}" for source, many in by if many)
    note = (
        "False positives were reported as done and were not good. False negatives continued after they were reported "
        "as done, or were good and ended at a limit. Repetition: the same calls with the same results. "
    )
    note += f"{judged.passed.of:,} of {counted(figures.runs, 'run')} were evaluated{f': {sources}' if sources else ''}."
    if judged.passed.of:
        note += f" {of(judged.passed)} were good ({part(judged.passed)}, 95 % {between(judged.passed.share)})."
    kept = [row for row in rows if row[2] != "-"]
    return ReportTable(
        title="What went wrong",
        caption="Runs, the 95 % confidence interval of their share, and the steps concerned",
        head=("", "", "runs", "share", "95 %", "steps", "of all"),
        rows=kept,
        figures=(2, 3, 4, 5, 6),
        spare=(6, 4, 5, 1),
        note=note,
    )


def _row(name: str, share: Proportion, tone: Tone, steps: int | None = None, all_steps: int = 0) -> tuple[Cell, ...]:
    value = share.share.value if share.share is not None else 0.0
    step_cells = (f"{steps:,}", percent(steps / all_steps if all_steps else None)) if steps is not None else ("", "")
    return name, Bar(value, tone), of(share), part(share), between(share.share), *step_cells


def steps_after(figures: RunMetrics) -> ReportTable:
    """Return the table of steps after each anchor, over all runs and over the solved and unsolved ones."""
    rows = [row for anchor, words in STEPS_AFTER.items() for row in _anchor_rows(words, figures.anchors[anchor])]
    never = figures.anchors["changed"].overall
    never_runs = Proportion(runs=never.runs.of - never.runs.runs, of=never.runs.of, share=None)
    if never_runs.runs:
        words = "in runs that never changed anything"
        rows.append(
            _steps_row(words, "quiet", never.steps_without, never.of_steps, never.steps_without_share, never_runs)
        )
    return ReportTable(
        title="Steps after it said so, changed, checked",
        caption="Steps after each anchor as a share of all steps of these runs, with its 95 % confidence interval",
        head=("", "", "steps", "of all", "95 %", "in runs"),
        rows=rows if figures.steps else (),
        figures=(2, 3, 4, 5),
        spare=(4, 1, 5),
        note=(
            "Said: by a completion call or a final text. Changed: by a call that writes and succeeded. Checked: by a "
            "test, a gate or the evaluation that passed, with no change after it. In runs: how many have it."
        ),
    )


def _anchor_rows(words: str, anchor: AnchorMetrics) -> Iterator[tuple[Cell, ...]]:
    groups: tuple[tuple[str, Tone, StepsAfter], ...] = (
        (words, "main", anchor.overall),
        ("  solved runs", "good", anchor.solved),
        ("  unsolved runs", "bad", anchor.unsolved),
    )
    for name, tone, found in groups:
        if found.runs.of:
            yield _steps_row(name, tone, found.steps, found.of_steps, found.steps_share, found.runs)


def _steps_row(
    name: str, tone: Tone, steps: int, of_steps: int, interval: Interval | None, runs: Proportion
) -> tuple[Cell, ...]:
    share = steps / of_steps if of_steps else None
    return name, Bar(share or 0.0, tone), f"{steps:,}", percent(share), between(interval), of(runs)


def waste(figures: RunMetrics) -> str:
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


def limits(report: Report) -> ReportTable:
    """Return the table of used and allowed steps, and of how many runs the recommended limits would suffice for."""
    found = report.overall.limits
    rows = []
    for fit in report.recommended.fits:
        within = fit.within_soft
        value = within.share.value if within.share is not None else 0.0
        best = fit.kind == report.recommended.best
        rows.append(
            (
                f"{fit.kind}{'  (fits)' if best else ''}",
                Bar(value, "good" if best else "main"),
                f"{fit.soft_steps}, {fit.steps}",
                f"{of(within)}",
                part(within),
                part(fit.within_hard),
            )
        )
    notes = [f"On average, runs used {percent(found.used_share)} of the allowed steps."] if found.runs else []
    if found.over.runs:
        notes.append(f"{of(found.over)} runs exceeded a limit ({part(found.over)}).")
    if found.over_passed.of:
        notes.append(f"Of those that were evaluated, {of(found.over_passed)} were good ({part(found.over_passed)}).")
    if report.recommended.p90 is not None:
        notes.append(f"90 % of the runs were reported as done within {counted(report.recommended.p90, 'step')}.")
    counts = bool(report.recommended.fits[0].within_soft.of)
    return ReportTable(
        title="Recommended limits",
        caption="Runs that were reported as done within the recommended step limits, by kind of task",
        head=("for", "", "soft, hard", "within soft", "share", "within hard"),
        rows=rows if counts else (),
        figures=(2, 3, 4, 5),
        spare=(5, 1, 4),
        note=" ".join(notes),
    )


def spending(figures: RunMetrics) -> ReportTable:
    """Return the table of tokens, money and time."""
    spent, runs = figures.spending, figures.runs or 1
    time, output = spent.run_ms, spent.run_output_tokens
    about = "about " if spent.estimated_runs else ""
    rows: list[tuple[Cell, ...]] = [
        ("steps", f"{figures.steps:,}", *_of_steps(figures.run_steps)),
        ("tokens in", f"{about}{short(spent.input_tokens)}", short(spent.input_tokens / runs), "", "", ""),
        ("  of them cached", short(spent.cached_tokens), short(spent.cached_tokens / runs), "", "", ""),
        ("tokens out", f"{about}{short(spent.output_tokens)}", *(short(one) for one in _four(output))),
        ("cost", dollars(spent.cost_usd), mean_cost(figures), "", "", ""),
        *([("saved by cuts", saved_by_cuts(figures), "", "", "", "")] if spent.saved.cuts else []),
        ("time", long(spent.seconds), *("-" if one is None else long(one / 1000) for one in _four(time))),
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
    return ReportTable(
        title="Steps, tokens, cost, time",
        caption="All runs together, and the distribution over runs",
        head=("", "all", "mean per run", "median", "90th percentile", "maximum"),
        rows=rows,
        figures=(1, 2, 3, 4, 5),
        spare=(5, 3),
        note=" ".join(notes),
    )


def groups(title: str, name: str, found: dict[str, RunMetrics]) -> ReportTable:
    """Return a table that compares groups of runs, with a row for each group. name: what the runs are grouped by."""
    rows: list[tuple[Cell, ...]] = []
    saves = any(one.spending.saved.cuts for one in found.values())
    for key, one in list(found.items())[:NAMED]:
        done, spent = one.steps_before_done, one.spending
        changed = one.anchors["changed"].overall
        rows.append(
            (
                key,
                f"{one.runs:,}",
                part(one.judged.passed),
                part(one.false_positives.runs),
                part(one.false_negatives.went_on),
                percent(changed.steps / changed.of_steps if changed.of_steps else None),
                part(one.ended["limit"]),
                "-" if done.mean is None else f"{done.mean:.1f}",
                short(spent.output_tokens / one.runs),
                mean_cost(one),
                long(spent.seconds / one.runs),
                *([saved_by_cuts(one)] if saves else []),
            )
        )
    more = f"And {len(found) - NAMED:,} more: --json lists them all." if len(found) > NAMED else ""
    head = (
        name,
        "runs",
        "good",
        "false pos.",
        "continued",
        "after change",
        "at limit",
        "steps to done",
        "tokens out",
        "cost",
        "time",
        *(["saved by cuts"] if saves else []),
    )
    caption = f"{title}: shares of the runs for which it is known, and means per run"
    return ReportTable(
        title=title,
        caption=caption,
        head=head,
        rows=rows,
        figures=tuple(range(1, len(head))),
        spare=(*([11] if saves else []), 10, 8, 6, 7, 9, 4, 5),
        note=more,
        filter=name if name == "model" else "",
    )


def tools(found: dict[str, ToolTotals]) -> ReportTable:
    """Return the table of each tool's calls."""
    most = max((tool.calls for tool in found.values()), default=1) or 1
    rows = [
        (
            name,
            Bar(tool.calls / most),
            f"{tool.calls:,}",
            f"{tool.runs:,}",
            f"{tool.failed:,}",
            percent(tool.failed_share.value if tool.failed_share is not None else None),
            f"{tool.handed_back:,}",
            f"{tool.not_run:,}",
            long(tool.seconds),
        )
        for name, tool in list(found.items())[:NAMED]
    ]
    more = f"And {len(found) - NAMED:,} more: --json lists them all." if len(found) > NAMED else ""
    head = ("tool", "", "calls", "runs", "failed", "share", "rejected", "not run", "time")
    caption = "By tool: calls, and how they ended"
    return ReportTable(
        title="By tool",
        caption=caption,
        head=head,
        rows=rows,
        figures=tuple(range(2, 9)),
        spare=(7, 8, 6, 1, 3),
        note=more,
        filter="tool",
    )


def comparisons(report: Report) -> list[ReportTable]:
    """Return a table for each policy, compared with the baseline."""
    if report.comparison is None:
        return []
    base = report.comparison
    sheets = []
    for group in base.groups:
        rows = [
            (
                one.name,
                in_unit(one, one.baseline),
                in_unit(one, one.value),
                in_unit(one, one.change.value, signed=True),
                f"{in_unit(one, one.change.low, signed=True).removesuffix(' points')} to "
                f"{in_unit(one, one.change.high, signed=True).removesuffix(' points')}",
                "yes" if one.significant else "may be chance",
            )
            for one in group.differences
        ]
        sheets.append(
            ReportTable(
                title=f"{group.name} compared with {base.baseline}",
                caption=f"{group.name} compared with {base.baseline}: means per run, or shares of runs",
                head=("", base.baseline, group.name, "change", "95 %", "significant"),
                rows=rows,
                figures=(1, 2, 3, 4),
                spare=(5, 2),
                note=f"{counted(group.runs, 'run')} compared with {counted(base.runs, 'run')}. Differences between "
                "their tasks or models are part of the change.",
            )
        )
    return sheets


def _four(spread: Distribution) -> tuple[float | None, ...]:
    return spread.mean, spread.median, spread.p90, spread.largest


def _of_steps(spread: Distribution) -> tuple[str, ...]:
    mean, *rest = _four(spread)
    return "-" if mean is None else f"{mean:.1f}", *("-" if one is None else f"{one:,g}" for one in rest)


def saved_by_cuts(figures: RunMetrics) -> str:
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


def mean_cost(figures: RunMetrics) -> str:
    """Return the mean cost of the runs whose price is known."""
    priced = figures.runs - figures.spending.unpriced_runs
    cost = figures.spending.cost_usd
    return dollars(cost / priced) if cost is not None and priced else "-"
