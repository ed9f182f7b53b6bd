"""Eagerness of a policy: its thresholds from cautious to eager, and the path through them that harms least.

`AXES` is the table: for each guard, levels of its settings, the first of them off or out of reach. A combination of
levels stops a run where the first of its guards does, so that runs need to be simulated only with one guard moved at a
time (`single_levels`). The path starts with all guards at their first level. Its second rung sets those guards that
make almost no difference here to the policy's own settings, as a net for what these records do not contain. Each
further rung moves one guard to a more eager level, always the one that harms fewest for what it saves. No rung stops a
run later than the rung before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ..decision import Policy
from ..decision.policy_files import with_setting

MAX_RUNGS = 24
"""Maximum number of rungs of a path."""
LEAST_GAIN = 0.002
"""Minimum share of all steps that a rung must save beyond the one before it."""
MARGIN = 2
"""Number of levels beyond that of a net that must also harm nobody."""

Levels = tuple[int, ...]
"""The level of each axis."""


class Axis(Struct, frozen=True):
    """The settings of one guard, from cautious to eager."""

    guard: str
    """The guard that these settings move; a policy without it is not moved."""
    levels: tuple[Mapping[str, Any], ...]
    """Settings by their name in a policy file. The first are off, or so high that hardly any run reaches them."""


def _values(guard: str, setting: str, *values: Any) -> Axis:
    return Axis(guard, tuple({setting: value} for value in values))


AXES: tuple[Axis, ...] = (
    _values("step_limit", "limits.steps", 100_000, 500, 300, 200, 150, 100, 80, 60, 50, 40, 30, 20),
    _values("stuck", "repetition.stop_at", 16, 12, 10, 8, 7, 6, 5, 4, 3),
    _values("stagnation", "stagnation.stop_at", "off", 40, 30, 24, 20, 17, 15, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4),
    _values("stagnation", "stagnation.same_results", "off", 200, 100, 80, 60, 40, 30, 20, 15, 10, 6),
)
"""Axes along which policies are moved. Add one for each guard with a threshold. More levels make a finer path and cost
one simulation each."""


def axes_of(policy: Policy) -> tuple[Axis, ...]:
    """Return the axes along which this policy can be moved: those of its guards."""
    return tuple(axis for axis in AXES if axis.guard in policy.guards)


def policy_at(base: Policy, axes: Sequence[Axis], levels: Levels) -> Policy:
    """Return the base with each axis at its level. Soft limits that the new limits would contradict are dropped."""
    policy = base
    for name, value in settings_at(axes, levels).items():
        if name == "limits.steps":
            policy = replace(policy, limits=replace(policy.limits, soft_steps=None))
        policy = with_setting(policy, name, value)
    return policy


def settings_at(axes: Sequence[Axis], levels: Levels) -> dict[str, Any]:
    """Return the settings of these levels, by name."""
    return {name: value for axis, level in zip(axes, levels, strict=True) for name, value in axis.levels[level].items()}


def single_levels(axes: Sequence[Axis]) -> list[Levels]:
    """Return all axes at their first level, then each axis alone at each other level."""
    first = (0,) * len(axes)
    return [first, *(_moved(first, number, level) for number, axis in enumerate(axes) for level in _others(axis))]


def _others(axis: Axis) -> range:
    return range(1, len(axis.levels))


def _moved(levels: Levels, axis: int, level: int) -> Levels:
    return (*levels[:axis], level, *levels[axis + 1 :])


def own_levels(policy: Policy, axes: Sequence[Axis]) -> Levels:
    """Return the most eager level of each axis that is not more eager than the policy itself; 0 if there is none."""
    return tuple(
        max((level for level in _others(axis) if _has(policy, axis.levels[level])), default=0) for axis in axes
    )


def _has(policy: Policy, settings: Mapping[str, Any]) -> bool:
    """Return whether a policy has these settings; an extended limit of steps counts with all its grants."""
    alone = (
        replace(policy, limits=policy.limits.with_steps(int(policy.limits.most_steps)))
        if policy.limits.steps
        else policy
    )
    return all(with_setting(alone, name, value) == alone for name, value in settings.items())


# ---- the path


class Course(Struct, frozen=True, gc=False):
    """Course of a run: where its work ended, and after which step each policy stops it."""

    end: int
    """Number of recorded steps; a policy that does not stop the run earlier has this value in `stops`."""
    needed: int
    """Step before which a stop harms the run."""
    stops: tuple[int, ...]
    """For each simulated policy, the step after which it stops."""


class Case(NamedTuple):
    """The good runs, and all runs, of a unit that is drawn together, such as a task."""

    good: Sequence[Course]
    all: Sequence[Course]


def eagerness_path(cases: Sequence[Case], axes: Sequence[Axis], own: Levels) -> list[Levels]:
    """Return the rungs from cautious to eager, by runs simulated at `single_levels`. own: from `own_levels`."""
    search = _Search(cases, axes)
    path = [search.levels]
    for net in search.moves_without_effect(own):
        search.make(net)
    if search.levels != path[0]:
        path.append(search.levels)
    while len(path) < MAX_RUNGS and (move := search.best_move()) is not None:
        search.make(move)
        path.append(search.levels)
    return path


class _Move(NamedTuple):
    axis: int
    level: int
    harm: int
    """Number of cases harmed beyond those that are harmed already."""
    gain: int
    """Number of steps saved beyond those that are saved already."""

    @property
    def cost(self) -> tuple[float, int]:
        """Return the sort key of a move: first the harm for what it saves, then the savings."""
        return self.harm / self.gain if self.harm else 0.0, -self.gain


class _Search:
    """The rung that was reached, and where each run stops at it."""

    def __init__(self, cases: Sequence[Case], axes: Sequence[Axis]) -> None:
        self.levels: Levels = (0,) * len(axes)
        self._axes = axes
        self._columns = {levels: number for number, levels in enumerate(single_levels(axes))}
        self._runs = [course for case in cases for course in case.all]
        self._stops = [course.stops[0] for course in self._runs]
        self._least = max(1.0, LEAST_GAIN * sum(course.end for course in self._runs))
        self._harmed_by = [_harmed_by(column, cases) for column in self._columns.values()]
        self._harmed = self._count_harmed(self.levels)

    def best_move(self) -> _Move | None:
        """Return the move with the least cost; None if none saves enough."""
        moves = [move for number in range(len(self._axes)) if (move := self._next_on(number)) is not None]
        return min(moves, key=lambda move: move.cost, default=None)

    def make(self, move: _Move) -> None:
        """Go to the rung of this move."""
        column = self._column(move.axis, move.level)
        self._stops = [min(stop, run.stops[column]) for stop, run in zip(self._stops, self._runs, strict=True)]
        self._harmed += move.harm
        self.levels = _moved(self.levels, move.axis, move.level)

    def moves_without_effect(self, own: Levels) -> Iterator[_Move]:
        """Yield, for each axis, the move nearest to the policy's own level that saves almost nothing and harms nobody.

        It may not harm anybody `MARGIN` levels further on either, because it saves nothing that would justify a risk.
        """
        for axis, most in enumerate(own):
            last = len(self._axes[axis].levels) - 1
            for level in range(most, 0, -1):
                move, beyond = self._move(axis, level), self._move(axis, min(level + MARGIN, last))
                if beyond.harm == 0 and move.gain < self._least:
                    yield move
                    break

    def _next_on(self, axis: int) -> _Move | None:
        """Return the smallest move on an axis that saves enough."""
        for level in range(self.levels[axis] + 1, len(self._axes[axis].levels)):
            move = self._move(axis, level)
            if move.gain >= self._least:
                return move
        return None

    def _move(self, axis: int, level: int) -> _Move:
        column = self._column(axis, level)
        gain = sum(max(0, stop - run.stops[column]) for stop, run in zip(self._stops, self._runs, strict=True))
        return _Move(axis, level, self._count_harmed(_moved(self.levels, axis, level)) - self._harmed, gain)

    def _count_harmed(self, levels: Levels) -> int:
        harmed = 0
        for column in self._columns_of(levels):
            harmed |= self._harmed_by[column]
        return harmed.bit_count()

    def _columns_of(self, levels: Levels) -> Iterator[int]:
        yield 0
        yield from (self._column(axis, level) for axis, level in enumerate(levels) if level)

    def _column(self, axis: int, level: int) -> int:
        return self._columns[_moved((0,) * len(self._axes), axis, level)]


def _harmed_by(column: int, cases: Sequence[Case]) -> int:
    """Return the cases that the policy of this column harms, one bit for each."""
    harmed = 0
    for number, case in enumerate(cases):
        if any(course.stops[column] < course.needed for course in case.good):
            harmed |= 1 << number
    return harmed
