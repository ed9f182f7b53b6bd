"""How a policy parts from a record, kind by kind."""

from __future__ import annotations

from typing import Any

import pytest
from endstop import Engine, Hooks, Tool, tool
from endstop.analysis.policy_simulation import BacktestResult, Finding, backtest
from endstop.decision import Compaction, Event, Limits, Policy, Prompts, WrongUse
from endstop.decision import events as ev
from endstop.decision.policy import POLICIES
from endstop.hooks import Accept, Progress, Reject
from endstop.providers import Interrupted, Scripted, call, say
from endstop.tools import ask_user, finish_task
from msgspec.structs import replace

FREE = Policy(name="free", limits=Limits(steps=50), reminder=None, closing=False)
"""Says nothing of its own accord for fifty steps."""


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return path


@tool
async def broken(path: str) -> str:
    """Break."""
    raise ValueError(path)


def looking(times: int) -> list[Any]:
    return [[call("look", path=str(number))] for number in range(times)]


DONE = [call("finish_task", summary="done")]


async def events_of(
    *script: Any, policy: Policy = FREE, tools: tuple[Tool, ...] = (look, broken), **options: Any
) -> list[Event]:
    engine = Engine(Scripted(*script), tools=tools, policy=policy, **options)
    async with engine.start("go") as run:
        return [event async for event in run if not isinstance(event, ev.TextMessageContent)]


def backtested(events: list[Event], policy: Policy) -> BacktestResult:
    (one,) = backtest(events, [policy])
    return one


def found(events: list[Event], policy: Policy) -> Finding:
    return backtested(events, policy).findings[0]


async def test_a_lower_limit_ends_earlier_and_saves_what_the_record_used_after_it() -> None:
    events = await events_of(*looking(6), DONE)
    one = backtested(events, replace(FREE, limits=Limits(steps=4)))
    (finding,) = one.findings
    assert (finding.parting, finding.step, finding.stop_reason, finding.rule) == (
        "earlier",
        4,
        "step_limit",
        "step_limit",
    )
    assert finding.saved is not None
    assert (finding.saved.steps, finding.saved.requests, finding.saved.calls) == (3, 3, 3)
    assert finding.saved.usage.output_tokens == one.digest.end.usage.output_tokens - finding.stops.usage.output_tokens
    assert finding.cut, "the work was done at step 7"
    assert not finding.goes_on


async def test_a_closing_step_of_the_policy_is_a_request_that_is_not_saved() -> None:
    events = await events_of(*looking(6), DONE)
    finding = found(events, replace(FREE, limits=Limits(steps=4), closing=True))
    assert finding.saved is not None
    assert (finding.saved.steps, finding.saved.requests) == (3, 2)


async def test_a_higher_limit_goes_on_past_the_end_which_is_unknown() -> None:
    events = await events_of(*looking(6), policy=replace(FREE, limits=Limits(steps=4)))
    finding = found(events, FREE)
    assert (finding.parting, finding.step, finding.saved) == ("later", 4, None)


async def test_a_reminder_that_the_record_does_not_hold_is_where_knowledge_ends() -> None:
    events = await events_of(*looking(12), DONE)
    finding = found(events, replace(FREE, limits=Limits(steps=10), reminder=0.5))
    assert (finding.parting, finding.step, finding.saved) == ("diverges", 5, None)
    assert finding.why.startswith("it would say: You have used 5 of 10 steps")
    assert finding.stops is not None
    assert (finding.stops.steps, finding.stop_reason) == (10, "step_limit"), "if the model went on all the same"
    assert finding.least_saved_steps == 3, "whatever the model does, ten steps is all it has"


async def test_a_reminder_is_given_once_and_the_same_one_is_no_difference() -> None:
    policy = replace(FREE, limits=Limits(steps=10), reminder=0.5)
    events = await events_of(*looking(7), DONE, policy=policy)
    assert found(events, policy).parting == "same"
    silent = found(events, replace(policy, reminder=None))
    assert (silent.parting, silent.step) == ("diverges", 5)
    assert silent.why.startswith("it would not say: You have used 5 of 10 steps")


