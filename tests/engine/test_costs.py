"""What runs cost: each attempt, judges and summaries; limits on cost with prices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Hooks, read_record, tool
from endstop.decision import Compaction, Limits, Policy, Price, SessionLimits, Usage, UsageReport, WrongUse
from endstop.decision import events as ev
from endstop.hooks import ModelJudge
from endstop.providers import Chaos, Interrupted, LiteLLM, OpenAICompatible, Prices, Scripted, call, say
from endstop.replay import replay
from endstop.tools import ask_user

DOLLAR = Price(input=1_000_000, output=1_000_000)
"""A dollar a token: what a run costs can be counted."""
MINE = Prices({"scripted": DOLLAR})


@tool
async def note(text: str) -> str:
    """Note it."""
    return f"noted {text}"


async def events_of(engine: Engine, prompt: str = "go", **options: Any) -> list[Any]:
    async with engine.start(prompt, **options) as run:
        return [event async for event in run]


async def test_a_vendors_model_costs_what_the_list_says_without_being_asked_for() -> None:
    model = Scripted("hi", model="gpt-4o", usage=Usage(input_tokens=1000, cached_tokens=500, output_tokens=100))
    outcome = await Engine(model).run("hello")
    assert outcome.usage.cost_usd == pytest.approx((500 * 2.5 + 500 * 1.25 + 100 * 10) / 1e6)
    assert not outcome.usage.estimated


async def test_a_model_that_nobody_knows_the_price_of_costs_none_and_not_nothing() -> None:
    assert (await Engine(Scripted("hi")).run("hello")).usage.cost_usd is None


async def test_what_the_provider_reports_wins() -> None:
    report = UsageReport(Usage(input_tokens=7, output_tokens=7, cost_usd=0.125))
    outcome = await Engine(Scripted([say("hi"), report]), prices=MINE).run("hello")
    assert outcome.usage.cost_usd == 0.125


async def test_each_attempt_has_its_cost_and_the_run_their_sum() -> None:
    model = Scripted([call("note", text="a")], [call("note", text="b")], "done", usage=Usage(input_tokens=3))
    events = await events_of(Engine(model, tools=[note], prices=MINE))
    assert [e.usage.cost_usd for e in events if isinstance(e, ev.ResponseFinished)] == [3.0, 3.0, 3.0]
    assert events[-1].outcome.usage.cost_usd == 9.0


async def test_an_attempt_that_was_cut_costs_what_it_is_estimated_at_and_says_so() -> None:
    model = Scripted([call("finish_task", summary="It is done."), say("and on" * 100)])
    outcome = await Engine(model, prices=MINE).run("go")
    usage = outcome.usage
    assert (outcome.status, usage.estimated) == ("completed", True)
    assert usage.cost_usd == usage.input_tokens + usage.output_tokens > 0


async def test_an_attempt_that_failed_after_output_costs_what_it_is_estimated_at() -> None:
    events = await events_of(Engine(Scripted([say("half of it "), Interrupted("cut")]), prices=MINE))
    (failed,) = (e for e in events if isinstance(e, ev.AttemptFailed))
    assert failed.usage.estimated
    assert failed.usage.cost_usd == failed.usage.input_tokens + failed.usage.output_tokens > 0
    assert events[-1].outcome.usage == failed.usage


async def test_an_attempt_that_was_cancelled_in_the_middle_costs_what_it_is_estimated_at() -> None:
    shown = anyio.Event()
    engine = Engine(Scripted([say("half of it "), anyio.Event()]), prices=MINE)
    async with engine.start("go") as run:
        async for event in run:
            if isinstance(event, ev.TextMessageContent):
                shown.set()
                run.cancel()
    assert shown.is_set()
    assert run.outcome.usage.estimated
    assert (run.outcome.usage.cost_usd or 0) > 0


async def test_a_model_that_judges_costs_its_own_price() -> None:
    judge = ModelJudge(Scripted("YES, all of it.", model="judge", usage=Usage(input_tokens=4)))
    prices = Prices({"scripted": DOLLAR, "judge": Price(input=10_000_000, output=0)})
    policy = Policy(max_inner_steps=1)
    model = Scripted([call("note", text="a")], "never asked", usage=Usage(input_tokens=3))
    events = await events_of(Engine(model, tools=[note], hooks=Hooks(judge=judge), prices=prices, policy=policy))
    (verdict,) = (e for e in events if isinstance(e, ev.VerdictGiven))
    assert verdict.usage.cost_usd == 40.0
    assert (events[-1].outcome.stop_reason, events[-1].outcome.usage.cost_usd) == ("judged", 43.0)


async def test_a_summary_in_a_compaction_costs_as_well() -> None:
    policy = Policy(compaction=Compaction(window=100, strategies=("summarise",), keep_messages=1))
    big = UsageReport(Usage(input_tokens=90, output_tokens=5))
    model = Scripted(
        [call("note", text="x" * 200), big],
        [say("a summary"), UsageReport(Usage(input_tokens=2, output_tokens=1))],
        "done",
        usage=Usage(input_tokens=10),
    )
    events = await events_of(Engine(model, tools=[note], prices=MINE, policy=policy))
    (verdict,) = (e for e in events if isinstance(e, ev.VerdictGiven))
    assert (verdict.role, verdict.usage.cost_usd) == ("compactor", 3.0)
    assert events[-1].outcome.usage.cost_usd == 95 + 3 + 10


async def test_a_session_knows_what_all_its_runs_have_used_and_counts_a_paused_one_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    model = Scripted("one", [call("ask_user", question="Which?")], "three", usage=Usage(input_tokens=2))
    session = Engine(model, presets=[ask_user], prices=MINE).session(record=path)
    assert session.usage == Usage()
    await session.run("go")
    assert (session.usage.input_tokens, session.usage.cost_usd) == (2, 2.0)
    await session.run("go")
    (question,) = session.questions
    outcome = await session.answer(question.call_id, "this")
    assert (outcome.usage.cost_usd, session.usage.cost_usd) == (4.0, 6.0), "a run that goes on includes the paused one"
    again = Engine(model, presets=[ask_user]).session()
    again.load(read_record(path).runs)
    assert again.usage == session.usage
    async with session.start("go"):
        assert session.usage.cost_usd == 6.0


# ---- limits


async def test_a_limit_on_cost_ends_a_run_by_list_prices() -> None:
    model = Scripted(
        *([call("note", text=str(n))] for n in range(9)),
        model="anthropic/claude-sonnet-4-5",
        usage=Usage(input_tokens=100_000, output_tokens=10_000),  # 0.45 dollars
    )
    outcome = await Engine(model, tools=[note], policy=Policy(limits=Limits(cost_usd=1.0), closing=False)).run("go")
    assert (outcome.status, outcome.stop_reason, outcome.steps) == ("exhausted", "cost_limit", 3)
    assert 1.2 < outcome.limits["cost_usd"].used < 1.3, (
        "the third request took it over the limit, and its answer is cut"
    )


@pytest.mark.parametrize(
    "policy",
    [
        Policy(limits=Limits(cost_usd=1)),
        Policy(limits=Limits(soft_cost_usd=1)),
        Policy(session_limits=SessionLimits(cost_usd=1)),
    ],
)
@pytest.mark.parametrize(
    "provider",
    [
        OpenAICompatible("gpt-4o", "http://127.0.0.1:1/v1"),
        LiteLLM("ollama/llama3"),
        Chaos(LiteLLM("azure/my-deployment")),
    ],
)
def test_a_limit_on_cost_that_nobody_could_measure_is_refused_at_the_start(provider: Any, policy: Policy) -> None:
    with pytest.raises(WrongUse, match=r"limits.cost_usd is set, but the price of model .* is not known"):
        Engine(provider, policy=policy)
    Engine(provider, policy=policy, prices=Prices({provider.model: Price(input=0, output=0)}))
    Engine(provider)


def test_a_limit_on_cost_is_fine_where_the_price_is_known_or_the_provider_may_report_it() -> None:
    policy = Policy(limits=Limits(cost_usd=1))
    Engine(LiteLLM("anthropic/claude-sonnet-4-5"), policy=policy)
    Engine(OpenAICompatible("gpt-4o", "https://api.openai.com/v1"), policy=policy)
    Engine(Scripted("x"), policy=policy)


# ---- records


async def test_a_replay_reckons_by_the_recorded_price_whatever_holds_today(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    script = [[call("note", text=str(n))] for n in range(9)]
    model = Scripted(*script, model="gpt-4o", usage=Usage(input_tokens=2000))
    engine = Engine(model, tools=[note], policy=Policy(limits=Limits(cost_usd=5000)), prices=Prices({"gpt-4o": DOLLAR}))
    outcome = await engine.run("go", record=path)
    assert (outcome.stop_reason, outcome.steps) == ("cost_limit", 3)
    (run,) = read_record(path).runs
    assert run.started.prices == {"gpt-4o": DOLLAR}
    report = await replay(str(path))
    assert report.same
    assert report.runs[0].outcome.usage == outcome.usage


async def test_a_record_without_prices_is_replayed_without_costs(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    await Engine(Scripted("hi", model="gpt-4o"), prices=Prices(listed=False)).run("go", record=path)
    report = await replay(str(path))
    assert report.runs[0].outcome.usage.cost_usd is None


async def test_a_killed_run_goes_on_by_the_price_that_it_began_with(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    usage = Usage(input_tokens=2)
    await Engine(Scripted([call("note", text="a")], "x", usage=usage), tools=[note], prices=MINE).run("go", record=path)
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(n for n, line in enumerate(lines) if b'"STEP_FINISHED"' in line)
    path.write_bytes(b"".join(lines[: at + 1]))
    record = read_record(path)
    session = Engine(Scripted("done", usage=usage), tools=[note]).session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        outcome = await run.wait()
    assert outcome.usage.cost_usd == 4.0
    assert (await replay(str(path))).same
