"""Which limits are valid, and which follow from others."""

from __future__ import annotations

import math
from typing import Any

import pytest
from endstop.decision import Extend, Limits, SessionLimits, WrongUse
from endstop.decision.limits import DEFAULT_EXTEND, STOP_REASONS, require_at_least


def test_without_a_number_a_run_has_thirty_steps_that_are_extended_on_progress() -> None:
    assert (Limits().steps, Limits().extend) == (30, Extend())
    assert (Limits(steps=30).steps, Limits(steps=30).extend) == (30, None)
    assert (Limits(soft_steps=10).steps, Limits(soft_steps=10).extend) == (20, None)
    assert (Limits(steps=None).steps, Limits(steps=None).extend) == (None, None)
    assert Limits(extend=Extend(by=3)).steps == 30
    assert Limits(extend=None).extend is None


def test_a_copy_of_the_default_with_another_number_is_not_extended() -> None:
    assert Limits(steps=31, extend=DEFAULT_EXTEND).extend is None
    assert Limits(steps=31, extend=Extend(by=3)).extend == Extend(by=3)
    assert Limits(extend=Extend(by=3)).with_steps(7) == Limits(steps=7, extend=None)


def test_an_extension_needs_a_number_of_steps() -> None:
    says = r"^limits\.extend is given, and there is no limit of steps to extend: give limits\.steps, too$"
    with pytest.raises(WrongUse, match=says):
        Limits(steps=None, extend=Extend(by=3))
    with pytest.raises(WrongUse, match="no limit of steps"):
        Limits(steps=None, extend=Extend(when="ask"))


@pytest.mark.parametrize("name", STOP_REASONS)
@pytest.mark.parametrize(("of", "section"), [(Limits, "limits"), (SessionLimits, "session_limits")])
def test_a_soft_limit_alone_gives_a_hard_one_of_twice_that(of: Any, section: str, name: str) -> None:
    assert getattr(of(**{f"soft_{name}": 3}), name) == 6
    assert getattr(of(**{f"soft_{name}": 3, name: 3}), name) == 3
    says = (
        rf"^{section}\.soft_{name} \(4\) is above {section}\.{name} \(3\): lower the soft limit or raise the hard one$"
    )
    with pytest.raises(WrongUse, match=says):
        of(**{f"soft_{name}": 4, name: 3})


@pytest.mark.parametrize("name", STOP_REASONS)
@pytest.mark.parametrize("soft", ["", "soft_"])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_is_above_nothing(name: str, soft: str, value: int) -> None:
    least = "above 0" if name in ("cost_usd", "seconds") else "1 or more"
    with pytest.raises(WrongUse, match=rf"^session_limits\.{soft}{name} is {value}: use {least}$"):
        SessionLimits(**{f"{soft}{name}": value})  # type: ignore[arg-type]
    assert getattr(SessionLimits(**{f"{soft}{name}": 1}), f"{soft}{name}") == 1  # type: ignore[arg-type]


def test_a_part_of_a_dollar_or_a_second_is_a_limit() -> None:
    assert SessionLimits(cost_usd=0.01, soft_seconds=0.1).seconds == 0.2


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"by": 0}, r"^limits\.extend\.by is 0: use 1 to 15, or raise limits\.steps$"),
        ({"by": 16}, r"^limits\.extend\.by is 16: use 1 to 15, or raise limits\.steps$"),
        ({"most": 0}, r"^limits\.extend\.most is 0: use 1 or more$"),
        ({"below": 0}, r"^limits\.extend\.below is 0: use 1 or more$"),
    ],
)
def test_a_grant_is_one_to_fifteen_steps(settings: dict[str, int], says: str) -> None:
    with pytest.raises(WrongUse, match=says):
        Extend(**settings)  # type: ignore[arg-type]


def test_the_least_and_the_most_of_a_grant_are_valid() -> None:
    assert (Extend(by=1).by, Extend(by=15).by, Extend(most=1).most, Extend(below=1).below) == (1, 15, 1, 1)


def test_the_most_steps_of_a_run_are_those_of_all_grants_but_a_users() -> None:
    assert Limits(steps=10).most_steps == 10
    assert Limits(steps=10, extend=Extend(by=5, most=3)).most_steps == 25
    assert Limits(steps=10, extend=Extend(by=5, most=3, when="ask")).most_steps == 10
    assert Limits(steps=None).most_steps == math.inf
    assert Limits(steps=10).hard_steps == 10


def test_only_an_extension_that_asks_asks() -> None:
    assert [Limits(steps=9, extend=extend).asks for extend in (None, Extend(), Extend(when="ask"))] == [
        False,
        False,
        True,
    ]


def test_a_number_at_its_least_is_valid_and_none_is_no_number() -> None:
    require_at_least("x", 2, 2)
    require_at_least("x", None, 2)
    with pytest.raises(WrongUse, match=r"^x is 1\.9: use 2 or more$"):
        require_at_least("x", 1.9, 2)