async def test_text_that_is_nudged_under_one_policy_ends_the_run_under_another() -> None:
    strict = replace(POLICIES["strict"], reminder=None)
    events = await events_of([say("I am done.")], [call("look", path="x")], DONE, policy=strict)
    one = backtested(events, FREE)
    assert (one.findings[0].parting, one.findings[0].step, one.findings[0].stop_reason) == ("earlier", 1, "text_final")
    back = await events_of([say("I am done.")])
    finding = found(back, strict)
    assert (finding.parting, finding.step) == ("later", 1)


async def test_a_policy_that_offers_no_completion_knows_nothing_after_one_was_called() -> None:
    events = await events_of(*looking(2), DONE)
    finding = found(events, POLICIES["chat"])
    assert (finding.parting, finding.step) == ("diverges", 3)
    assert "offers none" in finding.why


async def test_a_policy_that_needs_a_completion_tool_is_refused_where_none_was_offered() -> None:
    events = await events_of([say("Hello.")], presets=())
    finding = found(events, POLICIES["strict"])
    assert (finding.parting, finding.saved) == ("refused", None)


async def test_gates_that_were_not_asked_about_a_text_make_its_end_unknown() -> None:
    def careful(completion: Any, run: Progress) -> Accept | Reject:
        return Accept()

    strict = replace(POLICIES["strict"], reminder=None)
    events = await events_of([say("I am done.")], DONE, policy=strict, hooks=Hooks(gates=[careful]))
    finding = found(events, FREE)
    assert (finding.parting, finding.step, finding.stop_reason) == ("diverges", 1, "text_final")
    asked = await events_of([say("I am done.")], hooks=Hooks(gates=[careful]))
    assert found(asked, FREE).parting == "same"


async def test_a_completion_that_one_policy_hands_back_is_unknown_under_one_that_does_not() -> None:
    script = ([call("broken", path="x"), call("finish_task", summary="done")], DONE)
    events = await events_of(*script)
    assert backtested(events, FREE).digest.rejections == 1
    lenient = replace(FREE, reject_after_failure=False)
    assert found(events, lenient).parting == "diverges"
    accepted = await events_of(*script, policy=lenient)
    finding = found(accepted, FREE)
    assert (finding.parting, finding.step) == ("diverges", 1)
    assert "hand the completion back" in finding.why


async def test_compaction_under_another_window_is_where_knowledge_ends() -> None:
    events = await events_of(*looking(4), DONE)
    finding = found(events, replace(FREE, compaction=Compaction(window=1)))
    assert (finding.parting, finding.step) == ("diverges", 1)
    assert "compact" in finding.why


async def test_a_next_step_prompt_is_said_in_the_first_round() -> None:
    events = await events_of(*looking(2), DONE)
    finding = found(events, replace(FREE, prompts=Prompts(next_step="And now?")))
    assert finding.parting == "diverges"
    assert "next step" in finding.why


async def test_a_pause_is_the_same_and_a_run_that_was_cancelled_is_not_gone_on_from() -> None:
    events = await events_of([call("ask_user", question="Which?")], presets=(ask_user,))
    assert found(events, replace(FREE, limits=Limits(steps=1))).stop_reason == "awaiting_input"
    engine = Engine(Scripted(*looking(3)), tools=[look], policy=FREE)
    async with engine.start("go") as run:
        seen: list[Event] = []
        async for event in run:
            seen.append(event)
            if isinstance(event, ev.StepFinished):
                run.cancel("disconnect")
    assert seen[-1].outcome.status == "cancelled"
    assert found(seen, FREE).parting == "same"


