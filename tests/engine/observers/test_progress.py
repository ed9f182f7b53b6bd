"""The bar of a fleet."""

from __future__ import annotations

import io

from endstop import Engine
from endstop.decision import Usage
from endstop.observers import progress
from endstop.providers import RateLimited, Scripted, call
from rich.console import Console


def respond(request: object) -> object:
    bad = "bad" in str(request)
    return RateLimited("slow down") if bad else [call("finish_task", summary="done")]


async def test_the_bar_says_how_many_are_done_how_they_ended_and_what_they_used() -> None:
    engine = Engine(Scripted(respond, usage=Usage(input_tokens=100, output_tokens=10, cost_usd=0.5)))
    for terminal in (True, False):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=120, color_system=None)
        async with engine.run_many(["a", "b", "bad"]) as fleet:
            with progress(fleet, console):
                await fleet.wait()
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        last = shown.removesuffix("\x1b[?25h").rstrip().splitlines()[-1]
        assert "3/3" in last
        assert "2 completed · 1 failed" in last
        assert "running" not in last
        assert (len(shown.strip().splitlines()) == 1) or terminal


async def test_what_the_block_raises_comes_out_and_the_terminal_is_usable() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80, color_system=None)
    try:
        async with Engine(Scripted(respond)).run_many(["a"]) as fleet:
            with progress(fleet, console):
                raise KeyError("mine")
    except KeyError:
        pass
    assert console.file.getvalue().endswith("\x1b[?25h")  # type: ignore[attr-defined]
