"""A fork in the page: where it comes from, and what is different in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from endstop import Engine, Session, read_record, tool
from endstop.decision import Policy
from endstop.decision.events import DecisionMade
from endstop.providers import Scripted, call
from endstop.records.format import encode_line

from .shown import Site


@tool(reads=True)
def look(path: str) -> str:
    """Look."""
    return "port = 80"


def engine(*responses: Any) -> Engine:
    return Engine(Scripted(*responses), tools=[look], policy=Policy(max_inner_steps=1))


async def fork(folder: Path) -> tuple[Session, Path]:
    """A fork of the second run of a session, with another prompt and an edited result; and its record."""
    origin, path = folder / "origin.jsonl", folder / "fork.jsonl"
    session = engine("Hello.", [call("look", path="a.toml", id="c1")], "It is 80.").session(
        "session_old", record=origin
    )
    await session.run("Hello?")
    await session.run("Which port?")
    made = [event.seq for event in read_record(origin).runs[-1].events if isinstance(event, DecisionMade)]
    forked = session.fork(
        at=made[0], engine=engine("It is 8080."), prompt="The port?", results={"c1": "port = 8080"}, record=path
    )
    async with forked.start_fork() as run:
        await run.wait()
    return forked, path


def test_a_fork_says_where_it_comes_from_and_what_is_different(page: Any, shown: Site, tmp_path: Path) -> None:
    forked, path = shown.do(fork(tmp_path))
    runs = read_record(path).runs
    origin = runs[-1].started.origin
    assert origin is not None
    lines = [[json.loads(encode_line(event)) for event in run.events] for run in runs]
    shown.keep(lines, "The port?", forked.id)
    page.goto(f"{shown.url}#s/{forked.id}")
    page.wait_for_selector(".end >> nth=1")
    notes = [text for text in page.locator(".note").all_text_contents() if text.startswith("⑂")]
    assert notes == [
        "⑂Copied from session_old",
        f"⑂Forked from session_old at decision {origin.at}: with another prompt, result of c1",
    ]
    assert page.locator(".output").all_text_contents() == ["port = 8080"]
    assert page.locator(".text").all_text_contents() == ["Hello.", "It is 8080."]
