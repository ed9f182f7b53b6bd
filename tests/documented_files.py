"""The files that the documents' commands name, made so that each command finds what its page says is there."""

from __future__ import annotations

import gzip
import json
import shutil
import zipfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any

from endstop import Engine, tool
from endstop.decision import Limits, Policy, Repetition
from endstop.providers import Scripted, call
from endstop.records.compression import create_file
from endstop.tools import workspace_tools

from .engine.formats.heard import answer, says, user
from .engine.formats.heard import call as openai_call
from .engine.formats.test_claude_code import Transcript
from .engine.formats.test_cline import DONE, reply, streamed
from .engine.formats.test_swe_agent import acted, shown, trajectory
from .engine.formats.test_tau_bench import result

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "tests" / "records"
GOOD, BAD = 340, 4
"""Sessions of `records/`: so many good ones are what `endstop fit` needs for its default guarantee."""
MORE = [f"s{number}.jsonl" for number in range(GOOD // 10, GOOD)]
"""Files of `records/` that only `endstop fit` needs: it wants many good sessions, and all other pages show as much with
a tenth of them."""
LONG = Policy(name="long", limits=Limits(steps=50), reminder=None, repetition=Repetition(nudge_at=(), stop_at=None))
TOOLS = """
from endstop import tool

@tool(approval=True)
def delete_folder(path: str) -> str:
    "Delete a folder with all that is in it."
    return f"{path} is gone"

@tool(approval=lambda arguments: arguments["amount"] > 100)
def pay(invoice: str, amount: int) -> str:
    "Pay an invoice."
    return f"{invoice}: {amount} paid"
"""

TEST = """
from pathlib import Path

def test_the_port_is_8080():
    assert "port = 8080" in (Path(__file__).parent / "server.conf").read_text()
"""
"""The test of `project/`. It passes once the scripted model of the documents has done its work."""


@tool(reads=True)
async def look(path: str) -> str:
    """Look."""
    return path


async def write_files(folder: Path, *, enough_to_fit: bool = True) -> None:
    """Write all of them into this folder.

    enough_to_fit: whether `records/` has as many sessions as `endstop fit` needs; else a tenth of the good ones.
    """
    whole = _made()
    if not (whole / "records").is_dir():
        await _write_records(whole / "records")
        await _write_paused(whole / "work.jsonl")
        await _write_forkable(whole / "run.jsonl")
        _write_others(whole)
        _write_foreign(whole)
    left_out = shutil.ignore_patterns() if enough_to_fit else shutil.ignore_patterns(*MORE)
    shutil.copytree(whole, folder, dirs_exist_ok=True, ignore=left_out)


def write_home(folder: Path) -> None:
    """A home in which Claude Code has left a session, and Codex none."""
    (folder / ".codex").mkdir(parents=True)
    log = Transcript()
    log.user("Set the port to 8080")
    log.model("m1", {"type": "text", "text": "The port is 8080."})
    place = folder / ".claude" / "projects" / "app"
    place.mkdir(parents=True)
    (place / "session.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log.lines))


@cache
def _made() -> Path:
    """Where they are made, once in a process."""
    return Path(mkdtemp())


async def _write_records(folder: Path) -> None:
    folder.mkdir()
    labels = {}
    for number in range(GOOD + BAD):
        steps = 3 + number % 2 if number < GOOD else 40
        script = [[call("look", path=str(step))] for step in range(steps - 1)]
        engine = Engine(Scripted(*script, [call("finish_task", summary="x")]), tools=[look], policy=LONG)
        await engine.session(record=folder / f"s{number}.jsonl").run(f"task {number}")
        labels[f"s{number}"] = number < GOOD
    (folder.parent / "results.json").write_text(json.dumps(labels))


async def _write_paused(record: Path) -> None:
    """The session of docs/guides/approval.md, before its questions are answered."""
    names: dict[str, Any] = {}
    exec(TOOLS, names)
    response = [
        call("delete_folder", path="prod", id="c1"),
        call("pay", invoice="a", amount=500, id="c2"),
        call("pay", invoice="b", amount=5, id="c3"),
    ]
    engine = Engine(Scripted(response), tools=[names["delete_folder"], names["pay"]])
    await engine.session(record=record).run("Tidy up")


async def _write_forkable(record: Path) -> None:
    """A run of twelve steps, whose first call is `c1`."""
    steps = [[call("write_file", path=f"{step}.txt", content="port", id=f"c{step}")] for step in range(1, 12)]
    with TemporaryDirectory() as workspace:
        engine = Engine(Scripted(*steps, [call("finish_task", summary="x")]), tools=workspace_tools(workspace))
        await engine.session(record=record).run("Write eleven files")


def _write_others(folder: Path) -> None:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "my_tools.py").write_text(TOOLS)
    (folder / "better.txt").write_text("port: 8080")
    (folder / "ratings.csv").write_text("id,rating\ns1,good\n")
    (folder / "mine.toml").write_text('base = "strict"\n')
    (folder / "quiet.toml").write_text('base = "agent"\n[repetition]\nnudge_at = []\n')
    for name in ("project", "runs", "before", "after", "archive", "pages"):
        (folder / name).mkdir()
    (folder / "project" / "test_server.py").write_text(TEST)
    with create_file(folder / "archive" / "old.jsonl.zst") as file:
        file.write((RECORDS / "hello.jsonl").read_bytes())
    shutil.copyfile(RECORDS / "before" / "A1.jsonl", folder / "before" / "A1.jsonl")
    shutil.copyfile(RECORDS / "port_server.jsonl", folder / "after" / "A1.jsonl")


def _write_foreign(folder: Path) -> None:
    """Small sessions in the formats that the pages import."""
    chat = [user("Read a"), says("", openai_call("1", "read", '{"path": "a"}')), answer("1"), says("Done.")]
    _write(chat, *(folder / name for name in ("sessions.jsonl", "log.jsonl", "log.json")))
    two = ({"id": name, "messages": chat} for name in ("task-6", "task-7"))
    (folder / "tasks.jsonl").write_text("".join(json.dumps(one) + "\n" for one in two))
    (folder / "log.jsonl.gz").write_bytes(gzip.compress(json.dumps(chat).encode()))
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("chat.json", json.dumps(chat))
    _write(result(*chat, user("###STOP###")), folder / "gpt-4o-airline.jsonl", folder / "results.jsonl")
    edited = trajectory(shown("Mend it."), acted("I look.", "ls"), shown("a.py"), acted("Done.", "submit"))
    _write(edited, *(folder / name / "a.traj" for name in ("trajectories", "gpt-4o/trajs", "swe-agent")))
    _write({"a": True}, folder / "gpt-4o" / "results.json")
    _write(
        [reply(streamed("Look.", ("c1", "read_file", '{"path": "a"}'))), reply(streamed("", DONE))],
        folder / "cline" / "a.json",
    )


def _write(data: Any, *paths: Path) -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(data) + "\n")
