"""Rows F1 and F7: no ending has an empty answer where the model wrote any text; every exhausted ending is summed up."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Budget, Engine, ModelOptions, Tool
from endstop.decision import (
    POLICIES,
    FinishReport,
    Limits,
    Outcome,
    Patience,
    Policy,
    SessionLimits,
    Usage,
    UsageReport,
    UserMessage,
    policy_from,
)
from endstop.decision import events as ev
from endstop.decision.messages import is_blank
from endstop.decision.outcome import STATUS_OF
from endstop.decision.policy import Compaction
from endstop.decision.rules import Rule
from endstop.decision.settings import settings_from_record
from endstop.hooks import Answer, Reject, Verdict
from endstop.providers import Request, Scripted, Unavailable, call, say
from endstop.replay import replay
from endstop.testing import FakeClock, check_transcript
from endstop.tools import ask_user, attempt_completion, finish_task, task_done
from msgspec.structs import replace

from ..engine_options import grouped
from ..work_checks import cannot_pass, never_passes, passes_later

EMPTY = ["", "  ", "\n", "\t\r\n", "\u200b", "\u200b \u2060\ufeff", "\u00a0\u3000", "\u2800", "\u3164", "\ufe0f"]
HALF = "I have looked at the half of it."


async def _work(n: int = 0) -> str:
    return f"worked on {n}"


WORK = Tool(_work, name="work", description="Work.")


class _Never:
    async def wait(self) -> None:
        """Until it is cancelled."""
        await anyio.sleep_forever()


NEVER = _Never()

# ---- F1: an empty summary


@pytest.mark.parametrize("summary", EMPTY, ids=ascii)
@pytest.mark.parametrize(
    ("tool", "name"), [(finish_task, "summary"), (task_done, "summary"), (attempt_completion, "result")]
)
async def test_F1_an_empty_summary_is_invalid_and_handed_back(
    tool: Tool, name: str, summary: str, tmp_path: Path
) -> None:
    provider = Scripted([call(tool.name, **{name: summary})], [call(tool.name, **{name: "The port is 8080."})])
    session = Engine(provider, presets=[tool]).session(record=tmp_path / "r.jsonl")
    outcome = await session.run("go")
    assert (outcome.status, outcome.answer, outcome.answer_from) == ("completed", "The port is 8080.", "completion")
    assert outcome.steps == 2
    results = [m for m in provider.requests[1].messages if getattr(m, "status", None) == "invalid"]
    assert [f"{name} is empty" in str(m) for m in results] == [True]
    check_transcript(session.transcript.messages)
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_F1_empty_summaries_are_handed_back_a_bounded_number_of_times() -> None:
    script = [[call("finish_task", summary=" " * n)] for n in range(20)]
    outcome = await Engine(Scripted(*script), policy=Policy(closing=False)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "invalid_calls", 4)
    assert outcome.answer == ""


async def test_F1_a_completion_of_the_users_own_must_say_something_too() -> None:
    def submit(report: str, files: int = 0) -> str:
        return report

    tool = Tool(submit, description="Submit.", kind="completion")
    outcome = await Engine(
        Scripted([call("submit", report="\u200b")], [call("submit", report="ok")]), tools=[tool]
    ).run("go")
    assert (outcome.answer, outcome.steps) == ("ok", 2)


@pytest.mark.parametrize(
    ("text", "seen"), [*((text, False) for text in EMPTY), ("👍", True), ("好", True), (" x", True)]
)
def test_F1_what_nobody_sees_is_blank(text: str, seen: bool) -> None:
    assert is_blank(text) is not seen


async def test_F1_a_text_that_nobody_sees_ends_no_run() -> None:
    outcome = await Engine(Scripted("\u200b\u200b", "Paris.")).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("text_final", "Paris.", 2)


# ---- F1: every stop reason, every policy


def _boom(*_: Any) -> Any:
    raise ZeroDivisionError("a rule that fails")


async def _has_no_calls(text: str, calls: Any) -> bool:
    """Async: the clock of these tests would pass the deadline of a rule in a thread that waits for its turn."""
    return not calls


LOOK = [say(HALF), call("work", n=1)]
"""Text beside a call: it ends no run."""


ENDINGS: dict[str, tuple[list[Any], dict[str, Any]]] = {
    "completed": ([LOOK, [call("finish_task", summary="All is done.")]], {}),
    "text_final": ([LOOK, "Paris."], {"text_rule": _has_no_calls}),
    "judged": ([LOOK], {"judge": True, "policy": {"max_inner_steps": 1}}),
    "handled": ([], {"prompt_handlers": [lambda prompt, run: Answer("Hello.")]}),
    "until_met": ([LOOK], {"until": passes_later}),
    "awaiting_input": ([LOOK, [say("Which?"), call("ask_user", question="Which?")]], {}),
    "step_limit": ([LOOK] * 3, {"policy": {"limits": Limits(steps=2)}}),
    "token_limit": (
        [LOOK, [call("work"), UsageReport(Usage(output_tokens=99))]],
        {"policy": {"limits": Limits(output_tokens=90)}},
    ),
    "cost_limit": (
        [LOOK, [call("work"), UsageReport(Usage(cost_usd=0.9))]],
        {"policy": {"limits": Limits(cost_usd=0.5)}},
    ),
    "time_limit": ([LOOK, NEVER], {"policy": {"limits": Limits(seconds=5)}}),
    "tool_call_limit": ([LOOK, [call("work", n=2)]], {"policy": {"limits": Limits(tool_calls=2)}}),
    "stuck": ([LOOK, *[[call("work", n=7)]] * 9], {}),
    "degenerate": ([say("la " * 4_000, 200)] * 2, {}),
    "compaction_stalled": ([LOOK] * 9, {"policy": {"compaction": Compaction(window=10)}}),
    "completion_rejected": ([LOOK, *[[call("finish_task", summary="x")]] * 5], {"gates": [lambda c, r: Reject("no")]}),
    "no_answer": ([LOOK, *[""] * 6], {}),
    "invalid_calls": ([LOOK, *[[call("nobody")]] * 5], {}),
    "until_stalled": ([LOOK] * 9, {"until": never_passes, "policy": {"patience": Patience(checks=1)}}),
    "blocked": ([LOOK] * 9, {"until": cannot_pass}),
    "refusal": ([LOOK, *[[FinishReport("content_filter", "content_filter")]] * 3], {}),
    "provider_error": ([LOOK, [say("The port"), Unavailable("down")]], {}),
    "internal_error": ([LOOK, [call("work", n=2)]], {"decide": True}),
    "cancelled": ([LOOK, [say("The port"), NEVER]], {}),
}
CANNOT: set[tuple[str, str]] = {("chat", "completed"), ("chat", "completion_rejected")}
"""A policy without completion tools ends by none."""


def test_F1_the_table_has_every_stop_reason() -> None:
    assert set(ENDINGS) == set(STATUS_OF)


@pytest.mark.parametrize(("reason", "name"), [at for at in product(ENDINGS, POLICIES) if at[::-1] not in CANNOT])
@pytest.mark.parametrize("closes", [False, True])
async def test_F1_no_ending_has_an_empty_answer_where_the_model_wrote_text(
    reason: str, closes: bool, name: str, tmp_path: Path
) -> None:
    outcome = await ended(reason, name, closes, tmp_path / "r.jsonl")
    assert outcome.stop_reason == reason
    assert not is_blank(outcome.answer)
    assert outcome.answer_from != ""
    expected = {
        "completed": ("All is done.", "completion"),
        "text_final": ("Paris.", "text"),
        "handled": ("Hello.", "handler"),
        "awaiting_input": ("Which?", "latest_text"),
        "provider_error": ("The port", "partial_text"),
        "cancelled": ("The port", "partial_text"),
    }
    if reason in expected:
        assert (outcome.answer, outcome.answer_from) == expected[reason]
    elif not closes and reason not in ("degenerate", "judged"):
        assert (outcome.answer, outcome.answer_from) == (HALF, "latest_text")


async def ended(reason: str, name: str, closes: bool, path: Path) -> Outcome:
    """A run that ends so, under this policy; where it closes, the closing step says nothing."""
    script, options = ENDINGS[reason]
    given = dict(options)
    clock = FakeClock()
    policy = replace(POLICIES[name], closing=closes, **given.pop("policy", {}))
    if given.pop("judge", None):
        given["judge"] = _complete
    if given.pop("decide", None):
        policy = replace(policy, guards=("boom", *policy.guards))
        given["rules"] = [
            Rule("guard", "boom", "Fails.", (), lambda facts, policy: _boom() if facts.steps > 1 else None)
        ]
    if reason == "text_final" and name != "strict":
        given.pop("text_rule")
    provider = Scripted(*script, *[[call("work", n=99)]] * 9)
    engine = Engine(
        provider,
        tools=[WORK],
        presets=[finish_task, ask_user],
        policy=policy,
        until=given.pop("until", None),
        **grouped(clock=clock, **given),
    )
    async with engine.start("go", record=path) as run:
        for _ in range(40):
            if run.finished:
                break
            await clock.advance(0.5)
            if reason == "cancelled" and len(provider.requests) == 2:
                run.cancel()
        with anyio.fail_after(60):
            try:
                return await run.wait()
            except ZeroDivisionError:
                return run.outcome


async def _complete(run: Any) -> Verdict:
    return Verdict("complete", "yes")


async def test_F1_an_answer_is_of_this_run_only() -> None:
    provider = Scripted("The first answer.", Unavailable("down"))
    session = Engine(provider).session()
    outcomes = [await session.run("go"), await session.run("go on")]
    assert [(o.answer, o.answer_from) for o in outcomes] == [("The first answer.", "text"), ("", "")]


async def test_F1_a_retried_response_leaves_what_it_had_said_where_nothing_follows() -> None:
    outcome = await Engine(Scripted([say("The port is"), Unavailable("down")])).run("go")
    assert (outcome.answer, outcome.answer_from, outcome.status) == ("The port is", "partial_text", "failed")


# ---- F7


def test_F7_the_closing_step_is_on_in_agent_and_strict_and_old_records_keep_their_own() -> None:
    assert [(name, policy.closing) for name, policy in POLICIES.items()] == [
        ("chat", False), ("agent", True), ("strict", True)
    ]  # fmt: skip
    assert Policy().closing_after == "exhausted"
    old = settings_from_record(Policy, {"closing": True})
    assert (old.closing, old.closing_after, old.closing_tokens, old.response_tokens) == (True, "limits", None, None)
    assert policy_from({"closing_after": "limits"}).closing_after == "limits"


EXHAUSTED = [reason for reason, status in STATUS_OF.items() if status == "exhausted"]


@pytest.mark.parametrize("name", ["agent", "strict"])
@pytest.mark.parametrize("reason", EXHAUSTED)
async def test_F7_every_exhausted_ending_is_summed_up(reason: str, name: str, tmp_path: Path) -> None:
    script, options = ENDINGS[reason]
    given = dict(options)
    policy = replace(POLICIES[name], **given.pop("policy", {}))
    if reason == "compaction_stalled":
        policy = replace(policy, compaction=Compaction(window=100, threshold=0.1))
    responses = iter([*script, *[[call("work", n=99)]] * 9])

    def respond(request: Request) -> Any:
        closing = any(isinstance(m, UserMessage) and m.text == policy.prompts.closing for m in request.ephemeral)
        if closing:
            assert request.tool_choice == "none"
            return say("Half is done, half is missing.")
        return [UsageReport(Usage(input_tokens=15, output_tokens=15)), next(responses)]

    clock = FakeClock()
    engine = Engine(
        Scripted(respond), tools=[WORK], presets=[finish_task], policy=policy, **grouped(clock=clock, **given)
    )
    session = engine.session(record=tmp_path / "r.jsonl")
    async with session.start("go") as run:
        for _ in range(40):
            if run.finished:
                break
            await clock.advance(0.5)
        events = [event async for event in run]
    outcome = run.outcome
    assert (outcome.status, outcome.stop_reason) == ("exhausted", reason)
    assert (outcome.answer, outcome.answer_from) == ("Half is done, half is missing.", "closing")
    (closing,) = [e for e in events if isinstance(e, ev.StepStarted) and e.closing]
    assert closing.step == outcome.steps + 1, "not counted"
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_F7_a_closing_step_that_answers_with_a_call_leaves_no_empty_answer() -> None:
    script = [LOOK, [call("work", n=2)], [call("finish_task", summary="All done.")]]
    outcome = await Engine(Scripted(*script), tools=[WORK], policy=Policy(limits=Limits(steps=2))).run("go")
    assert (outcome.stop_reason, outcome.answer, outcome.answer_from) == ("step_limit", HALF, "latest_text")
    script = [[call("work", n=1)], [call("work", n=2)], [call("finish_task", summary="All done.")]]
    outcome = await Engine(Scripted(*script), tools=[WORK], policy=Policy(limits=Limits(steps=2))).run("go")
    assert (outcome.answer, outcome.answer_from) == ("All done.", "not_accepted")


async def test_F7_no_closing_step_where_it_cannot_be_afforded() -> None:
    budget = Budget(output_tokens=4)
    provider = Scripted(LOOK, LOOK)
    outcome = await Engine(provider, tools=[WORK], budget=budget).run("go")
    assert (outcome.stop_reason, len(provider.requests)) == ("token_limit", 1), "the shared budget is used up"
    policy = Policy(session_limits=SessionLimits(steps=1))
    provider = Scripted("one", "never asked for")
    session = Engine(provider, policy=policy).session()
    await session.run("go")
    assert ((await session.run("go")).stop_reason, len(provider.requests)) == ("step_limit", 1), "nothing to sum up"


# ---- F13: a text where every response is to call a tool

SAID = ["The port is 8080.", [call("finish_task", summary="The port is 8080 now.")]]


@pytest.mark.parametrize("name", ["agent", "strict"])
async def test_F13_under_required_a_text_is_nudged_and_ends_nothing(name: str, tmp_path: Path) -> None:
    provider = Scripted(*SAID)
    engine = Engine(provider, policy=POLICIES[name], model_options=ModelOptions(tool_choice="required"))
    outcome = await engine.run("go", record=tmp_path / "r.jsonl")
    assert (outcome.stop_reason, outcome.answer, outcome.steps) == ("completed", "The port is 8080 now.", 2)
    assert "Text alone does not end this task" in str(provider.requests[1].messages[-1])
    assert (await replay(str(tmp_path / "r.jsonl"))).same


async def test_F13_under_auto_by_the_setting_by_the_users_rule_or_without_a_completion_tool_it_ends_the_run() -> None:
    as_text = Policy(required_text="as_text")
    for options in (
        {"tool_choice": "auto"},
        {"tool_choice": "required", "policy": as_text},
        {"tool_choice": "required", "text_rule": lambda text, calls: True},
        {"tool_choice": "required", "presets": (), "tools": [WORK]},
        {"tool_choice": "required", "policy": POLICIES["chat"], "tools": [WORK]},
    ):
        outcome = await Engine(Scripted(*SAID), **grouped(**options)).run("go")
        assert (outcome.stop_reason, outcome.steps) == ("text_final", 1), options


def test_F13_a_record_that_does_not_name_the_setting_is_read_as_it_was_then() -> None:
    assert settings_from_record(Policy, {}).required_text == "as_text"
