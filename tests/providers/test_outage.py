from __future__ import annotations

import logging
from typing import Any

import pytest
from endstop.providers._outage import REPEAT_SECONDS, Outage, Outages


class Seconds:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of what was logged. The lines are this file's own, as its functions are the callers."""
    return [vars(record) for record in caplog.records]


def test_an_outage_is_logged_at_once_then_once_a_minute_with_a_count_and_its_end_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Seconds()
    outage = Outage("the store is unreachable", clock=clock)
    for _ in range(1040):  # eight times a second for 130 seconds
        outage.failed(error="refused")
        clock.now += 0.125
    outage.over()
    outage.over()
    logs = told(caplog)
    lines = [(log["event"], log.get("failures"), log.get("seconds")) for log in logs]
    assert lines[0] == ("the store is unreachable", None, None)
    assert lines[-1] == ("back after 130 s", None, None)
    assert [what for what, _, _ in lines[1:-1]] == ["the store is unreachable"] * 2
    assert [seconds for _, _, seconds in lines[1:-1]] == [60, 120]
    assert sum(count for _, count, _ in lines[1:-1]) == 960, "all since the first line, up to the last one"
    assert {log["levelno"] for log in logs} == {logging.WARNING}


def test_one_success_is_no_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    Outage("the store is unreachable").over()
    logs = told(caplog)
    assert logs == []


def test_what_fails_and_works_by_turns_makes_two_lines_a_minute_at_most(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Seconds()
    outage = Outage("the store is unreachable", clock=clock)
    for _ in range(600):
        outage.failed(error="refused")
        outage.over()
        clock.now += 0.2
    logs = told(caplog)
    assert len(logs) == 2 * 120 / REPEAT_SECONDS


def test_a_hundred_who_wait_for_the_same_make_one_line_and_others_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outages = Outages(Seconds())
    for run in range(100):
        outages["a run waits for the store"].failed(run_id=run)
    outages["the lease cannot be renewed"].failed()
    logs = told(caplog)
    assert [log["event"] for log in logs] == ["a run waits for the store", "the lease cannot be renewed"]
