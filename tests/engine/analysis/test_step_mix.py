"""The mix of step kinds, and what it says of a guarantee."""

from __future__ import annotations

import pytest
from endstop.analysis.step_mix import DRIFT, LEAST_SESSIONS, add_counts, compare_mix, shares_of
from hypothesis import given
from hypothesis import strategies as st

COUNTS = st.dictionaries(st.sampled_from(["news", "change", "failure", "talk"]), st.integers(0, 50))


def test_shares_come_with_the_largest_first_and_without_what_does_not_occur() -> None:
    assert list(shares_of({"change": 1, "news": 3, "talk": 0}).items()) == [("news", 0.75), ("change", 0.25)]
    assert shares_of({}) == {}
    assert add_counts([{"news": 1}, {"news": 2, "talk": 1}]) == {"news": 3, "talk": 1}


@given(COUNTS, COUNTS)
def test_a_distance_is_a_share_and_zero_for_the_same_mix(there: dict[str, int], here: dict[str, int]) -> None:
    found = compare_mix("mine", "", shares_of(there), here, 30)
    if not any(there.values()) or not any(here.values()):
        assert found.distance is None
        return
    assert found.distance is not None
    assert 0 <= found.distance <= 1.001
    assert compare_mix("mine", "", shares_of(here), here, 30).distance == 0
    if not {name for name, many in there.items() if many} & {name for name, many in here.items() if many}:
        assert found.distance == pytest.approx(1, abs=0.001)


@given(st.permutations([f"kind {number}" for number in range(9)]))
def test_a_distance_is_the_same_in_whatever_order_the_kinds_come(kinds: list[str]) -> None:
    there = {kind: int(kind[-1]) ** 3 / 1296 for kind in kinds}
    found = compare_mix("mine", "", there, {"kind 1": 7, "kind 5": 4}, 30)
    again = compare_mix("mine", "", dict(sorted(there.items())), {"kind 5": 4, "kind 1": 7}, 30)
    assert found == again


@pytest.mark.parametrize(
    ("fitted_on", "sessions", "holds"),
    [
        ({"news": 0.5, "change": 0.5}, LEAST_SESSIONS, True),
        ({"news": 0.5 + DRIFT, "change": 0.5 - DRIFT}, LEAST_SESSIONS, True),
        ({"news": 0.51 + DRIFT, "change": 0.49 - DRIFT}, LEAST_SESSIONS, False),
        ({"talk": 1.0}, LEAST_SESSIONS, False),
        ({"talk": 1.0}, LEAST_SESSIONS - 1, None),
        (None, 500, None),
    ],
)
def test_a_guarantee_holds_only_for_a_mix_like_that_of_the_fit(
    fitted_on: dict[str, float] | None, sessions: int, holds: bool | None
) -> None:
    assert compare_mix("mine", "", fitted_on, {"news": 100, "change": 100}, sessions).holds is holds


def test_the_kinds_that_differ_most_come_first() -> None:
    found = compare_mix("mine", "", {"news": 0.6, "change": 0.4}, {"news": 50, "talk": 50}, 30)
    assert list(found.differences.items()) == [("talk", 0.5), ("change", -0.4), ("news", -0.1)]
