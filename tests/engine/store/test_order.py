"""Batches go on from one another: none is written twice, none leaves a hole, and a bad one hurts no other."""

from __future__ import annotations

import asyncio

import pytest
from endstop.store.base import SequenceConflict, StoreError
from endstop.store.sql import SqlStore

from .made import all_pages, batch, beginning, ending, lines, message, seqs, session


async def test_a_batch_that_does_not_go_on_from_what_is_stored_is_refused(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(2))
    for wrong in (batch(4, 5), batch(2, 3), batch(1, 2, lines=lines(1, 2, filler="z")), batch(3, 3, run="run_x")):
        with pytest.raises(StoreError, match=r"run_1|run_x"):
            await store.commit(wrong)
    with pytest.raises(StoreError, match="session_x does not exist"):
        await store.commit(beginning(run="run_2", of="session_x"))
    await store.commit(batch(3, 3))
    assert seqs(await all_pages(store)) == [1, 2, 3]


async def test_what_is_handed_in_a_second_time_counts_as_written(store: SqlStore) -> None:
    for _ in range(2):
        await store.add(session())
        await store.commit(beginning(2))
        await store.add_message(message())
        await store.commit(batch(3, 4, lines=lines(3, 4, step=True)))
        await store.commit(ending(5, 5, outcome={"steps": 1}))
    found = await store.session("session_1")
    assert found is not None
    assert (found.runs, found.steps, found.status) == (1, 1, "completed")
    assert seqs(await all_pages(store)) == [1, 2, 3, 4, 5]
    assert len(await store.undelivered_messages("session_1")) == 1
    with pytest.raises(StoreError, match="another session has the id session_1"):
        await store.add(session(owner="bob"))


async def test_who_tries_again_with_more_events_than_before_has_only_these_added(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(2))
    await store.commit(batch(3, 4, lines=lines(3, 4, step=True)))
    more = lines(3, 4, step=True) + lines(5, 6, step=True)
    with pytest.raises(StoreError, match="cannot be stored"):
        await store.commit(batch(3, 6, lines=more.replace(b"x", b"z", 1)))
    await store.commit(batch(3, 6, lines=more))
    first = beginning(2)
    await store.commit(
        ending(1, 7, started=first.started, lines=first.lines + more + lines(7, 7), outcome={"steps": 2})
    )
    found, run = await store.session("session_1"), await store.run("run_1")
    assert found is not None
    assert run is not None
    assert (found.status, found.runs, found.steps, run.last_seq) == ("completed", 1, 2, 7)
    assert [(page.first_seq, page.last_seq) for page in await all_pages(store)] == [(1, 2), (3, 4), (5, 6), (7, 7)]
    assert seqs(await all_pages(store)) == [1, 2, 3, 4, 5, 6, 7]


async def test_a_batch_that_cannot_be_written_does_not_take_others_with_it_and_leaves_no_hole(store: SqlStore) -> None:
    for number in range(1, 4):
        await store.add(session(f"session_{number}"))
        await store.commit(beginning(2, run=f"run_{number}", of=f"session_{number}"))
    handed_in = [
        batch(3, 4, run="run_1", of="session_1"),
        batch(4, 4, run="run_2", of="session_2"),
        batch(5, 5, run="run_2", of="session_2"),
        batch(3, 3, run="run_3", of="session_3"),
        batch(5, 6, run="run_1", of="session_1"),
    ]
    done = await asyncio.gather(*map(store.commit, handed_in), return_exceptions=True)
    assert [type(result) for result in done] == [int, SequenceConflict, SequenceConflict, int, int]
    assert [seqs(await all_pages(store, f"run_{number}")) for number in (1, 2, 3)] == [
        [1, 2, 3, 4, 5, 6], [1, 2], [1, 2, 3]
    ]  # fmt: skip


async def test_a_caller_that_is_cancelled_leaves_its_batch_to_be_written(store: SqlStore) -> None:
    await store.add(session())
    task = asyncio.create_task(store.commit(beginning(2)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.commit(batch(3, 3))
    assert seqs(await all_pages(store)) == [1, 2, 3]
