"""What every store does, run against both databases."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from endstop.decision import Question, WrongUse
from endstop.decision.events import Carried
from endstop.store.base import Page, SessionFilter, Store, StoreError
from endstop.store.sql import SqlStore
from endstop.store.url import store_at

from .made import all_pages, at, batch, beginning, ended, ending, lines, message, seqs, session
from .others import evict_and_interrupt


def test_it_is_a_store(store: SqlStore) -> None:
    port: Store = store
    assert port is store


async def test_a_new_session_is_running_and_has_no_run(store: SqlStore) -> None:
    await store.add(session(title="Fix it", second=7))
    found = await store.session("session_1")
    assert found is not None
    assert (found.owner, found.agent, found.title, found.status) == ("ann", "main", "Fix it", "running")
    assert (found.created_at, found.updated_at, found.run_id, found.runs, found.steps) == (at(7), at(7), None, 0, 0)


async def test_what_is_not_there_is_none_or_empty(store: SqlStore) -> None:
    assert await store.session("nobody") is None
    assert await store.run("nothing") is None
    assert await store.runs("nobody") == []
    assert await store.pages("nothing") == []
    assert await store.undelivered_messages("nobody") == []
    assert await store.sessions() == ([], None)
    assert not await store.delete("nobody")
    assert await store.session("a\0b") is None
    assert await store.run("\ud800") is None


async def test_a_run_goes_from_its_beginning_to_its_end(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(2))
    running = await store.run("run_1")
    assert running is not None
    assert (running.status, running.number, running.prompt, running.last_seq) == ("running", 1, "Fix it.", 2)
    assert (running.started_at, running.finished_at, running.outcome) == (at(1), None, None)
    await store.commit(batch(3, 5, lines=lines(3, 5, step=True), second=20))
    between = await store.session("session_1")
    assert between is not None
    assert (between.status, between.steps, between.updated_at, between.run_id) == ("running", 1, at(20), "run_1")
    last = ending(6, 7, outcome={"answer": "Done.", "steps": 2}, second=30)
    await store.commit(last)
    done = await store.run("run_1")
    assert done is not None
    assert (done.status, done.stop_reason, done.finished_at, done.last_seq) == ("completed", "completed", at(30), 7)
    assert done.outcome == last.finished
    after = await store.session("session_1")
    assert after is not None
    assert (after.status, after.stop_reason, after.steps, after.updated_at) == ("completed", "completed", 2, at(30))
    assert seqs(await all_pages(store)) == list(range(1, 8))


async def test_runs_are_numbered_and_steps_added_up_without_those_that_a_run_goes_on_from(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning())
    question = Question("call_1", "Which port?")
    asked = {"status": "awaiting_input", "stop_reason": "awaiting_input", "steps": 3, "questions": (question,)}
    await store.commit(ending(3, 3, outcome=asked, questions=(question,)))
    waiting = await store.session("session_1")
    assert waiting is not None
    assert (waiting.status, waiting.questions, waiting.steps) == ("awaiting_input", (question,), 3)
    await store.commit(beginning(run="run_2", prompt=None, carried=Carried(steps=3)))
    answered = await store.session("session_1")
    assert answered is not None
    assert (answered.status, answered.stop_reason, answered.questions, answered.runs) == ("running", None, (), 2)
    await store.commit(ending(3, 3, run="run_2", outcome={"steps": 5}))
    done = await store.session("session_1")
    assert done is not None
    assert (done.steps, done.run_id) == (5, "run_2")
    first, second = await store.runs("session_1")
    assert [(run.number, run.id, run.prompt) for run in (first, second)] == [
        (1, "run_1", "Fix it."),
        (2, "run_2", None),
    ]


async def test_a_batch_that_begins_and_ends_a_run_does_both(store: SqlStore) -> None:
    await store.add(session())
    first = beginning(2)
    whole = ending(1, 2, started=first.started)
    await store.commit(whole)
    done = await store.run("run_1")
    assert done is not None
    assert (done.status, done.number, done.last_seq) == ("completed", 1, 2)


async def test_any_characters_are_kept_and_half_a_surrogate_pair_is_a_question_mark(store: SqlStore) -> None:
    odd = "a\0b \ud800 \N{GRINNING FACE}"
    shown = "a\0b ? \N{GRINNING FACE}"
    raw = bytes(range(256)).replace(b"\n", b"") + b"\n"
    await store.add(session(title=odd, owner="o\0", agent="\udfff"))
    await store.commit(beginning(1, prompt=odd, lines=raw))
    await store.add_message(message(text=odd))
    outcome: dict[str, Any] = {"answer": odd, "stop_reason": "custom:\0", "evaluation": {"odd": {1, 2}}}
    await store.commit(ending(2, 2, outcome=outcome, questions=(Question("c", odd),)))
    found, run = await store.session("session_1"), await store.run("run_1")
    assert found is not None
    assert run is not None
    assert run.outcome is not None
    assert (found.title, found.owner, found.agent, found.questions[0].text) == (shown, "o\ufffd", "\ufffd", shown)
    assert (run.prompt, run.outcome.answer, run.outcome.stop_reason) == (shown, shown, "custom:\0")
    assert [said.text for said in await store.undelivered_messages("session_1")] == [shown]
    assert (await store.pages("run_1"))[0].lines == raw
    assert [one.id for one in (await store.sessions(SessionFilter(owner="o\0", agent="\udfff")))[0]] == ["session_1"]


async def test_a_batch_of_megabytes_and_a_prompt_of_a_million_characters_come_back(store: SqlStore) -> None:
    await store.add(session())
    big = lines(1, 3, filler="y" * 4_000_000)
    await store.commit(beginning(3, prompt="p" * 1_000_000, lines=big))
    await store.commit(batch(4, 4))
    run = await store.run("run_1")
    assert run is not None
    assert run.prompt == "p" * 1_000_000
    first = await store.pages("run_1")
    assert [page.last_seq for page in first] == [3]  # large: the next one comes when it is asked for
    assert first[0].lines == big
    assert seqs(await all_pages(store)) == [1, 2, 3, 4]


async def test_pages_begin_with_the_one_that_holds_the_next_event(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(3))
    for first in (4, 7, 10):
        await store.commit(batch(first, first + 2))

    async def starts(after: int, limit: int = 64) -> list[int]:
        return [page.first_seq for page in await store.pages("run_1", after=after, limit=limit)]

    assert [await starts(after) for after in (0, 2, 3, 4, 11, 12, 99)] == [
        [1, 4, 7, 10], [1, 4, 7, 10], [4, 7, 10], [4, 7, 10], [10], [], []
    ]  # fmt: skip
    assert await starts(0, limit=2) == [1, 4]
    assert await store.pages("run_1", after=9) == [Page("run_1", 10, 12, lines(10, 12))]


async def test_messages_wait_until_a_run_has_heard_them(store: SqlStore) -> None:
    await store.add(session())
    await store.add(session("session_2"))
    await store.commit(beginning(2))
    for number in (3, 1, 2):
        await store.add_message(message(f"message_{number}", f"Number {number}"))
    await store.add_message(message("message_4", of="session_2"))
    await store.commit(batch(3, 3, delivered=("message_3", "message_2", "message_4", "message_9")))
    assert [one.text for one in await store.undelivered_messages("session_1")] == ["Number 1"]
    assert [one.id for one in await store.undelivered_messages("session_2")] == ["message_4"]
    await store.delete_messages("session_1")
    assert await store.undelivered_messages("session_1") == []
    with pytest.raises(StoreError, match="session_x does not exist"):
        await store.add_message(message("message_5", of="session_x"))


async def test_a_session_whose_first_run_was_not_stored_when_the_process_died_is_forgotten(store: SqlStore) -> None:
    await store.add(session())
    await store.add(session("session_2"))
    await store.commit(beginning(2, of="session_2", run="run_2"))
    assert await evict_and_interrupt(store) == 1
    assert await store.session("session_1") is None
    found = await store.session("session_2")
    assert found is not None
    assert found.status == "interrupted"


async def test_what_ran_when_the_process_died_is_interrupted_and_can_be_resumed(
    store: SqlStore, empty_place: str
) -> None:
    await store.add(session())
    await store.commit(beginning(2, lines=lines(1, 2, step=True)))
    await ended(store, "session_2")
    again = store_at(empty_place)
    await again.open()
    assert await evict_and_interrupt(again) == 1
    assert await evict_and_interrupt(again) == 0
    found, run = await again.session("session_1"), await again.run("run_1")
    assert found is not None
    assert run is not None
    assert (found.status, run.status, found.steps) == ("interrupted", "interrupted", 1)
    assert [one.status for one in (await again.sessions(SessionFilter(status="completed")))[0]] == ["completed"]
    await again.commit(batch(3, 3, resumed=True, second=40))
    found, run = await again.session("session_1"), await again.run("run_1")
    assert found is not None
    assert run is not None
    assert (found.status, found.runs, found.updated_at, run.status) == ("running", 1, at(40), "running")
    await again.commit(ending(4, 4))
    await again.close()


async def test_a_deleted_session_takes_all_that_belongs_to_it_along(store: SqlStore) -> None:
    await ended(store, "session_2")
    await store.add(session())
    await store.commit(beginning(2))
    await store.add_message(message())
    assert await store.delete("session_1")
    assert not await store.delete("session_1")
    assert await store.session("session_1") is None
    assert await store.run("run_1") is None
    assert await store.pages("run_1") == []
    assert await store.undelivered_messages("session_1") == []
    with pytest.raises(StoreError, match="run_1 does not exist"):
        await store.commit(batch(3, 3))
    await store.add(session("session_3"))
    await store.commit(beginning(2, run="run_3", of="session_3"))
    with pytest.raises(StoreError, match="run_1 does not exist"):
        await store.commit(batch(3, 3))
    assert seqs(await all_pages(store, "run_3")) == [1, 2]
    assert seqs(await all_pages(store, "run_of_session_2")) == [1, 2, 3, 4]


async def test_ended_sessions_are_forgotten_by_age_and_by_number_and_others_stay(store: SqlStore) -> None:
    for number in range(120):
        await ended(store, f"old_{number:03}", second=number)
    await store.add(session("going", second=0))
    await store.commit(beginning(run="run_going", of="going"))
    assert await store.forget() == 0
    assert await store.forget(before=at(60)) == 60
    assert await store.forget(keep=5) == 55
    left = (await store.sessions(SessionFilter(limit=200)))[0]
    assert [one.id for one in left] == [f"old_{number}" for number in range(119, 114, -1)] + ["going"]
    assert await store.forget(before="2026-11-21T06:01:58+01:00", keep=4) == 3  # another zone; one by number, too
    assert await store.forget(keep=0) == 2
    assert [one.id for one in (await store.sessions())[0]] == ["going"]
    for wrong in ({"before": "yesterday"}, {"keep": -1}):
        with pytest.raises(WrongUse):
            await store.forget(**wrong)


async def test_only_what_was_archived_as_it_is_now_is_forgotten(store: SqlStore) -> None:
    for number in range(4):
        await ended(store, f"old_{number}", second=number)
    asked: list[list[str]] = []

    async def archive(ids: Sequence[str]) -> dict[str, int]:
        asked.append(list(ids))
        if len(asked) > 1:
            return {}
        found = {id: one.token for id in ids if (one := await store.session(id)) is not None}
        for_another_run = ids[1]
        await store.commit(beginning(run="run_more", of=for_another_run, second=50))
        await store.commit(ending(3, 4, run="run_more", of=for_another_run, second=51))
        del found[ids[2]]
        return found

    assert await store.forget(before=at(60), archive=archive) == 2
    assert asked[0] == [f"old_{number}" for number in range(4)]
    left = (await store.sessions())[0]
    assert [(one.id, one.runs) for one in left] == [("old_2", 1), ("old_1", 2)]


async def test_an_archive_that_fails_keeps_everything(store: SqlStore) -> None:
    await ended(store, "old")

    async def archive(ids: Sequence[str]) -> dict[str, int]:
        raise OSError("away")

    with pytest.raises(OSError, match="away"):
        await store.forget(keep=0, archive=archive)
    assert len((await store.sessions())[0]) == 1


async def test_readers_see_what_was_committed_before_they_asked(store: SqlStore) -> None:
    await store.add(session())
    await store.commit(beginning(1))
    for seq in range(2, 40):
        await store.commit(batch(seq, seq))
        run, pages = await asyncio.gather(store.run("run_1"), store.pages("run_1", after=seq - 1))
        assert run is not None
        assert (run.last_seq, seqs(pages)) == (seq, [seq])


async def test_a_thousand_readers_at_once_all_get_their_answer(store: SqlStore) -> None:
    await ended(store, "session_1")
    found = await asyncio.gather(*(store.pages("run_of_session_1") for _ in range(1000)))
    assert all(seqs(pages) == [1, 2, 3, 4] for pages in found)


async def test_a_closed_store_says_so_and_can_be_opened_again(store: SqlStore) -> None:
    await ended(store, "session_1")
    handed_in = asyncio.gather(*(store.add(session(f"more_{number}")) for number in range(50)))
    await asyncio.sleep(0)
    await store.close()
    await store.close()
    await handed_in
    for work in (store.session("session_1"), store.add(session("session_2")), store.forget(keep=0)):
        with pytest.raises(StoreError, match="not open"):
            await work
    await store.open()
    await store.open()
    assert len((await store.sessions(SessionFilter(limit=100)))[0]) == 51
