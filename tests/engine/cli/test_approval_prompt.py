"""Approvals on the command line: options to resume with, and the terminal that is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from endstop import Approve, Deny, Toolbox, tool
from endstop.cli.approval_prompt import ask_approvals
from endstop.decision import Question

from ...console import Done, endstop
from ...servers import ChatServer, call
from .terminal import in_terminal

TOOLS = """
from pathlib import Path
from endstop import tool

LOG = Path(__file__).with_name("log.txt")

@tool(approval=True)
def delete(path: str) -> str:
    "Delete a folder."
    with LOG.open("a") as log:
        log.write(f"{path}\\n")
    return f"{path} is gone"
"""
FIRST = [call("delete", id="d1", path="prod"), call("delete", id="d2", path="old")]
END = [call("finish_task", id="f1", summary="Tidy.")]


def log(folder: Path) -> list[str]:
    return (folder / "log.txt").read_text().split() if (folder / "log.txt").exists() else []


async def paused(folder: Path, server: ChatServer) -> Done:
    (folder / "tools.py").write_text(TOOLS)
    where = ("--api-base", server.url, "--tools", folder / "tools.py", "--record", folder / "r.jsonl")
    return await endstop("run", "Tidy up", "--model", "scripted", *where)


async def resume(folder: Path, server: ChatServer, *arguments: object) -> Done:
    where = ("--api-base", server.url, "--tools", folder / "tools.py")
    return await endstop("run", "--resume", folder / "r.jsonl", *where, *arguments)


async def test_calls_are_approved_with_other_arguments_and_denied_by_options(tmp_path: Path) -> None:
    async with ChatServer(FIRST, END) as server:
        asked = await paused(tmp_path, server)
        assert (asked.code, log(tmp_path)) == (5, [])
        assert "May delete run with" in asked.err
        assert "--approve d1 --approve d2" in asked.err
        arguments = ("--approve", 'd2={"path": "older"}', "--deny", "d1=prod is needed", "--json")
        done = await resume(tmp_path, server, *arguments)
    assert (done.code, done.json["status"], log(tmp_path)) == (0, "completed", ["older"])
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert results[0] == "Not run: the user did not approve it and said: prod is needed"
    assert results[1].endswith("older is gone")


async def test_one_answer_leaves_the_other_call_waiting(tmp_path: Path) -> None:
    async with ChatServer(FIRST, END) as server:
        await paused(tmp_path, server)
        assert (await resume(tmp_path, server, "--approve", "d2")).code == 5
        assert log(tmp_path) == []
        assert (await resume(tmp_path, server, "--answer", "yes")).code == 0
    assert log(tmp_path) == ["prod", "old"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--approve", "d9"], "no such call waits for approval (open: d1, d2)"),
        (["--approve", "d1={"], "the arguments are no JSON"),
        (["--approve", 'd1={"path": 7}'], "path: Input should be a valid string"),
        (["--approve", "d1", "--deny", "d1"], "given two answers"),
        (["--approve", "d1", "--answer", "d1=yes"], "given two answers"),
        (["--approve", "d1", "Hi"], "cannot be combined"),
        ([], "--approve CALL_ID, --deny CALL_ID or --answer TEXT"),
    ],
)
async def test_wrong_options_are_said_before_anything_runs(tmp_path: Path, arguments: list[str], why: str) -> None:
    async with ChatServer(FIRST, END) as server:
        await paused(tmp_path, server)
        before = (tmp_path / "r.jsonl").read_bytes()
        done = await resume(tmp_path, server, *arguments)
    assert done.code == 2
    assert why in done.err
    assert ((tmp_path / "r.jsonl").read_bytes(), log(tmp_path)) == (before, [])


async def test_approvals_without_a_record_are_refused() -> None:
    assert "--resume RECORD" in (await endstop("run", "Hi", "--approve", "d1", "--model", "x")).err


async def test_a_terminal_is_asked_and_the_run_goes_on(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    async with ChatServer(FIRST, END) as server:
        where = ("--api-base", server.url, "--tools", tmp_path / "tools.py")
        async with in_terminal("run", "Tidy up", "--model", "scripted", *where) as (terminal, process):
            await terminal.shows("Run it? [y]es")
            assert log(tmp_path) == []
            terminal.press(b"y\r")
            await terminal.shows('delete {"path": "old"}')
            terminal.press(b"not that one\r")
            await terminal.closed()
            assert await process.wait() == 0
    assert log(tmp_path) == ["prod"]
    results = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert results[1].endswith("not that one")


# ---- the questions themselves


@tool(approval=True)
def delete(path: str) -> str:
    "Delete a folder."
    return path


ASKED = [Question("d1", "May it?", tool="delete", arguments={"path": "prod"}), Question("q", "Which?")]


def asked(*lines: str) -> tuple[dict[str, Approve | Deny], str]:
    given: Iterator[str] = iter([*(f"{line}\n" for line in lines), ""])
    shown: list[str] = []
    return ask_approvals(ASKED, Toolbox([delete]), lambda: next(given), shown.append), "".join(shown)


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["y"], Approve()),
        (["", "yes"], Approve()),
        (["n"], Deny()),
        (["it is in use"], Deny("it is in use")),
        (["e", '{"path": "test"}'], Approve({"path": "test"})),
        (["e", "{", '{"path": 7}', '{"paht": "x"}', '{"path": "test"}'], Approve({"path": "test"})),
        (["e", "", "n"], Deny()),
    ],
)
def test_each_answer_means_what_it_says(lines: list[str], answer: Approve | Deny) -> None:
    answers, shown = asked(*lines)
    assert answers == {"d1": answer}
    assert f"delete {json.dumps({'path': 'prod'})}" in shown


def test_what_is_wrong_with_edited_arguments_is_said() -> None:
    _, shown = asked("e", "{", '{"path": 7}', '{"path": "test"}')
    assert "That is no JSON" in shown
    assert "Input should be a valid string" in shown


def test_the_end_of_input_answers_nothing() -> None:
    assert asked()[0] == {}
