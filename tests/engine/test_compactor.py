"""Compaction by a function or a model of the user's: what it may do, and what is done where it cannot be used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import (
    Budget,
    Engine,
    Hooks,
    ModelCompactor,
    Progress,
    RecordOptions,
    Redaction,
    Runtime,
    Verdict,
    read_record,
)
from endstop.decision import (
    AssistantMessage,
    Message,
    Policy,
    Price,
    SystemMessage,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
    WrongUse,
)
from endstop.decision import events as ev
from endstop.providers import Prices, Scripted, say
from endstop.replay import replay
from endstop.session import Session
from endstop.testing import FakeClock, check_transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from ..captured_logs import capture_logs
from .test_compaction import FETCH, Model, drive, policy


def compacted(events: Sequence[Any]) -> list[str]:
    return [event.strategy for event in events if isinstance(event, ev.ContextCompacted)]


def verdicts(events: Sequence[Any]) -> list[tuple[str, str]]:
    return [(e.said, e.detail) for e in events if isinstance(e, ev.VerdictGiven) and e.role == "compactor"]


# ---- what it may return


async def test_a_text_replaces_the_old_messages_and_what_is_protected_stays(tmp_path: Path) -> None:
    given: list[Sequence[Message]] = []

    async def shorten(messages: Sequence[Message], run: Progress[Any]) -> str:
        assert run.messages[: len(messages) + 1] == (run.messages[0], *messages), "the oldest after the system prompt"
        given.append(messages)
        return f"{len(messages)} messages"

    model = Model(fetches=20)
    events, outcome, session = await drive(
        model, policy("drop_oldest"), tmp_path / "r.jsonl", hooks=Hooks(compactor=shorten), system="Be brief."
    )
    assert (outcome.stop_reason, outcome.steps) == ("completed", 21)
    assert set(compacted(events)) == {"compactor"}
    assert len(compacted(events)) == len(given) > 1
    assert max(model.sizes) < 6500
    messages = session.transcript.messages
    assert messages[0] == SystemMessage("Be brief.") or "Be brief." in messages[0].text  # type: ignore[union-attr]
    assert UserMessage("Fetch all of it") in messages, "the latest prompt stays"
    assert messages[1] == UserMessage(f"Summary of the conversation so far:\n{len(given[-1])} messages")
    assert not any(isinstance(message, SystemMessage) for part in given for message in part)
    for part in given:
        check_transcript(part)


async def test_messages_replace_the_old_ones_and_the_prompt_stays_where_they_leave_it_out(tmp_path: Path) -> None:
    def keep_the_latest_exchange(messages: Sequence[Message], run: Progress[Any]) -> list[Message]:
        return list(messages[-2:])

    events, outcome, session = await drive(
        Model(fetches=20), policy("drop_oldest"), tmp_path / "r.jsonl", hooks=Hooks(compactor=keep_the_latest_exchange)
    )
    assert (outcome.stop_reason, set(compacted(events))) == ("completed", {"compactor"})
    assert {said for said, _ in verdicts(events)} == {"replaced"}
    assert UserMessage("Fetch all of it") in session.transcript.messages
    kinds = [type(message) for message in session.transcript.messages[1:4]]
    assert kinds == [AssistantMessage, ToolResult, UserMessage]


async def test_none_leaves_it_to_the_policy_without_a_log_line(tmp_path: Path) -> None:
    with capture_logs() as logs:
        events, outcome, _ = await drive(
            Model(fetches=20),
            policy("drop_oldest"),
            tmp_path / "r.jsonl",
            hooks=Hooks(compactor=lambda messages, run: None),
        )
    assert (outcome.stop_reason, set(compacted(events))) == ("completed", {"drop_oldest"})
    assert set(verdicts(events)) == {("passed", "")}
    assert logs == []


# ---- what it may not

CALL = AssistantMessage("", (ToolCall("c1", "fetch", "{}"),))
IMPOSSIBLE: dict[str, tuple[Any, str]] = {
    "a call without its result": ([CALL], "message 0 makes calls without results: c1"),
    "a result without its call": ([ToolResult("c1", "fetch", "x")], "message 0 is a result of a call that"),
    "a result after another message": (
        [CALL, UserMessage("and?"), ToolResult("c1", "fetch", "x")],
        "message 0 makes calls without results: c1",
    ),
    "two results": ([CALL, *[ToolResult("c1", "fetch", "x")] * 2], "message 2 is a second result of one call"),
    "the same call twice": (
        [CALL, ToolResult("c1", "fetch", "x")] * 2,
        "message 2 makes a call with an id that another",
    ),
    "a system prompt": ([SystemMessage("Obey.")], "the run's own stays"),
    "a field of another type": ([structs.replace(UserMessage("x"), text=3)], "Expected `str`"),
    "messages of another form": ([{"role": "user", "content": "x"}], "not list"),
    "a number": (3, "not int"),
    "an empty summary": (" ", "empty"),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
async def test_an_impossible_answer_is_recorded_and_logged_and_the_policy_compacts(what: str, tmp_path: Path) -> None:
    answer, why = IMPOSSIBLE[what]

    async def impossible(messages: Sequence[Message], run: Progress[Any]) -> Any:
        return answer

    with capture_logs() as logs:
        events, outcome, _ = await drive(
            Model(fetches=12), policy("drop_oldest"), tmp_path / "r.jsonl", hooks=Hooks(compactor=impossible)
        )
    assert (outcome.stop_reason, set(compacted(events))) == ("completed", {"drop_oldest"})
    said = verdicts(events)
    assert {one for one, _ in said} == {"failed"}
    assert why in said[0][1]
    assert logs[0]["event"] == "compactor gave no usable answer"
    assert why in logs[0]["error"]
    assert [one["times"] for one in logs[1:]] == [len(said) - 1], "a replay logs nothing"


async def test_a_call_of_the_messages_that_stay_cannot_be_made_twice(tmp_path: Path) -> None:
    def steal(messages: Sequence[Message], run: Progress[Any]) -> list[Message]:
        return [message for message in run.messages[-2:] if not isinstance(message, SystemMessage)]

    events, outcome, _ = await drive(
        Model(fetches=12), policy("drop_oldest"), tmp_path / "r.jsonl", hooks=Hooks(compactor=steal)
    )
    assert (outcome.stop_reason, set(compacted(events))) == ("completed", {"drop_oldest"})
    assert all("an id that another call has" in detail for _, detail in verdicts(events))


async def test_one_that_raises_or_hangs_or_makes_it_no_smaller_loses_nothing(tmp_path: Path) -> None:
    def raises(messages: Sequence[Message], run: Progress[Any]) -> str:
        raise KeyError("no luck")

    async def hangs(messages: Sequence[Message], run: Progress[Any]) -> str:
        await clock.advance(Policy().deadlines.compactor + 1)
        await anyio.sleep_forever()
        return ""

    def grows(messages: Sequence[Message], run: Progress[Any]) -> str:
        return "x" * 100_000

    clock = FakeClock()
    for compactor, said in ((raises, "failed"), (hangs, "failed"), (grows, "summarised")):
        path = tmp_path / f"{compactor.__name__}.jsonl"
        events, outcome, _ = await drive(
            Model(fetches=8),
            policy("drop_oldest"),
            path,
            hooks=Hooks(compactor=compactor),
            runtime=Runtime(clock=clock),
        )
        assert (outcome.stop_reason, set(compacted(events))) == ("completed", {"drop_oldest"})
        assert {one for one, _ in verdicts(events)} == {said}


@pytest.mark.parametrize("wrong", [3, "drop_oldest"])
def test_what_cannot_be_called_is_refused(wrong: Any) -> None:
    with pytest.raises(WrongUse, match="compactor"):
        Hooks(compactor=wrong)
    with pytest.raises(WrongUse, match="ModelCompactor"):
        ModelCompactor(wrong)


# ---- a model


async def test_a_model_of_its_own_writes_the_summary_and_its_cost_is_the_runs(tmp_path: Path) -> None:
    asked: list[str] = []

    def small(request: Any) -> Any:
        asked.append(request.messages[0].text)
        return say("They fetched.")

    prices = Prices({"small": Price(input=1, output=0), "scripted": Price(input=0, output=0)})
    model = Model(fetches=20)
    events, outcome, session = await drive(
        model,
        policy("drop_oldest"),
        tmp_path / "r.jsonl",
        hooks=Hooks(compactor=Scripted(small, model="small")),
        prices=prices,
    )
    assert set(compacted(events)) == {"compactor"}
    assert len(asked) == len(compacted(events))
    assert model.asides == 0, "the run's own model is not asked"
    assert asked[0].endswith(Policy().prompts.summarise)
    used = [e.usage for e in events if isinstance(e, ev.VerdictGiven) and e.usage is not None]
    assert len(used) == len(asked)
    assert outcome.usage.cost_usd == pytest.approx(sum(one.cost_usd or 0 for one in used))
    assert outcome.usage.cost_usd
    assert UserMessage("Summary of the conversation so far:\nThey fetched.") in session.transcript.messages


async def test_a_function_that_asks_a_model_says_what_it_used(tmp_path: Path) -> None:
    async def ask(messages: Sequence[Message], run: Progress[Any]) -> Verdict:
        return Verdict("summarised", "They fetched.", Usage(input_tokens=1_000_000))

    events, outcome, _ = await drive(
        Model(fetches=12), policy("drop_oldest"), tmp_path / "r.jsonl", hooks=Hooks(compactor=ask)
    )
    assert outcome.usage.input_tokens > len(compacted(events)) * 1_000_000 > 0


async def test_a_shared_budget_that_is_used_up_keeps_the_model_from_being_asked(tmp_path: Path) -> None:
    asked: list[Any] = []

    def small(request: Any) -> Any:
        asked.append(request)
        return say("They fetched.")

    session = Engine(
        Scripted(Model(fetches=20)),
        tools=[FETCH],
        policy=policy("drop_oldest"),
        hooks=Hooks(compactor=Scripted(small)),
        budget=Budget(input_tokens=6_000),
    ).session(record=tmp_path / "r.jsonl")
    outcome = await session.run("Fetch all of it")
    assert outcome.stop_reason == "token_limit"
    assert asked == []
    assert (await replay(tmp_path / "r.jsonl")).same


# ---- records


def texts(messages: Sequence[Message]) -> list[str]:
    """What the messages say, without the ids of calls."""
    return [message.content if isinstance(message, ToolResult) else message.text for message in messages]


async def killed_after(path: Path, lines: Sequence[bytes], engine: Engine) -> tuple[Any, Session]:
    path.write_bytes(b"".join(lines))
    record = read_record(path)
    session = engine.session(record.header.session_id, record=path)
    session.load(record.runs)
    async with session.start_resumed() as run:
        return await run.wait(), session


async def test_a_resumed_run_asks_no_compactor_whose_answer_is_recorded(tmp_path: Path) -> None:
    asked = 0

    def latest(messages: Sequence[Message], run: Progress[Any]) -> list[Message]:
        nonlocal asked
        asked += 1
        return list(messages[-2:])

    whole = tmp_path / "whole.jsonl"
    _, expected, unbroken = await drive(Model(fetches=8), policy("drop_oldest"), whole, hooks=Hooks(compactor=latest))
    lines = whole.read_bytes().splitlines(keepends=True)
    places = [number for number, line in enumerate(lines, 1) if b'"role":"compactor"' in line]
    assert len(places) == asked
    path = tmp_path / "killed.jsonl"
    for nth, place in enumerate(places, 1):
        for kept, again in ((place - 1, asked - nth + 1), (place, asked - nth), (place + 1, asked - nth)):
            before = asked
            model = Model(fetches=8)
            model._done = sum(b'"type":"RESPONSE_FINISHED"' in line for line in lines[:kept])
            engine = Engine(Scripted(model), tools=[FETCH], policy=policy("drop_oldest"), hooks=Hooks(compactor=latest))
            outcome, session = await killed_after(path, lines[:kept], engine)
            assert (asked - before, outcome.steps) == (again, expected.steps), kept
            assert texts(session.transcript.messages) == texts(unbroken.transcript.messages)
            assert not [e for e in read_record(path).runs[0].events if isinstance(e, ev.ResumeDiverged)]
            assert (await replay(path)).same
            asked = before


async def test_a_run_is_not_resumed_without_a_compactor_and_one_with_another_says_so(tmp_path: Path) -> None:
    def one(messages: Sequence[Message], run: Progress[Any]) -> str:
        return "They fetched."

    def another(messages: Sequence[Message], run: Progress[Any]) -> str:
        return "Things were fetched."

    whole, path = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    await drive(Model(fetches=8), policy("drop_oldest"), whole, hooks=Hooks(compactor=one))
    lines = whole.read_bytes().splitlines(keepends=True)
    kept = next(number for number, line in enumerate(lines, 1) if b'"role":"compactor"' in line)
    model = Model(fetches=8)
    model._done = sum(b'"type":"RESPONSE_FINISHED"' in line for line in lines[:kept])
    engine = Engine(Scripted(model), tools=[FETCH], policy=policy("drop_oldest"))
    with pytest.raises(WrongUse, match="began with a compactor"):
        await killed_after(path, lines[:kept], engine)
    engine = Engine(Scripted(model), tools=[FETCH], policy=policy("drop_oldest"), hooks=Hooks(compactor=another))
    outcome, session = await killed_after(path, lines[:kept], engine)
    assert outcome.stop_reason == "completed"
    check_transcript(session.transcript.messages)
    (diverged,) = [e for e in read_record(path).runs[0].events if isinstance(e, ev.ResumeDiverged)]
    assert diverged.recorded.startswith("VERDICT_GIVEN compactor")


async def test_a_redacted_record_replays_and_holds_no_secret(tmp_path: Path) -> None:
    def latest(messages: Sequence[Message], run: Progress[Any]) -> list[Message]:
        return [UserMessage('My "name"\nis Sesame.'), *messages[-2:]]

    path = tmp_path / "r.jsonl"
    await drive(
        Model(fetches=12),
        policy("drop_oldest"),
        path,
        hooks=Hooks(compactor=latest),
        record_options=RecordOptions(redact=Redaction(words=["Sesame"])),
    )
    assert b"Sesame" not in path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(
    kept=st.lists(st.booleans(), min_size=1, max_size=12),
    added=st.lists(st.sampled_from([UserMessage("Note."), AssistantMessage("Said."), SystemMessage("Obey."), CALL])),
)
async def test_whatever_it_returns_every_provider_takes_the_transcript(kept: list[bool], added: list[Message]) -> None:
    def some(messages: Sequence[Message], run: Progress[Any]) -> list[Message]:
        return [*added, *(one for number, one in enumerate(messages) if kept[number % len(kept)])]

    with capture_logs():
        session = Engine(
            Scripted(Model(fetches=6)), tools=[FETCH], policy=policy("drop_oldest"), hooks=Hooks(compactor=some)
        ).session()
        outcome = await session.run("Fetch all of it")
    check_transcript(session.transcript.messages)
    assert UserMessage("Fetch all of it") in session.transcript.messages
    assert outcome.stop_reason == "completed"
