"""The figures of many runs, as a report has them. What each one means exactly stands in docs/report.md."""

from __future__ import annotations

from msgspec import Struct

from .intervals import Interval
from .statistics import Bin, Distribution


class Share(Struct, frozen=True, kw_only=True):
    """So many of so many, with a 95 % confidence interval of the share; None of nothing."""

    runs: int
    of: int
    share: Interval | None


class LimitFigures(Struct, frozen=True, kw_only=True):
    """Hard and soft limits. Of imported runs no limit is known, and they are left out."""

    runs: int
    """Runs that ended and whose limit of steps is known."""
    used_share: float | None
    """Mean of used / allowed steps."""
    used_bins: tuple[Bin, ...]
    """Runs by used / allowed steps, in percent."""
    allowed: dict[str, int]
    """Runs by their hard limit of steps."""
    at_step_limit: Share
    """Ended by their limit of steps."""
    over: Share
    """Ended by a hard limit or over a soft one."""
    over_passed: Share
    """Of those over a limit and judged: the good ones."""


class Waste(Struct, frozen=True, kw_only=True):
    """What was used after the work was reported as done."""

    runs: Share
    """Runs that went on, of those whose work was reported as done."""
    steps: int
    steps_share: Interval | None
    """Of all steps."""
    requests: int
    tool_calls: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    seconds: float


class Repetition(Struct, frozen=True, kw_only=True):
    """The same calls with the same results as before."""

    runs: Share
    """With at least one such step."""
    steps: int
    steps_share: Interval | None
    """Of all steps."""
    nudged: int
    """Runs in which the loop told the model something."""
    stuck: int
    """Runs that it ended for it."""


class FalsePositives(Struct, frozen=True, kw_only=True):
    """Runs that were reported as done (status `completed`) and were not good, of those that were so and were judged."""

    runs: Share
    by_completion: Share
    by_text: Share
    by_other: Share
    """Ended by a judge, by a handler, or by a rule of the loop's own."""


class FalseNegatives(Struct, frozen=True, kw_only=True):
    """Runs whose work was reported as done and that did not end by it."""

    went_on: Share
    """Made steps after that, of those whose work was reported as done."""
    handed_back: int
    """Of these, runs in which a completion was handed back."""
    limit_passed: Share
    """Ended by a limit and good, of those that ended by a limit and were judged."""


class Judged(Struct, frozen=True, kw_only=True):
    """Who says whether runs were good, and what they say."""

    passed: Share
    by_rating: int
    by_evaluation: int
    by_reward: int


class Spending(Struct, frozen=True, kw_only=True):
    """Tokens, money and time."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int
    reasoning_tokens: int
    estimated_runs: int
    """Runs in which at least some tokens are an estimate."""
    cost_usd: float | None
    """Of the runs whose price is known; None if there is none."""
    unpriced_runs: int
    """Runs that used tokens and whose cost is not known."""
    seconds: float
    run_ms: Distribution
    run_output_tokens: Distribution


class Figures(Struct, frozen=True, kw_only=True):
    """A group of runs."""

    runs: int
    steps: int
    requests: int
    tool_calls: int
    ended: dict[str, Share]
    """By `completion`, `text`, `limit`, `other`, `unfinished`."""
    known: dict[str, Share]
    """What is known of the work: `checked`, `said`, `said_after_failures`, `wrong`, `not_said`."""
    statuses: dict[str, int]
    stop_reasons: dict[str, int]
    run_steps: Distribution
    """Steps of each run."""
    steps_before_done: Distribution
    limits: LimitFigures
    waste: Waste
    repetition: Repetition
    judged: Judged
    false_positives: FalsePositives
    false_negatives: FalseNegatives
    spending: Spending
    retries: int
    nudges: int
    reminders: int
    compactions: int
    questions: int
    completions: int
    rejections: int


class ToolTotals(Struct, frozen=True, kw_only=True):
    """The calls of one tool in all runs."""

    runs: int
    """That called it."""
    calls: int
    failed: int
    failed_share: Interval | None
    """Of its calls; as if each were independent of the others."""
    handed_back: int
    not_run: int
    seconds: float
