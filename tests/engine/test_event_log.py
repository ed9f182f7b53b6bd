"""The log of a run, which knows how much time the run has had."""

from __future__ import annotations

from endstop.decision import Facts
from endstop.decision.step_history import StepHistory
from endstop.event_log import Log
from endstop.testing import FakeClock


async def test_the_time_in_which_no_process_executed_a_run_is_not_counted() -> None:
    clock = FakeClock()
    await clock.advance(50_000)
    log = Log(clock, lambda event: None, ())
    log.continue_from(Facts(), StepHistory(), None, seq=7, t=1_000_000)
    assert log.elapsed == 1_000
    await clock.advance(5)
    assert log.elapsed == 1_005
