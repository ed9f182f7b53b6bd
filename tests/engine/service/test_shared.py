"""Several services on one store, with a queue that hands out their runs: desks that take requests, and workers."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from endstop import Approve, Deny, Engine, Tool, WrongUse, tool
from endstop.providers import Scripted, call
from endstop.service.errors import Conflict
from endstop.service.service import Service
from endstop.store.base import Store, StoredMessage
from endstop.store.url import store_at
from endstop.tools import ask_user, finish_task

from ...postgres import Server
from ..durable.plain import Plain
from ..held import Held, to_end
from ..store.made import beginning
from ..store.others import process

FINISH = call("finish_task", summary="The port is 8080.")
LOOK = call("look", path="a")
SECONDS = 60.0
"""How long the tests wait for what must happen."""


class Fleet:
    """Services that share a database of PostgreSQL and a queue."""

    def __init__(self, url: str, queue: str, stack: AsyncExitStack) -> None:
        self.url = url
        self._queue = queue
        self._stack = stack

    async def desk(self, **options: Any) -> Service:
        """One that takes requests and does nothing itself."""
        return await self.worker(Engine(Scripted()), works=False, **options)

    def waiting(self) -> list[str]:
        """Ids of the runs in the queue."""
        with closing(sqlite3.connect(self._queue)) as database:
            return [run for (run,) in database.execute("SELECT run FROM jobs WHERE state <> 'ended'")]

    async def worker(self, engine: Engine | Mapping[str, Engine], **options: Any) -> Service:
        """One that takes runs from the queue, with this engine."""
        settings = {"grace": 0, "lease": 2.0, "queue": Plain(self._queue), **options}
        return await self._stack.enter_async_context(Service(engine, store=self.url, **settings))


@pytest.fixture
async def fleet(postgres: Server, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with AsyncExitStack() as stack:
        yield Fleet(stack.enter_context(postgres.empty_store()), str(tmp_path / "queue.sqlite"), stack)


async def until(what: Callable[[], Any]) -> Any:
    """What this gives, once it gives something true."""
    async with asyncio.timeout(SECONDS):
        while not (found := await what()):
            await asyncio.sleep(0.02)
        return found


async def status(service: Service, session_id: str, *wanted: str) -> Any:
    async def found() -> Any:
        session = await service.session(session_id)
        return session if session.status in wanted else None

    return await until(found)


async def called(held: Held) -> None:
    async with asyncio.timeout(SECONDS):
        await held.called.wait()


def deleting(done: list[str]) -> Tool:
    """A tool that needs an approval, and notes here what it has deleted."""

    @tool(approval=True)
    def delete(path: str) -> str:
        "Delete a folder."
        done.append(path)
        return "gone"

    return delete


async def test_a_run_waits_until_somebody_works_and_is_read_where_it_was_asked_for(fleet: Fleet) -> None:
    desk = await fleet.desk()
    session = await desk.start("Set the port")
    assert (session.status, session.runs, session.holder) == ("queued", 1, None)
    await fleet.worker(Held().engine(FINISH))
    run = await desk.run(session.run_id or "")
    portions = await asyncio.wait_for(to_end(desk.follow_run(run)), SECONDS)
    frames = [frame for portion in portions for frame in portion]
    assert [frame.seq for frame in frames] == list(range(1, len(frames) + 1))
    assert frames[-1].last
    outcome = await desk.outcome(run.id, wait=SECONDS)
    assert outcome is not None
    assert outcome.answer == "The port is 8080."
    assert (await status(desk, session.id, "completed")).holder is None


async def test_what_is_said_reaches_the_process_that_has_the_run(fleet: Fleet) -> None:
    desk, held = await fleet.desk(), Held()
    worker = await fleet.worker(held.engine(LOOK, FINISH))
    session = await desk.start("Look")
    await called(held)
    assert (await desk.session(session.id)).holder is not None
    message = await desk.send_message(session.id, "and hurry")

    async def has_come() -> bool:
        (active,) = worker._active_sessions
        return message in active.messages

    await until(has_come)
    held.go.set()
    await status(desk, session.id, "completed")
    lines = b"".join([piece async for piece in desk.record(await desk.session(session.id))]).splitlines()
    (heard,) = [line for line in lines if message.encode() in line]
    assert b"and hurry" in heard


async def test_what_is_said_as_the_run_ends_elsewhere_is_heard_by_one_that_begins_by_itself(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, held = await fleet.desk(), Held()
    await fleet.worker(held.engine(LOOK, FINISH, FINISH))
    session = await desk.start("Look")
    await called(held)
    say = desk.store.add_message

    async def say_late(message: StoredMessage) -> None:
        held.go.set()
        await status(desk, session.id, "completed")
        await say(message)

    monkeypatch.setattr(desk.store, "add_message", say_late)
    await desk.send_message(session.id, "and hurry")

    async def has_heard() -> bool:
        stored = await desk.session(session.id)
        return stored.runs == 2 and stored.status == "completed"

    await until(has_heard)
    assert [run.prompt for run in await desk.store.runs(session.id)] == ["Look", "and hurry"]
    assert await desk.store.undelivered_messages(session.id) == []


async def test_a_cancel_reaches_the_process_that_has_the_run(fleet: Fleet) -> None:
    desk, held = await fleet.desk(), Held()
    await fleet.worker(held.engine(LOOK, FINISH))
    session = await desk.start("Look")
    await called(held)
    await desk.cancel(session.id, "enough")
    await status(desk, session.id, "cancelled")
    assert not held.go.is_set()


async def test_a_run_that_waits_is_cancelled_at_once_without_a_worker(fleet: Fleet) -> None:
    desk = await fleet.desk()
    session = await desk.start("Look")
    run = await desk.run(session.run_id or "")
    reading = asyncio.create_task(to_end(desk.follow_run(run)))
    ended = await desk.cancel(session.id, "never mind")
    assert (ended.status, ended.holder) == ("cancelled", None)
    assert (await asyncio.wait_for(reading, SECONDS))[-1][-1].last
    lines = b"".join([piece async for piece in desk.record(ended)]).splitlines()
    assert any(b"CANCEL_REQUESTED" in line and b"never mind" in line for line in lines)
    assert fleet.waiting() == []
    assert (await desk.cancel(session.id)).status == "cancelled"
    assert (await desk.start_run(session.id, "Look again")).status == "queued"
    await fleet.worker(Held().engine(FINISH))
    await status(desk, session.id, "completed")
    assert [run.status for run in await desk.store.runs(session.id)] == ["cancelled", "completed"]


async def test_a_cancelled_run_that_cannot_end_at_the_desk_ends_once_it_is_taken(fleet: Fleet) -> None:
    desk = await fleet.desk()
    session = await desk.start("Look")
    other = await fleet.worker({"other": Engine(Scripted())}, works=False)
    assert (await other.cancel(session.id, "never mind")).status == "queued"
    assert fleet.waiting() == [session.run_id]
    model = Scripted(LOOK, FINISH)
    await fleet.worker(Engine(model, tools=[Held().tool]))
    assert (await status(desk, session.id, "cancelled")).runs == 1
    assert model.sent == []


async def test_a_run_that_waits_for_another_worker_in_its_middle_is_cancelled_without_one(fleet: Fleet) -> None:
    held = Held()
    desk = await fleet.worker(Held().engine(), works=False)
    first = await fleet.worker(held.engine(LOOK, FINISH))
    session = await desk.start("Look")
    await called(held)
    await first.__aexit__(None, None, None)
    assert (await desk.session(session.id)).status == "queued"
    ended = await desk.cancel(session.id, "enough")
    assert (ended.status, ended.runs, fleet.waiting()) == ("cancelled", 1, [])
    outcome = await desk.outcome(session.run_id or "", wait=SECONDS)
    assert outcome is not None
    assert (outcome.status, outcome.steps) == ("cancelled", 1)


async def test_runs_that_are_cancelled_while_workers_take_them_end_once(fleet: Fleet) -> None:
    desks = [await fleet.desk(), await fleet.desk()]
    sessions = [await desks[0].start("Look") for _ in range(30)]
    calls = [desk.cancel(session.id) for session in sessions for desk in desks]
    cancelling = asyncio.gather(*calls, return_exceptions=True)
    for _ in range(2):
        await fleet.worker(Engine(Scripted(*["The port is 8080."] * 30)), max_running=3)
    refused = [error for error in await cancelling if isinstance(error, BaseException)]
    assert [error for error in refused if not isinstance(error, Conflict)] == []
    for session in sessions:
        ended = await status(desks[0], session.id, "cancelled", "completed")
        lines = b"".join([piece async for piece in desks[0].record(ended)]).splitlines()
        assert sum(b'"run.finished"' in line or b"RUN_FINISHED" in line for line in lines) == 1
    await until(lambda: _gone(fleet))


async def _gone(fleet: Fleet) -> bool:
    return fleet.waiting() == []


async def test_a_question_is_answered_anywhere_and_by_another_worker(fleet: Fleet) -> None:
    desk = await fleet.desk()
    first = await fleet.worker(Held().engine(call("ask_user", question="Which port?")))
    session = await desk.start("Set the port")
    paused = await status(desk, session.id, "awaiting_input")
    await first.__aexit__(None, None, None)
    assert [question.text for question in paused.questions] == ["Which port?"]
    answered = await desk.answer(session.id, "8080")
    assert answered.status == "queued"
    await fleet.worker(Held().engine(FINISH))
    assert (await status(desk, session.id, "completed")).runs == 2


async def test_a_call_is_approved_anywhere_and_runs_in_another_worker_with_the_users_arguments(fleet: Fleet) -> None:
    done: list[str] = []
    delete = deleting(done)

    def engine(*responses: Any) -> Engine:
        return Engine(Scripted(*responses), tools=[delete], presets=[finish_task])

    desk = await fleet.worker(engine(), works=False)
    first = await fleet.worker(engine(call("delete", path="prod", id="d1")))
    session = await desk.start("Tidy up")
    (question,) = (await status(desk, session.id, "awaiting_input")).questions
    await first.__aexit__(None, None, None)
    assert (question.tool, question.arguments, done) == ("delete", {"path": "prod"}, [])
    with pytest.raises(WrongUse, match="valid string"):
        await desk.approve(session.id, "d1", {"path": 7})
    assert (await desk.approve(session.id, "d1", {"path": "old"})).status == "queued"
    await fleet.worker(engine(call("finish_task", summary="Tidy.")))
    await status(desk, session.id, "completed")
    assert done == ["old"]


async def test_a_sub_agents_call_is_approved_at_a_desk_and_runs_in_another_worker(fleet: Fleet) -> None:
    done: list[str] = []
    delete = deleting(done)

    def engine(*, first: bool) -> Engine:
        asks, says = call("delete", id="d", path="a"), call("clerk", id="c", prompt="Delete a.")
        clerk = Engine(Scripted(asks if first else "It is gone."), tools=[delete]).as_tool("clerk", "Deletes files.")
        return Engine(Scripted(says if first else "Tidy."), tools=[clerk])

    desk = await fleet.worker(engine(first=False), works=False)
    worker = await fleet.worker(engine(first=True))
    session = await desk.start("Tidy up")
    (question,) = (await status(desk, session.id, "awaiting_input")).questions
    assert (question.call_id, question.tool, question.arguments) == ("c/d", "delete", {"path": "a"})
    assert question.asker is not None
    child = question.asker.session_id
    await worker.__aexit__(None, None, None)
    with pytest.raises(WrongUse, match="valid string"):
        await desk.approve(session.id, "c/d", {"path": 7})
    assert (await desk.approve(session.id, "c/d", {"path": "b"})).status == "queued"
    assert done == []
    await fleet.worker(engine(first=False))
    ended = await status(desk, session.id, "completed")
    assert (ended.runs, done) == (2, ["b"])
    below = await desk.session(child)
    assert (below.status, below.parent, below.runs) == ("completed", session.id, 2)
    outcome = await desk.outcome(ended.run_id or "", wait=SECONDS)
    assert outcome is not None
    assert outcome.subagents is not None
    assert (outcome.answer, outcome.subagents.runs) == ("Tidy.", 1)


async def test_several_calls_are_answered_together_and_run_in_one_run_of_another_worker(fleet: Fleet) -> None:
    done: list[str] = []
    delete = deleting(done)

    def engine(*responses: Any) -> Engine:
        return Engine(Scripted(*responses), tools=[delete, ask_user], presets=[finish_task])

    calls = [call("delete", path=path, id=path) for path in ("a", "b", "c")]
    desk = await fleet.worker(engine(), works=False)
    first = await fleet.worker(engine([*calls, call("ask_user", question="Which?", id="q")]))
    session = await desk.start("Tidy up")
    assert len((await status(desk, session.id, "awaiting_input")).questions) == 4
    await first.__aexit__(None, None, None)
    wrong = {"a": Approve(), "b": Approve({"path": 7})}
    with pytest.raises(WrongUse, match=r"'b'.*valid string"):
        await desk.answer_all(session.id, wrong)
    with pytest.raises(Conflict, match=r"'x'.*open: a, b, c, q") as caught:
        await desk.answer_all(session.id, {"a": Approve(), "x": Approve()})
    assert caught.value.code == "no_open_question"
    with pytest.raises(WrongUse, match="answer to q is empty"):
        await desk.answer_all(session.id, {"a": Approve(), "q": " "})
    with pytest.raises(WrongUse, match="no answer is given"):
        await desk.answer_all(session.id, {})
    answers = {"a": Approve(), "b": Approve({"path": "other"}), "c": Deny("no"), "q": "this"}
    assert (await desk.answer_all(session.id, answers)).status == "queued"
    with pytest.raises(Conflict):
        await desk.answer_all(session.id, {"a": Approve()})
    await fleet.worker(engine(call("finish_task", summary="Tidy.")))
    assert (await status(desk, session.id, "completed")).runs == 2
    assert done == ["a", "other"]


async def test_a_session_that_runs_or_waits_takes_no_second_run(fleet: Fleet) -> None:
    desk = await fleet.desk()
    session = await desk.start("Look")
    with pytest.raises(Conflict) as caught:
        await desk.start_run(session.id, "And again")
    assert caught.value.code == "busy"
    with pytest.raises(Conflict):
        await desk.delete(session.id)


async def test_a_worker_that_stops_hands_over_what_it_was_doing(fleet: Fleet) -> None:
    desk, held = await fleet.desk(), Held()
    first = await fleet.worker(held.engine(LOOK, FINISH))
    session = await desk.start("Look")
    await called(held)
    await first.__aexit__(None, None, None)
    second = Held()
    second.go.set()
    await fleet.worker(second.engine(FINISH))
    ended = await status(desk, session.id, "completed")
    assert ended.runs == 1
    assert second.called.is_set()  # the reading call that had begun was run again, and the response was not asked for


async def test_a_worker_with_other_tools_sets_a_run_aside_and_one_with_the_right_ones_resumes_it(fleet: Fleet) -> None:
    desk, held = await fleet.desk(), Held()
    first = await fleet.worker(held.engine(LOOK, FINISH))
    session = await desk.start("Look")
    await called(held)
    await first.__aexit__(None, None, None)
    wrong = await fleet.worker(Engine(Scripted(FINISH)))
    aside = await status(desk, session.id, "interrupted")
    assert "look" in (aside.trouble or "")
    await wrong.__aexit__(None, None, None)
    right = Held()
    right.go.set()
    await fleet.worker(right.engine(FINISH))
    again = await desk.resume(session.id)
    assert (again.status, again.trouble) == ("queued", None)
    assert (await status(desk, session.id, "completed")).runs == 1


async def test_an_answer_that_no_worker_can_go_on_from_waits_for_one_that_can(fleet: Fleet) -> None:
    desk = await fleet.desk()
    first = await fleet.worker(Held().engine(call("ask_user", question="Which port?")))
    session = await desk.start("Set the port")
    await status(desk, session.id, "awaiting_input")
    await first.__aexit__(None, None, None)
    wrong = await fleet.worker(Engine(Scripted(FINISH)))
    await desk.answer(session.id, "8080")
    aside = await status(desk, session.id, "interrupted")
    assert "look" in (aside.trouble or "")
    await wrong.__aexit__(None, None, None)
    model = Scripted(FINISH)
    await fleet.worker(Engine(model, tools=[Held().tool], presets=[finish_task, ask_user]))
    await desk.resume(session.id)
    assert (await status(desk, session.id, "completed")).runs == 2
    assert "8080" in str(model.requests[0].messages[-1])


async def test_a_service_without_the_queue_leaves_what_the_dead_have_left_to_those_with_it(fleet: Fleet) -> None:
    desk, alone = await fleet.desk(lease=60.0), await fleet.worker(Engine(Scripted()), queue=None)
    store = store_at(fleet.url)  # a process that takes the run, and dies
    session = await desk.start("Set the port")
    await store.open()
    await store.join(process("dead"))
    await store.claim(session.id, session.run_id or "")
    await store.commit(beginning(2, run=session.run_id or "", of=session.id))
    await store.join(process("dead", lease=0))  # only now: the other one looks for the dead all the time
    alone.check_peers()
    given_up = await until(lambda: _is_gone(store, "dead"))
    assert given_up
    assert (await desk.session(session.id)).status == "running"
    desk.check_peers()
    await status(desk, session.id, "queued")
    await store.close()


async def _is_gone(store: Store, id: str) -> bool:
    return id not in [known.id for known in await store.processes()]
