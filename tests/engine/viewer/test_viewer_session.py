"""One session over HTTP: its runs, its events, and its record."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote

import pytest
from endstop import Engine
from endstop.decision.events import RunStarted
from endstop.providers import Scripted, call
from endstop.records.format import encode_line
from endstop.records.reader import read_record

from .viewing import RECORDS, viewing

LOOP = "session_09d37def9618"
TWO_RUNS = "session_de1d1ba9154a"


async def test_a_session_has_its_runs_with_their_outcomes() -> None:
    record = read_record(RECORDS / "gives_up.jsonl")
    async with viewing(RECORDS / "gives_up.jsonl") as site:
        session = await site.get(f"/sessions/{TWO_RUNS}")
    assert [run["id"] for run in session["runs"]] == [run.started.run_id for run in record.runs]
    assert [run["number"] for run in session["runs"]] == list(range(1, len(record.runs) + 1))
    assert [run["outcome"]["status"] for run in session["runs"]] == [
        run.finished.outcome.status for run in record.runs if run.finished is not None
    ]
    assert session["file"] == "gives_up.jsonl"


@pytest.mark.parametrize("name", ["gives_up.jsonl", "question.jsonl", "add.jsonl", "port.jsonl"])
async def test_the_stream_has_every_event_whole_and_in_order(name: str) -> None:
    record = read_record(RECORDS / name)
    wanted = [(run.started.run_id, event) for run in record.runs for event in run.events]
    async with viewing(RECORDS / name) as site:
        id = (await site.get("/sessions"))["sessions"][0]["id"]
        found = await site.events(id, len(wanted))
        rest = await site.events(id, 3, **{"Last-Event-ID": found[-4][0]})
    assert [id for id, _ in found] == [f"{run_id}:{event.seq}" for run_id, event in wanted]
    for (_, data), (_, event) in zip(found, wanted, strict=True):
        if not isinstance(event, RunStarted):  # its policy is written with fewer settings
            assert encode_line(event) == encode_line(type(event)(**_fields(event, data))), event.seq
    assert rest == found[-3:]


def _fields(event: object, data: dict[str, object]) -> dict[str, object]:
    import msgspec

    decoded = msgspec.json.decode(msgspec.json.encode(data), type=type(event))
    return {name: getattr(decoded, name) for name in decoded.__struct_fields__}


async def test_a_place_that_the_record_does_not_have_is_refused() -> None:
    async with viewing(RECORDS / "loop.jsonl") as site:
        for last in ("run_none:3", "nonsense", "x:"):
            problem = await site.get(f"/sessions/{LOOP}/events", 400, **{"Last-Event-ID": last})
            assert problem["code"] == "last_event_id"


async def test_the_record_is_downloaded_as_it_is_also_under_an_odd_name(tmp_path: Path) -> None:
    odd = tmp_path / "a b%2f#?" / "ü\n\x1b[31m.jsonl"
    odd.parent.mkdir()
    shutil.copy(RECORDS / "loop.jsonl", odd)
    (tmp_path / b"\xff\xfe.jsonl".decode("utf-8", "surrogateescape")).write_text("nothing\n")
    async with viewing(tmp_path) as site:
        found = (await site.get("/sessions"))["sessions"]
        async with site.client.get(f"{site.url}/sessions/{LOOP}/record") as reply:
            assert await reply.read() == odd.read_bytes()
            assert "attachment" in reply.headers["Content-Disposition"]
        broken = next(one for one in found if one["status"] == "unreadable")
        assert (await site.get(f"/sessions/{quote(broken['id'], safe='')}"))["id"] == broken["id"]
    assert len(found) == 2


async def test_the_page_is_served_in_the_mode_of_the_viewer() -> None:
    async with viewing(RECORDS / "loop.jsonl") as site:
        async with site.client.get(site.url) as reply:
            assert "data-mode=viewer" in await reply.text()
            assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
            again = {"If-None-Match": reply.headers["ETag"]}
        async with site.client.get(site.url, headers=again) as reply:
            assert reply.status == 304
        async with site.client.get(f"{site.url}/page/main.js") as reply:
            assert reply.status == 200
            assert reply.content_type == "text/javascript"


async def test_the_request_of_a_step_is_told_with_its_messages_and_tools() -> None:
    async with viewing(RECORDS / "loop.jsonl") as site:
        first = await site.get(f"/sessions/{LOOP}/request?run=1&step=1")
        later = await site.get(f"/sessions/{LOOP}/request?run=1&step=5")
        missing = await site.get(f"/sessions/{LOOP}/request?run=1&step=99", 404)
        wrong = await site.get(f"/sessions/{LOOP}/request?run=1", 400)
    started = read_record(RECORDS / "loop.jsonl").runs[0].started
    assert first["system"] == started.system
    assert first["messages"][0] == {"role": "user", "text": started.prompt}
    assert [tool["name"] for tool in first["tools"]] == [tool.name for tool in started.tools]
    assert (first["model"], first["source"], first["redacted"]) == ("local", "recorded", False)
    assert len(later["messages"]) > len(first["messages"])
    assert later["messages"][: len(first["messages"])] == first["messages"]
    assert "no step 99" in missing["detail"]
    assert "step" in wrong["detail"]


async def test_a_subagent_opens_though_it_is_not_listed_and_so_does_one_of_its_own(tmp_path: Path) -> None:
    inner = Engine(Scripted("It is dry.")).as_tool("inner", "Look it up.")
    outer = Engine(Scripted([call("inner", prompt="Rain?")], "No rain."), tools=[inner]).as_tool("outer", "Ask.")
    caller = Engine(Scripted([call("outer", prompt="Weather?")], "Sunny."), tools=[outer])
    await caller.run("Go", record=tmp_path / "caller.jsonl")
    found = {read_record(path).runs[0].started.session_id: path for path in tmp_path.rglob("*.jsonl")}
    assert len(found) == 3
    async with viewing(tmp_path) as site:
        assert [one["file"] for one in (await site.get("/sessions"))["sessions"]] == ["caller.jsonl"]
        for id, path in found.items():
            session = await site.get(f"/sessions/{id}")
            assert (session["file"], session["status"]) == (path.relative_to(tmp_path).as_posix(), "completed")
            events = [event for run in read_record(path).runs for event in run.events]
            assert [data["seq"] for _, data in await site.events(id, len(events))] == [event.seq for event in events]
        (inner_id,) = (id for id, path in found.items() if path.name.startswith("inner"))
        found[inner_id].unlink()
        for missing in (inner_id, "session_none", "session_", "*"):
            assert (await site.get(f"/sessions/{quote(missing, safe='')}", 404))["code"] in ("unknown", "not_found")


async def test_a_subagent_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    shutil.copy(RECORDS / "add.jsonl", tmp_path / "caller.jsonl")
    folder = tmp_path / "caller.subagents"
    folder.mkdir()
    (folder / "look-abc.jsonl").write_text("no record\n")
    async with viewing(tmp_path) as site:
        session = await site.get("/sessions/session_abc")
        assert session["status"] == "unreadable"
        assert session["trouble"]
        assert (await site.get("/sessions/session_abc/events", 422))["code"] == "unreadable"
        shutil.copy(RECORDS / "add.jsonl", folder / "look-abc.jsonl")
        assert (await site.get("/sessions/session_abc"))["status"] == "completed"
