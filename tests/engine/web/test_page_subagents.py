"""Sub-agents on the page: who runs a call, how it stands, and the way to its session and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop import Engine, read_record
from endstop.decision import Limits, Policy
from endstop.providers import Scripted, call
from endstop.records.format import encode_line

from ..payer import by_step
from .shown import Gate, Site, delete_file, until

AGENT = "#timeline .result .note"


def office(gate: Gate) -> Engine:
    """An agent with a clerk who is held, and then asks; and one who gives up at once."""
    clerk = Engine(by_step([gate, call("delete_file", id="d", path="old.txt")], "It is gone."), tools=[delete_file])
    lazy = Engine(by_step([call("delete_file", path="x")], "No."), policy=Policy(limits=Limits(steps=1)))
    tools = [clerk.as_tool("clerk", "Deletes files."), lazy.as_tool("lazy", "Does little.")]
    steps = ([call("clerk", id="c", prompt="Delete old.txt.")], [call("lazy", id="l", prompt="Try.")], "All done.")
    return Engine(by_step(*steps), tools=tools)


@pytest.mark.parametrize("width", [390, pytest.param(1440, marks=pytest.mark.long)])
def test_a_call_shows_its_sub_agent_how_it_stands_and_the_way_to_it(open_page: Callable[..., Any], width: int) -> None:
    site, gate = Site(), Gate()
    site.engines["worker"] = office(gate)
    with site.running():
        page = open_page(viewport={"width": width, "height": 900})
        page.goto(site.url)
        page.fill("#prompt", "Tidy up.")
        page.click("#start button")
        gate.reached()
        page.wait_for_selector(f"{AGENT} >> text=running")
        assert page.text_content(f"{AGENT} a") == "Sub-agent clerk (scripted)"
        gate.open()
        page.wait_for_selector(f"{AGENT} >> text=waits for an answer")
        assert page.text_content(".call .why") == "waits for your answer"
        fits_every_width(page)

        caller = page.url
        page.click(f"{AGENT} a")
        page.wait_for_selector("#timeline .said a")
        assert page.url != caller
        assert "Delete old.txt." in page.text_content("#timeline .said")
        until(page, "document.querySelector('#status').textContent.includes('waits for an answer')")
        page.wait_for_selector("#timeline .end")
        assert not page.is_visible("#composer"), "its questions are answered in its caller's session"
        assert not page.is_visible("#delete")

        page.click("#timeline .said a")
        page.wait_for_selector("#composer >> text=Allow")
        assert page.url == caller
        page.click("#composer >> text=Allow")
        page.wait_for_selector("#timeline .end[data-status=completed]")
        until(page, f"document.querySelectorAll('{AGENT} .status').length === 2")
        page.wait_for_selector(f"{AGENT} >> text=completed")
        page.wait_for_selector(f"{AGENT} >> text=stopped")
        assert page.locator(f"{AGENT} a").all_text_contents() == [
            "Sub-agent clerk (scripted)",
            "Sub-agent lazy (scripted)",
        ]
        fits_every_width(page)


def fits_every_width(page: Any) -> None:
    before = page.viewport_size
    for width in (390, 1440):
        page.set_viewport_size({**before, "width": width})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size(before)


def test_a_sub_agent_whose_session_is_not_here_is_said_to_be_missing(page: Any, shown: Site, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    helper = Engine(Scripted("Yes.")).as_tool("helper", "Helps.")
    model = Scripted([call("helper", id="h", prompt="Is it?")], "It is.")
    shown.do(Engine(model, tools=[helper]).run("Ask.", record=path))
    record = read_record(path)
    runs = [[json.loads(encode_line(event)) for event in run.events] for run in record.runs]
    page.refused = ("404",)
    page.goto(f"{shown.url}#s/{shown.keep(runs, 'Ask.', record.header.session_id)}")
    page.wait_for_selector(f"{AGENT} >> text=its record is not listed here: run.subagents/helper-")
    assert page.locator(f"{AGENT} a").count() == 0
