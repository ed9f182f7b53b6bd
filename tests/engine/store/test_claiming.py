"""A session is claimed by one process at a time, and a run that waits is begun by whoever claims it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
import pytest_asyncio
from endstop.decision import Question, WrongUse
from endstop.store.base import (
    LeaseLost,
    SessionBusy,
    SessionDeleted,
    SessionFilter,
    SessionLocked,
    Store,
    StoredSession,
    StoreError,
)
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from msgspec import structs

from .made import all_pages, at, batch, beginning, ended, ending, seqs, session
from .others import latest, process, refused, stored, waiting


@asynccontextmanager
async def processes(place: str, count: int) -> AsyncIterator[list[SqlStore]]:
    """So many processes, as far as the store can tell, each with its own connections."""
    async with AsyncExitStack() as stack:
        opened = []
        for number in range(count):
            opened.append(store_at(place))
            await opened[-1].open()
            stack.push_async_callback(opened[-1].close)
            await opened[-1].join(process(f"process_{number}"))
        yield opened


@pytest_asyncio.fixture
async def others(empty_place: str) -> AsyncIterator[list[SqlStore]]:
    """Ten processes."""
    async with processes(empty_place, 10) as opened:
        yield opened


@pytest_asyncio.fixture
async def two(empty_place: str) -> AsyncIterator[list[SqlStore]]:
    """Two processes."""
    async with processes(empty_place, 2) as opened:
        yield opened


async def test_a_run_waits_is_claimed_begins_and_ends(any_store: Store) -> None:
    await any_store.join(process("server"))
    await any_store.queue(waiting(new=session(), job="what to do \N{GEAR}"))
    found, run = await stored(any_store), await latest(any_store)
    assert (found.status, found.holder, found.runs, found.owner, found.updated_at) == ("queued", None, 1, "ann", at(5))
    assert (run.status, run.number, run.prompt, run.started_at, run.last_seq) == ("queued", 1, "Fix it.", at(5), 0)
    (waits,) = await any_store.queued()
    assert (waits.session_id, waits.run_id, waits.agent) == ("session_1", "run_1", "main")
    assert waits.job == "what to do \N{GEAR}"
    await any_store.join(process("worker"))
    claimed = await any_store.claim("session_1", "run_1")
    assert (claimed.status, claimed.holder) == ("queued", "worker")
    again = await any_store.claim("session_1", "run_1")
    assert again == structs.replace(claimed, token=claimed.token + 1)
    assert await any_store.queued() == []
    await any_store.commit(beginning(2))
    found, run = await stored(any_store), await latest(any_store)
    assert (found.status, found.holder, found.runs) == ("running", "worker", 1)
    assert (run.status, run.number, run.started_at, run.last_seq) == ("running", 1, at(1), 2)
    await any_store.commit(ending(3, 3))
    found = await stored(any_store)
    assert (found.status, found.holder, found.steps) == ("completed", None, 3)
    assert seqs(await all_pages(any_store)) == [1, 2, 3]


async def test_the_next_run_of_a_session_waits_and_its_question_is_not_open_meanwhile(any_store: Store) -> None:
    await any_store.add(session())
    await any_store.commit(beginning(2))
    question = Question("call_1", "Which port?")
    asked = {"status": "awaiting_input", "stop_reason": "awaiting_input", "questions": (question,)}
    await any_store.commit(ending(3, 3, outcome=asked, questions=(question,)))
    await any_store.queue(waiting("run_2", prompt=None))
    found, run = await stored(any_store), await latest(any_store)
    assert (found.status, found.questions, found.stop_reason, found.runs) == ("queued", (), None, 2)
    assert (run.id, run.number, run.prompt) == ("run_2", 2, None)
    await any_store.commit(beginning(2, run="run_2", prompt=None))
    assert [(run.id, run.number, run.status) for run in await any_store.runs("session_1")] == [
        ("run_1", 1, "awaiting_input"),
        ("run_2", 2, "running"),
    ]


async def test_a_run_that_was_interrupted_waits_to_be_resumed(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.evict("one", even_alive=True)
    await any_store.join(process("two"))
    await any_store.interrupt_orphans(["session_1"], "it died")
    await any_store.queue(waiting("run_1", prompt=None))
    found, run = await stored(any_store), await latest(any_store)
    assert (found.status, found.runs, found.trouble) == ("queued", 1, None)
    assert (run.status, run.number, run.prompt, run.last_seq, run.started_at) == ("queued", 1, "Fix it.", 2, at(1))
    await any_store.claim("session_1", "run_1")
    await any_store.commit(batch(3, 3, resumed=True))
    assert (await latest(any_store)).status == "running"
    assert await any_store.queued() == []


async def test_a_run_waits_only_where_no_other_one_goes_on_or_waits(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.queue(waiting(new=session()))
    await any_store.queue(waiting(new=session()))  # a second try of the same
    assert "queued: run_1" in await refused(SessionBusy, any_store.queue(waiting("run_2")))
    assert "another run in the queue, run_1" in await refused(
        SessionLocked, any_store.commit(beginning(2, run="run_2"))
    )
    await any_store.commit(beginning(2))
    assert "running: run_1" in await refused(SessionBusy, any_store.queue(waiting("run_2")))
    await any_store.commit(ending(3, 3))
    assert "exists already" in await refused(StoreError, any_store.queue(waiting("run_2", new=session())))
    assert "is over" in await refused(StoreError, any_store.queue(waiting("run_1")))
    assert "does not exist" in await refused(StoreError, any_store.queue(waiting("run_2", of="nobody")))
    await any_store.queue(waiting("run_2"))
    assert [run.status for run in await any_store.runs("session_1")] == ["completed", "queued"]


async def test_a_session_that_was_only_made_can_have_its_first_run_wait(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    await any_store.queue(waiting())
    found = await stored(any_store)
    assert (found.status, found.holder, found.runs) == ("queued", None, 1)


async def test_what_waits_is_listed_is_not_forgotten_and_can_be_deleted(any_store: Store) -> None:
    await ended(any_store, "over")
    await any_store.queue(waiting(new=session()))
    assert [one.id for one in (await any_store.sessions(SessionFilter(status="queued")))[0]] == ["session_1"]
    assert await any_store.forget(keep=0) == 1
    assert (await stored(any_store)).status == "queued"
    assert await any_store.orphans() == []
    assert await any_store.delete("session_1")
    assert await any_store.queued() == []
    assert await any_store.run("run_1") is None


async def test_what_waits_is_given_by_its_age_the_oldest_first(any_store: Store) -> None:
    for number in range(3):
        began = time.time()
        await any_store.queue(waiting(f"run_{number}", of=f"s_{number}", new=session(f"s_{number}")))
        while time.time() < began + 0.002:
            await asyncio.sleep(0)  # so that the next one is younger
    assert [one.session_id for one in await any_store.queued()] == ["s_0", "s_1", "s_2"]
    assert await any_store.queued(older_than_seconds=60) == []


async def test_only_who_has_enrolled_claims_and_only_a_run_that_is_not_over(any_store: Store) -> None:
    await any_store.queue(waiting(new=session()))
    with pytest.raises(WrongUse, match="has joined"):
        await any_store.claim("session_1", "run_1")
    await any_store.join(process("one"))
    assert "not the latest run" in await refused(SessionLocked, any_store.claim("session_1", "run_0"))
    assert "does not exist" in await refused(SessionDeleted, any_store.claim("nobody", "run_1"))
    await any_store.claim("session_1", "run_1")
    await any_store.commit(beginning(2))
    await any_store.commit(ending(3, 3))
    assert "is over: it is completed" in await refused(SessionLocked, any_store.claim("session_1", "run_1"))


async def test_what_another_process_holds_is_free_only_once_that_is_given_up(any_store: Store) -> None:
    await any_store.join(process("one", lease=0))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.join(process("two"))
    assert "another process, one" in await refused(SessionLocked, any_store.claim("session_1", "run_1"))
    await any_store.evict("one")
    claimed = await any_store.claim("session_1", "run_1")
    assert (claimed.status, claimed.holder) == ("running", "two")
    assert await any_store.orphans() == []
    await any_store.commit(batch(3, 3, resumed=True))


async def test_a_cancel_is_noted_once_for_whoever_has_the_run(any_store: Store) -> None:
    assert not await any_store.request_cancel("nobody", "user")
    await any_store.queue(waiting(new=session()))
    assert await any_store.request_cancel("session_1", "user")
    assert await any_store.request_cancel("session_1", "shutdown")
    assert (await latest(any_store)).cancel == "user"
    await any_store.commit(beginning(2))
    assert (await latest(any_store)).cancel == "user"
    await any_store.commit(ending(3, 3, outcome={"status": "cancelled", "stop_reason": "cancelled"}))
    assert not await any_store.request_cancel("session_1", "user")
    await any_store.commit(beginning(2, run="run_2"))
    assert (await latest(any_store)).cancel is None


async def test_of_ten_processes_that_claim_at_once_one_wins(others: list[SqlStore]) -> None:
    for number in range(5):
        run, id = f"run_{number}", f"session_{number}"
        await others[0].queue(waiting(run, of=id, new=session(id)))
        tries = (store.claim(id, run) for store in others)
        results = await asyncio.gather(*tries, return_exceptions=True)
        won = [result for result in results if isinstance(result, StoredSession)]
        assert len(won) == 1
        assert all(isinstance(result, SessionLocked | StoredSession) for result in results)
        assert (await stored(others[0], id)).holder == won[0].holder


async def test_of_ten_processes_that_begin_a_run_at_once_one_does(others: list[SqlStore]) -> None:
    await ended(others[0], "session_1")
    begin = (
        store.commit(beginning(2, run=f"run_{number}")) if number % 2 else store.queue(waiting(f"run_{number}"))
        for number, store in enumerate(others)
    )
    results = await asyncio.gather(*begin, return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert all(isinstance(result, int | SessionLocked | SessionBusy | None) for result in results)
    assert len(await others[0].runs("session_1")) == 2


@pytest.mark.parametrize("late", range(6))
async def test_who_is_given_up_while_it_writes_has_written_before_or_writes_nothing(
    two: list[SqlStore], late: int
) -> None:
    writer, judge = two
    await writer.add(session())
    await writer.commit(beginning(1))

    async def write() -> int:
        seq = 1
        while True:
            try:
                await writer.commit(batch(seq + 1, seq + 1))
            except LeaseLost:
                return seq
            seq += 1

    async def judged() -> list[int]:
        for _ in range(late):
            await judge.session("session_1")
        assert await judge.evict("process_0", even_alive=True)
        return seqs(await all_pages(judge))

    written, seen = await asyncio.gather(write(), judged())
    assert seen == list(range(1, written + 1))
    assert seqs(await all_pages(judge)) == seen
    await judge.claim("session_1", "run_1")
    await judge.commit(batch(written + 1, written + 1, resumed=True))


async def test_what_a_dead_process_ran_waits_again_and_is_given_to_one_of_those_that_ask(
    others: list[SqlStore],
) -> None:
    dead, *alive = others
    await dead.add(session())
    await dead.commit(beginning(2))
    assert await alive[0].requeue(["session_1"]) == []  # as long as it is known
    assert await alive[0].evict("process_0", even_alive=True)
    got = await asyncio.gather(*(store.requeue(["session_1"]) for store in alive))
    assert sorted(got)[-2:] == [[], ["session_1"]]
    found, run = await stored(alive[0]), await latest(alive[0])
    assert (found.status, found.holder, run.status, run.last_seq) == ("queued", None, "queued", 2)
    assert [waits.job for waits in await alive[0].queued()] == [None]
    await alive[0].claim("session_1", "run_1")
    await alive[0].commit(batch(3, 3, resumed=True))
    assert ((await stored(alive[1])).status, (await latest(alive[1])).status) == ("running", "running")


async def test_a_process_lets_what_it_holds_wait_again_and_leaves_alone_what_others_hold(any_store: Store) -> None:
    await any_store.join(process("other"))
    await any_store.add(session("of_other"))
    await any_store.commit(beginning(2, run="run_other", of="of_other"))
    await any_store.join(process("own"))
    await any_store.queue(waiting(new=session(), job="what to do"))
    assert await any_store.requeue(["session_1", "of_other"]) == []  # it waits already
    await any_store.claim("session_1", "run_1")
    assert await any_store.requeue(["session_1", "of_other"]) == ["session_1"]
    assert [waits.job for waits in await any_store.queued()] == ["what to do"]
    assert (await stored(any_store, "of_other")).holder == "other"


async def test_a_run_is_set_aside_by_its_holder_alone_and_says_why(any_store: Store) -> None:
    await any_store.join(process("own"))
    await any_store.add(session())
    await any_store.commit(beginning(2))
    await any_store.join(process("other"))
    await any_store.mark_interrupted("session_1", "not mine")
    assert (await stored(any_store)).status == "running"
    await any_store.join(process("own"))
    await any_store.mark_interrupted("session_1", "a tool is missing: look")
    found = await stored(any_store)
    assert (found.status, found.holder, found.trouble) == ("interrupted", None, "a tool is missing: look")
    assert (await latest(any_store)).status == "interrupted"


async def test_idle_sessions_are_deleted_and_those_that_a_member_holds_stay(any_store: Store) -> None:
    await any_store.join(process("dead"))
    await any_store.add(session("orphan"))
    await any_store.commit(beginning(2, run="run_orphan", of="orphan"))
    await any_store.add(session("below", parent="orphan"))
    await any_store.leave("dead")
    await any_store.join(process("alive"))
    await ended(any_store, "over")
    for id in ("waits", "claimed"):
        await any_store.queue(waiting(f"run_{id}", of=id, new=session(id)))
    await any_store.claim("claimed", "run_claimed")
    await any_store.add(session("runs"))
    await any_store.commit(beginning(2, run="run_runs", of="runs"))
    given, _ = await any_store.sessions()
    assert sorted(await any_store.delete_idle(given)) == ["orphan", "over", "waits"]
    assert {one.id for one in (await any_store.sessions())[0]} == {"claimed", "runs"}
    assert await any_store.session("below") is None
    assert await any_store.delete_idle(given) == []


async def test_a_session_that_went_on_since_it_was_read_is_not_deleted_as_idle(any_store: Store) -> None:
    await any_store.join(process("one"))
    for id in ("same", "waits", "ran", "resumed"):
        await ended(any_store, id)
    await any_store.queue(waiting("run_waits", of="resumed"))
    given = [await stored(any_store, id) for id in ("same", "waits", "ran", "resumed")]
    await any_store.queue(waiting("run_more", of="waits"))
    await any_store.commit(beginning(2, run="run_other", of="ran"))
    await any_store.commit(ending(3, 3, run="run_other", of="ran"))
    await any_store.claim("resumed", "run_waits")  # and given back since, by a process that stops
    await any_store.requeue(["resumed"])
    assert await any_store.delete_idle(given) == ["same"]
    assert {one.id for one in (await any_store.sessions())[0]} == {"waits", "ran", "resumed"}
