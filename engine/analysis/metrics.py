"""Metrics of a group of runs, added up one run at a time in bounded memory. docs/guides/report.md defines each."""

from __future__ import annotations

from collections import Counter
from typing import Any, get_args

from msgspec import Struct

from ..decision.outcome import CutSavings
from .endings import short_ending
from .scoring import MANY_STEPS_AFTER, Anchor, LabelledRun, WorkState
from .statistics import (
    Bin,
    Distribution,
    Interval,
    RatioEstimator,
    RunningDistribution,
    clamp_share,
    wilson_interval,
)
from .summary import ResourceUse, ToolStats

ENDED = ("completion", "text", "limit", "other", "unfinished")
ANCHORS: tuple[Anchor, ...] = get_args(Anchor)


class RunMetrics(Struct, frozen=True, kw_only=True):
    """Metrics of a group of runs."""

    runs: int
    steps: int
    requests: int
    tool_calls: int
    ended: dict[str, Proportion]
    """Proportion of the runs that ended in each way (`RunEnd`)."""
    known: dict[str, Proportion]
    """Proportion of the runs by what is known of their work (`WorkState`)."""
    statuses: dict[str, int]
    stop_reasons: dict[str, int]
    endings: dict[str, int]
    """Number of runs by how they ended, in the words of the list of sessions (`endings.short_ending`)."""
    last_texts: dict[str, int]
    """Number of runs by the kind of the text that they ended on (`TextKind`); runs whose last step made calls are left
    out."""
    run_steps: Distribution
    """Steps of each run."""
    steps_before_done: Distribution
    limits: LimitMetrics
    waste: WasteMetrics
    anchors: dict[str, AnchorMetrics]
    """Steps after each `Anchor`, by its name."""
    repetition: RepetitionMetrics
    judged: JudgedRuns
    false_positives: FalsePositives
    false_negatives: FalseNegatives
    spending: SpendingMetrics
    retries: int
    nudges: int
    reminders: int
    compactions: int
    questions: int
    completions: int
    rejections: int


class Proportion(Struct, frozen=True, kw_only=True):
    """`runs` out of `of`, with the proportion and its 95 % confidence interval; None if `of` is 0."""

    runs: int
    of: int
    share: Interval | None

    @property
    def value(self) -> float | None:
        """The proportion without its interval."""
        return self.share.value if self.share is not None else None


class LimitMetrics(Struct, frozen=True, kw_only=True):
    """Hard and soft limits. Imported runs are left out, because their limits are unknown."""

    runs: int
    """Number of runs that ended and had a step limit."""
    used_share: float | None
    """Mean of used / allowed steps: 1 if the whole limit was used; more than 2 counts as 2. None without runs."""
    used_bins: tuple[Bin, ...]
    """Number of runs by used / allowed steps, in percent."""
    allowed: dict[str, int]
    """Number of runs by hard step limit; the 20 most frequent limits."""
    at_step_limit: Proportion
    """Proportion of the runs that the step limit ended."""
    over: Proportion
    """Runs that a hard limit ended, or that exceeded a soft one."""
    over_passed: Proportion
    """Good runs among the evaluated runs of `over`."""


class WasteMetrics(Struct, frozen=True, kw_only=True):
    """Tokens, steps and calls after the work was reported as done."""

    runs: Proportion
    """Runs that continued, as a proportion of those whose work was reported as done."""
    steps: int
    steps_share: Interval | None
    """`steps` as a share of all steps."""
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float


class AnchorMetrics(Struct, frozen=True, kw_only=True):
    """Steps after one anchor (`scoring.Anchor`)."""

    overall: StepsAfter
    solved: StepsAfter
    """The same figures for the good runs."""
    unsolved: StepsAfter
    """The same figures for the runs that were evaluated and are not good."""


