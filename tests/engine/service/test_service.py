"""Sessions that live longer than a request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Extend, read_record
from endstop.decision import Limits, Policy, WrongUse
from endstop.providers import Scripted, call, say
from endstop.replay import replay
from endstop.service import event_buffer, supervisor
from endstop.service.errors import Conflict, Refusal, ServiceUnavailable, TooMany, Unknown
from endstop.service.service import Service
from endstop.store.base import EventBatch, StoredSession, StoreError
from endstop.testing import MemorySteps

from ..held import Held, seqs, to_end
from ..temporary_store import TemporaryStore, opened
from .kept_jobs import Queue

FINISH = call("finish_task", summary="The port is 8080.")


def service_of(
    *responses: Any, held: Held | None = None, store: TemporaryStore | None = None, **options: Any
) -> Service:
    engine = (held or Held()).engine(*responses)
    return Service(engine, store=store or TemporaryStore(), **{"grace": 0, **options})


async def ended(service: Service, run_id: str | None) -> Any:
    assert run_id is not None
    return await service.outcome(run_id, wait=10)


async def refused(work: Any) -> tuple[type, str]:
    with pytest.raises(Refusal) as caught:
        await work
    return caught.type, caught.value.code


async def test_a_session_runs_on_its_own_and_its_outcome_and_record_are_kept(tmp_path: Path) -> None:
    async with service_of(FINISH) as service:
        session = await service.start("Set the port\nto 8080", owner="ann")
        assert (session.owner, session.agent, session.title, session.runs) == (
            "ann",
            "default",
            "Set the port to 8080",
            1,
        )
        assert (await ended(service, session.run_id)).answer == "The port is 8080."
        session = await service.session(session.id)
        assert (session.status, session.stop_reason, session.steps) == ("completed", "completed", 1)
        record = tmp_path / "r.jsonl"
        record.write_bytes(b"".join([piece async for piece in service.record(session)]))
    assert read_record(record).header.session_id == session.id
    assert (await replay(record)).same


async def test_the_next_run_knows_what_was_said_before() -> None:
    engine = Engine(model := Scripted("Hello Ann.", "You are Ann."))
    async with Service(engine, store=TemporaryStore(), grace=0) as service:
        session = await service.start("I am Ann")
        await ended(service, session.run_id)
        again = await service.start_run(session.id, "Who am I?")
        assert (await ended(service, again.run_id)).answer == "You are Ann."
        assert [run.prompt for run in await service.runs(session.id)] == ["I am Ann", "Who am I?"]
    assert [type(m).__name__ for m in model.requests[1].messages[1:]] == [
        "UserMessage",
        "AssistantMessage",
        "UserMessage",
    ]


async def test_one_run_at_a_time_and_cancel_ends_it_once() -> None:
    held = Held()
    async with service_of(call("look", path="a"), held=held) as service:
        session = await service.start("Look")
        assert session.status == "running"
        assert await refused(service.start_run(session.id, "more")) == (Conflict, "busy")
        assert await refused(service.delete(session.id)) == (Conflict, "running")
        assert await refused(service.resume(session.id)) == (Conflict, "not_interrupted")
        await held.called.wait()
        await service.cancel(session.id, "enough")
        await service.cancel(session.id, "really")
        outcome = await ended(service, session.run_id)
        assert (outcome.status, outcome.detail) == ("cancelled", "cancelled from outside: enough")
        assert (await service.cancel(session.id)).status == "cancelled"
        await service.delete(session.id)
        assert await refused(service.session(session.id)) == (Unknown, "session")


async def test_a_question_is_answered_once() -> None:
    held = Held()
    async with service_of(
        call("ask_user", id="q1", question="Which port?"), call("look", path="a"), FINISH, held=held
    ) as service:
        session = await service.start("Set the port")
        await ended(service, session.run_id)
        session = await service.session(session.id)
        assert session.status == "awaiting_input"
        assert [(question.call_id, question.text) for question in session.questions] == [("q1", "Which port?")]
        assert await refused(service.answer(session.id, "8080", call_id="q9")) == (Conflict, "no_open_question")
        results = await asyncio.gather(
            service.answer(session.id, "8080"), service.answer(session.id, "80"), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in results) == ["Conflict", "StoredSession"]
        assert await refused(service.answer(session.id, "80", call_id="q1")) == (Conflict, "answered")
        held.go.set()
        session = await service.session(session.id)
        assert session.questions == ()
        assert (await ended(service, session.run_id)).status == "completed"
        assert await refused(service.answer(session.id, "80", call_id="q1")) == (Conflict, "answered")
        assert await refused(service.answer(session.id, "80")) == (Conflict, "no_open_question")


async def test_steps_are_granted_to_a_run_that_a_worker_takes_from_a_queue() -> None:
    queue = Queue()
    policy = Policy(limits=Limits(steps=1, extend=Extend(by=2, when="ask")), closing=False, text="nudge")
    engine = Engine(Scripted("Hm.", "So.", "Well.", FINISH), policy=policy)
    async with Service(engine, store=TemporaryStore(), queue=queue, grace=0) as service:
        session = await service.start("Set the port")
        await queue.work(queue.jobs[0], MemorySteps())
        (question,) = (await service.session(session.id)).questions
        assert (question.call_id, question.extends) == ("limits.steps.1", 2)
        await service.answer(session.id, "7")
        await queue.work(queue.jobs[1], MemorySteps())
        outcome = await ended(service, queue.jobs[1].run_id)
    assert (outcome.status, outcome.steps, outcome.limits["steps"].allowed) == ("completed", 4, 8)


async def test_a_message_is_heard_by_the_run_or_by_one_that_begins_by_itself() -> None:
    held = Held()
    engine = held.engine(call("look", path="a"), FINISH, "The host is set, too.")
    store = TemporaryStore()
    async with Service(engine, store=store, grace=0) as service:
        session = await service.start("Set the port")
        await held.called.wait()
        await service.send_message(session.id, "to 8080")
        assert [message.text for message in await store.undelivered_messages(session.id)] == ["to 8080"]
        gate = anyio.Event()
        engine.config.provider._responses = iter([[say("Hm"), gate, FINISH], "The host is set, too."])  # type: ignore[attr-defined]
        held.go.set()
        async for portion in service.follow_run(await service.run(session.run_id or "")):
            if any(b'"TEXT_MESSAGE_CONTENT"' in frame.line for frame in portion):  # type: ignore[union-attr]
                assert await store.undelivered_messages(session.id) == [] or not gate.is_set()
                await service.send_message(session.id, "and the host")
                gate.set()
        second = (await service.runs(session.id))[-1]
        if second.number == 1:
            portions = service.follow_session(session.id)
            async for portion in portions:
                if any(frame.run_id != session.run_id for frame in portion):
                    break
            await portions.aclose()  # type: ignore[attr-defined]
            second = (await service.runs(session.id))[-1]
        assert (second.number, second.prompt) == (2, "and the host")
        assert (await ended(service, second.id)).answer == "The host is set, too."
        assert await store.undelivered_messages(session.id) == []
        assert await refused(service.send_message(session.id, "more")) == (Conflict, "not_running")


async def test_sessions_belong_to_their_owner() -> None:
    async with service_of(FINISH, FINISH) as service:
        session = await service.start("Hi", owner="ann")
        await ended(service, session.run_id)
        for work in (
            service.session(session.id, owner="bob"),
            service.run(session.run_id or "", owner="bob"),
            service.runs(session.id, owner="bob"),
            service.outcome(session.run_id or "", owner="bob"),
            service.start_run(session.id, "x", owner="bob"),
            service.answer(session.id, "x", owner="bob"),
            service.send_message(session.id, "x", owner="bob"),
            service.cancel(session.id, owner="bob"),
            service.resume(session.id, owner="bob"),
            service.delete(session.id, owner="bob"),
            service.session("session_nobodys"),
            service.run("run_nobodys"),
        ):
            kind, _ = await refused(work)
            assert kind is Unknown
        assert await service.sessions(owner="bob") == ([], None)
        assert len((await service.sessions(owner="ann"))[0]) == 1


async def test_a_session_may_be_named_once() -> None:
    async with service_of(FINISH, FINISH) as service:
        session = await service.start("Hi", session_id="thread-1")
        assert session.id == "thread-1"
        await ended(service, session.run_id)
        assert await refused(service.start("Hi", session_id="thread-1", owner="bob")) == (Conflict, "exists")
        for wrong in ("", "a/b", "x" * 101, "a\nb", "é"):
            with pytest.raises(WrongUse, match="cannot name a session"):
                await service.start("Hi", session_id=wrong)


async def test_limits_on_what_runs_at_once() -> None:
    held = Held()
    async with service_of(*[call("look", path="a")] * 3, held=held, max_running=2, max_running_each=1) as service:
        await service.start("a", owner="ann")
        assert await refused(service.start("b", owner="ann")) == (TooMany, "sessions")
        await service.start("c", owner="bob")
        assert await refused(service.start("d", owner="eve")) == (TooMany, "sessions")


async def test_wrong_use_begins_nothing() -> None:
    async with service_of(FINISH) as service:
        for prompt in ("", " \n"):
            with pytest.raises(WrongUse, match="prompt is empty"):
                await service.start(prompt)
        assert await refused(service.start("x", agent="nobody")) == (Unknown, "agent")
        assert await service.sessions() == ([], None)
    async with Service({}, store=TemporaryStore()) as service:
        assert await refused(service.start("x")) == (ServiceUnavailable, "no_model")
    with pytest.raises(WrongUse, match="not open"):
        await service_of(FINISH).start("x")


async def test_stopping_gives_running_sessions_their_grace_then_cancels_them_with_whole_records() -> None:
    held, store = Held(), TemporaryStore()
    async with service_of(call("look", path="a"), held=held, store=store) as service:
        session = await service.start("Look")
        await held.called.wait()
        reader = asyncio.create_task(to_end(service.follow_session(session.id)))
        await asyncio.sleep(0)
        service.begin_stopping()
        assert await refused(service.start("more")) == (ServiceUnavailable, "stopping")
        portions = await reader
    async with opened(store):
        run = await store.run(session.run_id or "")
    assert run is not None
    assert run.outcome is not None
    assert (run.status, run.outcome.detail) == ("cancelled", "cancelled from outside: shutdown")
    assert seqs(portions) == list(range(1, run.last_seq + 1))


async def test_within_the_grace_a_run_ends_by_itself() -> None:
    held, store = Held(), TemporaryStore()
    async with service_of(call("look", path="a"), FINISH, held=held, store=store, grace=30) as service:
        session = await service.start("Look")
        await held.called.wait()
        service.begin_stopping()
        held.go.set()
    async with opened(store):
        run = await store.run(session.run_id or "")
    assert run is not None
    assert run.status == "completed"


async def test_after_a_crash_finished_sessions_are_there_and_interrupted_ones_can_be_resumed() -> None:
    held, store = Held(), TemporaryStore()
    service = service_of(FINISH, call("look", path="a"), held=held, store=store)
    await service.__aenter__()
    done = await service.start("one")
    await ended(service, done.run_id)
    cut = await service.start("two")
    await held.called.wait()
    # The process dies here: what it would still do reaches no store any more.
    snapshot = store.copy()
    snapshot.execute("DELETE FROM endstop_processes")  # this process lives on, to run this test
    await service.__aexit__(None, None, None)

    held.go.set()
    async with service_of("It is 80.", held=held, store=snapshot) as again:
        assert (await again.session(done.id)).status == "completed"
        assert (await again.session(cut.id)).status == "interrupted"
        assert await refused(again.start_run(cut.id, "go on")) == (Conflict, "interrupted")
        reader = asyncio.create_task(to_end(again.follow_run(await again.run(cut.run_id or ""))))
        resumed = await again.resume(cut.id)
        assert resumed.run_id == cut.run_id
        assert (await ended(again, cut.run_id)).answer == "It is 80."
        portions = await reader
        run = await again.run(cut.run_id or "")
        assert seqs(portions) == list(range(1, run.last_seq + 1))
        assert await refused(again.resume(cut.id)) == (Conflict, "not_interrupted")


class FullStore(TemporaryStore):
    """A store whose disk is full for a while."""

    full = False
    refused = 0

    async def commit(self, batch: EventBatch) -> int:
        if self.full:
            self.refused += 1
            raise StoreError("no space left")
        return await super().commit(batch)


async def waiting_for_room(service: Service, held: Held, store: FullStore) -> StoredSession:
    """A session whose run has been refused by a full disk, and tries again."""
    session = await service.start("Look")
    await held.called.wait()
    store.full = True
    held.go.set()
    async with asyncio.timeout(30):
        while not store.refused:
            await asyncio.sleep(0)
    return session


async def test_a_run_waits_while_the_disk_is_full_and_goes_on_once_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_buffer, "RETRY_SECONDS", 0.001)
    held, store = Held(), FullStore()
    async with service_of(call("look", path="a"), FINISH, held=held, store=store) as service:
        session = await waiting_for_room(service, held, store)
        with pytest.raises(StoreError):
            await service.start("another one")
        async with asyncio.timeout(30):
            while store.refused < 10:
                await asyncio.sleep(0)
        assert (await service.session(session.id)).status == "running"
        store.full = False
        assert (await ended(service, session.run_id)).status == "completed"
        assert len((await service.sessions())[0]) == 1


async def test_a_service_that_stops_while_a_run_waits_for_room_leaves_it_to_be_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_buffer, "RETRY_SECONDS", 0.001)
    monkeypatch.setattr(supervisor, "CLEANUP_SECONDS", 0.05)
    held, store = Held(), FullStore()
    async with service_of(call("look", path="a"), FINISH, held=held, store=store) as service:
        session = await waiting_for_room(service, held, store)
        async with asyncio.timeout(30):
            await service.__aexit__()
        store.full = False
    async with service_of(FINISH, held=held, store=store) as again:
        assert (await again.session(session.id)).status == "interrupted"
        await again.resume(session.id)
        assert (await ended(again, session.run_id)).status == "completed"


async def test_a_run_that_waits_for_room_can_be_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_buffer, "RETRY_SECONDS", 3600)
    held, store = Held(), FullStore()
    async with service_of(call("look", path="a"), FINISH, held=held, store=store) as service:
        session = await waiting_for_room(service, held, store)
        await service.cancel(session.id, "enough")
        store.full = False
        assert (await ended(service, session.run_id)).status == "cancelled"
