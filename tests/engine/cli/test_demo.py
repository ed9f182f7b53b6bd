"""`endstop demo`, as a person sees it and as a pipe does."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest
from endstop import read_record
from endstop.cli.demo import FRAMEWORKS, READER, STOPPED, USUAL
from endstop.cli.demo_sides import BEFORE, DemoSides
from endstop.cli.demo_stream import CHANGES_AFTER, MADE_BY, TASK, DemoStream
from endstop.cli.views.demo import ASCII, DemoSide, side_lines
from endstop.cli.views.styled_lines import display_width, plain_text

from ...console import ended, endstop
from .terminal import in_terminal

ROOT = Path(__file__).parents[3]
QUICK = "--speed=1000"
AFTER = ("192 chunks and 10 calls after finish_task", "0 chunks and 0 calls after finish_task")
SIDE = DemoSide(name="a side", sent=0, done_at=30, chunks=222, calls=0)


def words(text: str) -> str:
    return " ".join(text.split())


async def played(folder: Path) -> DemoSides:
    sides = DemoSides(folder, lambda: asyncio.sleep(0))
    outcome = await sides.read()
    assert (outcome.stop_reason, outcome.work, outcome.requests) == ("completed", "said", 1)
    return sides


async def test_a_pipe_gets_the_task_first_and_the_counts_of_both_sides() -> None:
    done = await endstop("demo", QUICK)
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[0] == f"Task: {TASK}"
    assert [line[-len(words) :] for words in AFTER for line in done.out.splitlines() if words in line] == list(AFTER)
    assert str(READER) in done.out.replace("\n", "")
    told = words(done.out)
    assert MADE_BY in told
    assert "-port = 8080 -debug = false +host = 0.0.0.0 +port = 3000 +debug = true" in told
    assert "endstop: Reported as done (port = 8080); reported by the agent, not checked." in told
    assert "30 steps in a loop" in told
    assert "2 steps in endstop" in told


async def test_the_reader_takes_all_and_runs_all_and_endstop_nothing_after_finish_task(tmp_path: Path) -> None:
    sides = await played(tmp_path)
    reader, ours = sides.progress()
    assert (reader.sent, reader.sent - reader.done_at, reader.calls) == (222, 192, len(CHANGES_AFTER))
    assert (ours.sent, ours.calls) == (ours.done_at, 0)
    usual, stopped = sides.files.values()
    assert stopped.text == usual.when_finished == BEFORE.replace("3000", "8080")
    assert "port = 3000" in usual.text


async def test_a_proxy_in_the_environment_does_not_come_between() -> None:
    done = await endstop("demo", QUICK, env={"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"})
    assert (done.code, done.err) == (0, "")
    assert AFTER[0] in done.out


def test_the_stream_has_the_calls_of_the_one_that_other_frameworks_were_measured_with() -> None:
    events = DemoStream().events
    names = re.findall(r'"name":"(\w+)"', b"".join(events).decode())
    assert names == ["set_option", "finish_task", *["set_option", "finish_task"] * 10]
    page = (ROOT / "docs" / "explanation" / "performance.md").read_text(encoding="utf-8")
    for framework in re.split(r", | and ", FRAMEWORKS):
        row = re.search(rf"^\| {framework.replace('-', '_')} \|.*$", page, re.MULTILINE)
        assert row is not None, framework
        sent, calls = (cell.strip() for cell in row[0].split("|")[7:9])
        assert (sent, calls) in (("192 of 192", "10"), ("193 of 193", "10")), framework


@pytest.mark.parametrize("columns", [120, 60, 40])
async def test_in_a_terminal_no_line_with_a_count_is_cut(columns: int) -> None:
    async with in_terminal("demo", QUICK, columns=columns, rows=40) as (terminal, process):
        await terminal.shows("endstop audit --last")
        await terminal.closed()
        assert (await ended(process)).code == 0
    assert terminal.cursor_shown
    assert terminal.lines[0].startswith("Task: ")
    assert "…" not in terminal.text
    assert all(len(line) <= columns for line in terminal.lines)
    last = words(terminal.text.rpartition("usual reader:")[2])
    assert all(counts in last for counts in AFTER)
    if columns >= 60:
        assert all(any(line.rstrip().endswith(counts) for line in terminal.lines) for counts in AFTER)


async def test_NO_COLOR_leaves_out_the_colours() -> None:
    async with in_terminal("demo", QUICK, columns=60, env={"NO_COLOR": "1"}) as (terminal, process):
        await terminal.shows("endstop audit --last")
        await terminal.closed()
        assert (await ended(process)).code == 0
    assert not re.search(r"\x1b\[3\dm", terminal.raw)


async def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    async with in_terminal("demo", "--speed", "0.1", columns=100) as (terminal, process):
        await terminal.shows("no finish_task yet")
        terminal.press(b"\x03")
        await terminal.closed()
        assert (await ended(process)).code == 130
    assert terminal.cursor_shown
    assert "Traceback" not in terminal.text


@pytest.mark.parametrize("speed", ["0", "-1", "nan", "inf", "fast"])
async def test_a_speed_that_is_none_is_refused(speed: str) -> None:
    done = await endstop("demo", f"--speed={speed}")
    assert (done.code, done.out) == (2, "")
    assert "--speed" in done.err


def test_both_recorded_runs_are_the_same_model_with_the_same_prompt_and_tools() -> None:
    usual, stopped = (read_record(path).runs[0].events[0] for path in (USUAL, STOPPED))
    assert (usual.prompt, usual.system, usual.model) == (stopped.prompt, stopped.system, stopped.model)
    assert usual.tools == stopped.tools


def test_a_bar_keeps_its_length_and_its_line_fits_whatever_has_come() -> None:
    for width in (*range(20, 60, 4), 59, 60, 79, 119):
        lengths = set()
        for sent in range(223):
            lines = [plain_text(line) for line in side_lines([replace(SIDE, sent=sent)], width, ASCII)]
            assert all(display_width(line) <= width for line in lines), (width, lines)
            assert words(replace(SIDE, sent=sent).counts) in words(" ".join(lines[1:]))
            lengths.add(len(re.split(r"[^#+.]", lines[1])[0]))
        assert len(lengths) == 1, width


def test_one_chunk_too_many_is_seen() -> None:
    bars = [plain_text(side_lines([replace(SIDE, sent=sent)], 60, ASCII)[1]) for sent in (30, 31)]
    assert [bar.count("+") for bar in bars] == [0, 1]
    assert replace(SIDE, sent=31, calls=1).counts == "1 chunk and 1 call after finish_task"
