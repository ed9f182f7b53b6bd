"""A policy that only watches a loop that is not ours."""

from __future__ import annotations

from endstop.analysis.policy_simulation import backtest
from endstop.decision import Event, GoOn, Limits, Policy, Repetition, ToolCall, ToolResult
from endstop.decision import events as ev
from endstop.follow import Follower
from endstop.formats.reconstruction import IMPORTED_POLICY
from msgspec.structs import replace

LIMITED = replace(Policy(name="three"), limits=Limits(steps=3))
STUCK = replace(Policy(name="circles"), repetition=Repetition(stop_at=4))


def followed(watch: Policy, steps: int, *, same: bool = False) -> tuple[list[Event], Follower]:
    events: list[Event] = []
    follower = Follower(IMPORTED_POLICY, speaks=False, on_event=events.append, watch=watch)
    follower.prompt("Go")
    for step in range(steps):
        call = ToolCall(f"c{step}", "look", '{"at": 1}' if same else f'{{"at": {step}}}')
        result = ToolResult(call.id, "look", "blue" if same else f"blue {step}")
        assert isinstance(follower.step(calls=[call], results=[result]), GoOn)
    follower.step("Done.")
    follower.end()
    return events, follower


def alarms(events: list[Event]) -> list[ev.AlarmRaised]:
    return [event for event in events if isinstance(event, ev.AlarmRaised)]


def test_an_alarm_is_raised_once_where_the_loop_goes_on_over_a_limit_and_nothing_else_changes() -> None:
    events, follower = followed(LIMITED, 6)
    (alarm,) = alarms(events)
    assert (alarm.policy, alarm.rule, alarm.reason, alarm.step) == ("three", "step_limit", "step_limit", 3)
    assert follower.outcome is not None
    assert (follower.outcome.stop_reason, follower.outcome.steps) == ("text_final", 7)
    without, _ = followed(replace(LIMITED, limits=Limits(steps=100)), 6)
    assert alarms(without) == []
    kinds = [type(event) for event in events if not isinstance(event, ev.AlarmRaised)]
    assert kinds == [type(event) for event in without]


def test_the_alarm_is_the_backtests_decision() -> None:
    events, _ = followed(STUCK, 8, same=True)
    (alarm,) = alarms(events)
    (result,) = backtest(events, [STUCK])
    assert alarm.reason == result.findings[0].stop_reason == "stuck"
    assert result.findings[0].stops is not None
    assert alarm.step == result.findings[0].stops.steps


def test_a_run_that_ends_where_the_policy_would_have_ended_it_raises_none_and_the_next_run_is_watched_anew() -> None:
    events: list[Event] = []
    follower = Follower(IMPORTED_POLICY, speaks=False, on_event=events.append, watch=LIMITED)
    for run in range(2):
        follower.prompt("Go")
        for step in range(2 + 3 * run):
            call = ToolCall(f"{run}.{step}", "look", f'{{"at": {step}}}')
            follower.step(calls=[call], results=[ToolResult(call.id, "look", f"{run} {step}")])
        follower.step("Done.")
        assert not follower.running
    assert len(alarms(events)) == 1
    assert events.index(alarms(events)[0]) > len(events) // 2
