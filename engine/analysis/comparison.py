"""Comparison of groups of runs with a baseline, fit of the recommended limits, and the advice that follows.

Groups are compared unadjusted: if they had different tasks or models, that is part of the difference. Only a backtest
(`endstop backtest`) applies two policies to the same sessions.

Advice needs at least `MIN_RUNS` runs and a share of `NOTABLE_SHARE`. It is firm with `FEW_RUNS` runs or more if the
whole confidence interval is above `FIRM_SHARE`; otherwise it is called a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor, sqrt
from typing import Literal

from msgspec import Struct

from ..base.plural import counted
from ..decision import RECOMMENDED
from .metrics import Proportion, RunAggregator, RunMetrics, proportion
from .scoring import MANY_STEPS_AFTER, Anchor
from .statistics import Interval, RunningDistribution, Z

FEW_RUNS = 30
"""With fewer runs than this in a group, confidence intervals are rough."""
MIN_RUNS = 3
"""Minimum number of runs for which advice is given."""
NOTABLE_SHARE = 0.10
FIRM_SHARE = 0.05
NOTABLE_LIMIT_SHARE = 0.30
"""Share of good runs among the evaluated runs over a limit from which the limit is too low."""
COVERED_SHARE = 0.9
"""Share of the runs that must be done within a limit for it to fit."""


# ---- comparison of groups with a baseline


STEPS_AFTER: dict[Anchor, str] = {
    "said": "steps after it said so",
    "changed": "steps after the last change",
    "checked": "steps after it was checked",
}
"""The steps of a run after each anchor, in words."""
Unit = Literal["steps", "share", "tokens", "usd", "seconds"]


class MetricDifference(Struct, frozen=True, kw_only=True):
    """One metric in a group and in the baseline."""

    name: str
    unit: Unit
    baseline: float
    value: float
    change: Interval
    """`value` minus `baseline`, with a 95 % confidence interval: Welch's for means, Newcombe's for shares."""

    @property
    def significant(self) -> bool:
        """Whether the confidence interval excludes zero."""
        return self.change.low > 0 or self.change.high < 0


class GroupComparison(Struct, frozen=True, kw_only=True):
    """How one group differs from the baseline."""

    name: str
    runs: int
    differences: tuple[MetricDifference, ...]


class BaselineComparison(Struct, frozen=True, kw_only=True):
    """How each group differs from the baseline."""

    baseline: str
    runs: int
    groups: tuple[GroupComparison, ...]


def compare(baseline: str, groups: Mapping[str, RunAggregator]) -> BaselineComparison:
    """Compare all other groups with the group named `baseline`."""
    base = groups[baseline]
    return BaselineComparison(
        baseline=baseline,
        runs=base.runs,
        groups=tuple(
            GroupComparison(name=name, runs=group.runs, differences=_differences(base, group))
            for name, group in groups.items()
            if name != baseline
        ),
    )


def _differences(base: RunAggregator, group: RunAggregator) -> tuple[MetricDifference, ...]:
    ended = base.metrics(), group.metrics()
    after = [
        _mean_difference(words, "steps", base.anchors[anchor].overall.steps, group.anchors[anchor].overall.steps)
        for anchor, words in STEPS_AFTER.items()
    ]
    found = [
        _mean_difference("steps per run", "steps", base.steps, group.steps),
        _mean_difference("steps until reported as done", "steps", base.steps_before_done, group.steps_before_done),
        *after,
        _share_difference("runs that passed", base.passed(), group.passed()),
        _share_difference("reported as done, not good", *(one.false_positives.runs for one in ended)),
        _share_difference("continued after it was done", *(one.false_negatives.went_on for one in ended)),
        _share_difference("ended by a limit", *(one.ended["limit"] for one in ended)),
        _mean_difference("output tokens per run", "tokens", base.output, group.output),
        _mean_difference("cost per run", "usd", base.micro_dollars, group.micro_dollars, 1e-6),
        _mean_difference("time per run", "seconds", base.ms, group.ms, 1e-3),
    ]
    return tuple(one for one in found if one is not None)


def _mean_difference(
    name: str, unit: Unit, base: RunningDistribution, other: RunningDistribution, factor: float = 1.0
) -> MetricDifference | None:
    """Return the difference of means: Welch 1947, normal approximation. None for fewer than two runs on a side."""
    if base.runs < 2 or other.runs < 2:
        return None
    then, now = base.total / base.runs * factor, other.total / other.runs * factor
    half = Z * sqrt(base.variance / base.runs + other.variance / other.runs) * factor
    return MetricDifference(
        name=name,
        unit=unit,
        baseline=then,
        value=now,
        change=Interval(now - then, now - then - half, now - then + half),
    )


def _share_difference(name: str, base: Proportion, other: Proportion) -> MetricDifference | None:
    """Return the difference of shares: Newcombe 1998, method 10, from the two Wilson intervals."""
    then, now = base.share, other.share
    if then is None or now is None:
        return None
    change = now.value - then.value
    low = change - sqrt((now.value - now.low) ** 2 + (then.high - then.value) ** 2)
    high = change + sqrt((now.high - now.value) ** 2 + (then.value - then.low) ** 2)
    return MetricDifference(
        name=name, unit="share", baseline=then.value, value=now.value, change=Interval(change, low, high)
    )


# ---- recommended limits


class LimitFit(Struct, frozen=True, kw_only=True):
    """How many runs would have been done within the limits recommended for one kind of task.

    Only runs that were done and are not known to be bad are counted. Runs cut off by a step limit count as not done
    within either limit, because the number of steps they needed is unknown.
    """

    kind: str
    soft_steps: int
    steps: int
    """The hard limit."""
    within_soft: Proportion
    within_hard: Proportion


class Recommendation(Struct, frozen=True, kw_only=True):
    """The recommended limits that fit a group of runs."""

    fits: tuple[LimitFit, ...]
    p90: int | None
    """Number of steps within which nine of ten runs were done; None if more than one in ten was cut off."""
    best: str | None
    """The first kind of task whose soft limit fits; None if none does or no runs were counted."""


def recommend(group: RunAggregator) -> Recommendation:
    """Find the recommended limits that fit these runs."""
    whole = group.steps_needed.runs + group.step_limited
    fits = tuple(
        LimitFit(
            kind=kind,
            soft_steps=limits.soft_steps or 0,
            steps=limits.hard_steps,
            within_soft=proportion(group.steps_needed.count_up_to(limits.soft_steps or 0), whole),
            within_hard=proportion(group.steps_needed.count_up_to(limits.hard_steps), whole),
        )
        for kind, limits in RECOMMENDED.items()
    )
    best = next((fit.kind for fit in fits if whole and fit.within_soft.runs >= COVERED_SHARE * whole), None)
    return Recommendation(fits=fits, p90=_p90(group, whole), best=best)


def _p90(group: RunAggregator, whole: int) -> int | None:
    reached = 0
    for steps, times in sorted(group.steps_needed.counts.items()):
        reached += times
        if reached >= COVERED_SHARE * whole:
            return steps
    return None


# ---- advice


AdviceTopic = Literal[
    "false_positives", "false_negatives", "after_change", "repetition", "limits", "handed_back", "unjudged"
]


class Advice(Struct, frozen=True, kw_only=True):
    """One piece of advice."""

    about: AdviceTopic
    says: str
    """The advice, as a sentence that says what to do."""
    because: str
    """The metrics behind it, in words."""
    runs: int
    """Number of runs it is based on."""
    share: Interval | None = None
    firm: bool = True
    """False if there are too few runs to be sure."""


def advise(figures: RunMetrics, recommendation: Recommendation) -> tuple[Advice, ...]:
    """Return the advice that follows from these metrics, the most urgent first."""
    return (
        *_false_positives(figures),
        *_false_negatives(figures),
        *_after_change(figures),
        *_repetition(figures),
        *_limits(figures, recommendation),
        *_unjudged(figures),
    )


def _false_positives(figures: RunMetrics) -> Iterator[Advice]:
    found = figures.false_positives
    if not _is_notable(found.runs, NOTABLE_SHARE):
        return
    text, completion, other = found.by_text, found.by_completion, found.by_other
    how = []
    if completion.runs >= text.runs:
        how.append("add a gate (--gate CMD), or let the user confirm")
    if text.runs:
        how.append("use the policy `strict`, under which plain text does not end a run")
    says = f"Tighten the completion check: {', and '.join(how)}. State in the prompt what must be true at the end."
    ways = ((completion, "with a completion call"), (text, "with a plain text"), (other, "in another way"))
    split = ", ".join(f"{share.runs:,} of {share.of:,} {way}" for share, way in ways if share.of)
    yield _advice(
        "false_positives", says, "evaluated runs that were reported as done were not good", found.runs, f": {split}"
    )


def _false_negatives(figures: RunMetrics) -> Iterator[Advice]:
    found = figures.false_negatives
    if not _is_notable(found.went_on, NOTABLE_SHARE):
        return
    says = "Strengthen the prompt: as soon as the work is done, the model makes one completion call and nothing else."
    waste = figures.waste
    share = f" ({_percent(waste.steps_share.value)} of all)" if waste.steps_share is not None else ""
    rest = f", for {counted(waste.steps, 'step')}{share}"
    yield _advice("false_negatives", says, "runs continued after their work was reported as done", found.went_on, rest)
    back = Proportion(runs=found.handed_back, of=found.went_on.runs, share=None)
    if back.runs >= MIN_RUNS and back.runs * 2 >= back.of:
        yield Advice(
            about="handed_back",
            says="Check what rejected these completions: nothing was changed between the first and the last one.",
            because=f"a completion was rejected in {back.runs:,} of the {back.of:,} runs that continued",
            runs=back.of,
            firm=back.of >= FEW_RUNS,
        )


def _after_change(figures: RunMetrics) -> Iterator[Advice]:
    found = figures.anchors["changed"].overall
    if not _is_notable(found.many, NOTABLE_SHARE):
        return
    says = (
        "End runs that change nothing any more: `endstop backtest` says what a policy would have saved, and how many "
        "good runs it would have ended before their last change; `endstop fit` chooses one that keeps within a bound."
    )
    what = f"runs that changed something made {MANY_STEPS_AFTER} steps or more after their last change"
    share = f" ({_percent(found.steps / found.of_steps)} of all)" if found.of_steps else ""
    rest = f"; of all of them, {counted(found.steps, 'step')}{share} came after it"
    yield _advice("after_change", says, what, found.many, rest)


def _repetition(figures: RunMetrics) -> Iterator[Advice]:
    found = figures.repetition
    if not _is_notable(found.runs, NOTABLE_SHARE):
        return
    says = (
        "When nothing has changed, let the tool results say what to do next, and stop such runs earlier "
        "(repetition.stop_at in the policy)."
    )
    share = f" ({_percent(found.steps_share.value)} of all)" if found.steps_share is not None else ""
    rest = f", in {counted(found.steps, 'step')}{share}; {found.stuck:,} ended as stuck"
    yield _advice("repetition", says, "runs repeated the same calls with the same results", found.runs, rest)


def _limits(figures: RunMetrics, recommendation: Recommendation) -> Iterator[Advice]:
    passed = figures.limits.over_passed
    if not _is_notable(passed, NOTABLE_LIMIT_SHARE):
        return
    best = recommendation.best
    if best is not None:
        limits = RECOMMENDED[best]
        fits = f"with `{best}` (soft {limits.soft_steps}, hard {limits.hard_steps}), nine of ten of these runs finish"
    else:
        fits = "too many runs were cut off to be certain that a recommended limit is enough"
    says = f"Raise the limit: {fits}."
    yield _advice("limits", says, "evaluated runs over a limit were good", passed, "")


def _unjudged(figures: RunMetrics) -> Iterator[Advice]:
    judged, whole = figures.judged.passed.of, figures.runs
    if whole and judged < FIRM_SHARE * whole:
        runs = counted(whole, "run(s) (was|were)")
        yield Advice(
            about="unjudged",
            says="Evaluate runs (`endstop run --evaluate CMD`), or rate some by hand and give the file with --ratings.",
            because=f"{judged:,} of {runs} evaluated, so false positives cannot be counted",
            runs=whole,
        )


def _is_notable(share: Proportion, least: float) -> bool:
    return share.runs >= MIN_RUNS and share.share is not None and share.share.value >= least


def _advice(about: AdviceTopic, says: str, what: str, share: Proportion, rest: str) -> Advice:
    interval = share.share
    assert interval is not None
    firm = share.of >= FEW_RUNS and interval.low >= FIRM_SHARE
    hint = "" if firm else "; only a hint, from so few runs"
    low, high = _percent(interval.low).removesuffix(" %"), _percent(interval.high).removesuffix(" %")
    sure = f"{_percent(interval.value)}, 95 % confidence {low} to {high}{hint}"
    because = f"{share.runs:,} of {share.of:,} {what} ({sure}){rest}"
    return Advice(about=about, says=says, because=because, runs=share.of, share=interval, firm=firm)


def _percent(share: float) -> str:
    """Return a share (0 to 1) in whole percent, such as `12 %`; halves are rounded up."""
    return f"{floor(100 * share + 0.5)} %"
