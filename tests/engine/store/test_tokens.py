"""Fencing tokens: what is written for a claim is refused once there is a later one, whoever made it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest_asyncio
from alembic import command
from endstop.store import database
from endstop.store.base import LeaseLost, SessionLocked, Store, StoreError
from endstop.store.database_schema import METADATA, VERSION_TABLE
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from ..temporary_store import TemporaryStore
from .made import all_pages, at, batch, beginning, ended, ending, lines, seqs, session
from .others import process, refused, stored, waiting


@pytest_asyncio.fixture
async def pair(empty_place: str) -> AsyncIterator[list[SqlStore]]:
    """Two processes, each with its own connections."""
    async with AsyncExitStack() as stack:
        opened = [store_at(empty_place) for _ in range(2)]
        for number, store in enumerate(opened):
            await store.open()
            stack.push_async_callback(store.close)
            await store.join(process(f"process_{number}"))
        yield opened


async def test_each_claim_has_a_higher_token_and_one_that_goes_on_keeps_it(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.queue(waiting(new=session()))
    assert (await stored(any_store)).token == 0
    first = (await any_store.claim("session_1", "run_1")).token
    second = (await any_store.claim("session_1", "run_1")).token
    assert 0 < first < second
    assert await any_store.commit(beginning(2, token=second)) == second
    assert await any_store.commit(batch(3, 3, token=second)) == second
    assert await any_store.commit(ending(4, 4, token=second)) == second
    third = await any_store.commit(beginning(2, run="run_2"))
    assert third > second
    assert (await stored(any_store)).token == third
    assert await any_store.commit(batch(3, 3, run="run_2", token=third)) == third


async def test_what_was_given_to_the_same_process_again_is_refused_to_who_had_it_there(any_store: Store) -> None:
    """To the list of processes both are this one; the token tells them apart."""
    await any_store.join(process("one"))
    await any_store.queue(waiting(new=session()))
    old = (await any_store.claim("session_1", "run_1")).token
    await any_store.commit(beginning(2, token=old))
    new = (await any_store.claim("session_1", "run_1")).token
    for late in (
        batch(3, 3, token=old),
        ending(3, 3, token=old),
        batch(3, 3, token=old, resumed=True),
        beginning(2, run="run_2", token=old),
    ):
        said = await refused(SessionLocked, any_store.commit(late))
        assert said == f"the session session_1 was claimed again: this claim has token {old}, the latest one {new}"
    assert await any_store.requeue(["session_1"], token=old) == []
    await any_store.mark_interrupted("session_1", "why", token=old)
    assert (await stored(any_store)).status == "running"
    assert await any_store.commit(batch(3, 3, token=new, resumed=True)) == new
    assert seqs(await all_pages(any_store)) == [1, 2, 3]
    assert await any_store.requeue(["session_1"], token=new) == ["session_1"]
    await refused(SessionLocked, any_store.commit(batch(4, 4, token=new)))


async def test_what_is_handed_in_together_is_refused_alone(any_store: Store) -> None:
    await any_store.join(process("one"))
    for name in ("session_1", "session_2"):
        await any_store.queue(waiting(f"run_of_{name}", of=name, new=session(name)))
    old = (await any_store.claim("session_1", "run_of_session_1")).token
    await any_store.commit(beginning(1, run="run_of_session_1", token=old))
    other = (await any_store.claim("session_2", "run_of_session_2")).token
    new, *results = await asyncio.gather(
        any_store.claim("session_1", "run_of_session_1"),
        any_store.commit(batch(2, 2, run="run_of_session_1", token=old)),
        any_store.commit(beginning(2, run="run_of_session_2", of="session_2", token=other)),
        any_store.commit(batch(2, 2, run="run_of_session_1", token=old + 1)),
        return_exceptions=True,
    )
    assert not isinstance(new, BaseException)
    assert isinstance(results[0], SessionLocked)
    assert results[1:] == [other, new.token]
    assert seqs(await all_pages(any_store, "run_of_session_1")) == [1, 2]


async def test_a_run_that_is_over_takes_nothing_more_for_its_claim(any_store: Store) -> None:
    await any_store.join(process("one"))
    await any_store.add(session())
    token = await any_store.commit(beginning(2))
    await any_store.commit(ending(3, 3, token=token))
    assert await any_store.commit(ending(3, 3, token=token)) == token  # a second try of what was written
    await refused(SessionLocked, any_store.commit(batch(4, 4, token=token)))


async def test_a_frozen_process_that_wakes_writes_nothing_for_its_old_claim(pair: list[SqlStore]) -> None:
    """Not even under the name that it gets when it joins again."""
    frozen, other = pair
    await frozen.queue(waiting(new=session()))
    old = (await frozen.claim("session_1", "run_1")).token
    await frozen.commit(beginning(2, token=old))
    assert await other.evict("process_0", even_alive=True)
    new = (await other.claim("session_1", "run_1")).token
    assert new > old
    await refused(LeaseLost, frozen.commit(batch(3, 3, token=old)))
    await frozen.join(process("process_0_again"))
    assert "not held by this process" in await refused(SessionLocked, frozen.commit(batch(3, 3, token=old)))
    await other.commit(batch(3, 3, token=new, resumed=True))
    assert await other.evict("process_0_again", even_alive=True)
    await frozen.join(process("process_0_once_more"))
    assert await other.requeue(["session_1"], token=new) == ["session_1"]
    newest = (await frozen.claim("session_1", "run_1")).token
    await refused(SessionLocked, frozen.commit(batch(4, 4, token=old)))
    await refused(SessionLocked, other.commit(batch(4, 4, token=new)))
    assert await frozen.commit(batch(4, 4, token=newest, resumed=True)) == newest
    assert seqs(await all_pages(frozen)) == [1, 2, 3, 4]


@dataclass
class Execution:
    """One execution of a run, which does not know what became of its claim."""

    token: int
    seq: int
    """The number of its next event."""
    began: bool = False
    """Whether it has resumed the run: its other batches only add events."""


@dataclass
class Model:
    """Two processes and one session; what is held, and by which claim, as it should be."""

    names: list[str]
    member: list[bool] = field(default_factory=lambda: [True, True])
    holder: str | None = None
    token: int = 0
    written: int = 0
    going: bool = True
    """Whether the run is queued or running: one that was set aside is not, until it is resumed."""
    executions: list[list[Execution]] = field(default_factory=lambda: [[], []])


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "claim", "write", "write", "write", "requeue", "set aside", "evict", "join"]),
        st.integers(0, 1),
        st.integers(0, 2),
    ),
    min_size=12,
    max_size=30,
)


def test_only_the_latest_claim_of_a_member_writes() -> None:
    """Any order of claims, writes of any execution that ever was, hand-overs, evictions and joins of two processes."""
    with asyncio.Runner() as loop:
        stack = AsyncExitStack()
        stores = loop.run(_opened(stack))

        @settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
        @given(ACTIONS)
        def check(actions: list[tuple[str, int, int]]) -> None:
            for table in METADATA.tables:  # to open two stores anew takes longer than an example
                stores[0].execute(f"DELETE FROM {table}")
            loop.run(_check(stores, actions))

        try:
            check()
        finally:
            loop.run(stack.aclose())


async def _opened(stack: AsyncExitStack) -> tuple[TemporaryStore, SqlStore]:
    """Two processes, as far as the store can tell."""
    first = TemporaryStore()
    other = store_at(str(first.path))
    for store in (first, other):
        await store.open()
        stack.push_async_callback(store.close)
    return first, other


async def _check(stores: tuple[TemporaryStore, SqlStore], actions: list[tuple[str, int, int]]) -> None:
    first, model = stores[0], Model(["a0", "b0"])
    for store, name in zip(stores, model.names, strict=True):
        await store.join(process(name))
    await first.queue(waiting(new=session()))
    for number, (action, who, which) in enumerate(actions):
        await _act(stores, model, action, who, which, number)
        found = await stored(first)
        assert (found.token, found.holder) == (model.token, model.holder)
    assert seqs(await all_pages(first)) == list(range(1, model.written + 1))


async def _act(stores: tuple[SqlStore, SqlStore], model: Model, action: str, who: int, which: int, number: int) -> None:
    store, name, executions = stores[who], model.names[who], model.executions[who]
    mine = model.member[who] and model.holder == name
    match action:
        case "claim":
            others = model.holder is not None and model.holder in _members(model) and not mine
            claimed = await _tried(store.claim("session_1", "run_1"))
            assert isinstance(claimed, StoreError) == (not model.member[who] or others)
            if not isinstance(claimed, StoreError):
                assert claimed.token == model.token + 1
                model.holder, model.token = name, claimed.token
                executions.append(Execution(claimed.token, model.written + 1))
        case "write" if executions:
            one = executions[which % len(executions)]
            may = mine and one.token == model.token
            said = lines(one.seq, one.seq, filler=f"for claim {one.token}")
            made = batch(one.seq, one.seq, token=one.token, resumed=not one.began, lines=said)
            if one.seq == 1:
                made = beginning(1, token=one.token, lines=said)
            done = await _tried(store.commit(made))
            if may:
                assert done == one.token
                one.seq, one.began, model.written = one.seq + 1, True, model.written + 1
                model.going = True
            else:
                assert isinstance(done, StoreError)
        case "requeue":
            token = executions[which % len(executions)].token if executions else 1
            done = await _tried(store.requeue(["session_1"], token=token))
            assert (done == ["session_1"]) == (mine and model.going and token == model.token)
            if done == ["session_1"]:
                model.holder = None
        case "set aside" if executions and model.written:
            token = executions[which % len(executions)].token
            await _tried(store.mark_interrupted("session_1", "why", token=token))
            if mine and model.going and token == model.token:
                model.holder, model.going = None, False
        case "evict" if model.member[1 - who]:
            assert await store.evict(model.names[1 - who], even_alive=True)
            model.member[1 - who] = False
        case "join" if not model.member[who]:
            model.names[who] = f"{name[0]}{number + 1}"
            await store.join(process(model.names[who]))
            model.member[who] = True


def _members(model: Model) -> set[str]:
    return {name for name, member in zip(model.names, model.member, strict=True) if member}


async def _tried(work: Any) -> Any:
    try:
        return await work
    except StoreError as error:
        return error


async def test_a_database_of_the_version_before_opens_and_its_sessions_can_be_claimed(pair: list[SqlStore]) -> None:
    """Its schema is what the first migration makes; here those that follow are undone."""
    one, other = pair
    await ended(one, "session_0")
    await one.queue(waiting(new=session()))
    with one._database.write_engine.begin() as connection:
        configured = {"connection": connection, "version_table": VERSION_TABLE}
        command.downgrade(database._config(configure=configured), "0001")
    await other.close()
    await other.open()
    await other.join(process("process_2"))
    assert [(await stored(other, id)).token for id in ("session_0", "session_1")] == [0, 0]
    assert (await other.claim("session_1", "run_1")).token == 1
    assert await other.commit(beginning(2, run="run_2", of="session_0")) == 1


async def test_a_process_of_the_version_before_goes_on_beside_newer_ones(pair: list[SqlStore]) -> None:
    """It has opened the database before the upgrade, writes rows without a token and claims without a new one."""
    new, judge = pair
    await judge.join(process("old"))
    with judge._database.write_engine.begin() as connection:
        columns = "id, owner, agent, title, status, created_at, updated_at, runs, questions, holder"
        values = f"'session_1', 'ann', 'main', '\\x41', 'running', '{at(0)}', '{at(0)}', 0, '[]', 'old'"
        connection.execute(text(f"INSERT INTO endstop_sessions ({columns}) VALUES ({values})"))
    assert "held by another process, old" in await refused(SessionLocked, new.commit(beginning(2)))
    await new.queue(waiting("run_2", of="session_2", new=session("session_2")))
    mine = (await new.claim("session_2", "run_2")).token
    await new.commit(beginning(2, run="run_2", of="session_2", token=mine))
    assert await judge.evict("process_0", even_alive=True)
    with judge._database.write_engine.begin() as connection:  # as the version before claims
        connection.execute(text("UPDATE endstop_sessions SET holder = 'old' WHERE id = 'session_2'"))
    await new.join(process("process_2"))
    late = batch(3, 3, run="run_2", of="session_2", token=mine)
    assert "not held by this process" in await refused(SessionLocked, new.commit(late))
    assert await new.evict("old", even_alive=True)
    assert (await new.claim("session_2", "run_2")).token == mine + 1
