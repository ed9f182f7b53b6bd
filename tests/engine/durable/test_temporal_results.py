"""Which results go with a heartbeat: never too many, and never too few."""

from __future__ import annotations

from typing import Any

import pytest
from endstop.durable import ResultNotStored, StepKey
from endstop.durable.temporal.worker import CARRIED, LIMIT, HeartbeatResults
from hypothesis import given, settings
from hypothesis import strategies as st


def key(step: int, call: str = "") -> StepKey:
    return StepKey("session", "run", step, call)


PUTS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([1, 1_000, 60_000, 300_000, 900_000, LIMIT - 1_000]), st.booleans()),
    max_size=9,
)
"""HeartbeatResults in turn: whether each is of the next step, how large, and whether a heartbeat follows it."""


@settings(max_examples=50)
@given(PUTS)
def test_all_are_sent_none_is_too_much_and_what_counts_is_carried(puts: list[tuple[int, int, bool]]) -> None:
    results, reached, step = HeartbeatResults(), set[str](), 1
    for number, (next_step, size, beat) in enumerate(puts):
        step += next_step
        results.put(key(step, str(number)), "x" * size)
        if beat:
            reached |= _beat(results, step)
    while any(results.waits(key(step, str(number))) for step in range(1, step + 1) for number in range(len(puts))):
        before = len(reached)
        reached |= _beat(results, step)
        assert len(reached) > before
    assert len(reached) == len(puts)


def _beat(results: HeartbeatResults, step: int) -> set[str]:
    carried = results.next()
    room = LIMIT - sum(entry.size for name, entry in results._waiting.items() if name in carried)
    kept = {name: entry.size for name, entry in results._kept.items()}
    recent = {name: size for name, size in kept.items() if int(name.split("/")[1]) > step - 2}
    assert sum(map(len, carried.values())) <= LIMIT
    assert sum(recent.values()) > room or recent.keys() <= carried.keys()
    assert sum(size for name, size in kept.items() if name in carried and name not in recent) <= CARRIED
    results.sent(carried)
    return set(carried)


def test_who_goes_on_has_what_was_sent() -> None:
    results = HeartbeatResults()
    for value in (None, 2**64 - 1, [1.0, -0.0, "\ud800\u2028\0"], {"a": {"": False}}):
        results.put(key(1, repr(value)), value)
    again = HeartbeatResults(results.next().values())
    for value in (None, 2**64 - 1, [1.0, -0.0, "\ud800\u2028\0"], {"a": {"": False}}):
        assert key(1, repr(value)) in again
        assert repr(again[key(1, repr(value))]) == repr(value)
    assert key(2) not in again


def test_what_waits_goes_before_what_is_kept() -> None:
    results = HeartbeatResults()
    results.put(key(1), "x" * 1_500_000)
    results.sent(results.next())
    results.put(key(2), "y" * 1_500_000)
    assert list(results.next()) == ["run/2/"]
    assert not results.waits(key(1))
    assert results.waits(key(2))


@pytest.mark.parametrize("value", ["x" * LIMIT, "\u00e9" * (LIMIT // 2), ["\n" * (LIMIT // 2)]])
def test_what_can_never_be_sent_is_not_kept_and_says_why(value: Any) -> None:
    results = HeartbeatResults()
    with pytest.raises(
        ResultNotStored, match=r"the result of run/1/ has 2,000,\d\d\d bytes, and Temporal stores at most 2,000,000"
    ):
        results.put(key(1), value)
    assert key(1) not in results
    assert not results.next()


def test_small_ones_are_reckoned_with_what_is_sent_around_them() -> None:
    results = HeartbeatResults()
    for number in range(20_000):
        results.put(key(1, str(number)), None)
    results.sent(results.next())
    results.put(key(1), "x" * 1_000_000)
    carried = results.next()
    assert sum(len(data) + 50 for data in carried.values()) <= LIMIT
    assert "run/1/" in carried
