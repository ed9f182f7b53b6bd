"""The progress bar while many records are read."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

from endstop.cli.views.tables import _ReadProgress
from endstop.observers.progress import BarState, progress_bar
from rich.console import Console

from ....console import PATIENCE, endstop
from ...records.made import play
from ..terminal import in_terminal


def records(folder: Path, many: int) -> Path:
    (folder / "in").mkdir()
    content = play(folder / "r.jsonl", steps=40).read_bytes()
    for number in range(many):
        (folder / "in" / f"{number:04}.jsonl").write_bytes(content)
    return folder / "in"


async def test_a_terminal_shows_how_far_it_is_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    source = await asyncio.to_thread(records, tmp_path, 3)
    held = tmp_path / "r.fifo"  # read as the last, and not before something is written
    os.mkfifo(held)
    async with in_terminal("redact", source, held, "-o", tmp_path / "out", columns=200) as (terminal, process):
        await terminal.shows("redacting")
        await terminal.shows("3/4")
        await asyncio.to_thread(held.write_bytes, (tmp_path / "r.jsonl").read_bytes())
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    assert terminal.text.strip() == f"4 records redacted into {tmp_path / 'out'}"
    assert terminal.cursor_shown


async def test_elsewhere_and_with_quiet_nothing_is_shown(tmp_path: Path) -> None:
    source = await asyncio.to_thread(records, tmp_path, 3)
    piped = await endstop("redact", source, "-o", tmp_path / "out", env={"TERM": "xterm", "FORCE_COLOR": "1"})
    assert (piped.code, piped.err) == (0, "")
    async with in_terminal("redact", source, "-o", tmp_path / "quiet", "--quiet") as (terminal, process):
        await terminal.closed()
        async with asyncio.timeout(PATIENCE):
            assert await process.wait() == 0
    assert "\x1b" not in terminal.raw


def test_the_rate_and_the_time_left_are_told_once_they_say_something() -> None:
    read = _ReadProgress("testing")
    read.set(0, 100)
    assert read.shown() == BarState(0, 100, "testing")
    read._began -= 10
    read.set(50, 100)
    words = read.shown().words.split(" · ")
    assert words[:2] == ["testing", "5 a second"]
    assert words[2].endswith("s left")


def test_a_bar_draws_what_it_is_told_and_gives_the_terminal_back_when_the_work_breaks() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    try:
        with progress_bar(lambda: BarState(3, 7, "of something"), console, stays=False):
            raise KeyError("mine")
    except KeyError:
        pass
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "3/7" in shown
    assert "of something" in shown
    assert "\x1b[?25h" in shown
