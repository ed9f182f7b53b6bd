"""What happens at the same moment: beginnings, ends, callers that leave, and a store that fails in between."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from endstop import Engine, RecordOptions
from endstop.providers import Scripted, call
from endstop.records.event_redaction import REDACTION_FAILED
from endstop.service import supervisor
from endstop.service.errors import Refusal
from endstop.service.service import Service
from endstop.store.base import NewSession, StoreError
from endstop.tools import finish_task

from ..held import Held, seqs, to_end
from ..temporary_store import TemporaryStore, opened
from .stage import Stage

FINISH = call("finish_task", summary="The port is 8080.")


def engine_of(*responses: Any, **options: Any) -> Engine:
    return Engine(Scripted(*responses), presets=[finish_task], **options)


async def left(task: asyncio.Task[Any]) -> None:
    """Whoever waits for this leaves."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def refused(work: Any) -> str:
    with pytest.raises(Refusal) as caught:
        await work
    return caught.value.code


async def rests(service: Service) -> None:
    async with asyncio.timeout(60):
        while service.running:
            await asyncio.sleep(0)


@pytest.mark.parametrize("method", ["add", "commit", "undelivered_messages"])
async def test_a_caller_that_leaves_while_a_session_begins_leaves_no_session_without_a_run(method: str) -> None:
    store = Stage()
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        came, go = store.hold(method)
        asking = asyncio.create_task(service.start("Hi", session_id="s"))
        await came.wait()
        await left(asking)
        go.set()
        await rests(service)
        stored = await service.session("s")
        assert (stored.status, stored.runs) == ("completed", 1)


async def test_a_beginning_that_fails_after_its_caller_left_gives_the_place_free_and_leaves_nothing() -> None:
    store = Stage()
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        came, go = store.hold("commit")
        store.fail("commit", 1)
        asking = asyncio.create_task(service.start("Hi", session_id="s"))
        await came.wait()
        await left(asking)
        go.set()
        await rests(service)
        assert await refused(service.session("s")) == "session"


async def test_a_next_run_that_fails_to_begin_leaves_the_session_as_it_was_and_free() -> None:
    store = Stage()
    async with Service(engine_of(FINISH, FINISH), store=store, grace=0) as service:
        session = await service.start("Hi")
        await service.outcome(session.run_id or "", wait=10)
        came, go = store.hold("commit")
        store.fail("commit", 1)
        asking = asyncio.create_task(service.start_run(session.id, "more"))
        await came.wait()
        await left(asking)
        go.set()
        await rests(service)
        assert (await service.session(session.id)).status == "completed"
        again = await service.start_run(session.id, "more")
        assert (await service.outcome(again.run_id or "", wait=10)) is not None


async def test_a_session_that_never_began_is_forgotten_once_the_store_can(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "FIRST_RETRY", 0.0)
    monkeypatch.setattr(supervisor, "LONGEST_RETRY", 0.0)
    store = Stage()
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        store.fail("commit", 1)
        store.fail("delete", 1, 2, 3)
        with pytest.raises(StoreError):
            await service.start("Hi", session_id="s")
        await rests(service)
        assert await service.sessions() == ([], None)


async def test_a_session_that_was_cut_off_before_its_first_run_can_be_begun_again() -> None:
    store = TemporaryStore()
    new = NewSession(id="s", owner="", agent="default", title="Hi", created_at="2026-11-21T05:00:00.000Z")
    async with opened(store):
        await store.add(new)
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        session = await service.start("Hi", session_id="s")
        assert (await service.outcome(session.run_id or "", wait=10)) is not None


async def test_a_session_whose_run_ends_while_it_is_read_is_at_rest_with_its_question() -> None:
    held, store = Held(), Stage()
    script = call("look", path="a"), call("ask_user", question="Which port?")
    async with Service(held.engine(*script), store=store, grace=0) as service:
        session = await service.start("Look")
        await held.called.wait()
        came, go = store.hold("session_read")
        reading = asyncio.create_task(service.session_at_rest(session.id))
        await came.wait()
        held.go.set()
        await rests(service)
        go.set()
        stored = await reading
        assert (stored.status, [question.text for question in stored.questions]) == ("awaiting_input", ["Which port?"])


