"""The stop rules of other projects stop at exactly the step at which those projects do, and not one step earlier."""

from __future__ import annotations

from typing import Any

import pytest
from endstop import Engine, tool
from endstop.analysis.policy_simulation import Finding, backtest
from endstop.analysis.published_policies import BY_NAME, PUBLISHED, PUBLISHED_RULES, guards_alone, rules_of
from endstop.decision import GUARDS, Event, Limits, Policy, Repetition, WrongUse, decide
from endstop.decision import events as ev
from endstop.decision.decide import select_rules
from endstop.decision.facts import Facts
from endstop.providers import Scripted, call, say

FREE = Policy(
    name="free",
    limits=Limits(steps=2000),
    reminder=None,
    closing=False,
    repetition=Repetition(nudge_at=(), stop_at=None, same_text=None),
)
"""Records whatever the script says."""
DONE = [call("finish_task", summary="done")]
Step = list[Any]


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return f"nothing new in {path}"


@tool
async def run(command: str) -> str:
    """Run."""
    raise ValueError("one two three four five six seven eight nine ten eleven")


class Clock:
    """Answers each call with another number."""

    def __init__(self) -> None:
        self.times = 0

    async def __call__(self, zone: str) -> str:
        """Tell the time."""
        self.times += 1
        return f"{self.times} o'clock"


def a(text: str = "") -> Step:
    return [*([say(text)] if text else []), call("look", path="a")]


def b() -> Step:
    return [call("look", path="b")]


def fails(command: str = "x") -> Step:
    return [call("run", command=command)]


def cycle(length: int, times: int) -> list[Step]:
    return [[call("look", path=str(number))] for number in range(length)] * times


def different(times: int) -> list[Step]:
    return [[call("look", path=f"other {number}")] for number in range(times)]


async def recorded(*steps: Step) -> list[Event]:
    engine = Engine(Scripted(*steps, DONE), tools=(look, run), policy=FREE)
    async with engine.start("go") as session:
        return [event async for event in session if not isinstance(event, ev.TextMessageContent)]


async def found(name: str, *steps: Step) -> Finding:
    policy = BY_NAME[name].policy
    (result,) = backtest(await recorded(*steps), [policy], rules_of(policy.guards))
    assert result.digest.end.steps == len(steps) + 1
    return result.findings[0]


EXACT = [
    ("opencode", [*different(2), [*a(), *a(), *a()]], "opencode_doom_loop"),
    ("opencode-documented", [a()] * 3, "opencode_documented"),
    ("gemini-cli", [a()] * 6, "gemini_cli_loop"),
    ("gemini-cli", [*cycle(5, 5), *cycle(5, 1)[:1]], "gemini_cli_loop"),
    ("gemini-cli", [*[a()] * 5, *different(30), *[b()] * 5], "gemini_cli_loop"),
    ("qwen-code", [a()] * 5, "qwen_code_loop"),
    ("cline", [a()] * 5, "cline_loop"),
    ("cline", [fails("x"), fails("y"), fails("z")], "cline_mistakes"),
    ("roo-code", [a()] * 4, "roo_code_repetition"),
    ("openhands", [a()] * 4, "openhands_stuck"),
    ("openhands", [fails()] * 4, "openhands_stuck"),
    ("openhands", [a(), b()] * 3, "openhands_stuck"),
    ("kimi-cli", [a()] * 12, "kimi_cli_repeat"),
    ("browser-use", [fails(str(number)) for number in range(6)], "browser_use_loop"),
    ("trajectory-fuse", [a()] * 3, "trajectory_fuse"),
    ("trajectory-fuse", cycle(2, 2), "trajectory_fuse"),
    ("trajectory-fuse", cycle(6, 2), "trajectory_fuse"),
    ("trajectory-fuse", [fails(str(number)) for number in range(4)], "trajectory_fuse"),
    ("inspect-ai", different(24), "inspect_messages"),
    ("smolagents", different(20), "step_limit"),
    ("vercel-ai", different(20), "step_limit"),
    ("openai-agents", different(10), "step_limit"),
    ("crewai", different(25), "step_limit"),
    ("pydantic-ai", different(50), "step_limit"),
]


@pytest.mark.parametrize(("name", "steps", "rule"), EXACT)
async def test_a_rule_stops_at_its_last_step_and_not_before(name: str, steps: list[Step], rule: str) -> None:
    at = await found(name, *steps, *different(1))
    assert at.stops is not None
    assert (at.stops.steps, at.rule) == (len(steps), rule)
    before = await found(name, *steps[:-1])
    assert before.rule == "control_flow", "one step fewer, and it ends by its completion"


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("opencode", [a()] * 30),
        ("opencode-documented", [a(), a(), b()] * 9),
        ("gemini-cli", cycle(6, 9)),
        ("qwen-code", cycle(2, 20)),
        ("cline", [*[a()] * 4, *[b()] * 4]),
        ("cline", [fails("x"), fails("y"), b(), fails("z")]),
        ("roo-code", [*[a()] * 3, *[b()] * 3]),
        ("openhands", [a("first"), a("second"), a("third"), a("fourth")]),
        ("openhands", [a(), b(), a(), b(), a()]),
        ("kimi-cli", cycle(2, 20)),
        ("goose", [a()] * 40),
        ("browser-use", [a()] * 40),
        ("trajectory-fuse", [*cycle(7, 1), *cycle(7, 1)]),
        ("trajectory-fuse", [fails("x"), fails("y"), fails("z"), b(), fails("u")]),
        ("langgraph", different(60)),
        ("mini-swe-agent", different(60)),
        ("swe-agent", different(60)),
    ],
)
async def test_what_is_no_loop_for_a_project_goes_on(name: str, steps: list[Step]) -> None:
    finding = await found(name, *steps)
    assert finding.rule == "control_flow"


