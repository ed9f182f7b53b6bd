"""The path from cautious to eager: which threshold is moved next, and that no rung stops a run later."""

from __future__ import annotations

from itertools import pairwise

import pytest
from endstop.analysis.eagerness import (
    AXES,
    MAX_RUNGS,
    Axis,
    Case,
    Course,
    axes_of,
    eagerness_path,
    own_levels,
    policy_at,
    settings_at,
    single_levels,
)
from endstop.decision import GUARDS, POLICIES, Limits, Policy, Repetition
from hypothesis import given
from hypothesis import strategies as st

STEPS = Axis("step_limit", ({"limits.steps": 900}, {"limits.steps": 8}, {"limits.steps": 4}))
REPEATS = Axis("stuck", ({"repetition.stop_at": "off"}, {"repetition.stop_at": 6}))
BOTH = (STEPS, REPEATS)
"""Simulated: everything off, the two other limits of steps, and repetition."""
NONE = (0, 0)


def course(end: int, *stops: int, good: bool = False) -> Case:
    """One run, good or not, that each policy of `single_levels(BOTH)` stops there."""
    found = Course(end=end, needed=end - 1, stops=stops or (end,) * 4)
    return Case([found] if good else [], [found])


# ---- the table


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.guard)
def test_every_level_is_a_setting_that_policies_accept_and_moves_a_guard_that_exists(axis: Axis) -> None:
    assert axis.guard in {guard.name for guard in GUARDS}
    policies = [policy_at(Policy(), (axis,), (level,)) for level in range(len(axis.levels))]
    assert len({repr(policy) for policy in policies}) == len(axis.levels)


def test_a_policy_without_a_guard_is_not_moved_along_its_axis() -> None:
    without = Policy(guards=tuple(name for name in Policy().guards if name != "stuck"))
    assert {axis.guard for axis in axes_of(Policy())} - {axis.guard for axis in axes_of(without)} == {"stuck"}


def test_a_level_replaces_a_soft_limit_that_would_contradict_it() -> None:
    soft = Policy(limits=Limits(soft_steps=200))
    assert policy_at(soft, BOTH, (2, 0)).limits == Limits(steps=4)


def test_one_guard_is_moved_at_a_time() -> None:
    assert single_levels(BOTH) == [(0, 0), (1, 0), (2, 0), (0, 1)]
    assert settings_at(BOTH, (2, 1)) == {"limits.steps": 4, "repetition.stop_at": 6}


def test_the_levels_of_a_policy_are_its_own_settings() -> None:
    assert own_levels(Policy(limits=Limits(steps=8)), BOTH) == (1, 1)
    assert own_levels(Policy(repetition=Repetition(stop_at=None)), BOTH) == (0, 0)
    assert all(own_levels(POLICIES["agent"], axes_of(POLICIES["agent"]))), "the table has the values of `agent`"


# ---- the path


def test_what_harms_nobody_is_moved_first_and_then_what_harms_least_for_what_it_saves() -> None:
    cases = [
        course(20, 20, 20, 20, 10),  # repetition saves 10 of a bad run
        course(20, 20, 8, 4, 20),  # so many steps save more, but
        course(9, 9, 9, 4, 9, good=True),  # the lower limit harms a good run
    ]
    assert eagerness_path(cases, BOTH, NONE) == [(0, 0), (1, 0), (1, 1), (2, 1)]


def test_a_level_that_saves_nothing_is_passed_over() -> None:
    assert eagerness_path([course(20, 20, 20, 4, 20)], BOTH, NONE) == [(0, 0), (2, 0)]


def test_guards_of_the_policy_that_make_no_difference_are_on_from_the_second_rung() -> None:
    assert eagerness_path([course(20)], BOTH, (1, 1)) == [(0, 0), (1, 1)]
    harmed = course(20, 20, 20, 4, 20, good=True)
    assert eagerness_path([harmed], BOTH, (1, 1))[:2] == [(0, 0), (0, 1)], "the next limit of steps would harm"


def test_without_runs_there_is_the_most_cautious_policy() -> None:
    assert eagerness_path([], BOTH, NONE) == [(0, 0)]


@st.composite
def cases(draw: st.DrawFn) -> list[Case]:
    """Runs that no eager level stops later than a cautious one."""
    found = []
    for good in draw(st.lists(st.booleans(), max_size=12)):
        end = draw(st.integers(1, 60))
        first = draw(st.integers(1, end))
        found.append(course(end, end, first, draw(st.integers(1, first)), draw(st.integers(1, end)), good=good))
    return found


@given(cases(), st.sampled_from([(0, 0), (1, 0), (2, 1)]))
def test_a_path_only_rises_and_no_rung_stops_a_run_later(found: list[Case], own: tuple[int, int]) -> None:
    path = eagerness_path(found, BOTH, own)
    assert path[0] == (0, 0)
    assert len(path) <= MAX_RUNGS
    for rung, following in pairwise(path):
        assert all(one <= other for one, other in zip(rung, following, strict=True))
        assert rung != following