async def test_a_message_to_a_run_that_ends_while_its_session_is_read_is_refused_and_not_kept() -> None:
    held, store = Held(), Stage()
    async with Service(held.engine(call("look", path="a"), FINISH), store=store, grace=0) as service:
        session = await service.start("Look")
        await held.called.wait()
        came, go = store.hold("session_read")
        saying = asyncio.create_task(service.send_message(session.id, "too late"))
        await came.wait()
        held.go.set()
        await rests(service)
        go.set()
        assert await refused(saying) == "not_running"
        assert await store.undelivered_messages(session.id) == []


async def test_no_run_begins_by_itself_once_the_service_stops() -> None:
    held, store = Held(), Stage()
    async with Service(held.engine(call("look", path="a"), FINISH, FINISH), store=store, grace=10) as service:
        session = await service.start("Look")
        await held.called.wait()
        came, go = store.hold("undelivered_messages")
        holding, say = store.hold("add_message")
        saying = asyncio.create_task(service.send_message(session.id, "too late"))
        await holding.wait()
        held.go.set()
        await came.wait()  # the run is over, and looks whether somebody said something: it finds the message
        service.begin_stopping()
        say.set()
        await saying
        go.set()
    async with opened(store):
        assert [run.number for run in await store.runs(session.id)] == [1]
        assert [message.text for message in await store.undelivered_messages(session.id)] == ["too late"]


async def test_a_session_that_begins_as_the_service_stops_is_waited_for() -> None:
    store = Stage()
    async with Service(engine_of(FINISH), store=store, grace=30) as service:
        came, go = store.hold("add")
        asking = asyncio.create_task(service.start("Hi", session_id="s"))
        await came.wait()
        service.begin_stopping()
        asyncio.get_running_loop().call_soon(go.set)
    async with opened(store):
        stored = await store.session("s")
    assert stored is not None
    assert stored.status == "completed"
    assert (await asking).id == "s"


async def test_who_has_read_the_end_of_a_run_may_go_on_and_delete_at_once() -> None:
    store = Stage()
    async with Service(engine_of(FINISH, FINISH), store=store, grace=0) as service:
        came, go = store.hold("undelivered_messages", 2)  # a run asks as it begins and as it ends
        session = await service.start("Hi")
        for again in (lambda: service.start_run(session.id, "more"), lambda: service.delete(session.id)):
            run = (await service.runs(session.id))[-1]
            await to_end(service.follow_run(run))
            await came.wait()
            of_the_next_run = store.hold("undelivered_messages", 2)
            work = asyncio.create_task(again())  # type: ignore[arg-type]
            await asyncio.wait({work, asyncio.create_task(store.settle())}, return_when="FIRST_COMPLETED")
            go.set()
            await work
            came, go = of_the_next_run
        assert await refused(service.session(session.id)) == "session"


async def test_an_answer_that_comes_second_is_told_so_even_if_the_first_ones_run_is_over_by_then() -> None:
    store, held = Stage(), Held()
    engine = held.engine(call("ask_user", id="q1", question="Which port?"), FINISH)
    async with Service(engine, store=store, grace=0) as service:
        session = await service.start("Set the port")
        await service.outcome(session.run_id or "", wait=10)
        came, go = store.hold("session", 2)
        second = asyncio.create_task(service.answer(session.id, "80"))
        await came.wait()
        first = await service.answer(session.id, "8080")
        await service.outcome(first.run_id or "", wait=10)
        go.set()
        assert await refused(second) == "answered"


async def test_a_reader_that_comes_before_the_first_run_has_begun_gets_all_of_it() -> None:
    store = Stage()
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        came, go = store.hold("commit")
        asking = asyncio.create_task(service.start("Hi", session_id="s"))
        await came.wait()
        reader = asyncio.create_task(to_end(service.follow_session("s")))
        await asyncio.wait({reader, asyncio.create_task(store.settle())}, return_when="FIRST_COMPLETED")
        go.set()
        session = await asking
        await service.outcome(session.run_id or "", wait=10)
        service.begin_stopping()
        assert seqs(await reader) == list(range(1, (await service.run(session.run_id or "")).last_seq + 1))