class StepsAfter(Struct, frozen=True, kw_only=True):
    """Steps that some runs made after an anchor."""

    runs: Proportion
    """Runs that have the anchor, as a proportion of all these runs."""
    went_on: Proportion
    """Runs with steps after it, as a proportion of those that have it."""
    many: Proportion
    """Runs with `MANY_STEPS_AFTER` steps or more after it, as a proportion of those that have it."""
    steps: int
    of_steps: int
    """Number of steps of these runs."""
    steps_share: Interval | None
    """`steps` as a share of `of_steps`. None for fewer than two runs, and without steps, because there is no
    interval."""
    steps_without: int
    """Number of steps of the runs without the anchor, which are not part of `steps`."""
    steps_without_share: Interval | None
    """`steps_without` as a share, under the same conditions as `steps_share`."""


class RepetitionMetrics(Struct, frozen=True, kw_only=True):
    """Steps that only repeated calls with the same results."""

    runs: Proportion
    """Runs with at least one such step."""
    steps: int
    steps_share: Interval | None
    """`steps` as a share of all steps."""
    nudged: int
    """Runs in which the loop nudged the model."""
    stuck: int
    """Runs that ended with the stop reason `stuck`."""


class FalsePositives(Struct, frozen=True, kw_only=True):
    """Runs reported as done (status `completed`) that were not good.

    The proportion is of the runs that were reported as done and evaluated.
    """

    runs: Proportion
    by_completion: Proportion
    by_text: Proportion
    by_other: Proportion
    """Runs that a judge, a handler, or another rule of the loop ended."""


class FalseNegatives(Struct, frozen=True, kw_only=True):
    """Runs that did not end although their work was done."""

    went_on: Proportion
    """Runs that took further steps after their work was reported as done, as a proportion of all runs with such a
    report."""
    handed_back: int
    """Number of runs in `went_on` in which a completion was rejected."""
    limit_passed: Proportion
    """Good runs among the evaluated runs that a limit ended."""


class JudgedRuns(Struct, frozen=True, kw_only=True):
    """Runs that were evaluated, by the source of the verdict."""

    passed: Proportion
    by_rating: int
    by_label: int
    by_evaluation: int
    by_reward: int


