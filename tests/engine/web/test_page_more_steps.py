"""A limit that asks, on the page: the steps that are proposed with one press, any other number, or the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from endstop import Extend
from endstop.decision import Limits, Policy
from endstop.providers import call

from .shown import Site, until
from .test_page_subagents import fits_every_width

ASKS = Policy(limits=Limits(steps=2, extend=Extend(by=4, when="ask")), closing=False, reminder=None)
READS = [[call("read_file", path=f"{n} short.txt")] for n in range(9)]
DONE = [call("task_done", summary="All are read.")]
QUESTION = "#composer .question"


@pytest.fixture(scope="module")
def shown() -> Iterator[Site]:
    """A server whose runs ask for more steps after two."""
    site = Site(policy=ASKS)
    with site.running():
        yield site


def begin(page: Any, site: Site, prompt: str, *script: Any) -> None:
    site.scripts[prompt] = list(script)
    page.fill("#prompt", prompt)
    page.click("#start button")
    page.wait_for_selector(f"{QUESTION} >> text=2 of 2 steps are used. May the run make 4 more?")


def test_the_proposed_steps_are_granted_with_one_press(page: Any, shown: Site) -> None:
    begin(page, shown, "press", *READS[:5], DONE)
    assert page.text_content(f"{QUESTION} .asks") == "More steps?"
    assert page.text_content("#timeline .card h4").endswith("More steps?")
    assert page.text_content("#status").endswith("waits for an answer")
    page.click(f"{QUESTION} >> text=4 more steps")
    page.wait_for_selector(".card.success")
    assert "4 more steps granted, 6 in all" in page.text_content("#timeline")
    assert "since the work makes progress" not in page.text_content("#timeline")
    page.wait_for_selector(QUESTION, state="detached")


def test_another_number_is_granted_and_the_next_question_is_another_one(page: Any, shown: Site) -> None:
    begin(page, shown, "number", *READS[:3], DONE)
    page.fill(f"{QUESTION} input", "1")
    page.press(f"{QUESTION} input", "Enter")
    page.wait_for_selector(f"{QUESTION} >> text=3 of 3 steps are used. May the run make 4 more?")
    assert "1 more step granted, 3 in all" in page.text_content("#timeline")
    assert page.input_value(f"{QUESTION} input") == ""
    page.fill(f"{QUESTION} input", "20")
    page.click(f"{QUESTION} >> text=Grant")
    page.wait_for_selector(".card.success")
    until(page, "document.querySelector('#budget').textContent.includes('4 of 23')")


def test_the_run_is_ended_with_one_press(page: Any, shown: Site) -> None:
    begin(page, shown, "end", *READS[:2])
    page.click(f"{QUESTION} >> text=End the run")
    page.wait_for_selector("#timeline .card[data-status=exhausted]")
    assert "the user grants no more" in page.text_content("#timeline .card[data-status=exhausted]")


@pytest.mark.parametrize("wrong", ["0", "-3", "2.5"])
def test_what_is_no_number_of_steps_is_not_sent(page: Any, shown: Site, wrong: str) -> None:
    begin(page, shown, f"wrong {wrong}", *READS[:2])
    asked = len(shown.requests)
    page.fill(f"{QUESTION} input", wrong)
    page.click(f"{QUESTION} >> text=Grant")
    assert page.locator(f"{QUESTION} input:invalid").count() == 1
    assert page.text_content("#status").endswith("waits for an answer")
    assert len(shown.requests) == asked


def test_the_question_fits_a_small_window(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page(viewport={"width": 390, "height": 900})
    page.goto(shown.url)
    begin(page, shown, "small", *READS[:2])
    fits_every_width(page)
    for button in ("4 more steps", "End the run", "Grant"):
        box = page.locator(f"{QUESTION} button:has-text('{button}')").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= page.viewport_size["width"]
