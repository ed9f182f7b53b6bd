"""Tests of `endstop run --fork RECORD --at SEQ`, and of what the other commands say of a fork."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.decision import events as ev

from ...console import Done, endstop
from ...servers import ChatServer, call

SUMMARY = "The port is 8080."
TOOLS = """
from endstop import tool

@tool(reads=True)
def look(path: str) -> str:
    "Look."
    return "port = 80"
"""
LOOK = [call("look", id="l1", path="a.toml")]
AGAIN = [call("look", id="l2", path="b.toml")]
END = [call("finish_task", id="f1", summary=SUMMARY)]


async def recorded(folder: Path, *responses: Any, name: str = "origin.jsonl", more: tuple[object, ...] = ()) -> Path:
    """The record of a run of which every decision is recorded."""
    (folder / "tools.py").write_text(TOOLS)
    (folder / "steps.toml").write_text("max_inner_steps = 1\n")
    record = folder / name
    async with ChatServer(*responses) as server:
        arguments = ("--api-base", server.url, "--policy", folder / "steps.toml", "--tools", folder / "tools.py")
        await endstop("run", "Which port?", "--model", "scripted", *arguments, "--record", record, *more)
    return record


def decisions(record: Path, run: int = -1) -> list[int]:
    return [event.seq for event in read_record(record).runs[run].events if isinstance(event, ev.DecisionMade)]


async def fork(server: ChatServer, record: Path, at: int, new: Path, *arguments: object) -> Done:
    tools = ("--tools", record.parent / "tools.py")
    there = ("--api-base", server.url, *tools, "--record", new)
    return await endstop("run", "--fork", record, "--at", at, *there, *arguments)


async def test_a_fork_goes_on_with_what_the_record_says_and_with_what_is_given(tmp_path: Path) -> None:
    record, new = await recorded(tmp_path, LOOK, AGAIN, END), tmp_path / "fork.jsonl"
    at, before = decisions(record)[0], record.read_bytes()
    (tmp_path / "result.txt").write_text("port = 8080")
    async with ChatServer(END) as server:
        changes = ("--model", "other", "--result", f"l1=@{tmp_path}/result.txt", "The port, please.")
        done = await fork(server, record, at, new, *changes, "--json")
    assert (done.code, done.json["status"], done.json["steps"]) == (0, "completed", 2)
    assert record.read_bytes() == before
    (request,) = server.requests
    assert request["model"] == "other"
    assert [m["content"] for m in request["messages"][1:] if m["role"] != "assistant"] == [
        "The port, please.",
        "port = 8080",
    ]
    origin = read_record(record).header.session_id
    said = f"forked from {origin} at decision {at}, with another model, another prompt and an edited result of l1"
    assert said in done.err
    assert "step 1" not in done.err
    assert "step 2" in done.err
    (run,) = read_record(new).runs
    assert run.started.origin == ev.Origin(
        session_id=origin,
        run_id=read_record(record).runs[0].started.run_id,
        at=at,
        edited=("l1",),
        changed=("model", "prompt"),
    )
    replayed = await endstop("replay", new)
    assert replayed.code == 0
    audited = await endstop("audit", new)
    assert " · 1 step · " in audited.out.partition("\n\n")[0]
    assert f"{said}; 1 step copied and counted there" in " ".join(audited.out.split())


async def test_a_backtest_names_the_command_with_which_a_fork_goes_on(tmp_path: Path) -> None:
    record, new = await recorded(tmp_path, LOOK, AGAIN, END), tmp_path / "fork.jsonl"
    (tmp_path / "prompted.toml").write_text(
        'max_inner_steps = 1\n[limits]\nsteps = 3\n[prompts]\nnext_step = "Next?"\n'
    )
    (tmp_path / "warned.toml").write_text("max_inner_steps = 1\nreminder = 0.5\n[limits]\nsteps = 4\n")
    done = await endstop("backtest", record, "--policy", tmp_path / "warned.toml", "--no-index")
    at = decisions(record)[1]
    command = f"endstop run --fork {record} --at {at} --policy {tmp_path}/warned.toml --record NEW"
    assert command in done.out
    async with ChatServer(END) as server:
        forked = await fork(server, record, at, new, "--policy", tmp_path / "warned.toml", "--json")
    assert (forked.code, forked.json["steps"], len(server.requests)) == (0, 3, 1)
    assert "2 of 4" in server.requests[0]["messages"][-1]["content"]
    again = await endstop("backtest", new, "--policy", tmp_path / "warned.toml", "--json", "--no-index")
    assert again.json["policies"][0]["partings"]["same"] == 1
    early = await endstop("backtest", record, "--policy", tmp_path / "prompted.toml", "--no-index")
    assert "diverges" in early.out
    assert "--fork" not in early.out, "no decision comes before its first step"


async def test_a_report_over_both_counts_the_beginning_once(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    record = await recorded(tmp_path, LOOK, AGAIN, END)
    async with ChatServer(END) as server:
        await fork(server, record, decisions(record)[1], folder / "fork.jsonl", "--model", "other")
    alone = await endstop("report", record, "--json", "--no-index")
    record.rename(folder / "origin.jsonl")
    both = await endstop("report", folder, "--json", "--no-index", "--html", tmp_path / "r.html")
    one, two = alone.json["overall"], both.json["overall"]
    assert (one["runs"], one["steps"], one["tool_calls"], one["requests"]) == (1, 3, 3, 3)
    assert (two["runs"], two["steps"], two["tool_calls"], two["requests"]) == (2, 4, 4, 4)
    assert both.json["by_model"]["other"]["steps"] == 1
    assert both.json["by_tool"]["look"]["calls"] == alone.json["by_tool"]["look"]["calls"] == 2
    for name in ("input_tokens", "output_tokens"):
        assert one["spending"][name] < two["spending"][name] < 2 * one["spending"][name]
    assert both.json["telling"][0]["steps"] + both.json["telling"][1]["steps"] == 4
    assert "at decision" in (tmp_path / "r.html").read_text()


async def test_a_run_that_a_fork_copied_whole_is_no_run_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    record = await recorded(tmp_path, LOOK, END)
    async with ChatServer(AGAIN, END) as server:
        arguments = ("--api-base", server.url, "--tools", tmp_path / "tools.py")
        await endstop("run", "--resume", record, *arguments, "And the other?")
        await fork(server, record, decisions(record)[-1], folder / "fork.jsonl")
    record.rename(folder / "origin.jsonl")
    both = await endstop("report", folder, "--json", "--no-index")
    overall = both.json["overall"]
    assert (both.json["sessions"], overall["runs"], overall["steps"], overall["tool_calls"]) == (2, 3, 4, 4)
    tested = await endstop("backtest", folder, "--policy", tmp_path / "steps.toml", "--json", "--no-index")
    assert (tested.json["runs"], tested.json["used"]["steps"]) == (3, 4)
    audited = await endstop("audit", folder / "fork.jsonl")
    assert "; 2 steps copied and counted there" in audited.out
    assert (await endstop("replay", folder / "fork.jsonl")).code == 0


WRONG = {
    "no decision": (
        ["--fork", "o.jsonl", "--at", "2", "--record", "n"],
        "is not a decision, but STAGE_FINISHED; the next",
    ),
    "no such run": (
        ["--fork", "o.jsonl", "--at", "2", "--run", "7", "--record", "n"],
        "o.jsonl has no run 7: its runs",
    ),
    "no record for it": (["--fork", "o.jsonl", "--at", "2"], "add --record, a new file for the fork"),
    "no decision named": (["--fork", "o.jsonl", "--record", "n"], "add --at, the `seq` of a DECISION_MADE in it"),
    "a record that is there": (["--fork", "o.jsonl", "--at", "AT", "--record", "o.jsonl"], "already exists"),
    "no tools": (
        ["--fork", "o.jsonl", "--at", "AT", "--record", "n"],
        "tools that are missing now: look (give --tools",
    ),
    "an unknown call": (
        ["--fork", "o.jsonl", "--at", "AT", "--record", "n", "--tools", "tools.py", "--result", "x=1"],
        "result of x: no call of this id has a result before decision",
    ),
    "no text": (
        ["--fork", "o.jsonl", "--at", "AT", "--record", "n", "--tools", "tools.py", "--result", "l1"],
        "--result l1: write CALL_ID=TEXT",
    ),
    "no file": (
        ["--fork", "o.jsonl", "--at", "AT", "--record", "n", "--tools", "tools.py", "--result", "l1=@no.txt"],
        "--result l1=@no.txt: No such file",
    ),
    "an empty prompt": (["--fork", "o.jsonl", "--at", "AT", "--record", "n", "--tools", "tools.py", " "], "empty"),
    "a redacted record": (
        ["--fork", "redacted.jsonl", "--at", "REDACTED_AT", "--record", "n", "--tools", "tools.py"],
        "is redacted: its texts are not what was said",
    ),
    "a record that lost events": (
        ["--fork", "lost.jsonl", "--at", "AT", "--record", "n", "--tools", "tools.py"],
        "lost.jsonl: events 3 to 3 of a run are missing (damaged line 4)",
    ),
    "an imported record": (
        ["--fork", "imported/IMPORTED", "--at", "5", "--record", "n", "--tools", "tools.py"],
        ", run 1 holds no decision to fork at: it was imported",
    ),
    "a resumed one, too": (["--fork", "o.jsonl", "--resume", "o.jsonl"], "cannot be combined"),
    "an answer": (["--fork", "o.jsonl", "--at", "AT", "--record", "n", "--answer", "a"], "--resume RECORD"),
    "a decision without a fork": (["Hi", "--at", "5"], "--at is for a fork"),
    "a result without a fork": (["Hi", "--result", "a=b"], "--result is for a fork"),
    "a strict prompt": (["Hi", "--strict-resume"], "--strict-resume is for a run that is resumed"),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_use_makes_no_request_and_writes_nothing(case: str, tmp_path: Path) -> None:
    arguments, word = WRONG[case]
    record = await recorded(tmp_path, LOOK, END, name="o.jsonl")
    lines = record.read_bytes().splitlines(keepends=True)
    (tmp_path / "lost.jsonl").write_bytes(b"".join([*lines[:3], b"{torn\n", *lines[4:]]))
    redacted = await recorded(tmp_path, LOOK, END, name="redacted.jsonl", more=("--redact",))
    (tmp_path / "chat.json").write_text(
        json.dumps({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]})
    )
    await endstop("import", "openai", tmp_path / "chat.json", "-o", tmp_path / "imported")
    (imported,) = (tmp_path / "imported").iterdir()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    given = {
        "AT": str(decisions(record)[0]),
        # a record's events are numbered as its deltas came, so the same decision has another number in another record
        "REDACTED_AT": str(decisions(redacted)[0]),
        "imported/IMPORTED": str(imported),
    }
    async with ChatServer("Hello.") as server:
        there = ("--model", "scripted", "--api-base", server.url)
        done = await endstop("run", *(given.get(one, one) for one in arguments), *there, cwd=tmp_path)
    assert (done.code, done.out, server.requests) == (2, "", []), done.err
    assert word in done.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(("end", "policy"), [("It is 80.", "chat"), (END, "agent")])
async def test_a_strict_resume_refuses_another_gate_and_writes_nothing(end: Any, policy: str, tmp_path: Path) -> None:
    record = await recorded(tmp_path, LOOK, end, more=("--gate", "true", "--policy", policy))
    lines = record.read_bytes().splitlines(keepends=True)
    verdict = next(n for n, line in enumerate(lines) if b'"VERDICT_GIVEN"' in line)
    killed = b"".join(lines[: verdict + 1])
    record.write_bytes(killed)
    async with ChatServer("Hello.") as server:
        there = ("--api-base", server.url, "--tools", tmp_path / "tools.py", "--gate", "test 1")
        done = await endstop("run", "--resume", record, *there, "--strict-resume")
        assert (done.code, done.out, server.requests) == (2, "", [])
        assert "Nothing was written" in done.err
        assert record.read_bytes() == killed
        assert (await endstop("run", "--resume", record, *there)).code == 0
