"""A run that costs much is flagged, reminded and logged, and goes on: `Policy.flag_cost_usd`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, read_record, tool
from endstop.decision import POLICIES, Limits, Policy, Price, SessionLimits, Usage, UsageReport, WrongUse, policy_from
from endstop.decision import events as ev
from endstop.decision.outcome import LimitUse
from endstop.decision.policy import for_recorded_run
from endstop.decision.settings import settings_from_record
from endstop.providers import LiteLLM, Prices, Scripted, call, say
from endstop.replay import replay

from ..captured_logs import capture_logs


@tool
async def note(text: str) -> str:
    """Note it."""
    return f"noted {text}"


def steps(*dollars: float | None) -> list[Any]:
    """Steps that cost so much each; the last one is an answer."""
    paid = [UsageReport(Usage(input_tokens=10, output_tokens=5, cost_usd=cost)) for cost in dollars]
    return [*([call("note", text=str(n)), report] for n, report in enumerate(paid[:-1])), [say("done"), paid[-1]]]


def engine(*dollars: float | None, **options: Any) -> Engine:
    return Engine(Scripted(*steps(*dollars)), tools=[note], **options)


async def test_at_five_dollars_the_run_is_flagged_reminded_and_logged_and_goes_on(tmp_path: Path) -> None:
    model, record = Scripted(*steps(3, 2.5, 20, 1)), tmp_path / "run.jsonl"
    with capture_logs() as logged:
        outcome = await Engine(model, tools=[note]).run("go", record=record)
    assert (outcome.status, outcome.steps, outcome.exceeded_limit) == ("completed", 4, True)
    assert outcome.limits["soft_cost_usd"] == LimitUse(used=26.5, allowed=5.0, soft=True)
    assert "cost_usd" not in outcome.limits
    told = [event for event in read_record(record).runs[0].events if isinstance(event, ev.MessageAdded)]
    assert [(one.origin, one.topics) for one in told] == [("reminder", ("soft_cost_usd",))]
    assert told[0].text.startswith("You have used 5.5 of 5 US dollars.")
    assert [one["event"] for one in logged] == [
        "a run has cost $5.50; it is flagged from $5 on (policy.flag_cost_usd), and nothing ends it there: "
        "limits.cost_usd would"
    ]
    with capture_logs() as logged:
        assert (await replay(record)).runs[0].divergence is None
    assert logged == []


async def test_a_run_whose_last_step_reaches_it_is_flagged_and_logged_without_a_reminder() -> None:
    with capture_logs() as logged:
        outcome = await engine(1, 6).run("go")
    assert (outcome.status, outcome.exceeded_limit, len(logged)) == ("completed", True, 1)


async def test_below_it_the_outcome_says_how_much_was_used_and_nothing_is_logged() -> None:
    with capture_logs() as logged:
        outcome = await engine(1, 2).run("go")
    assert (outcome.limits["soft_cost_usd"].used, outcome.exceeded_limit, logged) == (3, False, [])


async def test_where_no_cost_is_known_there_is_no_flag() -> None:
    assert set((await engine(None, None).run("go")).limits) == {"steps"}
    Engine(LiteLLM("nobody/knows"), tools=[note])  # and no run is refused because of it


async def test_prices_from_a_table_count_as_well() -> None:
    prices = Prices({"scripted": Price(input=0, output=2_000_000)})
    outcome = await engine(None, None, prices=prices).run("go")
    assert (outcome.limits["soft_cost_usd"].used, outcome.exceeded_limit) == (20, True)


@pytest.mark.parametrize("limits", [Limits(cost_usd=50), Limits(soft_cost_usd=8)])
async def test_a_limit_of_ones_own_takes_its_place(limits: Limits) -> None:
    outcome = await engine(6, 1, policy=Policy(limits=limits)).run("go")
    assert outcome.limits.get("soft_cost_usd") != LimitUse(used=7, allowed=5.0, soft=True)
    assert (outcome.status, outcome.exceeded_limit) == ("completed", False)


async def test_a_session_limit_stands_beside_it() -> None:
    outcome = await engine(6, 1, policy=Policy(session_limits=SessionLimits(cost_usd=50))).run("go")
    assert {"soft_cost_usd", "session_cost_usd"} <= set(outcome.limits)


async def test_it_can_be_switched_off_and_set() -> None:
    assert "soft_cost_usd" not in (await engine(6, 1, policy=Policy(flag_cost_usd=None)).run("go")).limits
    assert policy_from({"flag_cost_usd": "off"}).flag_cost_usd is None
    outcome = await engine(1, 1, policy=policy_from({"flag_cost_usd": 1.5})).run("go")
    assert (outcome.limits["soft_cost_usd"].allowed, outcome.exceeded_limit) == (1.5, True)
    for wrong in (0, -1.0):
        with pytest.raises(WrongUse, match=f"flag_cost_usd is {wrong}: use US dollars above 0, or None for off"):
            Policy(flag_cost_usd=wrong)


def test_all_shipped_policies_have_it_and_an_older_record_does_not() -> None:
    assert {policy.flag_cost_usd for policy in POLICIES.values()} == {5.0}
    old = settings_from_record(Policy, {"name": "agent", "guards": ["step_limit"]})
    assert old.flag_cost_usd is None
    older = [name for name in Policy().guards if name not in ("stagnation", "no_progress")]
    recorded = settings_from_record(Policy, {"name": "agent", "guards": older})
    assert for_recorded_run(Policy(), recorded).flag_cost_usd is None
