"""What a user says while a run is going."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine
from endstop.decision import ToolResult, UserMessage, WrongUse
from endstop.decision.events import MessageAdded
from endstop.providers import Scripted, call, say
from endstop.records.reader import read_record
from endstop.replay import replay
from endstop.testing import check_transcript

from .held import Held


def users(model: Scripted, request: int) -> list[Any]:
    return [message.text for message in model.requests[request].messages if isinstance(message, UserMessage)]


async def test_it_is_heard_before_the_next_request_after_the_results_of_the_step(tmp_path: Path) -> None:
    held = Held()
    model = Scripted([call("look", path="a")], [call("finish_task", summary="The port is 8080.")])
    record = tmp_path / "r.jsonl"
    async with Engine(model, tools=[held.tool]).start("Set the port", record=record) as run:
        await held.called.wait()
        first, second = run.say("to 8080, please"), run.say("and be quick", id="mine")
        assert [said.id for said in run.undelivered] == [first, second] == [first, "mine"]
        held.go.set()
        outcome = await run.wait()
        assert run.undelivered == ()
    assert outcome.status == "completed"
    assert users(model, 0) == ["Set the port"]
    messages = model.requests[1].messages
    check_transcript(messages)
    assert isinstance(messages[-3], ToolResult)
    assert users(model, 1)[-2:] == ["to 8080, please", "and be quick"]
    said = [event for event in read_record(record).runs[0].events if isinstance(event, MessageAdded)]
    assert [(event.origin, event.message_id) for event in said] == [("user", first), ("user", "mine")]


async def test_a_replay_hears_it_at_the_same_place(tmp_path: Path) -> None:
    held, record = Held(), tmp_path / "r.jsonl"
    model = Scripted([call("look", path="a")], [call("look", path="b")], "Done, to 8080.")
    async with Engine(model, tools=[held.tool]).start("Set the port", record=record) as run:
        await held.called.wait()
        run.say("to 8080")
        held.go.set()
        await run.wait()
    replayed = await replay(record)
    assert replayed.same, replayed


async def test_what_is_said_too_late_keeps_no_run_from_its_end_and_is_not_lost() -> None:
    gate = anyio.Event()
    model = Scripted([say("Hm"), gate, call("finish_task", summary="Done.")])
    async with Engine(model).start("Set the port") as run:
        async for event in run:
            if type(event).__name__ == "TextMessageContent":
                run.say("and the host")
                gate.set()
    assert run.outcome.answer == "Done."
    assert [said.text for said in run.undelivered] == ["and the host"]


async def test_nothing_and_words_to_a_finished_run_are_refused() -> None:
    async with Engine(Scripted("Hello.")).start("Hi") as run:
        with pytest.raises(WrongUse, match="empty"):
            run.say("  \n")
        await run.wait()
        with pytest.raises(WrongUse, match="finished"):
            run.say("more")


async def test_a_killed_run_that_goes_on_still_knows_what_was_said(tmp_path: Path) -> None:
    held, record = Held(), tmp_path / "r.jsonl"
    model = Scripted([call("look", path="a")], "Done.")
    async with Engine(model, tools=[held.tool]).start("Set the port", record=record) as run:
        await held.called.wait()
        run.say("to 8080")
        held.go.set()
        await run.wait()
    lines = record.read_bytes().splitlines(keepends=True)
    cut = next(number for number, line in enumerate(lines) if b'"message_id"' in line)
    record.write_bytes(b"".join(lines[: cut + 1]))
    again = Scripted("Done again.")
    session = Engine(again, tools=[held.tool]).resume(record)
    async with session.start_resumed() as run:
        await run.wait()
    assert users(again, 0) == ["Set the port", "to 8080"]
    assert (await replay(record)).same
