"""Processes join, heartbeat and leave; one that was given up writes nothing more."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack

import pytest
from endstop.durable import RunLost
from endstop.store import leases
from endstop.store.base import LeaseLost, SessionLocked, Store, StoreError
from endstop.store.leases import this_process
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import Connection

from ...postgres import Server
from .made import all_pages, batch, beginning, ended, ending, message, seqs, session
from .others import SECONDS, evict_and_interrupt, latest, process, refused, stored, waiting


async def test_a_process_enrols_renews_and_leaves(any_store: Store) -> None:
    await any_store.join(process("one", about={"user": "ann"}))
    (known,) = await any_store.processes()
    assert (known.id, known.kind, known.host, known.pid) == ("one", "worker", "nowhere", 1)
    assert known.about == {"user": "ann"}
    assert known.alive
    assert known.lease_seconds == 60
    assert 50 < known.seconds_left <= 60
    assert await any_store.heartbeat("one")
    await any_store.leave("one")
    await any_store.leave("one")
    assert not await any_store.heartbeat("one")
    assert await any_store.processes() == []


async def test_a_lease_that_is_over_can_be_renewed_until_somebody_gives_the_process_up(any_store: Store) -> None:
    await any_store.join(process("one", lease=0))
    (known,) = await any_store.processes()
    assert not known.alive
    assert known.seconds_left <= 0
    assert await any_store.heartbeat("one")
    assert await any_store.evict("one")
    assert not await any_store.evict("one")
    assert not await any_store.heartbeat("one")


async def test_only_a_process_whose_lease_is_over_or_that_is_known_to_be_gone_is_given_up(any_store: Store) -> None:
    await any_store.join(process("one"))
    assert not await any_store.evict("one")
    assert not await any_store.evict("nobody", even_alive=True)
    assert await any_store.evict("one", even_alive=True)
    assert await any_store.processes() == []


async def test_a_process_that_was_given_up_writes_nothing_more(any_store: Store) -> None:
    await any_store.join(process("one"))
    await ended(any_store, "session_0")
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.evict("one", even_alive=True)
    before = (await any_store.sessions(), await any_store.runs("session_1"))
    for work in (
        any_store.commit(batch(3, 3)),
        any_store.commit(ending(3, 3)),
        any_store.commit(beginning(2, run="run_2", of="session_0")),
        any_store.add(session("session_2")),
        any_store.add_message(message()),
        any_store.delete_messages("session_1"),
        any_store.claim("session_1", "run_1"),
        any_store.requeue(["session_1"]),
        any_store.mark_interrupted("session_1", "why"),
        any_store.queue(waiting("run_2", of="session_0")),
        any_store.interrupt_orphans(["session_1"]),
        any_store.request_cancel("session_1", "user"),
        any_store.delete("session_1"),
    ):
        assert "evicted (one)" in await refused(LeaseLost, work)
    assert (await any_store.sessions(), await any_store.runs("session_1")) == before
    assert seqs(await all_pages(any_store)) == [1, 2]
    assert issubclass(LeaseLost, RunLost)
    assert issubclass(LeaseLost, StoreError)


async def test_all_that_goes_into_one_transaction_is_refused_together(store: SqlStore) -> None:
    await store.join(process("one"))
    await store.add(session())
    await store.commit(beginning(1))
    await store.evict("one", even_alive=True)
    results = await asyncio.gather(*(store.commit(batch(seq, seq)) for seq in range(2, 40)), return_exceptions=True)
    assert {type(result) for result in results} == {LeaseLost}
    assert seqs(await all_pages(store)) == [1]


async def test_what_leaves_is_closed_and_writes_as_nobody_when_it_is_opened_again(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.leave("one")
    await refused(LeaseLost, any_store.add(session()))
    await any_store.close()
    await any_store.open()
    await any_store.add(session())
    assert (await stored(any_store)).holder is None


async def test_a_process_that_enrols_anew_cannot_go_on_with_what_it_had(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.evict("one", even_alive=True)
    await any_store.join(process("two"))
    assert "not held by this process" in await refused(SessionLocked, any_store.commit(batch(3, 3)))
    assert await any_store.interrupt_orphans(["session_1"]) == 1
    await refused(SessionLocked, any_store.commit(batch(3, 3)))
    await any_store.commit(batch(3, 3, resumed=True))
    await any_store.commit(ending(4, 4))
    assert seqs(await all_pages(any_store)) == [1, 2, 3, 4]


async def test_a_session_is_held_while_it_runs(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    assert (await stored(any_store)).holder == "one"
    await any_store.commit(beginning(2))
    assert (await stored(any_store)).holder == "one"
    await any_store.commit(ending(3, 3))
    assert (await stored(any_store)).holder is None
    await any_store.commit(beginning(2, run="run_2"))
    assert (await stored(any_store)).holder == "one"


async def test_what_another_process_holds_cannot_be_begun_or_gone_on_with(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.join(process("two"))
    for work in (
        any_store.commit(beginning(2, run="run_2")),
        any_store.commit(batch(3, 3, resumed=True)),
    ):
        assert "held by another process, one" in await refused(SessionLocked, work)
    found = await stored(any_store)
    assert (found.holder, found.run_id, found.runs) == ("one", "run_1", 1)
    await any_store.evict("one", even_alive=True)
    await any_store.commit(batch(3, 3, resumed=True))
    assert (await stored(any_store)).holder == "two"


async def test_orphans_are_what_runs_and_is_held_by_nobody_who_is_known(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session("never_began"))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.request_cancel("session_1", "user")
    await ended(any_store, "over")
    await any_store.join(process("two", lease=0))
    await any_store.add(session("mine"))
    await any_store.commit(beginning(2, run="run_m", of="mine"))
    assert await any_store.orphans() == []
    assert await any_store.interrupt_orphans(["session_1", "mine", "over", "nobody"]) == 0
    await any_store.evict("one", even_alive=True)
    assert {(one.session_id, one.run_id, one.agent) for one in await any_store.orphans()} == {
        ("never_began", None, "main"),
        ("session_1", "run_1", "main"),
    }
    ids = ["session_1", "mine", "over", "never_began"]
    assert await any_store.interrupt_orphans(ids, "it died \N{SKULL} twice") == 1
    found = await stored(any_store)
    assert (found.status, found.holder, found.trouble) == ("interrupted", None, "it died \N{SKULL} twice")
    run = await latest(any_store)
    assert (run.status, run.cancel) == ("interrupted", None)
    assert await any_store.session("never_began") is None
    assert [(await stored(any_store, id)).status for id in ("mine", "over")] == ["running", "completed"]
    assert await any_store.orphans() == []
    await any_store.commit(batch(3, 3, resumed=True))
    assert (await stored(any_store)).trouble is None


async def test_the_dead_are_given_up_and_what_they_ran_is_interrupted(any_store: Store) -> None:
    for id, lease in (("dead", 0), ("alive", 60)):
        await any_store.join(process(id, lease=lease))
        await any_store.add(session(f"of_{id}"))
        await any_store.commit(beginning(2, run=f"run_{id}", of=f"of_{id}"))
    assert await evict_and_interrupt(any_store, by_lease=False) == 0
    assert await evict_and_interrupt(any_store) == 1
    assert [known.id for known in await any_store.processes()] == ["alive"]
    assert [(await stored(any_store, f"of_{id}")).status for id in ("dead", "alive")] == ["interrupted", "running"]


async def test_a_process_that_freezes_while_it_renews_its_lease_is_given_up(
    postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "FROZEN_SECONDS", 1.0)
    url = postgres.url(postgres.new_database())
    inside, woken, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

    def freeze(connection: Connection) -> None:
        leases.heartbeat("frozen", connection)  # locks its row
        loop.call_soon_threadsafe(inside.set)
        woken.wait(SECONDS)

    async with AsyncExitStack() as stack:
        frozen, other = store_at(url), store_at(url)
        for store in (frozen, other):
            await store.open()
            stack.push_async_callback(store.close)
        await frozen.join(process("frozen", lease=0))
        renewing = asyncio.ensure_future(frozen._lease(freeze))
        try:
            await inside.wait()
            assert await other.evict("frozen")
        finally:
            woken.set()
        with pytest.raises(StoreError):
            await renewing


async def test_a_process_of_this_machine_that_is_gone_is_given_up_at_once(any_store: Store) -> None:
    me = this_process("serve")
    if "start" not in me.about:
        pytest.skip("this system tells no start times of processes in /proc")
    gone = process("gone", host=me.host, pid=me.pid, about={**me.about, "start": "1"})
    await any_store.join(gone)
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.join(me)
    assert await evict_and_interrupt(any_store, by_lease=False) == 1
    assert [known.id for known in await any_store.processes()] == [me.id]
