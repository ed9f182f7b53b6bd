"""Server-sent events: every event once and in order, resumed where it broke off, and nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from endstop import Engine, ProgressUpdate, read_record, tool
from endstop.decision import Policy
from endstop.decision.call_judgement import CallJudgement
from endstop.decision.events import ResponseFinished, RunFinished
from endstop.http.sse import encode_sse
from endstop.providers import Scripted, call, say
from endstop.records.format import encode_line
from endstop.records.frames import Frame, Gap
from endstop.service.service import Service
from endstop.testing import FakeClock
from endstop.web import Connection, WebLimits

from ..temporary_store import TemporaryStore
from .site import PATIENCE, Event, Gate, done, service_with, site


async def test_a_run_is_streamed_event_by_event_to_its_terminal_one() -> None:
    async with site() as at:
        session = await at.start()
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            told = await events.all()
        assert events.response.headers["content-type"].startswith("text/event-stream")
        assert events.response.headers["x-accel-buffering"] == "no"
        assert events.response.headers["cache-control"] == "no-store"
        assert [event.id for event in told] == [str(number) for number in range(1, len(told) + 1)]
        assert {event.kind for event in told} == {"message"}
        assert [event.data["seq"] for event in told] == list(range(1, len(told) + 1))
        assert told[0].data["type"] == "RUN_STARTED"
        assert told[-1].data["type"] == "RUN_FINISHED"


async def test_the_progress_of_a_call_is_streamed_while_it_runs() -> None:
    gate = Gate()

    @tool
    async def index() -> AsyncIterator[Any]:
        """Index."""
        yield ProgressUpdate("half", 1, 2)
        await gate.wait()
        yield "indexed"

    service = Service(Engine(Scripted([call("index")], "done"), tools=[index]), store=TemporaryStore(), grace=0)
    async with site(service) as at:
        session = await at.start()
        async with (
            at.stream(f"/runs/{session['run_id']}/events") as events,
            at.stream(f"/sessions/{session['id']}/ag-ui") as translated,
        ):
            half = (await events.until("TOOL_PROGRESS"))[-1].data
            assert (half["name"], half["text"], half["progress"], half["total"]) == ("index", "half", 1, 2)
            while (custom := (await translated.until("CUSTOM"))[-1].data)["name"] != "endstop.tool_progress":
                pass
            assert custom["value"]["text"] == "half"
            gate.open()
            told = [event.data for event in await events.all()]
    assert [data["content"] for data in told if data["type"] == "TOOL_CALL_RESULT"] == ["indexed"]
    assert told[-1]["outcome"]["status"] == "completed"


async def test_the_data_of_an_event_is_the_event_whole_as_json_and_no_field_names_its_kind(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        record.write_bytes((await at.client.get(f"/sessions/{session['id']}/record")).content)
        wire = (await at.client.get(f"/runs/{session['run_id']}/events")).content
    blocks = [block for block in wire.split(b"\n\n") if not block.startswith(b"event: judged\n")]
    assert blocks[0] == b"retry: 1000"
    events = read_record(record).runs[0].events
    assert blocks[1:-1] == [b"id: %d\ndata: %b" % pair for pair in enumerate(map(encode_line, events), 1)]
    assert isinstance(events[-1], RunFinished)
    assert [event.deltas for event in events if isinstance(event, ResponseFinished)] == [None]


async def test_a_session_stream_tells_all_its_runs_and_stays_open_for_the_next() -> None:
    async with site() as at:
        session = await at.start()
        async with at.stream(f"/sessions/{session['id']}/events") as events:
            first = await events.until("RUN_FINISHED")
            assert [event.id for event in first] == [f"{session['run_id']}:{n}" for n in range(1, len(first) + 1)]
            again = (await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": "More"})).json()
            second = await events.until("RUN_FINISHED")
            assert second[0].id == f"{again['run_id']}:1"


@pytest.mark.parametrize("where", ["header", "query"])
async def test_a_stream_resumes_after_any_event_without_loss_or_repetition(where: str) -> None:
    async with site() as at:
        session = await at.start()
        run, id = f"/runs/{session['run_id']}/events", session["id"]
        await at.outcome(session["run_id"])

        async def after(path: str, last: str) -> list[Event]:
            given: dict[str, Any] = {"headers": {"Last-Event-ID": last}}
            if where == "query":
                given = {"params": {"last_event_id": last}}
            async with at.stream(path, **given) as events:
                return await events.until("RUN_FINISHED")

        async with at.stream(run) as events:
            whole = await events.all()
        for number in range(len(whole) - 1):
            assert await after(run, str(number)) == whole[number:]
        theirs = await after(f"/sessions/{id}/events", f"{session['run_id']}:3")
        assert [event.data for event in theirs] == [event.data for event in whole[3:]]


async def test_a_reader_that_drops_in_mid_stream_and_comes_back_has_every_event_once() -> None:
    gate = Gate()
    async with site(provider=Scripted([say("a b c d", 7), gate, say(" e f", 4), done()])) as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/events"
        seen: list[Event] = []
        async with at.stream(path) as events:
            async for event in events:
                seen.append(event)
                if len(seen) == 5:
                    break
        gate.open()
        async with at.stream(path, headers={"Last-Event-ID": seen[-1].id or ""}) as events:
            seen += await events.all()
        assert [event.data["seq"] for event in seen] == list(range(1, len(seen) + 1))
        assert seen[-1].data["type"] == "RUN_FINISHED"


async def test_resuming_a_finished_run_at_its_end_gives_204_so_that_a_browser_stops() -> None:
    async with site() as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/events"
        async with at.stream(path) as events:
            last = (await events.all())[-1].id or ""
        await at.outcome(session["run_id"])  # which is there once the store has the run's end
        response = await at.client.get(path, headers={"Last-Event-ID": last})
        assert (response.status_code, response.content) == (204, b"")
        response = await at.client.get(path, headers={"Last-Event-ID": f"{session['run_id']}:{last}"})
        assert response.status_code == 204


@pytest.mark.parametrize(
    "given", ["x", "-1", "1.5", "٣", "999999", "9" * 30, "run_other:1", ":", "1:", " ", "1\t", "0x1", "run_other:x"]
)
async def test_a_last_event_id_that_leads_nowhere_is_refused(given: str) -> None:
    async with site() as at:
        session = await at.start()
        await at.outcome(session["run_id"])
        for path in (f"/runs/{session['run_id']}/events", f"/sessions/{session['id']}/events"):
            response = await at.client.get(path, params={"last_event_id": given})
            assert (response.status_code, response.json()["code"]) == (400, "last_event_id"), path


async def test_a_reader_may_resume_after_an_event_that_the_store_does_not_have_yet() -> None:
    gate = Gate()
    async with site(provider=Scripted([say("a b c", 5), gate, done()])) as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/events"
        async with at.stream(path) as events:
            last = (await events.until("TEXT_MESSAGE_CONTENT"))[-1]
        async with at.stream(path, headers={"Last-Event-ID": last.id or ""}) as events:
            gate.open()
            rest = await events.all()
        assert rest[0].data["seq"] == last.data["seq"] + 1
        ahead = await at.client.get(path, headers={"Last-Event-ID": str(rest[-1].data["seq"] + 1)})
        assert (ahead.status_code, ahead.json()["code"]) == (400, "last_event_id")


async def test_a_stream_in_which_nothing_happens_says_that_it_lives() -> None:
    gate = Gate()
    async with site(service_with(Scripted([gate, done()]), heartbeat=0.01)) as at:
        session = await at.start()
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            await events.until("ATTEMPT_STARTED")
            lines = events.response.stream  # the rest is read below, up to three heartbeats
            assert lines is not None
            async with asyncio.timeout(PATIENCE):
                async for _ in _comments(events, 3):
                    pass
            gate.open()
            assert (await events.all())[-1].data["type"] == "RUN_FINISHED"
        assert set(events.comments) == {"heartbeat"}


async def _comments(events: Any, number: int) -> AsyncIterator[None]:
    while len(events.comments) < number:
        line = await anext(events._lines)
        if line.startswith(":"):
            events.comments.append(line[2:])
        yield


async def test_a_reader_that_leaves_is_noticed_at_once_and_the_run_goes_on() -> None:
    gate = Gate()
    async with site(provider=Scripted([gate, done()])) as at:
        session = await at.start()
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            await events.until("ATTEMPT_STARTED")
            assert len(at.state.tasks) == 1
        await _all_gone(at.state)
        assert await at.status(session["id"]) == "running"
        gate.open()
        assert (await at.outcome(session["run_id"]))["status"] == "completed"


async def test_a_run_whose_reader_asked_for_it_ends_when_that_reader_leaves() -> None:
    async with site(provider=Scripted([Gate(), done()])) as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/events"
        async with at.stream(path, params={"on_disconnect": "cancel"}) as events:
            await events.until("ATTEMPT_STARTED")
        outcome = await at.outcome(session["run_id"])
        assert (outcome["status"], outcome["detail"]) == ("cancelled", "cancelled from outside: disconnect")


async def test_a_reader_that_read_to_the_end_cancels_nothing_of_the_next_run() -> None:
    gate = Gate()
    async with site(provider=Scripted([done()], [gate, done()])) as at:
        session = await at.start()
        path = f"/runs/{session['run_id']}/events"
        async with at.stream(path, params={"on_disconnect": "cancel"}) as events:
            await events.all()
        again = (await at.client.post(f"/sessions/{session['id']}/runs", json={"prompt": "More"})).json()
        gate.open()
        assert (await at.outcome(again["run_id"]))["status"] == "completed"


async def _all_gone(state: Any) -> None:
    async with asyncio.timeout(PATIENCE):
        while state.tasks:
            await asyncio.wait(list(state.tasks))


# ---- slow readers


def _much(size: int = 40_000, pieces: int = 200) -> list[Any]:
    text = Random(1).randbytes(size * pieces // 2).hex()  # not the same again and again, which would be cut
    return [*say(text, pieces), *done()]


async def test_a_reader_that_takes_nothing_holds_up_no_run_and_little_memory_and_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Eight megabytes are told to a client that reads a few bytes and then no more."""
    gone = asyncio.Event()
    sent: list[int] = []

    class Watched(Connection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            gone.set()

    limits = WebLimits(requests_per_second=None, write_interval=0, send_seconds=0.3)
    service = service_with(Scripted(_much()), Policy(response_tokens=None))
    async with site(service, limits=limits, http=Watched) as at:
        session = await at.start()
        lazy = socket.create_connection(("127.0.0.1", at.port))
        lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        lazy.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(
            lazy, b"GET /runs/%b/events HTTP/1.1\r\nHost: localhost\r\n\r\n" % session["run_id"].encode()
        )
        assert await loop.sock_recv(lazy, 16)
        gone.clear()
        outcome = await at.outcome(session["run_id"])
        assert outcome["status"] == "completed"
        sent.extend(c.transport.get_write_buffer_size() for c in at.state.connections)
        assert max(sent) < 512 * 1024
        async with asyncio.timeout(PATIENCE):
            await gone.wait()
        lazy.close()
        await _all_gone(at.state)
    assert not caplog.records


async def test_a_reader_of_one_byte_a_time_gets_every_event_when_it_hurries_up() -> None:
    async with site(provider=Scripted(_much(1000, 100))) as at:
        session = await at.start()
        reader, writer = await at.connect(keep=1)
        writer.write(
            b"GET /runs/%b/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % session["run_id"].encode()
        )
        slowly = b"".join([await reader.readexactly(1) for _ in range(500)])
        await at.outcome(session["run_id"])
        async with asyncio.timeout(PATIENCE):
            whole = slowly + await reader.read()
        writer.close()
    ids = [int(line[4:]) for line in whole.splitlines() if line.startswith(b"id: ")]
    assert ids == list(range(1, len(ids) + 1))
    assert b'"type":"RUN_FINISHED"' in whole


async def test_what_comes_between_two_writes_goes_out_together() -> None:
    """Simulated time: the reader is told the beginning at once, and the rest when the interval has passed."""
    clock, gate = FakeClock(), Gate()
    limits = WebLimits(requests_per_second=None, write_interval=0.05)
    async with site(provider=Scripted([gate, say("a b c d", 7), done()]), limits=limits, clock=clock) as at:
        session = await at.start()
        await gate.reached.wait()
        async with at.stream(f"/runs/{session['run_id']}/events") as events:
            pieces = events.response.aiter_raw()
            assert await anext(pieces) == b"retry: 1000\n\n"
            beginning = await anext(pieces)
            assert b"ATTEMPT_STARTED" in beginning
            gate.open()
            await at.outcome(session["run_id"])
            following = asyncio.ensure_future(anext(pieces))
            await clock.advance(0.04)
            assert not following.done()
            await clock.advance(0.02)
            rest = await following
            assert b"TEXT_MESSAGE_CONTENT" in rest
            assert b"RUN_FINISHED" in rest


# ---- frames


async def _portions(*portions: Any) -> AsyncIterator[Any]:
    for portion in portions:
        yield portion


async def test_a_gap_is_told_as_an_event_without_an_id() -> None:
    portions = _portions([Frame("r", 1, b"{}")], [Gap("r", 7, 9)], [Frame("r", 9, b"{}", True)])
    wire = b"".join([chunk async for chunk in encode_sse(portions, with_run=False)])
    assert wire == (
        b'retry: 1000\n\nid: 1\ndata: {}\n\nevent: lagged\ndata: {"run_id":"r","missed":7,"next_seq":9}\n\n'
        b"id: 9\ndata: {}\n\n"
    )


async def test_what_is_known_of_a_call_goes_before_its_result_and_has_no_id() -> None:
    known = CallJudgement(effect="reads", end="failed", only_read=True)
    portions = _portions([Frame("r", 3, b"{}", judged=known)])
    wire = b"".join([chunk async for chunk in encode_sse(portions, with_run=True)])
    told = b'{"type":"CALL_JUDGED","run_id":"r","seq":3,"effect":"reads","end":"failed","only_read":true}'
    assert wire == b"retry: 1000\n\nevent: judged\ndata: " + told + b"\n\nid: r:3\ndata: {}\n\n"


async def test_a_portion_goes_out_in_one_piece_unless_it_is_large() -> None:
    small = [Frame("r", number, b"x" * 100) for number in range(1, 11)]
    large = [Frame("r", number, b"x" * 50_000) for number in range(11, 15)]
    chunks = [chunk async for chunk in encode_sse(_portions(small, (), large), with_run=True)]
    assert len(chunks) == 1 + 1 + 1 + 2
    assert chunks[1].startswith(b"id: r:1\n")
    assert chunks[2] == b": heartbeat\n\n"


def test_no_line_of_a_record_can_break_a_frame() -> None:
    """JSON escapes what would end a line: a frame is one line of data whatever a model writes."""
    line = msgspec.json.encode({"text": "a\r\nb\n\ndata: c\rid: 7\x00\u2028"})
    assert b"\n" not in line
    assert b"\r" not in line