async def test_a_session_is_read_on_behind_a_run_that_has_no_end() -> None:
    store = Stage()
    async with Service(engine_of(FINISH, FINISH), store=store, grace=0) as service:
        session = await service.start("Hi")
        await service.outcome(session.run_id or "", wait=10)
        store.fail("committed", 1)  # the connection broke in the commit: it is there, and nobody knows
        with pytest.raises(StoreError):
            await service.start_run(session.id, "more")
        last = await service.start_run(session.id, "more")
        await service.outcome(last.run_id or "", wait=10)
        read: list[Any] = []
        async with asyncio.timeout(60):
            async for portion in service.follow_session(session.id):
                read += [(frame.run_id, frame.seq) for frame in portion]  # type: ignore[union-attr]
                if portion and portion[-1].run_id == last.run_id:
                    break
        runs = await service.runs(session.id)
        assert [run.status for run in runs] == ["completed", "running", "completed"]
        assert read == [(run.id, seq) for run in runs for seq in range(1, run.last_seq + 1)]


async def test_a_store_that_fails_in_an_unknown_way_keeps_no_place_taken() -> None:
    store = Stage()
    async with Service(engine_of(FINISH, FINISH), store=store, grace=0) as service:
        session = await service.start("Hi")
        await service.outcome(session.run_id or "", wait=10)
        await service.start_run(session.id, "more")
        store.execute("DELETE FROM endstop_sessions WHERE id = ?", session.id)
        store.fail("commit", *range(1, 100), error=KeyError(session.id))  # which is no StoreError
        await rests(service)


async def test_a_title_is_a_line_without_what_a_terminal_would_obey() -> None:
    async with Service(engine_of(FINISH), store=TemporaryStore(), grace=0) as service:
        session = await service.start(" " * 1000 + "\x1b]0;owned\x07Set\x00 the\x9b2J\nport")
        assert session.title == "Set the2J port"


async def test_what_the_store_keeps_besides_events_is_redacted_and_the_model_sees_it_as_it_is() -> None:
    held, store = Held(), Stage()
    model = Scripted(call("look", path="a"), FINISH, FINISH)
    engine = Engine(
        model,
        tools=[held.tool],
        presets=[finish_task],
        record_options=RecordOptions(redact=lambda text: text.replace("hunter2", "***")),
    )
    async with Service(engine, store=store, grace=0) as service:
        session = await service.start("My password is hunter2")
        assert session.title == "My password is ***"
        await held.called.wait()
        await service.send_message(session.id, "hunter2, I said")
        assert [message.text for message in await store.undelivered_messages(session.id)] == ["***, I said"]
        holding, go = store.hold("add_message")
        late = asyncio.create_task(service.send_message(session.id, "hunter2, again"))
        await holding.wait()
        held.go.set()
        await to_end(service.follow_run(await service.run(session.run_id or "")))
        go.set()
        await late
        await rests(service)
        assert [run.prompt for run in await service.runs(session.id)] == ["My password is ***", "***, again"]
    assert "hunter2, I said" in str(model.requests[1].messages)
    assert "hunter2, again" in str(model.requests[2].messages)


async def test_a_redaction_that_fails_keeps_nothing() -> None:
    engine = engine_of(FINISH, record_options=RecordOptions(redact=lambda text: str(1 // 0)))
    async with Service(engine, store=TemporaryStore(), grace=0) as service:
        assert (await service.start("hunter2")).title == REDACTION_FAILED
        await rests(service)


async def test_keeping_sessions_for_longer_than_there_is_time_keeps_the_other_limit() -> None:
    store = TemporaryStore()
    async with Service(engine_of(FINISH), store=store, grace=0) as service:
        session = await service.start("Hi")
        await service.outcome(session.run_id or "", wait=10)
    async with Service(engine_of(), store=store, grace=0, keep_days=1e9, keep_sessions=0) as service:
        async with asyncio.timeout(60):
            while await service.sessions() != ([], None):
                await store.settle()
