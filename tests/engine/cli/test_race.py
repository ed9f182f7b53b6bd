"""`endstop race`, as people and scripts use it, against real HTTP servers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from rich.cells import cell_len

from ...console import PATIENCE, Done, ended, endstop, started
from ...servers import STALL, ChatServer, Refusal, call
from .terminal import in_terminal

FINISH = call("finish_task", summary="The port is 8080.")
LOOP = [call("nobody")]


def models(**servers: ChatServer) -> list[str]:
    named = [("--model", name, "--api-base", server.url) for name, server in servers.items()]
    return [word for words in named for word in words]


async def race(*arguments: object, tmp_path: Path, **options: Any) -> Done:
    """A race whose temporary files are in a folder of the test."""
    (tmp_path / "tmp").mkdir(exist_ok=True)
    return await endstop("race", "Set the port", *arguments, env={"TMPDIR": str(tmp_path / "tmp")}, **options)


def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "config.ini").write_text("port = 80\n")
    return folder


def copies(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "tmp").glob("endstop-race-*/*"))


# ---- who wins


async def test_the_winners_answer_is_all_that_stands_on_stdout_and_the_loser_is_left_at_once(tmp_path: Path) -> None:
    async with ChatServer(["One moment", STALL]) as slow, ChatServer(LOOP, FINISH) as fast:
        done = await race(*models(slow=slow, fast=fast), tmp_path=tmp_path)
        async with asyncio.timeout(PATIENCE):
            await slow.left.wait()
    assert (done.code, done.out) == (0, "The port is 8080.\n")
    assert "> fast" in done.err
    assert "the winner is fast" in done.err
    assert "slow | Cancelled: Another model finished first." in done.err


async def test_json_is_one_object_with_every_racer_in_it(tmp_path: Path) -> None:
    async with ChatServer(["One moment", STALL]) as slow, ChatServer(LOOP, FINISH) as fast:
        records = tmp_path / "records"
        done = await race(*models(slow=slow, fast=fast), "--json", "--record", records, tmp_path=tmp_path)
    told = done.json
    assert (told["winner"], told["answer"]) == ("fast", "The port is 8080.")
    slow_one, fast_one = told["racers"]
    assert (slow_one["racer"], slow_one["won"], slow_one["outcome"]["status"]) == ("slow", False, "cancelled")
    assert (fast_one["model"], fast_one["won"], fast_one["outcome"]["steps"]) == ("fast", True, 2)
    assert fast_one["workspace"] is None
    assert told["usage"]["input_tokens"] == sum(one["outcome"]["usage"]["input_tokens"] for one in told["racers"])
    assert told["usage"]["estimated"]
    for one in told["racers"]:
        recorded = read_record(one["record"]).runs[0].finished
        assert recorded is not None
        assert recorded.outcome.run_id == one["outcome"]["run_id"]
    assert len(list(records.iterdir())) == 2


async def test_compare_lets_all_of_them_end(tmp_path: Path) -> None:
    async with ChatServer(FINISH) as one, ChatServer(LOOP, LOOP, FINISH, pace=0.02) as other:
        done = await race(*models(one=one, other=other), "--compare", "--json", tmp_path=tmp_path)
    assert done.json["winner"] == "one"
    assert [(one["outcome"]["status"], one["outcome"]["steps"]) for one in done.json["racers"]] == [
        ("completed", 1),
        ("completed", 3),
    ]


async def test_the_exit_code_is_the_winners_or_that_of_whoever_came_nearest(tmp_path: Path) -> None:
    cases: list[tuple[list[Any], list[Any], list[str], int]] = [
        ([FINISH], [FINISH], ["--evaluate", "false"], 6),
        ([LOOP, LOOP], [Refusal(500, "no")], ["--max-steps", "1", "--no-closing"], 3),
        ([Refusal(401, "no")], [Refusal(500, "no")], [], 4),
        ([call("ask_user", question="Which port?")], [Refusal(500, "no")], [], 5),
    ]
    for first, second, options, code in cases:
        async with ChatServer(*first) as one, ChatServer(*second) as other:
            done = await race(*models(one=one, other=other), *options, "--json", tmp_path=tmp_path)
        assert done.code == code, done.err
        assert (done.json["winner"] is None) == (code != 6)
        assert ("nobody won" in done.err) == (code != 6)


async def test_the_same_model_can_race_against_itself_at_one_endpoint(tmp_path: Path) -> None:
    async with ChatServer(FINISH, FINISH) as server:
        arguments = ("--model", "m", "--model", "m", "--api-base", server.url, "--compare", "--json")
        done = await race(*arguments, tmp_path=tmp_path)
    assert [one["racer"] for one in done.json["racers"]] == ["m", "m (2)"]
    assert [one["model"] for one in done.json["racers"]] == ["m", "m"]


async def test_settings_policy_gates_and_tools_are_those_of_every_racer(tmp_path: Path) -> None:
    (tmp_path / "tools.py").write_text(
        'from endstop import tool\n@tool\ndef look() -> str:\n    "Look."\n    return "seen"\n'
    )
    async with ChatServer([call("look")], FINISH) as one, ChatServer([call("look")], FINISH) as other:
        arguments = ("--tools", tmp_path / "tools.py", "--temperature", 0.5, "--policy", "strict", "--gate", "true")
        done = await race(*models(one=one, other=other), *arguments, "--compare", tmp_path=tmp_path)
    assert done.code == 0
    assert [server.requests[0]["temperature"] for server in (one, other)] == [0.5, 0.5]
    assert done.err.count("look -> ok") == 2
    assert done.err.count("gate `true`: accepted") == 2


# ---- workspaces


async def test_each_racer_works_in_a_copy_and_the_winners_is_kept(tmp_path: Path) -> None:
    folder = project(tmp_path)
    edits = [call("edit_file", path="config.ini", old="80", new="8080"), FINISH]
    spoils = [call("write_file", path="config.ini", content="spoilt")]
    async with ChatServer(spoils, ["Well", STALL]) as slow, ChatServer(edits, pace=0.01) as fast:
        check = "sh -c 'grep -q 8080 $2/config.ini' check"
        arguments = ("--workspace", folder, "--evaluate", check, "--json")
        done = await race(*models(slow=slow, fast=fast), *arguments, tmp_path=tmp_path)
    assert done.code == 0, done.err
    loser, winner = done.json["racers"]
    assert winner["outcome"]["verdict"] == "passed"
    assert Path(winner["workspace"], "config.ini").read_text() == "port = 8080\n"
    assert (loser["workspace"], copies(tmp_path)) == (None, ["2-fast"])
    assert (folder / "config.ini").read_text() == "port = 80\n"
    assert f"the winner's workspace: {winner['workspace']}" in done.err


async def test_all_copies_are_kept_if_asked_for_or_if_nobody_won(tmp_path: Path) -> None:
    folder = project(tmp_path)
    async with ChatServer(FINISH) as one, ChatServer(["Well", STALL]) as other:
        await race(*models(one=one, other=other), "--workspace", folder, "--keep", tmp_path=tmp_path)
    assert copies(tmp_path) == ["1-one", "2-other"]
    async with ChatServer(Refusal(500, "no"), Refusal(500, "no")) as server:
        done = await race(*models(a=server, b=server), "--workspace", folder, tmp_path=tmp_path)
    assert done.code == 4
    assert copies(tmp_path) == ["1-a", "1-one", "2-b", "2-other"]
    assert "the workspace of a: " in done.err


# ---- wrong use


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--model", "a"], "two models"),
        (["--model", "a", "--model", "b", "--model", "c", "--api-base", "x", "--api-base", "y"], "2 times for 3"),
        (
            ["--model", "gpt-4o", "--api-base", "-", "--model", "b", "--api-base", "http://127.0.0.1:9/v1"],
            "needs a key",
        ),
        (["--keep"], "--workspace"),
        (["--workspace", "/nowhere"], "/nowhere"),
        (["--workspace", "/"], "temporary"),
        (["--allow-run"], "--workspace"),
        (["--policy", "strickt"], "strict"),
        (["--record", __file__], "folder of records"),
        (["--gate", "no-such-command"], "no-such-command"),
    ],
)
async def test_wrong_use_is_exit_code_2_before_the_first_request(
    arguments: list[str], word: str, tmp_path: Path
) -> None:
    async with ChatServer(FINISH, FINISH) as server:
        if "--model" not in arguments:
            arguments = [*arguments, *models(a=server, b=server)]
        done = await race(*arguments, tmp_path=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert word in done.err
    assert server.requests == []
    assert copies(tmp_path) == []
    assert list((tmp_path / "tmp").glob("endstop-race-*")) == []


async def test_a_missing_prompt_names_the_command() -> None:
    done = await endstop("race", "--model", "a", "--model", "b", stdin=b" ")
    assert (done.code, "the prompt is empty" in done.err) == (2, True)


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_racers_use_the_width_and_show_their_cut(tmp_path: Path, columns: int) -> None:
    text = "漢字 and 🎉 and the rest of it, " * 6
    async with ChatServer([text, call("finish_task", summary=text), call("more")]) as one, ChatServer(LOOP) as other:
        given = ("race", text, *models(one=one, other=other), "--max-steps", "1", "--no-closing")
        async with in_terminal(*given, columns=columns, env={"TMPDIR": str(tmp_path)}) as (terminal, process):
            await terminal.closed()
            assert await process.wait() == 0
    lines = [line.rstrip() for line in terminal.lines]
    assert max(map(cell_len, lines)) <= columns
    frames = [line for line in lines if line.startswith(("╭", "┏"))]
    assert max(map(cell_len, frames)) >= min(columns, 190) - 2
    assert "✂ Cut at" in terminal.text


# ---- signals, and the terminal


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_all_of_them_and_they_are_accounted_for(number: signal.Signals) -> None:
    async with (
        ChatServer(["I look\n", STALL]) as one,
        ChatServer(["I look\n", STALL]) as other,
        started("race", "go", *models(one=one, other=other), "--json") as process,
    ):
        async with asyncio.timeout(PATIENCE):
            assert process.stderr is not None
            seen = 0
            while seen < 2:
                seen += b"I look" in await process.stderr.readline()
        os.kill(process.pid, number)
        done = await ended(process)
    assert done.code == 130
    assert done.json["winner"] is None
    assert [one["outcome"]["status"] for one in done.json["racers"]] == ["cancelled", "cancelled"]
    assert all(one["outcome"]["usage"]["input_tokens"] for one in done.json["racers"])


@pytest.mark.parametrize("columns", [40, 80, 120])
async def test_the_racers_stand_side_by_side_and_then_there_is_a_table(columns: int) -> None:
    async with (
        ChatServer(["I look ", STALL]) as slow,
        ChatServer([call("nobody", path="a.txt")], [STALL, FINISH]) as fast,
        in_terminal("race", "Set the port", *models(slow=slow, fast=fast), columns=columns) as (terminal, process),
    ):
        await terminal.shows("I look")
        await terminal.shows("nobody")
        row = next(line for line in terminal.lines if "step 1" in line)
        assert row.count("step 1") == (1 if columns == 40 else 2)
        fast.go_on.set()
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    text = terminal.text
    assert text.count("fast · won") == 1
    assert text.count("▸ fast") == 1
    assert "the winner is fast" in text
    assert "Another model finished first." in text
    assert text.count("┏━ ✔ fast") == 1
    assert terminal.cursor_shown
    assert all(len(line.rstrip()) <= columns for line in terminal.lines)


async def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    async with (
        ChatServer(["I look ", STALL]) as one,
        ChatServer(["You look ", STALL]) as other,
        in_terminal("race", "Set the port", *models(one=one, other=other)) as (terminal, process),
    ):
        await terminal.shows("I look")
        await terminal.shows("You look")
        terminal.press(b"\x03")
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 130
    assert terminal.text.count("╭─ one") == 1
    assert "nobody won" in terminal.text
    assert terminal.cursor_shown


async def test_what_a_model_writes_cannot_command_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m [bold]kept[/bold] \u202eleft"
    script = ([evil, call("no\x1b[2Jtool", text=evil)], [evil, call("finish_task", summary=evil)])
    async with (
        ChatServer(*script, pace=0.01) as one,
        ChatServer(Refusal(500, evil)) as other,
        in_terminal("race", "Do it", *models(one=one, other=other), columns=120) as (terminal, process),
    ):
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]" not in terminal.raw
    assert "\u202e" not in terminal.raw
    assert "[bold]kept[/bold] left" in terminal.text
