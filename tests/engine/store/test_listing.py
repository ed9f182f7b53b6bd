"""The list of sessions: newest first, in pages, by owner, status and agent."""

from __future__ import annotations

import pytest
from endstop.decision import WrongUse
from endstop.store.base import SessionFilter
from endstop.store.sql import SqlStore

from .made import beginning, ended, session


async def test_the_list_is_newest_first_and_goes_on_where_a_page_ended_whatever_comes_in(store: SqlStore) -> None:
    for number in range(7):
        await store.add(session(f"session_{number}", second=number // 3))  # some begin in the same millisecond
    seen: list[str] = []
    page, place = await store.sessions(SessionFilter(limit=3))
    while place is not None:
        seen += [one.id for one in page]
        await store.add(session(f"later_{len(seen)}", second=50))
        page, place = await store.sessions(SessionFilter(limit=3, before=place))
    seen += [one.id for one in page]
    assert seen == [f"session_{number}" for number in (6, 5, 4, 3, 2, 1, 0)]


async def test_the_last_page_says_so_even_if_it_is_full(store: SqlStore) -> None:
    for number in range(4):
        await store.add(session(f"session_{number}", second=number))
    page, place = await store.sessions(SessionFilter(limit=4))
    assert (len(page), place) == (4, None)


async def test_the_list_is_by_owner_status_and_agent(store: SqlStore) -> None:
    await ended(store, "a", owner="ann", agent="main")
    await ended(store, "b", owner="bob", agent="main")
    await store.add(session("c", owner="ann", agent="other"))
    await store.commit(beginning(run="run_c", of="c"))

    async def ids(**chosen: str) -> list[str]:
        return [one.id for one in (await store.sessions(SessionFilter(**chosen)))[0]]  # type: ignore[arg-type]

    assert await ids(owner="ann") == ["c", "a"]
    assert await ids(owner="ann", status="completed") == ["a"]
    assert await ids(status="running") == ["c"]
    assert await ids(agent="main") == ["b", "a"]
    assert await ids(owner="' OR 1=1 --") == []


@pytest.mark.parametrize("wrong", ["", "x", "!!!!", "bnVsbA", "WyJhIl0", "\ud800", "é", "a" * 100_000])
async def test_a_place_that_is_none_is_wrong_use(store: SqlStore, wrong: str) -> None:
    with pytest.raises(WrongUse, match="is not a cursor"):
        await store.sessions(SessionFilter(before=wrong))


async def test_a_place_in_a_store_that_has_changed_since_still_is_one(store: SqlStore) -> None:
    await store.add(session("session_1"))
    await store.add(session("session_2"))
    _, place = await store.sessions(SessionFilter(limit=1))
    await store.delete("session_2")
    await store.delete("session_1")
    assert await store.sessions(SessionFilter(before=place)) == ([], None)


@pytest.mark.parametrize("limit", [0, -1, 1001])
async def test_a_limit_out_of_range_is_wrong_use(store: SqlStore, limit: int) -> None:
    with pytest.raises(WrongUse, match=f"limit is {limit}"):
        await store.sessions(SessionFilter(limit=limit))


async def test_metadata_comes_back_as_it_was_stored(store: SqlStore) -> None:
    metadata = {"plan": "free", "odd": ["\0", "\N{SKULL}", 1.5, None, {"deep": True}]}
    await store.add(session("a", metadata=metadata))
    await store.add(session("b"))
    found = {one.id: one.metadata for one in (await store.sessions(SessionFilter()))[0]}
    assert found == {"a": metadata, "b": {}}


async def test_sub_agents_are_listed_under_their_callers_and_deleted_with_them(store: SqlStore) -> None:
    for id, parent in (("a", None), ("b", None), ("a1", "a"), ("a2", "a1")):
        await store.add(session(id, parent=parent))

    async def listed(parent: str | None = None) -> set[str]:
        return {one.id for one in (await store.sessions(SessionFilter(parent=parent)))[0]}

    assert [await listed(), await listed("a"), await listed("a1")] == [{"a", "b"}, {"a1"}, {"a2"}]
    assert {one.session_id for one in await store.orphans()} <= {"a", "b"}
    assert await store.delete("a")
    assert [await store.session(id) for id in ("a", "a1", "a2")] == [None, None, None]
    assert await listed() == {"b"}
