"""An owner's data goes from store, queue and archive, whatever its sessions do, and nobody else's does."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from endstop import Engine
from endstop.decision import Question
from endstop.durable.dbos import Dbos
from endstop.objects.object_store import ObjectStore, ObjectStoreError, every_object
from endstop.objects.object_url import object_store_at
from endstop.providers import Scripted, call
from endstop.service import Receiving, Service
from endstop.service.erasure import AT_ONCE, Erasure, OwnedData
from endstop.service.session_archive import README, archive_key
from endstop.store.base import NewSession, SessionFilter, Store, StoredSession
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from endstop.testing import FakeClock
from sqlalchemy import event

from ...seaweedfs import Server
from ..durable.dbos_runs import rows
from ..held import Held
from ..store.made import beginning, ended, ending, message, session
from ..store.others import process, waiting
from ..temporary_store import TemporaryStore
from .kept_jobs import Queue
from .test_span_receiver import spans_of

OWNERS = ("a", "A", "a/b", "a~x", "a_b", "a%", "", "ä", "a\u0308", "a" * 101, "a" * 102, "a/../b", "'; --")
"""Names that a careless deletion would take for one another."""


class Looks(FakeClock):
    """A clock on which a wait takes no time but for what others do meanwhile."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__()
        self._store = store

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        for _ in range(20):
            await self._store.runs("nobody")


@asynccontextmanager
async def opened(place: str) -> AsyncIterator[SqlStore]:
    """A store at this place, open."""
    store = store_at(place)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def sessions_of(store: Store, owner: str) -> set[str]:
    return {one.id for one in (await store.sessions(SessionFilter(owner=owner, limit=1000)))[0]}


async def in_all_statuses(store: Store, owner: str, name: str) -> set[str]:
    """Sessions of an owner that no process works on: of each status, with a message, with sub-agents."""
    await store.join(process(f"dead-{name}"))
    await ended(store, f"{name}-ended", owner=owner)
    for status in ("awaiting_input", "interrupted", "running"):
        id, run = f"{name}-{status}", f"run_{name}_{status}"
        await store.add(session(id, owner=owner))
        await store.commit(beginning(2, run=run, of=id))
        await store.add_message(message(f"message-{id}", of=id))
        await store.add(session(f"{id}-below", owner=owner, parent=id))
        await store.add(session(f"{id}-further-below", owner=owner, parent=f"{id}-below"))
        if status == "awaiting_input":
            asked = (Question("call_1", "Which port?"),)
            outcome = {"status": status, "stop_reason": status, "questions": asked}
            await store.commit(ending(3, 3, run=run, of=id, outcome=outcome, questions=asked))
        elif status == "interrupted":
            await store.mark_interrupted(id, "its provider was away")
    await store.queue(waiting(f"run_{name}_queued", of=f"{name}-queued", new=session(f"{name}-queued", owner=owner)))
    await store.leave(f"dead-{name}")
    await store.join(process("alive"))
    statuses = ("ended", "awaiting_input", "interrupted", "running", "queued")
    return {f"{name}-{status}" for status in statuses}


def count(store: SqlStore, table: str) -> int:
    with store._database.read_engine.connect() as connection:
        found: int = connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()
        return found


