"""When the checks of sessions passed, and what came after."""

from __future__ import annotations

from endstop.analysis.policy_simulation import backtest
from endstop.analysis.until_totals import CheckAggregator, SessionChecks, session_checks
from endstop.decision import AssistantMessage, Event
from endstop.decision import events as ev
from msgspec.structs import replace

from .test_anchors import IMPORTED, Made, did, ran, steps

TEST, BAD = ran("pytest", "12 passed in 0.4s"), ran("pytest", "1 failed, 11 passed in 0.4s")
EDIT, LOOK = ran("sed -i s/a/b/ src/a.py"), ran("ls")


def run(*made: Made, says_done: bool = False, number: int = 1) -> list[Event]:
    """A run with these calls, one in each step."""
    events: list[Event] = [replace(IMPORTED, run_id=f"r{number}"), *steps(*made)]
    if says_done:
        last = len(made) + 1
        done = AssistantMessage(text="All done: the port is 8080.")
        events += [
            ev.StepStarted(step=last, round=1),
            ev.ResponseFinished(step=last, message=done, finish="stop"),
            ev.StepFinished(step=last),
        ]
    return [replace(event, seq=seq) for seq, event in enumerate(events, 1)]


def checks(*runs: list[Event]) -> SessionChecks:
    return session_checks(list(backtest([event for one in runs for event in one], [], find_checks=True)))


def test_the_first_check_after_the_last_change_counts_and_what_came_after() -> None:
    found = checks(run(EDIT, TEST, EDIT, LOOK, TEST, TEST, LOOK))
    assert (found.changed, found.met and found.met.step, found.after_met and found.after_met.steps) == (3, 5, 2)


def test_until_would_have_ended_at_the_first_check_after_the_first_change() -> None:
    found = checks(run(TEST, EDIT, BAD, EDIT, TEST, EDIT, LOOK))
    assert (found.stop and found.stop.step, found.after_stop and found.after_stop.steps) == (5, 2)
    assert found.changed_after_stop
    assert found.met is None


def test_a_session_that_changed_nothing_has_no_such_point() -> None:
    found = checks(run(TEST, LOOK))
    assert (found.met, found.stop, found.last) == (None, None, "passed")


def test_steps_are_counted_over_the_runs_of_a_session() -> None:
    found = checks(run(EDIT, LOOK), run(LOOK, TEST, LOOK, number=2), run(LOOK, LOOK, number=3))
    assert (found.changed, found.met and found.met.step, found.after_met and found.after_met.steps) == (1, 4, 3)


def test_the_last_check_with_an_answer_counts_at_the_end() -> None:
    unknown = ran("pytest", "collecting")
    assert checks(run(LOOK)).last == "none"
    assert checks(run(unknown)).last == "unknown"
    assert checks(run(TEST, BAD, unknown)).last == "failed"


def test_a_session_that_says_done_with_a_failing_check_is_told_apart() -> None:
    assert checks(run(EDIT, BAD, says_done=True)).failing_but_done
    assert not checks(run(EDIT, TEST, says_done=True)).failing_but_done
    assert not checks(run(EDIT, BAD)).failing_but_done


def test_totals_add_up_and_shares_are_of_all_steps() -> None:
    aggregator = CheckAggregator()
    for made in ((EDIT, TEST, LOOK, LOOK), (EDIT, BAD, LOOK, LOOK), (LOOK, LOOK)):
        aggregator.add(len(made), checks(run(*made)))
    totals = aggregator.totals()
    assert (totals.sessions, totals.steps, totals.changed, totals.checked, totals.met) == (3, 10, 2, 2, 1)
    assert (totals.steps_after_met, totals.saved_steps, totals.stopped, totals.changed_after_stop) == (2, 2, 1, 0)
    assert totals.steps_after_met_share is not None
    assert totals.steps_after_met_share.value == 0.2


def test_without_being_asked_a_backtest_finds_no_checks() -> None:
    (result,) = backtest(run(EDIT, TEST), [])
    assert result.checks.checks == ()


def test_a_tool_that_only_reads_makes_no_check_of_what_it_read() -> None:
    assert checks(run(did("read_file", "", "12 passed in 0.4s"))).checks == ()
