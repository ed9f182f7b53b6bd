"""`endstop demo`, as a person sees it and as a pipe does."""

from __future__ import annotations

import re
import shlex

import pytest
from endstop import read_record
from endstop.cli.demo import STOPPED, USUAL, read_sides
from endstop.cli.views.demo import DemoSide

from ...console import ended, endstop
from .terminal import in_terminal


def words(text: str) -> str:
    return " ".join(text.split())


async def test_in_a_pipe_both_runs_are_told_one_after_the_other() -> None:
    done = await endstop("demo")
    assert (done.code, done.err) == (0, "")
    usual, stopped = done.out.split("\n\n")[:2]
    assert usual.count("← says done") == 28
    assert usual.splitlines()[-1] == "30 steps · 58,393 tokens in, 709 out · 2 min 23 s"
    assert "cut here: the call is whole" in stopped
    assert stopped.splitlines()[-1] == "2 steps · about 2,204 tokens in, 52 out · 18.1 s"
    assert "reported by the agent, not checked" in stopped


async def test_what_is_recorded_and_what_happens_now_is_told_apart() -> None:
    done = await endstop("demo")
    told = words(done.out)
    assert "went on for 27 steps, 55,566 tokens and 2 min 04 s after the model had reported the task as done" in told
    assert "+++ server.conf @@ -0,0 +1 @@ +port = 8080" in told
    assert "the model is wrong" in told
    assert 'the usual loop asks it "What is the next step?"' in told
    assert "1 decision of the engine on endstop's side, the same as recorded" in told


@pytest.mark.parametrize(("columns", "beside"), [(140, True), (90, True), (80, False), (40, False)])
async def test_in_a_terminal_both_run_side_by_side_or_one_above_the_other(columns: int, beside: bool) -> None:
    async with in_terminal("demo", "--speed", "500", columns=columns, rows=40) as (terminal, process):
        await terminal.shows("Try next:")
        await terminal.closed()
        assert (await ended(process)).code == 0
    assert terminal.cursor_shown
    top = next(line for line in terminal.lines if "the usual loop" in line)
    assert ("─ endstop ─" in top) == beside
    assert all(len(line) <= columns for line in terminal.lines)
    assert "played 500 times as" in terminal.text
    after = terminal.raw.partition("Try next:")[2]
    next_steps = [line for line in re.split(r"[\r\n]+", after) if line]
    assert [line for line in next_steps if not line.startswith("  # ")] == [
        "  endstop proxy --upstream URL", "  endstop audit --last", f"  endstop audit {shlex.quote(str(USUAL))}"
    ]  # fmt: skip
    assert all(len(line) < columns for line in next_steps if line.startswith("  # "))


async def test_ctrl_c_leaves_the_terminal_as_it_was() -> None:
    async with in_terminal("demo", "--speed", "1", columns=100) as (terminal, process):
        await terminal.shows("played 1 times as fast")
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


def test_both_sides_are_the_same_model_with_the_same_prompt_and_tools() -> None:
    usual, stopped = (read_record(path).runs[0].events[0] for path in (USUAL, STOPPED))
    assert (usual.prompt, usual.system, usual.model) == (stopped.prompt, stopped.system, stopped.model)
    assert usual.tools == stopped.tools


def test_a_side_shows_nothing_before_its_time() -> None:
    side: DemoSide = read_sides()[1]
    side.play(10_000)
    assert [row.text for row in side.rows] == ["  1  …"]
    side.play(17_000)
    assert [row.mark for row in side.rows] == ["", ""]
    assert re.fullmatch(r"1 step · .* · 17\.0 s|2 steps · .* · 17\.0 s", side.used(17_000))
    side.play(side.lasts)
    assert side.rows[1].mark == "← says done"
