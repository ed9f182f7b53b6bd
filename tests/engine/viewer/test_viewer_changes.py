"""Files that change while they are viewed: written, replaced, added, removed, and very large ones."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from endstop.decision.events import ToolCallResult
from endstop.records.format import encode_line
from endstop.records.reader import read_record
from endstop.records.recorder import RecordWriter
from endstop.viewer import catalog

from .viewing import RECORDS, WAIT_SECONDS, viewing

SESSION = "session_09d37def9618"


@pytest.fixture(autouse=True)
def _look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "REFRESH_SECONDS", 0.01)


class Reader:
    """Reads a stream of events as it comes."""

    def __init__(self, reply: Any) -> None:
        self._lines = _lines(reply.content)

    async def until_type(self, kind: str) -> list[dict[str, Any]]:
        """The events up to the first of this type."""
        events: list[dict[str, Any]] = []
        async with asyncio.timeout(WAIT_SECONDS):
            while not events or events[-1]["type"] != kind:
                line = await anext(self._lines, None)
                assert line is not None, "the stream ended"
                if line.startswith(b"data: "):
                    events.append(msgspec.json.decode(line[6:]))
        return events

    async def ends(self) -> bool:
        """Whether the stream comes to its end."""
        async with asyncio.timeout(WAIT_SECONDS):
            async for _ in self._lines:
                pass
        return True


async def _lines(content: Any) -> AsyncIterator[bytes]:
    """The lines of a stream, without their ends. aiohttp's own `readline` copies a long one again at each read."""
    parts: list[bytes] = []
    async for chunk in content.iter_any():
        first, *more = chunk.split(b"\n")
        parts.append(first)
        for part in more:
            yield b"".join(parts)
            parts = [part]


async def test_a_record_is_followed_while_it_is_written(tmp_path: Path) -> None:
    (run,) = read_record(RECORDS / "loop.jsonl").runs
    path = tmp_path / "live.jsonl"
    writer = RecordWriter(path, SESSION, "2026-01-01T00:00:00Z", "0.1.0")
    first_step = next(place for place, event in enumerate(run.events) if type(event).__name__ == "StepFinished")
    for event in run.events[: first_step + 1]:
        writer.write(event)
    writer.flush()
    async with viewing(tmp_path) as site:
        running = await site.get("/sessions")
        assert [(one["status"], one["trouble"]) for one in running["sessions"]] == [("running", None)]
        async with site.client.get(f"{site.url}/sessions/{SESSION}/events") as reply:
            reader = Reader(reply)
            begun = await reader.until_type("STEP_FINISHED")
            for event in run.events[first_step + 1 :]:
                writer.write(event)
                writer.flush()
            rest = await reader.until_type("RUN_FINISHED")
        writer.close()
        done = await site.until("/sessions", lambda page: page["sessions"][0]["status"] != "running")
    recorded = [event["seq"] for event in begun + rest if event["type"] != "CALL_JUDGED"]
    assert recorded == [event.seq for event in run.events]
    assert (done["sessions"][0]["status"], done["sessions"][0]["steps"]) == ("exhausted", 12)


async def test_half_a_line_comes_once_it_is_whole(tmp_path: Path) -> None:
    whole = (RECORDS / "loop.jsonl").read_bytes()
    path = tmp_path / "live.jsonl"
    path.write_bytes(whole[:-40])
    async with viewing(tmp_path) as site:
        async with site.client.get(f"{site.url}/sessions/{SESSION}/events") as reply:
            reader = Reader(reply)
            await reader.until_type("DECISION_MADE")
            with path.open("ab") as file:
                file.write(whole[-40:-1])  # without the newline
            events = await reader.until_type("RUN_FINISHED")
        assert events[-1]["outcome"]["stop_reason"] == "step_limit"
        found = await site.until("/sessions", lambda page: page["sessions"][0]["status"] == "exhausted")
    assert found["sessions"][0]["trouble"] is None


@pytest.mark.parametrize("change", ["replaced", "shorter", "removed"])
async def test_a_stream_ends_when_its_file_is_another(tmp_path: Path, change: str) -> None:
    path = tmp_path / "one.jsonl"
    shutil.copy(RECORDS / "loop.jsonl", path)
    async with viewing(tmp_path) as site, site.client.get(f"{site.url}/sessions/{SESSION}/events") as reply:
        reader = Reader(reply)
        await reader.until_type("RUN_FINISHED")
        if change == "replaced":
            other = tmp_path / "other"
            shutil.copy(RECORDS / "add.jsonl", other)
            other.replace(path)
        elif change == "shorter":
            path.write_bytes(path.read_bytes()[:500])
        else:
            path.unlink()
        assert await reader.ends()


async def test_files_appear_and_vanish_and_an_empty_folder_is_an_empty_list(tmp_path: Path) -> None:
    async with viewing(tmp_path) as site:
        assert (await site.get("/sessions"))["total"] == 0
        assert (await site.get("/facets"))["status"] == {}
        for name in ("one.jsonl", "two.jsonl"):
            shutil.copy(RECORDS / "loop.jsonl", tmp_path / name)
        two = await site.until("/sessions", lambda page: page["total"] == 2)
        assert {one["id"] for one in two["sessions"]} == {SESSION, f"{SESSION}~2"}
        (tmp_path / "one.jsonl").unlink()
        left = await site.until("/sessions", lambda page: page["total"] == 1)
        assert (left["sessions"][0]["id"], left["sessions"][0]["file"]) == (SESSION, "two.jsonl")
        await site.get(f"/sessions/{SESSION}~2", 404)
        shutil.rmtree(tmp_path)
        await site.until("/sessions", lambda page: page["total"] == 0)


async def test_a_result_of_50_megabytes_is_streamed_and_the_list_does_not_wait_for_it(tmp_path: Path) -> None:
    large = "all work and no play\n" * 2_500_000
    lines = (RECORDS / "loop.jsonl").read_bytes().splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith(b'{"type":"TOOL_CALL_RESULT"'))
    result = msgspec.json.decode(lines[at], type=ToolCallResult)
    lines[at] = encode_line(msgspec.structs.replace(result, content=large))
    (tmp_path / "large.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    shutil.copy(RECORDS / "add.jsonl", tmp_path / "small.jsonl")
    async with viewing(tmp_path) as site:
        assert (await site.get("/sessions"))["total"] == 2
        sizes = []
        async with site.client.get(f"{site.url}/sessions/{SESSION}/events") as reply:
            reader = Reader(reply)
            while not sizes:
                event = (await reader.until_type("TOOL_CALL_RESULT"))[-1]
                sizes.append(len(event["content"]))
        assert sizes == [len(large)]
        await site.built()
        page = await site.get('/sessions?q="work and no play"')
        assert [one["id"] for one in page["sessions"]] == [SESSION]
        assert len(page["sessions"][0]["match"]["excerpt"]) < 400
