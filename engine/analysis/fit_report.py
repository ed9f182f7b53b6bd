"""The report of a fit: what was chosen, on which data, and in words what is guaranteed and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..base.plural import counted
from ..decision import WrongUse
from .endings import rule_words
from .guarantee import UNITS, Trial, check_bound, most_harmed, percent_of, units_needed, what_data_show
from .labels import LabelStatistics
from .sampling import BadRecord
from .statistics import Interval

Anchor = Literal["end", "said", "changed"]
"""Up to where a good run is needed: its recorded end, the step in which it said that it was done, or the step with its
last change of the work. A run without such a step is needed up to its end."""
ANCHORS: dict[Anchor, str] = {
    "end": "the recorded end of a good run",
    "said": "the step in which a good run said that it was done",
    "changed": "the step in which a good run last changed the work",
}
TOLERANCE: dict[Anchor, int] = {"end": 1, "said": 0, "changed": 0}
"""Number of steps before the anchor that may be lost, unless the user sets another."""
UnitKind = Literal["task", "run"]
LEAST_CHOOSING, MOST_CHOOSING = 0.1, 0.25
"""Smallest and largest share of units used to choose, unless the user sets another."""


class FitOptions(Struct, frozen=True, kw_only=True):
    """The options of a fit. Raises WrongUse for values that no data could show."""

    bound: float = 0.01
    """The bound on the share of units with a false stop."""
    confidence: float = 0.95
    anchor: Anchor = "end"
    tolerance: int | None = None
    """A good run is stopped too early if it loses more steps than this before its anchor; None: by `TOLERANCE`."""
    unit: UnitKind = "task"
    """The unit that is drawn independently. `run`: every session by itself, even if several are of the same task."""
    choosing_share: float | None = None
    """The share of the units that finds the path; the rest tests it. None: a quarter, or less (at least a tenth) if the
    rest would otherwise be too few to show the bound."""
    seed: int = 0
    """Seed of the split."""

    def __post_init__(self) -> None:
        check_bound(self.bound, self.confidence)
        if self.choosing_share is not None and not 0 < self.choosing_share < 1:
            raise WrongUse(f"the share that chooses is {self.choosing_share:g}: use a share above 0 and below 1")
        if self.tolerance is not None and self.tolerance < 0:
            raise WrongUse(f"the tolerance is {self.tolerance} steps: use 0 or more")

    def share_for(self, units: int) -> float:
        """Return the share used to choose, given the number of units that can be harmed. Nothing else affects it."""
        if self.choosing_share is not None:
            return self.choosing_share
        spare = 1 - units_needed(self.bound, self.confidence) / units
        return min(MOST_CHOOSING, spare) if spare >= LEAST_CHOOSING else MOST_CHOOSING

    @property
    def steps_lost(self) -> int:
        """Number of steps before the anchor that may be lost."""
        return TOLERANCE[self.anchor] if self.tolerance is None else self.tolerance


# ---- the report


class Counts(Struct, frozen=True, kw_only=True):
    """Amount of data in one part."""

    units: int
    """Tasks (or runs) with a good run."""
    sessions: int
    good: int
    bad: int
    unlabelled: int
    steps: int


class EarlyStop(Struct, frozen=True, kw_only=True):
    """A good run that is stopped too early."""

    record: str
    view_id: str
    """The id under which `endstop view` shows the session of this record."""
    why: str
    """The step and the rule, in words."""

    def __str__(self) -> str:
        return f"{self.record}: {self.why}"


class Rung(Struct, frozen=True, kw_only=True):
    """A policy of the path, tested on the second part."""

    settings: dict[str, Any]
    """The values of the settings that the path moves, by name; `off` for None."""
    changed: str
    """The setting that differs from the rung before, such as `repetition.stop_at = 5`."""
    saved: Interval | None
    """Share of all steps after its stops, assuming that the model continues as recorded, with a 95 % interval."""
    saved_good: Interval | None
    saved_bad: Interval | None
    harmed: int
    """Number of units with a good run that it stops too early."""
    harmed_share: Interval | None
    """`harmed` as a share of the units with a good run, with its exact two-sided interval at the confidence."""
    harmed_choosing: int
    """Number of units with a good run that it stops too early, in the part of the data used to choose."""
    trial: Trial | None = None
    """The test of this rung; None if an earlier rung failed its test."""
    early_by: dict[str, int] = {}
    """Number of good runs that it stops too early, by the rule or guard that does it."""
    early: tuple[str, ...] = ()
    """Their sessions, by their ids in `endstop view` (`view_ids`), if there are `MAX_NAMED` or fewer."""
    examples: tuple[EarlyStop, ...] = ()
    """Some of these runs."""


class FitReport(Struct, frozen=True, kw_only=True):
    """The policy that was chosen, and the guarantee that holds for it."""

    options: FitOptions
    base: str
    """Name of the policy whose thresholds were moved."""
    date: str
    version: str
    sessions: int
    runs: int
    ids: str
    """Digest of the ids of all labelled sessions and of their labels."""
    steps: dict[str, float]
    """The share of each kind of step in all sessions (`StepKind`)."""
    labels: LabelStatistics | None
    choosing: Counts
    testing: Counts
    rungs: tuple[Rung, ...]
    certified: int | None
    """Number of the certified rung, from 0; None if none was."""
    upper_bound: float | None = None
    """Exact upper bound of its share of false stops, at the confidence."""
    copies: int = 0
    """Number of records left out because another record holds the same run."""
    bad: tuple[BadRecord, ...] = ()
    damaged: tuple[BadRecord, ...] = ()

    @property
    def chosen(self) -> Rung | None:
        """The certified rung; None if there is none."""
        return None if self.certified is None else self.rungs[self.certified]

    @property
    def counted(self) -> UnitKind:
        """The unit that is counted: tasks, or runs, also if every task has one good run."""
        parts = (self.choosing, self.testing)
        alone = sum(part.good for part in parts) == sum(part.units for part in parts)
        return "run" if alone else self.options.unit


# ---- in words


def guarantee(report: FitReport) -> str:
    """Say what is guaranteed, or why nothing is, in one or two sentences."""
    return _refusal(report) if report.chosen is None else _promise(report, report.chosen)


def _promise(report: FitReport, rung: Rung) -> str:
    options = report.options
    many = UNITS[report.counted][1]
    share = f"With {percent_of(options.confidence)} confidence, at most {percent_of(options.bound)} of"
    if report.counted == "task":
        share += " tasks like these have a good run that this policy stops too early"
    else:
        share += f" {many} like these are stopped too early by this policy"
    seen = f"{rung.harmed:,} of {report.testing.units:,} {many} in the data that tested it"
    return f"{share}: {seen}, which shows {percent_of(report.upper_bound or 0.0)} or less."


def can_show(report: FitReport) -> bool:
    """Return whether the part that tests is large enough to show the bound, if nothing in it is harmed."""
    return most_harmed(report.testing.units, report.options.bound, report.options.confidence) is not None


def _refusal(report: FitReport) -> str:
    options, testing = report.options, report.testing
    start = "Nothing can be guaranteed, and no policy is written."
    allowed = most_harmed(testing.units, options.bound, options.confidence)
    if allowed is None:
        show = what_data_show(testing.units, options.bound, options.confidence, report.counted)
        needed = units_needed(options.bound, options.confidence)
        return (
            f"{start} The part of the data that tests is too small. {show[0].upper()}{show[1:]}, and as one part has "
            f"to choose, that takes some {_in_all(needed):,} in all."
        )
    first = report.rungs[0]
    by = sorted(first.early_by, key=lambda rule: -first.early_by[rule])
    hint = ' (a policy with text = "nudge" does not end at a plain text)' if by[0] == "finish_reason" else ""
    early = f"{first.harmed:,} of {testing.units:,}"
    stops = f"{early} good runs too early" if report.counted == "run" else f"a good run too early in {early} tasks"
    return (
        f"{start} Even the most cautious policy of the path stops {stops}, and {allowed:,} are allowed. They are "
        f"stopped because of {', '.join(map(rule_words, by))}. Give another --base-policy{hint}."
    )


def _in_all(needed: int) -> int:
    """Return the number of units that is needed if the smallest share of them chooses."""
    return round(needed / (1 - LEAST_CHOOSING) + 0.5)


def conditions(report: FitReport) -> Iterator[str]:
    """Yield a sentence for each thing that the guarantee assumes or does not promise."""
    options = report.options
    lost = f"{options.steps_lost + 1} steps or more" if options.steps_lost else "a step or more"
    yield f"Too early means: {lost} before {ANCHORS[options.anchor]}."
    yield (
        "It holds for work like these records: the same kind of tasks, agent, model and tools, drawn in the same way. "
        "For other work it says nothing."
    )
    if options.unit == "run":
        yield "Every run counts separately: if several are of one task, they are not independent, and it may not hold."
    elif report.counted == "run":
        yield "Every good run is of a different task: no two begin with the same prompt."
    else:
        yield (
            "Runs with the same first prompt count as one task, because they are much alike. So the share of good runs "
            "stopped too early also keeps the bound, if each task has the same weight."
        )
    yield (
        "Stops are found along the recorded course. No record shows what a model would do after another nudge or "
        "reminder, and the steps saved assume that it continues as recorded."
    )
    yield "It is only as good as the labels, and void once a setting is changed."
    yield "It is one try. Fitting again with other seeds or bounds until one works shows less than it says."


def settings_text(settings: Mapping[str, Any]) -> str:
    """Return the settings of a rung in one line, as in a policy file."""
    return ", ".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in settings.items())


def data_text(report: FitReport) -> str:
    """Return the data in one line: sessions, labels, and how they were split."""
    both = report.choosing, report.testing
    good, bad, unlabelled = (sum(getattr(part, name) for part in both) for name in ("good", "bad", "unlabelled"))
    units, many = sum(part.units for part in both), UNITS[report.counted][1]
    words = [
        counted(report.sessions, "session"),
        f"{good:,} good, {bad:,} bad" + (f", {unlabelled:,} without a label" if unlabelled else ""),
        f"{units:,} {many}: {report.choosing.units:,} chose, {report.testing.units:,} tested",
        *([f"{counted(report.copies, 'cop(y|ies)')} left out"] if report.copies else []),
    ]
    return " · ".join(words)


def result_text(report: FitReport, number: int) -> str:
    """Return the result of a rung's test."""
    trial = report.rungs[number].trial
    if trial is None:
        return "not tested"
    if not trial.passed:
        return "failed" if can_show(report) else "too few data"
    return "chosen" if number == report.certified else "passed"