class SpendingMetrics(Struct, frozen=True, kw_only=True):
    """Tokens, money and time."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    estimated_runs: int
    """Number of runs in which some token counts are estimates."""
    cost_usd: float | None
    """Total cost of the runs whose cost is known; None if there are none."""
    unpriced_runs: int
    """Number of runs that used tokens at an unknown cost."""
    seconds: float
    run_ms: Distribution
    run_output_tokens: Distribution
    saved: SavedByCuts


class SavedByCuts(Struct, frozen=True, kw_only=True):
    """Output that was saved by cutting responses at a completion call."""

    cuts: int
    """Number of responses that were cut before they had ended."""
    measured: int
    """Number of cut responses whose rest was read (`drain`)."""
    measured_output_tokens: int
    measured_calls: int
    output_tokens: int | None
    """Output tokens that all cuts saved, if each saved as many as the measured ones on average; None if none was
    measured."""
    priced: int
    """Number of cut responses whose model has a known price."""
    cost_usd: float | None
    """US dollars that these saved, estimated in the same way; None if none of them was measured."""


class ToolTotals(Struct, frozen=True, kw_only=True):
    """The calls of one tool in all runs."""

    runs: int
    """Number of runs that called the tool."""
    calls: int
    failed: int
    failed_share: Interval | None
    """Share of the calls that failed, assuming that calls are independent of each other; None without calls."""
    handed_back: int
    not_run: int
    seconds: float


def proportion(part: int, whole: int) -> Proportion:
    """Return a proportion with its confidence interval."""
    return Proportion(runs=part, of=whole, share=wilson_interval(part, whole))


class StepsAfterAggregator:
    """Adds up the steps that runs made after one anchor."""

    def __init__(self) -> None:
        self.steps = RunningDistribution()
        """Steps after the anchor of each run that has it."""
        self._after, self._without = RatioEstimator(), RatioEstimator()

    def add(self, made: int, after: ResourceUse | None) -> None:
        """Add a run. made: number of its steps. after: what it used after the anchor, None if it has none."""
        self._after.add(after.steps if after is not None else 0, made)
        self._without.add(made if after is None else 0, made)
        if after is not None:
            self.steps.add(after.steps)

    def total(self) -> StepsAfter:
        """Return the steps of all runs so far."""
        runs = self.steps.runs
        return StepsAfter(
            runs=proportion(runs, self._after.n),
            went_on=proportion(runs - self.steps.count_up_to(0), runs),
            many=proportion(runs - self.steps.count_up_to(MANY_STEPS_AFTER - 1), runs),
            steps=self.steps.total,
            of_steps=int(self._after.denominator),
            steps_share=_share_of_steps(self._after),
            steps_without=int(self._without.numerator),
            steps_without_share=_share_of_steps(self._without),
        )


def _share_of_steps(steps: RatioEstimator) -> Interval | None:
    """Return the share of steps; None without steps, whose variance of 0 would give an interval from 0 to 0."""
    return clamp_share(steps.interval()) if steps.numerator else None


class AnchorAggregator:
    """Adds up the steps after one anchor: of all runs, of the solved and of the unsolved ones."""

    def __init__(self, anchor: Anchor) -> None:
        self._anchor: Anchor = anchor
        self.overall, self._solved, self._unsolved = (StepsAfterAggregator() for _ in range(3))

    def add(self, run: LabelledRun) -> None:
        """Add a run."""
        made, after = run.digest.used.steps, run.used_after(self._anchor)
        self.overall.add(made, after)
        if run.good is not None:
            (self._solved if run.good else self._unsolved).add(made, after)

    def metrics(self) -> AnchorMetrics:
        """Return the metrics of all runs so far."""
        return AnchorMetrics(overall=self.overall.total(), solved=self._solved.total(), unsolved=self._unsolved.total())


class RunAggregator:
    """Adds up the metrics of a group of runs without keeping the runs."""

    def __init__(self) -> None:
        self.steps = RunningDistribution()
        """Steps of each run."""
        self.steps_before_done = RunningDistribution()
        self.ms = RunningDistribution()
        self.output = RunningDistribution()
        self.micro_dollars = RunningDistribution()
        """Cost of each run whose cost is known, in millionths of a dollar."""
        self.steps_needed = RunningDistribution()
        """Steps until the work was reported as done, for runs not known to be bad."""
        self.step_limited = 0
        """Number of runs cut off by their step limit, which needed an unknown number of steps."""
        self._ended: Counter[str] = Counter(dict.fromkeys(ENDED, 0))
        self._known: Counter[str] = Counter(dict.fromkeys(get_args(WorkState), 0))
        self._statuses: Counter[str] = Counter()
        self._reasons: Counter[str] = Counter()
        self._endings: Counter[str] = Counter()
        self._last_texts: Counter[str] = Counter()
        self._allowed: Counter[int] = Counter()
        self._percent: Counter[int] = Counter()
        self._count: Counter[str] = Counter()
        self._used, self._wasted = ResourceUse(), ResourceUse()
        self._saved = CutSavings()
        self._wasted_steps, self._repeated_steps = RatioEstimator(), RatioEstimator()
        self.anchors = {anchor: AnchorAggregator(anchor) for anchor in ANCHORS}

    def add(self, run: LabelledRun) -> None:
        """Add a run."""
        digest, used = run.digest, run.digest.used
        self._ended[run.ended] += 1
        self._known[run.known] += 1
        self._statuses[digest.status or "unfinished"] += 1
        self._reasons[digest.stop_reason or "unfinished"] += 1
        self._endings[short_ending(digest.ending or "cut_off")] += 1
        if digest.last_text is not None:
            self._last_texts[digest.last_text] += 1
        self._used = self._used + used
        self._saved += digest.saved
        self.steps.add(used.steps)
        self._add_spending(used)
        self._add_done(run)
        self._add_limits(run)
        self._repeated_steps.add(digest.repeated_steps, used.steps)
        for anchor in self.anchors.values():
            anchor.add(run)
        self._count.update(
            {
                "repeated": int(digest.repeated_steps > 0),
                "nudged": int(digest.nudges > 0),
                "stuck": int(digest.stop_reason == "stuck"),
                "retries": digest.retries,
                "nudges": digest.nudges,
                "reminders": digest.reminders,
                "compactions": digest.compactions,
                "questions": digest.questions,
                "completions": digest.completions,
                "rejections": digest.rejections,
            }
        )
        if run.good is not None:
            self._count.update({f"by_{run.by}": 1, "good": int(run.good), f"judged_{run.ended}": 1})
            self._count[f"good_{run.ended}"] += run.good
            if run.ended_as_done:
                self._count.update({f"judged_done_{run.ended}": 1, f"good_done_{run.ended}": int(run.good)})

    def _add_spending(self, used: ResourceUse) -> None:
        usage = used.usage
        self.ms.add(max(0, used.ms))
        self.output.add(max(0, usage.output_tokens))
        self._count["estimated"] += usage.estimated
        if usage.cost_usd is not None:
            self.micro_dollars.add(max(0, round(usage.cost_usd * 1e6)))
        elif usage.input_tokens or usage.output_tokens:
            self._count["unpriced"] += 1

    def _add_done(self, run: LabelledRun) -> None:
        waste = run.waste
        self._wasted_steps.add(waste.steps if waste is not None else 0, run.digest.used.steps)
        if run.done is None or waste is None:
            return
        self.steps_before_done.add(run.done.steps)
        if run.good is not False:
            self.steps_needed.add(run.done.steps)
        self._count["done"] += 1
        if waste.steps > 0:
            self._wasted = self._wasted + waste
            self._count["went_on"] += 1
            self._count["handed_back"] += run.digest.rejections > 0

    def _add_limits(self, run: LabelledRun) -> None:
        digest = run.digest
        self.step_limited += digest.stop_reason == "step_limit" and run.done is None
        if run.imported or digest.status is None or digest.allowed <= 0:
            return
        self._count["limited"] += 1
        self._allowed[digest.allowed] += 1
        self._percent[min(200, round(100 * digest.end.steps / digest.allowed))] += 1
        self._count["at_steps"] += digest.stop_reason == "step_limit"
        if digest.exceeded_limit:
            self._count["over"] += 1
            self._count["over_judged"] += run.good is not None
            self._count["over_good"] += run.good is True

    # ---- results

    @property
    def runs(self) -> int:
        """Number of runs added so far."""
        return self._ended.total()

    def share(self, part: str, whole: str) -> Proportion:
        """Return the proportion of two counts, by their names in `add`, such as `went_on` and `done`."""
        return proportion(self._count[part], self._count[whole])

    def passed(self) -> Proportion:
        """Return the good runs, as a proportion of the evaluated runs."""
        return proportion(self._count["good"], sum(self._count[f"judged_{ended}"] for ended in ENDED))

    def metrics(self) -> RunMetrics:
        """Return the metrics of all runs so far."""
        used, count = self._used, self._count
        return RunMetrics(
            runs=self.runs,
            steps=used.steps,
            requests=used.requests,
            tool_calls=used.calls,
            known={name: proportion(times, self.runs) for name, times in self._known.items()},
            ended={name: proportion(times, self.runs) for name, times in self._ended.items()},
            statuses=dict(self._statuses.most_common()),
            stop_reasons=dict(self._reasons.most_common()),
            endings=dict(self._endings.most_common()),
            last_texts=dict(self._last_texts.most_common()),
            run_steps=self.steps.distribution(),
            steps_before_done=self.steps_before_done.distribution(),
            limits=self._limits(),
            waste=self._waste(),
            anchors={name: anchor.metrics() for name, anchor in self.anchors.items()},
            repetition=RepetitionMetrics(
                runs=proportion(count["repeated"], self.runs),
                steps=int(self._repeated_steps.numerator),
                steps_share=self._repeated_steps.interval(),
                nudged=count["nudged"],
                stuck=count["stuck"],
            ),
            judged=JudgedRuns(
                passed=self.passed(),
                by_rating=count["by_rating"],
                by_label=count["by_label"],
                by_evaluation=count["by_evaluation"],
                by_reward=count["by_reward"],
            ),
            false_positives=FalsePositives(
                runs=self._not_good("completion", "text", "other"),
                by_completion=self._not_good("completion"),
                by_text=self._not_good("text"),
                by_other=self._not_good("other"),
            ),
            false_negatives=FalseNegatives(
                went_on=self.share("went_on", "done"),
                handed_back=count["handed_back"],
                limit_passed=self.share("good_limit", "judged_limit"),
            ),
            spending=self._spending(),
            **self._event_counts(),
        )

    def _not_good(self, *ended: str) -> Proportion:
        """Return the bad runs, as a proportion of the evaluated runs that ended as done in one of these ways."""
        judged = sum(self._count[f"judged_done_{one}"] for one in ended)
        return proportion(judged - sum(self._count[f"good_done_{one}"] for one in ended), judged)

    def _event_counts(self) -> dict[str, Any]:
        names = ("retries", "nudges", "reminders", "compactions", "questions", "completions", "rejections")
        return {name: self._count[name] for name in names}

    def _limits(self) -> LimitMetrics:
        limited = self._count["limited"]
        tens = Counter[int]()
        for percent, times in self._percent.items():
            tens[min(10, max(0, percent - 1) // 10)] += times
        whole = sum(percent * times for percent, times in self._percent.items())
        return LimitMetrics(
            runs=limited,
            used_share=whole / limited / 100 if limited else None,
            used_bins=tuple(
                Bin(low=10 * ten + 1 if ten else 0, high=10 * ten + 10 if ten < 10 else None, runs=tens[ten])
                for ten in range(11 if tens[10] else 10)
            )
            if limited
            else (),
            allowed={str(steps): times for steps, times in self._allowed.most_common(20)},
            at_step_limit=self.share("at_steps", "limited"),
            over=self.share("over", "limited"),
            over_passed=self.share("over_good", "over_judged"),
        )

    def _waste(self) -> WasteMetrics:
        wasted = self._wasted
        return WasteMetrics(
            runs=self.share("went_on", "done"),
            steps=wasted.steps,
            steps_share=self._wasted_steps.interval(),
            requests=wasted.requests,
            tool_calls=wasted.calls,
            input_tokens=wasted.usage.input_tokens,
            output_tokens=wasted.usage.output_tokens,
            cost_usd=wasted.usage.cost_usd,
            seconds=wasted.ms / 1000,
        )

    def _spending(self) -> SpendingMetrics:
        usage = self._used.usage
        return SpendingMetrics(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
            estimated_runs=self._count["estimated"],
            cost_usd=self.micro_dollars.total / 1e6 if self.micro_dollars.runs else None,
            unpriced_runs=self._count["unpriced"],
            seconds=self._used.ms / 1000,
            run_ms=self.ms.distribution(),
            run_output_tokens=self.output.distribution(),
            saved=SavedByCuts(
                cuts=self._saved.cuts,
                measured=self._saved.measured,
                measured_output_tokens=self._saved.output_tokens,
                measured_calls=self._saved.calls,
                output_tokens=self._saved.estimated_tokens,
                priced=self._saved.priced,
                cost_usd=self._saved.estimated_cost_usd,
            ),
        )


class ToolAggregator:
    """Adds up the calls of one tool."""

    def __init__(self) -> None:
        self._runs = 0
        self._columns = Counter[str]()

    def add(self, figures: ToolStats) -> None:
        """Add the calls of one run."""
        self._runs += 1
        for name in ("calls", "failed", "handed_back", "not_run", "ms"):
            self._columns[name] += getattr(figures, name)

    def totals(self) -> ToolTotals:
        """Return the metrics of all runs so far."""
        columns = self._columns
        return ToolTotals(
            runs=self._runs,
            calls=columns["calls"],
            failed=columns["failed"],
            failed_share=wilson_interval(columns["failed"], columns["calls"]),
            handed_back=columns["handed_back"],
            not_run=columns["not_run"],
            seconds=columns["ms"] / 1000,
        )