async def test_openhands_compares_results_and_others_do_not() -> None:
    clock = tool(Clock().__call__, name="clock", reads=True)
    engine = Engine(Scripted(*[[call("clock", zone="utc")]] * 6, DONE), tools=(clock,), policy=FREE)
    async with engine.start("go") as session:
        events = [event async for event in session]
    policies = [BY_NAME[name].policy for name in ("openhands", "qwen-code")]
    (result,) = backtest(events, policies, PUBLISHED_RULES)
    assert [finding.rule for finding in result.findings] == ["control_flow", "qwen_code_loop"]


async def test_three_messages_in_a_row_are_a_monologue_for_openhands() -> None:
    talk = Policy(name="talk", text="nudge", limits=Limits(steps=50), reminder=None, repetition=FREE.repetition)
    for texts, rule in ((2, "control_flow"), (3, "openhands_stuck")):
        engine = Engine(Scripted(*[[say(f"Hm, {number}.")] for number in range(texts)], DONE), policy=talk)
        async with engine.start("go") as session:
            events = [event async for event in session]
        (result,) = backtest(events, [BY_NAME["openhands"].policy], PUBLISHED_RULES)
        assert result.findings[0].rule == rule


async def test_the_order_of_the_keys_of_arguments_does_not_matter() -> None:
    @tool(reads=True)
    async def pair(one: int, two: int) -> str:
        """Pair."""
        return ""

    steps = [[call("pair", one=1, two=2)], [call("pair", two=2, one=1)], [call("pair", one=1, two=2)]]
    engine = Engine(Scripted(*steps, DONE), tools=(pair,), policy=FREE)
    async with engine.start("go") as session:
        events = [event async for event in session]
    (result,) = backtest(events, [BY_NAME["trajectory-fuse"].policy], PUBLISHED_RULES)
    assert result.findings[0].stops is not None
    assert result.findings[0].stops.steps == 3


async def test_what_asks_or_tells_diverges_there_and_its_stop_is_a_supposition() -> None:
    asks = await found("opencode-documented", *[a()] * 3, *different(4))
    assert (asks.parting, asks.step, asks.saved) == ("diverges", 3, None)
    assert asks.why == "it would ask the user whether to go on"
    tells = await found("cline", *[a()] * 5, *different(4))
    assert (tells.parting, tells.step, tells.saved) == ("diverges", 3, None)
    assert tells.stops is not None
    assert tells.stops.steps == 5
    stops = await found("qwen-code", *[a()] * 5, *different(4))
    assert (stops.parting, stops.step) == ("earlier", 5)
    assert stops.saved is not None
    assert stops.saved.steps == 5


async def test_calls_of_a_new_run_are_counted_anew() -> None:
    engine = Engine(Scripted(a(), a(), [say("ok")], a(), a(), [say("ok")]), tools=(look,), policy=FREE)
    session = engine.session()
    events: list[Event] = []
    for _ in range(2):
        async with session.start("go") as run_:
            events += [event async for event in run_]
    for result in backtest(events, [BY_NAME["trajectory-fuse"].policy], PUBLISHED_RULES):
        assert result.findings[0].stops is None


def test_every_policy_names_guards_that_exist_and_has_a_source_and_a_name_of_its_own() -> None:
    assert len({one.name for one in PUBLISHED}) == len(PUBLISHED)
    for one in PUBLISHED:
        select_rules(one.policy.guards, (*GUARDS, *PUBLISHED_RULES))
        assert one.policy.name == one.name
        assert one.sources
        assert all(line > 0 for _, line in one.sources)
        assert bool(one.repository) == bool(one.commit)
    used = {guard for one in PUBLISHED for guard in one.policy.guards}
    assert {rule.name for rule in PUBLISHED_RULES} <= used


def test_outside_of_a_backtest_a_rule_that_looks_at_calls_says_so() -> None:
    with pytest.raises(WrongUse, match="in a backtest only"):
        decide(Facts(calls=1, finish="tool_calls"), BY_NAME["cline"].policy, PUBLISHED_RULES)


async def test_guards_alone_end_nothing_by_a_text_and_stop_as_the_policy_does() -> None:
    agent = Policy(limits=Limits(steps=30), repetition=Repetition(nudge_at=(), stop_at=6))
    alone = guards_alone(agent, "alone")
    (result,) = backtest(await recorded(*[a()] * 8), [agent, alone])
    assert [finding.stops and finding.stops.steps for finding in result.findings] == [6, 6]
    (result,) = backtest(await recorded(*different(40)), [agent, alone])
    assert [finding.rule for finding in result.findings] == ["step_limit", "control_flow"]
