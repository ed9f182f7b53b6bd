"""Every reader gets every event once, however late or slow it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from endstop import Engine, Tool, read_record
from endstop.decision import AssistantMessage, Degeneration, Policy, ReasoningDelta, TextDelta
from endstop.decision.events import RunFinished, RunStarted, ToolCallResult
from endstop.providers import Scripted, call
from endstop.records.format import encode_line
from endstop.records.frames import Frame, Gap
from endstop.service import event_buffer
from endstop.service.history import load_runs
from endstop.service.service import Service
from endstop.store.base import EventBatch, NewSession, Page
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ..held import seqs, to_end
from ..other_loops import ENDS, SESSION, events_of_calls
from ..store.made import all_pages
from ..temporary_store import TemporaryStore

AT = "2026-01-01T10:00:00.000Z"
UNWATCHED = Policy(degeneration=Degeneration(text=None))
"""A response may say the same for ever."""


async def test_readers_that_begin_anywhere_and_stall_get_each_event_once() -> None:
    gates = [anyio.Event() for _ in range(4)]
    script: list[Any] = []
    for gate in gates:
        script += [*[TextDelta("x")] * 1500, gate]
    async with Service(Engine(Scripted(script), policy=UNWATCHED), store=TemporaryStore(), grace=0) as service:
        session = await service.start("Talk")
        run = await service.run(session.run_id or "")
        quick = asyncio.create_task(to_end(service.follow_run(run)))
        slow = service.follow_run(run)
        first = [await anext(slow)]  # and then it stalls until the run is over
        late = []
        for gate in gates:
            await anyio.wait_all_tasks_blocked()
            late.append(asyncio.create_task(to_end(service.follow_run(run, after=700))))
            gate.set()
        whole = seqs(await quick)
        assert whole == list(range(1, whole[-1] + 1))
        assert len(whole) > 6000
        assert seqs([*first, *await to_end(slow)]) == whole
        for reader in late:
            assert seqs(await reader) == whole[700:]
        assert await to_end(service.follow_run(run, after=whole[-1])) == []
        assert seqs(await to_end(service.follow_run(run))) == whole


async def test_the_buffer_drops_what_the_store_has() -> None:
    gate = anyio.Event()
    script = [[*[TextDelta("x")] * 9000, gate]]
    store = TemporaryStore()
    async with Service(Engine(Scripted(*script), policy=UNWATCHED), store=store, grace=0) as service:
        session = await service.start("Talk")
        buffer = service._active_sessions.buffer_of(session.run_id or "")
        assert buffer is not None
        async with asyncio.timeout(60):
            while buffer.last <= 9000 or len(buffer.after(buffer.first - 1)) >= 3 * event_buffer.MIN_FRAMES:
                await store.settle()
        gate.set()


async def test_a_session_is_followed_over_its_runs_and_gets_a_beat_meanwhile() -> None:
    async with Service(
        Engine(Scripted("One.", "Two.", "Three.")), store=TemporaryStore(), grace=0, heartbeat=0
    ) as service:
        session = await service.start("1")
        await service.outcome(session.run_id or "", wait=5)
        portions = service.follow_session(session.id)
        seen = [await anext(portions)]
        while seen[-1]:
            seen.append(await anext(portions))
        second = await service.start_run(session.id, "2")
        while seen[-1] == () or seen[-1][-1].run_id != second.run_id or not seen[-1][-1].last:  # type: ignore[union-attr]
            seen.append(await anext(portions))
        await portions.aclose()  # type: ignore[attr-defined]
        await service.outcome(second.run_id or "", wait=5)
        runs = await service.runs(session.id)
        expected = [(run.id, seq) for run in runs for seq in range(1, run.last_seq + 1)]
        assert [(frame.run_id, frame.seq) for portion in seen for frame in portion] == expected  # type: ignore[union-attr]
        after = service.follow_session(session.id, (runs[0].id, runs[0].last_seq - 1))
        again: list[Any] = []
        while len(again) < 1 + runs[1].last_seq:
            again += await anext(after)
        assert [(frame.run_id, frame.seq) for frame in again] == expected[runs[0].last_seq - 1 :]
        await after.aclose()  # type: ignore[attr-defined]


async def test_what_neither_tape_nor_store_has_is_marked() -> None:
    store = TemporaryStore()
    async with Service(Engine(Scripted("One.")), store=store, grace=0) as service:
        session = await service.start("1")
        await service.outcome(session.run_id or "", wait=5)
        run = await service.run(session.run_id or "")
        lines = b"".join(page.lines for page in await store.pages(run.id)).splitlines()
        store.execute("DELETE FROM endstop_pages")
        for first, last in ((1, 2), (5, run.last_seq)):
            page = b"".join(line + b"\n" for line in lines[first - 1 : last])
            columns = "INSERT INTO endstop_pages (run, first_seq, last_seq, lines) SELECT key, ?, ?, ? "
            store.execute(f"{columns} FROM endstop_runs", first, last, page)
        assert seqs(await to_end(service.follow_run(run))) == [1, 2, Gap(run.id, 2, 5), *range(5, run.last_seq + 1)]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=4), st.lists(st.integers(0, 900), max_size=5))
def test_whatever_is_streamed_and_wherever_one_begins(bursts: list[int], begins: list[int]) -> None:
    async def check() -> None:
        script: list[Any] = []
        for burst in bursts:
            script += [TextDelta("x")] * burst
        async with Service(Engine(Scripted(script or "x")), store=TemporaryStore(), grace=0) as service:
            session = await service.start("Talk")
            run = await service.run(session.run_id or "")
            readers = [asyncio.create_task(to_end(service.follow_run(run, after))) for after in begins]
            await service.outcome(run.id, wait=30)
            last = (await service.run(run.id)).last_seq
            for after, reader in zip(begins, readers, strict=True):
                if after <= last:
                    assert seqs(await reader) == list(range(after + 1, last + 1))
                else:
                    await asyncio.wait_for(reader, 60)

    asyncio.run(check())


@pytest.mark.parametrize(("events", "pages"), [(1000, 64), (4, 64), (4, 1)])
async def test_calls_of_another_loop_are_judged_wherever_a_reader_begins(events: int, pages: int) -> None:
    kept, heard = SmallPages(events, pages), events_of_calls()
    started, finished = heard[0], heard[-1]
    assert isinstance(started, RunStarted)
    assert isinstance(finished, RunFinished)
    batch = EventBatch(
        session_id=SESSION,
        run_id=started.run_id,
        first_seq=1,
        last_seq=len(heard),
        lines=b"".join(encode_line(event) + b"\n" for event in heard),
        at=AT,
        started=started,
        finished=finished.outcome,
    )
    async with Service(Engine(Scripted()), store=kept, grace=0) as service:
        await kept.add(NewSession(id=SESSION, owner="", agent="received:x", title="Mend a.py", created_at=AT))
        await kept.commit(batch)
        run = await service.run(started.run_id)
        for after in range(len(heard)):
            known = [frame for portion in await to_end(service.follow_run(run, after=after)) for frame in portion]
            ends = [frame.judged.end for frame in known if isinstance(frame, Frame) and frame.judged is not None]
            results = sum(isinstance(event, ToolCallResult) for event in heard[after:])
            assert ends == ENDS[len(ENDS) - results :], after


class SmallPages(TemporaryStore):
    """A store that keeps so many events a page, and gives so many pages at a time."""

    def __init__(self, events: int, pages: int) -> None:
        super().__init__()
        self.events, self.at_once = events, pages

    async def commit(self, batch: EventBatch) -> None:
        lines = batch.lines.splitlines(keepends=True)
        for begin in range(0, len(lines), self.events):
            part, first = lines[begin : begin + self.events], batch.first_seq + begin
            one = replace(batch, first_seq=first, last_seq=first + len(part) - 1, lines=b"".join(part))
            one = one if begin == 0 else replace(one, started=None, resumed=False, delivered=())
            await super().commit(one if one.last_seq == batch.last_seq else replace(one, finished=None, questions=()))

    async def pages(self, run_id: str, *, after: int = 0, limit: int = 64) -> list[Page]:
        return await super().pages(run_id, after=after, limit=min(limit, self.at_once))


@pytest.mark.parametrize(("events", "pages"), [(1000, 64), (4, 64), (4, 1), (1, 3)])
async def test_a_reader_that_begins_anywhere_gets_responses_whole_though_pages_hold_texts_once(
    events: int, pages: int, tmp_path: Path
) -> None:
    script = [
        [ReasoningDelta("Hm."), *[TextDelta(f"part {n} ") for n in range(9)], call("look", path="here", pieces=7)]
    ]
    kept = SmallPages(events, pages)
    engine = Engine(Scripted(*script, "It is here."), tools=[Tool(_look, name="look", description="Look.")])
    async with Service(engine, store=kept, grace=0) as service:
        session = await service.start("Talk")
        told = lines_in(await to_end(service.follow_run(await service.run(session.run_id or ""))))
        assert len(told) > 25
        await service.outcome(session.run_id or "", wait=5)
    async with Service(engine, store=kept, grace=0) as service:
        run = await service.run(session.run_id or "")
        stored = [line for page in await all_pages(kept, run.id) for line in page.lines.splitlines()]
        assert not [line for line in stored if b'"RESPONSE_FINISHED"' in line and b'"message"' in line]
        for after in range(len(told)):
            assert lines_in(await to_end(service.follow_run(run, after=after))) == told[after:]
        record = tmp_path / "r.jsonl"
        record.write_bytes(b"".join([piece async for piece in service.record(await service.session(session.id))]))
        assert [encode_line(event) for event in read_record(record).runs[0].events] == told
        loaded = await load_runs(engine.session(session.id), kept)
        assert [message.text for message in loaded.transcript.messages if isinstance(message, AssistantMessage)] == [
            "".join(f"part {n} " for n in range(9)),
            "It is here.",
        ]


def lines_in(portions: list[Any]) -> list[bytes]:
    return [frame.line for portion in portions for frame in portion]


def _look(path: str) -> str:
    return f"seen {path}"