async def test_work_after_a_completion_that_ended_nothing_is_waste_and_any_policy_saves_it() -> None:
    events = await events_of(*looking(2), DONE, *looking(3), policy=_ending_nothing())
    one = backtested(events, FREE)
    assert one.digest.done is not None
    assert (one.digest.done.steps, one.digest.wasted_steps) == (3, 3)
    finding = one.findings[0]
    assert (finding.parting, finding.step, finding.cut, finding.goes_on) == ("earlier", 3, False, False)
    assert found(events, _ending_nothing()).goes_on


def _ending_nothing() -> Policy:
    """A loop that does not notice a completion, like those that this project began with."""
    rules = tuple(rule for rule in FREE.rules if rule not in ("control_flow", "finish_reason"))
    return replace(FREE, name="endless", rules=rules, limits=Limits(steps=6), inner_cancel=False)


async def test_parts_of_streams_may_be_left_out_and_several_runs_come_one_by_one() -> None:
    engine = Engine(Scripted(*looking(2), DONE, *looking(1), DONE), tools=[look], policy=FREE)
    session = engine.session()
    events: list[Event] = []
    for _ in range(2):
        async with session.start("go") as run:
            events += [event async for event in run]
    few = [event for event in events if not isinstance(event, ev.ToolCallArgs | ev.ToolCallStart)]
    whole = list(backtest(events, [FREE, POLICIES["chat"]]))
    assert whole == list(backtest(few, [FREE, POLICIES["chat"]]))
    assert [one.digest.end.steps for one in whole] == [3, 2]


async def test_a_rule_that_nobody_brought_is_named() -> None:
    events = await events_of(*looking(1), DONE)
    with pytest.raises(WrongUse, match="my_rule"):
        found(events, replace(FREE, rules=("my_rule",)))


async def test_an_answered_question_and_a_confirmation_are_the_same() -> None:
    engine = Engine(Scripted([call("ask_user", question="Which?")], DONE), tools=[ask_user, finish_task], policy=FREE)
    session = engine.session()
    events: list[Event] = []
    async with session.start("go") as run:
        events += [event async for event in run]
    async with session.start_answer(session.questions[0].call_id, "this one") as run:
        events += [event async for event in run]
    first, second = backtest(events, [FREE])
    assert (first.findings[0].parting, second.findings[0].parting) == ("same", "same")
    assert (second.digest.used.steps, second.digest.end.steps) == (1, 2)


async def test_fingerprints_of_another_hand_count_as_well_as_ours() -> None:
    events = await events_of(*[[call("look", path="same")]] * 4, DONE)
    looked = [isinstance(e, ev.ToolCallResult) and e.name == "look" for e in events]
    foreign = [replace(e, fingerprint="c1.0 \ud800") if mine else e for e, mine in zip(events, looked, strict=True)]
    assert backtested(foreign, FREE).digest.repeats == backtested(events, FREE).digest.repeats == 4


async def test_a_completion_after_a_question_cuts_nothing_so_an_error_after_it_is_the_same() -> None:
    asked = [call("ask_user", question="Which?"), call("finish_task", summary="x"), Interrupted("cut")]
    events = await events_of(asked, presets=(ask_user, finish_task))
    assert found(events, FREE).parting == "same"


async def test_a_limit_on_tokens_would_have_cut_an_attempt_that_failed_after_it_had_begun() -> None:
    events = await events_of([say("It is half done."), Interrupted("cut")])
    finding = found(events, replace(FREE, limits=Limits(steps=50, output_tokens=1)))
    assert (finding.parting, finding.step) == ("diverges", 1)
    assert "output_tokens were used up in it" in finding.why
    assert found(events, replace(FREE, limits=Limits(steps=50, output_tokens=1000))).parting == "same"


def test_the_former_place_still_has_the_names_and_warns_of_the_new_one() -> None:
    with pytest.warns(DeprecationWarning, match=r"endstop\.analysis\.policy_simulation: import backtest from there"):
        from endstop.decision.backtest import backtest as former
    assert former is backtest


def test_the_former_place_has_no_other_names() -> None:
    with pytest.raises(ImportError):
        from endstop.decision.backtest import something_else  # noqa: F401
