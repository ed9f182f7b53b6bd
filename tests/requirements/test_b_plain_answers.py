"""Row B: a plain answer is an end."""

import pytest
from endstop.decision import POLICIES, Limits, Policy, ReasoningDelta, UserMessage
from endstop.engine import Engine
from endstop.providers import Scripted, call


@pytest.mark.parametrize("policy", [POLICIES["chat"], POLICIES["agent"]])
async def test_B1_plain_text_without_a_call_ends_the_run(policy: Policy) -> None:
    provider = Scripted("Paris is the capital of France.", "more")
    outcome = await Engine(provider, policy=policy).run("What is the capital of France?")
    assert (outcome.status, outcome.stop_reason) == ("completed", "text_final")
    assert outcome.answer == "Paris is the capital of France."
    assert len(provider.requests) == 1


@pytest.mark.parametrize("blank", ["", "  \n\t ", [ReasoningDelta("hm")]])
async def test_B1_blank_text_does_not_end_the_run_and_is_asked_for_again(blank: object) -> None:
    provider = Scripted(blank, "Now an answer.")
    outcome = await Engine(provider).run("go")
    assert outcome.answer == "Now an answer."
    assert outcome.steps == 2
    assert isinstance(provider.requests[1].messages[-1], UserMessage)


async def test_B1_a_model_that_stays_blank_ends_as_no_answer_and_not_as_completed() -> None:
    outcome = await Engine(Scripted(*[""] * 9)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.answer) == ("exhausted", "no_answer", "")
    assert outcome.steps == 3, "one answer and two more chances"


async def test_B1_under_strict_text_never_ends_the_run_and_only_a_completion_does() -> None:
    provider = Scripted("I am done.", "Really done.", [call("finish_task", summary="done")])
    outcome = await Engine(provider, policy=POLICIES["strict"]).run("go")
    assert (outcome.stop_reason, outcome.steps) == ("completed", 3)


async def test_B1_under_strict_a_model_that_only_talks_ends_at_the_step_limit() -> None:
    policy = Policy(name="mine", text="nudge", completion="required", limits=Limits(steps=4))
    outcome = await Engine(Scripted(*["talk"] * 9), policy=policy).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "step_limit", 4)
