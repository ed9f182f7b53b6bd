"""The live view in a real pseudo-terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from endstop import read_record
from endstop.cli.views.terminal import wrap_text
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ....console import PATIENCE
from ....servers import STALL, ChatServer, call, reasoning
from ..terminal import Process, in_terminal

TOOLS = """
import os
from endstop import tool
from endstop.tools import think

@tool
def noisy() -> str:
    "Print something."
    print("printed by a tool")
    os.system("echo printed by a child")
    return "\\n".join(f"line {n}" for n in range(40))
"""


def model(server: ChatServer) -> tuple[str, ...]:
    return ("--model", "scripted", "--api-base", server.url)


async def exit_code(process: Process) -> int:
    async with asyncio.timeout(PATIENCE):
        return await process.wait()


@pytest.mark.parametrize("columns", [40, 80, 120])
async def test_A11_a_run_is_told_once_and_the_completion_has_the_one_heavy_frame(tmp_path: Path, columns: int) -> None:
    (tmp_path / "tools.py").write_text(TOOLS)
    script = (
        [reasoning("Let me "), reasoning("think."), "I will ", "look.", call("noisy")],
        [call("think", thought="Half of it is done.")],
        [call("finish_task", summary="It is done.")],
    )
    async with (
        ChatServer(*script) as server,
        in_terminal("run", "Do it", *model(server), "--tools", tmp_path / "tools.py", columns=columns) as (
            terminal,
            process,
        ),
    ):
        await terminal.closed()
        code = await exit_code(process)
    assert code == 0
    told = ["Do it", "Let me think.", "I will look.", "printed by a tool", "printed by a child", "● noisy", "line 5"]
    told += [
        "… 34 more lines",
        "◇ think",
        "Half of it is done.",
        "✔ Reported as done",
        "It is done.",
        "3 of 30 steps",
    ]
    assert {text: terminal.text.count(text) for text in told} == dict.fromkeys(told, 1)
    places = [terminal.text.index(text) for text in ("step 1 of", "step 2 of", "step 3 of", "✔ Reported as done")]
    assert places == sorted(places)
    assert terminal.text.count("┏") == 1
    assert "line 6" not in terminal.text
    assert "waiting for the model" not in terminal.text, "the region is not left behind"
    assert terminal.cursor_shown
    assert all(len(line.rstrip()) <= columns for line in terminal.lines)


WIDE = "Die größere 漢字漢字漢字漢字漢字 🎉 and the rest of it, "


@pytest.mark.parametrize("columns", [40, 60, 80, 140, 200])
async def test_lines_fit_whatever_the_width_is_and_arguments_use_all_of_it(tmp_path: Path, columns: int) -> None:
    long = "".join(f"{number:03d}" for number in range(50))
    script = (
        [reasoning(WIDE * 9), WIDE * 9, call("noisy", text=long)],
        [call("think", thought=WIDE * 5)],
        [call("finish_task", summary=WIDE * 9), call("noisy")],
    )
    record = tmp_path / "r.jsonl"
    async with ChatServer(*script) as server:
        given = (*model(server), "--record", record, "--explain")
        async with in_terminal("run", WIDE * 4, *given, columns=columns) as (terminal, process):
            await terminal.closed()
            assert await exit_code(process) == 0
    fits(terminal.lines, columns, str(record))
    assert "✂ Cut at finish_task: whether" in terminal.text
    assert (long in terminal.text) == (columns >= 180)
    measured = [line.rstrip() for line in terminal.lines if line.startswith(("╭", "┏"))]
    assert {cell_len(line) for line in measured} == {min(columns, 100)}
    async with in_terminal("replay", record, "--explain", columns=columns) as (terminal, process):
        await terminal.closed()
        assert await exit_code(process) == 0
    fits(terminal.lines, columns, str(record))
    assert "✂ Cut at finish_task" in terminal.text


def fits(lines: list[str], columns: int, unless: str) -> None:
    """No line is wider than the terminal, and frames are whole. Lines with a path are broken by the terminal alone."""
    for line in (line.rstrip() for line in lines):
        assert cell_len(line) <= columns or unless[:20] in line, line
        if line.startswith(("┃", "│")):
            assert line.endswith(("┃", "│")), line


async def test_what_a_model_writes_cannot_command_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \x9b31m [bold]kept[/bold] [/] \u202eleft \x08\x7f end"
    script = ([evil, call("no\x1b[2Jtool", text=evil)], [evil, call("finish_task", summary=evil)])
    async with (
        ChatServer(*script) as server,
        in_terminal("run", "Do it", *model(server), columns=120) as (terminal, process),
    ):
        await terminal.closed()
        assert await exit_code(process) == 0
    assert "\x1b[2J" not in terminal.raw
    assert "\x1b]" not in terminal.raw
    assert "\u202e" not in terminal.raw
    assert terminal.text.count("[bold]kept[/bold] [/] left") >= 3


async def test_ctrl_c_ends_at_once_and_keeps_the_record(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    async with (
        ChatServer(["One moment", call("noise", text="x" * 200), STALL]) as server,
        in_terminal("run", "Do it", *model(server), "--record", record, forked=False) as (terminal, process),
    ):
        await terminal.shows("○ noise")
        terminal.press(b"\x03")
        await terminal.closed()
        code = await exit_code(process)
    assert code == 130
    assert "■ Cancelled" in terminal.text
    assert "○ noise" not in terminal.text, "the region is not left behind"
    assert terminal.cursor_shown
    assert read_record(record).runs[0].finished is not None


async def test_a_limit_a_failure_and_a_question_each_say_how_to_go_on() -> None:
    cases = {
        ("--max-steps", "1"): ([call("nothing")], "■ Stopped: limit of steps", "--max-steps N"),
        ("--max-steps", "2"): ([b"data: nonsense\n\n"], "✘ Failed", "--api-base"),
        ("--max-steps", "3"): ([call("ask_user", question="Which one?")], "? A question for you", "Which one?"),
    }
    for arguments, (response, title, advice) in cases.items():
        options = (*arguments, "--retries", "0", "--no-input")
        async with (
            ChatServer(response) as server,
            in_terminal("run", "Do it", *model(server), *options) as (
                terminal,
                process,
            ),
        ):
            await terminal.closed()
            await exit_code(process)
        assert title in terminal.text
        assert advice in terminal.text
        assert "┏" not in terminal.text, "the heavy frame is for success"


@given(st.text(), st.integers(16, 100))
def test_rows_fit_and_lose_nothing_but_the_spaces_at_which_they_are_broken(text: str, width: int) -> None:
    rows = list(wrap_text(text, width))
    assert all(cell_len(row) <= width for row in rows)
    assert "".join(rows).replace(" ", "") == text.replace("\n", "").replace(" ", "")