async def test_sessions_of_every_status_go_with_all_that_belongs_to_them_and_those_of_others_stay(place: str) -> None:
    async with opened(place) as store, opened(place) as ours:
        made = {owner: await in_all_statuses(store, owner, f"s{number}") for number, owner in enumerate(OWNERS)}
        tables = ("endstop_sessions", "endstop_runs", "endstop_pages", "endstop_messages")
        each = {table: count(store, table) // len(OWNERS) for table in tables}
        assert all(each.values())
        for number, owner in enumerate(OWNERS, 1):
            erasure = Erasure(ours, owner)
            found = await erasure.look()
            assert (found.session_count, found.runs) == (5, 5), owner
            assert await erasure.run(0) == []
            assert (erasure.erased.sessions, erasure.erased.runs) == (5, 5)
            assert await sessions_of(store, owner) == set(), owner
            for other in OWNERS[number:]:
                assert await sessions_of(store, other) == made[other], f"{owner!r} took {other!r} along"
            left = len(OWNERS) - number
            assert {table: count(store, table) for table in tables} == {t: left * n for t, n in each.items()}
            assert await erasure.look() == OwnedData(sessions={}, runs=0, records=0)


async def test_what_runs_is_cancelled_by_its_process_and_then_goes(place: str) -> None:
    held = Held()
    engine = held.engine(*[call("look", path="a")] * 2)
    async with asyncio.timeout(60), Service(engine, store=place, grace=0) as service, opened(place) as ours:
        running = await service.start("Look", owner="alice")
        other = await service.start("Look", owner="bob")
        while (await service.session(other.id)).status != "running" or not held.called.is_set():
            await ours.runs("nobody")
        assert await Erasure(ours, "alice", clock=Looks(ours)).run(1e9) == []
        assert await sessions_of(ours, "alice") == set()
        assert (await service.session(other.id)).status == "running"
        assert await service.store.run(running.run_id or "") is None


async def test_what_does_not_end_in_time_is_left_named_and_goes_with_the_next_erasure(place: str) -> None:
    async with opened(place) as worker, opened(place) as ours:
        await worker.join(process("worker"))
        for id in ("stubborn", "claimed"):
            await worker.queue(waiting(f"run_{id}", of=id, new=session(id, owner="alice")))
            await worker.claim(id, f"run_{id}")
        await worker.commit(beginning(2, run="run_stubborn", of="stubborn"))
        await ended(worker, "over", owner="alice")
        clock, queue = Looks(ours), Queue()
        erasure = Erasure(ours, "alice", queue=queue, clock=clock)
        left = await erasure.run(3)
        assert {(one.id, one.status, one.holder) for one in left} == {
            ("stubborn", "running", "worker"),
            ("claimed", "queued", "worker"),
        }
        assert (erasure.erased.sessions, clock.now(), queue.dropped) == (1, 3, ["run_of_over"])
        for id in ("stubborn", "claimed"):
            run = await worker.run(f"run_{id}")
            assert run is not None
            assert run.cancel == "erased"
        await worker.commit(ending(3, 3, run="run_stubborn", of="stubborn"))
        await worker.evict("worker", even_alive=True)
        assert await Erasure(ours, "alice").run(0) == []
        assert count(ours, "endstop_sessions") == 0


async def test_a_session_that_another_process_begins_meanwhile_is_not_torn_from_it(place: str) -> None:
    async with opened(place) as worker, opened(place) as ours:
        await worker.join(process("worker"))
        await worker.queue(waiting(new=session(owner="alice")))
        sessions = ours.sessions

        async def sessions_and_a_claim(*given: SessionFilter) -> tuple[list[StoredSession], str | None]:
            found = await sessions(*given)
            await worker.claim("session_1", "run_1")
            return found

        ours.sessions = sessions_and_a_claim  # type: ignore[method-assign]
        (left,) = await Erasure(ours, "alice").run(0)
        assert (left.id, left.holder) == ("session_1", "worker")
        await worker.commit(beginning(2))
        assert (await worker.session("session_1")) is not None


async def test_received_spans_go_once_no_more_come() -> None:
    clock, store = FakeClock(), TemporaryStore()
    async with Service({}, store=store, receiving=Receiving(clock=clock)) as service, opened(str(store.path)) as ours:
        assert service.receiver is not None
        for owner in ("alice", "bob"):
            await service.receiver.receive(owner, spans_of("times")[:2])
        (left,) = await Erasure(ours, "alice").run(0)
        assert left.agent.startswith("otlp:")
        run = await store.run(left.run_id or "")
        assert run is not None
        assert run.cancel is None
        await clock.advance(1000)
        await service.receiver.sweep()
        assert await Erasure(ours, "alice").run(0) == []
        assert await sessions_of(store, "alice") == set()
        assert len(await sessions_of(store, "bob")) == 1


async def test_many_sessions_go_in_transactions_of_a_bounded_size() -> None:
    store = TemporaryStore()
    await store.open()
    for number in range(3 * AT_ONCE - 10):
        await store.queue(waiting(f"run_{number}", of=f"s_{number:03}", new=session(f"s_{number:03}", owner="alice")))
    sizes = [count(store, "endstop_sessions")]
    event.listen(store._database.write_engine, "commit", lambda _: sizes.append(count(store, "endstop_sessions")))
    told: list[int] = []
    assert await Erasure(store, "alice", on_erased=told.append).run(0) == []
    assert (sizes[0], count(store, "endstop_sessions"), told) == (140, 0, [50, 100, 140])
    assert max(before - after for before, after in itertools.pairwise(sizes)) == AT_ONCE
    await store.close()


# ---- the queue


class Failing(Dbos):
    """A queue that is away from its second deletion on."""

    drops = 0

    async def drop(self, *run_ids: str) -> None:
        self.drops += 1
        if self.drops > 1:
            raise ConnectionError("the queue is away")
        await super().drop(*run_ids)


def kept(path: Path) -> set[str]:
    return {row[0] for row in rows(path, "SELECT workflow_uuid FROM workflow_status")}


async def test_what_the_queue_keeps_goes_first_so_that_an_erasure_that_broke_off_goes_on(tmp_path: Path) -> None:
    path, store = tmp_path / "queue.db", TemporaryStore()
    async with Service(Engine(Scripted()), store=store, queue=Dbos(path), works=False) as service:
        alices = [await service.start(f"Look {number}", owner="alice") for number in range(AT_ONCE + 20)]
        bob = await service.start("Look", owner="bob")
    assert kept(path) == {one.run_id for one in (*alices, bob)}

    await store.open()
    queue = Failing(path)
    await queue.open()
    erasure = Erasure(store, "alice", queue=queue)
    with pytest.raises(ConnectionError):
        await erasure.run(0)
    await queue.close()
    assert erasure.erased.sessions == AT_ONCE
    left = {one.run_id for one in (await store.sessions(SessionFilter(owner="alice", limit=99)))[0]}
    assert len(left) == 20
    assert kept(path) == {*left, bob.run_id}

    queue = Dbos(path)
    await queue.open()
    assert await Erasure(store, "alice", queue=queue).run(0) == []
    await queue.close()
    assert (kept(path), await sessions_of(store, "bob")) == ({bob.run_id}, {bob.id})
    await store.close()


# ---- the archive


@pytest.fixture(params=["folder", "s3"])
def archive(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An empty archive of either kind."""
    if request.param == "folder":
        return object_store_at(tmp_path / "archive")
    server: Server = request.getfixturevalue("s3_server")
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    return object_store_at(server.new_place())


def keys_of(owner: str) -> set[str]:
    """The keys of a session of an owner and of its sub-agent."""
    new = NewSession(id="session_1", owner=owner, agent="a", title="", created_at="2026-11-30T23:59:00.000+00:00")
    fields = {name: getattr(new, name) for name in ("id", "owner", "agent", "title", "created_at")}
    stored = StoredSession(**fields, status="completed", stop_reason=None, updated_at="", run_id=None, runs=1, steps=1)
    key = archive_key(stored)
    return {key, key.replace(".jsonl.zst", ".subagents/clerk-2.jsonl.zst")}


async def test_the_records_of_an_owner_go_and_those_of_names_alike_stay(archive: ObjectStore) -> None:
    everybody = {README: {README}, **{owner: keys_of(owner) for owner in OWNERS}}
    for keys in everybody.values():
        for key in keys:
            await archive.put(key, b"a record")
    store = TemporaryStore()
    await store.open()
    for owner in OWNERS:
        erasure = Erasure(store, owner, archive=archive)
        assert await erasure.look() == OwnedData(sessions={}, runs=0, records=2)
        assert await erasure.run(0) == []
        assert erasure.erased.records == 2
        del everybody[owner]
        assert {one.key async for one in every_object(archive)} == set().union(*everybody.values()), owner
    await store.close()


async def test_an_archive_that_fails_is_raised_and_the_next_erasure_goes_on(tmp_path: Path) -> None:
    archive, store = object_store_at(tmp_path / "archive"), TemporaryStore()
    for key in keys_of("alice"):
        await archive.put(key, b"a record")
    await store.open()
    await ended(store, "over", owner="alice")
    delete = archive.delete

    async def away(key: str) -> None:
        raise ObjectStoreError("the bucket is away")

    archive.delete = away  # type: ignore[method-assign]
    erasure = Erasure(store, "alice", archive=archive)
    with pytest.raises(ObjectStoreError, match="the bucket is away"):
        await erasure.run(0)
    assert (erasure.erased.sessions, erasure.erased.records) == (1, 0)
    archive.delete = delete  # type: ignore[method-assign]
    assert (await erasure.look()).records == 2
    assert await erasure.run(0) == []
    assert (await erasure.look()).records == 0
    await store.close()
