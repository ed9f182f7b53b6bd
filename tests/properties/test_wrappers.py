"""Wrappers in any order around providers that make trouble: the run ends, nothing is lost, and it replays the same."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from endstop import Engine, Tool, read_record
from endstop.decision import Facts, Policy, fold
from endstop.decision import events as ev
from endstop.providers import Chaos, Fallback, Hedge, Provider, Race, RateLimit, Retry, Scripted, Timeouts, call, say
from endstop.replay import replay
from endstop.testing import check_transcript
from hypothesis import given
from hypothesis import strategies as st

Plan = Any
LEAVES = st.fixed_dictionaries(
    {name: st.sampled_from([0.0, 0.0, 0.3, 0.6]) for name in ("refuse", "fail", "cut", "shred")}
    | {"seed": st.integers()}
)
PLANS: st.SearchStrategy[Plan] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["retry", "limit", "timeouts"]), inner),
        st.tuples(st.sampled_from(["fallback", "race", "finished", "hedge"]), inner, inner),
    ),
    max_leaves=4,
)


def answer(request: Any) -> Any:
    """A step of work, and then the end of it."""
    if any(getattr(message, "name", "") == "change" for message in request.messages):
        return [say("Done now.", 3), call("finish_task", summary="It is changed.", pieces=3)]
    return [say("I look and change.", 3), call("look", path="a", pieces=2), call("change", path="a", pieces=2)]


def built(plan: Plan) -> Provider:
    if isinstance(plan, dict):
        return Chaos(Scripted(answer, model=f"m{plan['seed'] % 7}"), **plan)
    kind, *inner = plan
    providers = [built(one) for one in inner]
    match kind:
        case "retry":
            return Retry(providers[0], first_wait=0, longest_wait=1e-9, times={"rate_limit": 2, "server": 2})
        case "limit":
            return RateLimit(providers[0], streams=1, adapt=False)
        case "timeouts":
            return Timeouts(providers[0], total=60)
        case "fallback":
            return Fallback(*providers)
        case "race":
            return Race(*providers)
        case "finished":
            return Race(*providers, until="finished")
        case _:
            return Hedge(*providers, after=1e-6)


class World:
    def __init__(self, plan: Plan) -> None:
        self.changed: list[str] = []

        async def look(path: str) -> str:
            await asyncio.sleep(0)
            return "seen"

        async def change(path: str) -> str:
            self.changed.append(path)
            return "changed"

        tools = [Tool(look, description="Look.", reads=True), Tool(change, description="Change.")]
        self.engine = Engine(built(plan), tools=tools, policy=Policy())


@given(PLANS)
def test_whatever_wraps_what_a_run_ends_and_nothing_is_done_twice(plan: Plan) -> None:
    async def main(path: Path) -> tuple[list[Any], Any, Any]:
        session = world.engine.session(record=path)
        async with session.start("go") as run:
            events = [event async for event in run]
        await asyncio.sleep(0)
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert not left, left
        return events, run, session

    world = World(plan)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.jsonl"
        events, run, session = asyncio.run(main(path))
        (recorded,) = read_record(path).runs
        report = asyncio.run(replay(str(path)))
    outcome = run.outcome
    assert outcome.stop_reason in ("completed", "provider_error"), outcome
    if outcome.stop_reason == "completed":
        assert (outcome.answer, outcome.steps, world.changed) == ("It is changed.", 2, ["a"])
    check_transcript(session.transcript.messages)
    assert [isinstance(event, ev.RunFinished) for event in events].count(True) == 1
    facts = Facts()
    for event in recorded.events:
        facts = fold(facts, event)
    assert facts == run.facts
    assert report.same, [one.divergence for one in report.runs]
    assert report.runs[0].outcome.requests == outcome.requests
    assert shown(recorded.events) == shown_at_last(recorded.events)


def shown(events: list[Any]) -> str:
    """What a reader has before them who takes back what is declared void."""
    texts: dict[str, str] = {}
    for event in events:
        match event:
            case ev.TextMessageContent(attempt=attempt, delta=delta):
                texts[attempt] = texts.get(attempt, "") + delta
            case ev.AttemptRetracted(attempt=attempt):
                texts.pop(attempt, None)
            case ev.AttemptFailed(attempt=attempt):
                texts.pop(attempt, None)
            case _:
                pass
    return "".join(texts.values())


def shown_at_last(events: list[Any]) -> str:
    return "".join(event.message.text for event in events if isinstance(event, ev.ResponseFinished))
