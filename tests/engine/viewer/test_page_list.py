"""The page of `endstop view` in Chromium: its list, filters and order in the address, the keyboard, and read only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ..web.made_session import HELLO, run_of_steps
from ..web.shown import of_size, until
from .viewing import RECORDS, ViewerThread

MADE = 240
"""Sessions besides those of the records: far more than the list may have nodes."""
MOST_NODES = 70
LISTED = "[...document.querySelectorAll('#sessions a')]"
TITLES = f"{LISTED}.map((one) => one.querySelector('.title').textContent)"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a viewer over many records, in a thread of its own."""
    folder = tmp_path_factory.mktemp("records")
    for name in ("hello", "loop", "connection"):
        (folder / f"{name}.jsonl").write_bytes((RECORDS / f"{name}.jsonl").read_bytes())
    header = json.loads(HELLO.read_text(encoding="utf-8").splitlines()[0])
    for number in range(MADE):
        steps = 8 if number == 7 else max(1, number + 20 - MADE)  # the last ones have the most
        events = run_of_steps(f"run_{number}", steps, failed=(1,) if number == 7 else (), prompt=f"Task {number}")
        events[0]["session_id"] = header["session_id"] = f"session_{number}"
        lines = "\n".join(json.dumps(one) for one in (header, *events))
        (folder / f"{number}.jsonl").write_text(lines + "\n", encoding="utf-8")
    with ViewerThread(folder) as address:
        yield address


@pytest.fixture
def page(blank: Any) -> Any:
    return of_size(blank, 1440, 900)


def at(page: Any, url: str, count: int) -> None:
    """Open an address, and wait until the list says that so many sessions match."""
    page.goto(url)
    until(page, f"document.querySelector('#total').textContent === '{count}'")


def test_the_front_is_the_list_and_nothing_can_be_changed(page: Any, url: str) -> None:
    at(page, url, MADE + 3)
    assert page.evaluate("document.querySelector('#list').role") == "main"
    for hidden in ("#new", "#home", "#prompt", "main"):
        assert page.is_hidden(hidden)
    assert page.is_visible("#report")
    page.goto(f"{url}#s/session_7")
    page.wait_for_selector(".end")
    page.wait_for_selector("#download:visible")
    for hidden in ("#cancel", "#delete", "#new"):
        assert page.is_hidden(hidden)
    assert page.locator("#composer *").count() == 0
    assert page.text_content("#title") == "Task 7"
    page.keyboard.press("?")
    assert not {"n", "m"} & set(page.locator("#shortcuts dt").all_text_contents())


def test_many_sessions_need_few_nodes_and_the_keyboard_reaches_the_last(page: Any, url: str) -> None:
    at(page, f"{url}?sort=-steps", MADE + 3)
    page.focus("#sessions a[tabindex='0']")
    most = page.evaluate(f"{LISTED}.length")
    height = "document.querySelector('#sessions').style.height"
    for before in iter(lambda: page.evaluate(height), None):
        page.keyboard.press("End")
        most = max(most, page.evaluate(f"{LISTED}.length"))
        if page.is_hidden("#more"):
            break
        until(page, f"{height} !== '{before}' || document.querySelector('#more').hidden")
    page.keyboard.press("End")
    until(page, f"document.activeElement.querySelector('.title').textContent === 'Task {MADE - 1}'")
    assert most < MOST_NODES
    assert page.evaluate("document.activeElement.closest('tr').ariaRowIndex") == str(MADE + 4)
    page.keyboard.press("ArrowUp")
    assert page.evaluate("document.activeElement.querySelector('.title').textContent") == f"Task {MADE - 2}"
    page.keyboard.press("Enter")
    page.wait_for_selector(".end")
    assert page.evaluate("location.hash") == f"#s/session_{MADE - 2}"
    page.keyboard.press("j")
    until(page, f"location.hash === '#s/session_{MADE - 1}'")
    page.go_back()
    page.go_back()
    until(page, f"document.activeElement.querySelector('.title')?.textContent.startsWith('Task {MADE - 2}')")


def test_the_arrow_in_the_search_box_leads_to_the_first_session_found(page: Any, url: str) -> None:
    at(page, url, MADE + 3)
    page.fill("#q", f"Task {MADE - 2}")
    page.press("#q", "Enter")
    until(page, "document.querySelector('#total').textContent === '1'")
    page.press("#q", "ArrowDown")
    until(page, f"document.activeElement.querySelector('.title')?.textContent.startsWith('Task {MADE - 2}')")


def test_filters_and_order_stand_in_the_address_and_survive_a_reload_and_the_back_button(page: Any, url: str) -> None:
    at(page, url, MADE + 3)
    until(page, "document.querySelector('[name=ending]').textContent.includes('limit of steps (1)')")
    page.select_option("[name=ending]", "limit of steps")
    until(page, "document.querySelector('#total').textContent === '1'")
    assert page.evaluate("location.search") == "?ending=limit+of+steps"
    page.reload()
    until(page, "document.querySelector('#total').textContent === '1'")
    assert page.input_value("[name=ending]") == "limit of steps"
    page.click("#clear")
    until(page, f"document.querySelector('#total').textContent === '{MADE + 3}'")
    page.check("[name=errors]")
    page.click("[data-sort=steps]")
    until(page, f"{TITLES}[0] === 'Task 7' && {LISTED}.length <= 3")
    assert page.evaluate("location.search") == "?errors=1&sort=steps"
    page.click("[data-sort=steps]")
    until(page, "location.search === '?errors=1&sort=-steps'")
    for before in ("?errors=1&sort=steps", "?errors=1", "", "?ending=limit+of+steps"):
        page.go_back()
        until(page, f"location.search === '{before}'")
    until(page, "document.querySelector('#total').textContent === '1'")
    page.go_forward()
    until(page, f"document.querySelector('#total').textContent === '{MADE + 3}'")
    assert page.input_value("[name=ending]") == ""


def test_a_filter_that_nothing_matches_says_so_and_keeps_its_value(page: Any, url: str) -> None:
    at(page, f"{url}?tool=no_such_tool", 0)
    assert page.text_content("#list-note") == "No session matches."
    assert page.input_value("[name=tool]") == "no_such_tool"


def test_an_order_that_the_viewer_does_not_know_is_told_in_its_words(page: Any, url: str) -> None:
    page.refused = ("400",)
    page.goto(f"{url}?sort=nonsense")
    page.wait_for_selector("#list-note:has-text('`sort` is')")


def test_the_timeline_is_few_tabs_from_the_start(page: Any, url: str) -> None:
    page.goto(f"{url}#s/session_7")
    page.wait_for_selector(".end")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "scroll"
    page.reload()
    page.wait_for_selector(".end")
    page.evaluate("document.activeElement.blur()")
    tabs = 0
    while page.evaluate("document.activeElement.id") != "scroll":
        page.keyboard.press("Tab")
        tabs += 1
        assert tabs < 20


@pytest.mark.parametrize("width", [390, 1440])
def test_the_list_and_a_session_fit_a_phone_and_a_wide_screen(blank: Any, url: str, width: int) -> None:
    page = of_size(blank, width)
    at(page, url, MADE + 3)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if width == 390:
        assert page.is_hidden("#facets")
        page.click("#fold")
        assert page.is_visible("#facets")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{url}#s/session_7/1/step/1/call/1.1")
    page.wait_for_selector(".call.here")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_headings_sort_and_say_so(page: Any, url: str) -> None:
    at(page, f"{url}?errors=1", 2)
    heads = page.locator("#columns th")
    assert [one.split()[0] for one in heads.all_inner_texts()] == ["Task", "Agent,", "Ended", "Steps", "Cost", "When"]
    for head, (first, second) in {
        "Task": ("ascending", "descending"),
        "Steps": ("descending", "ascending"),
        "Cost": ("descending", "ascending"),
        "When": ("descending", "ascending"),
    }.items():
        for wanted in (first, second):
            button = page.get_by_role("button", name=head, exact=True)
            if (head, wanted) != ("When", first) or "sort" in page.url:
                button.click()
            until(page, f"document.querySelector('#columns [aria-sort$=ing]').innerText.startsWith('{head}')")
            assert page.get_attribute("#columns [aria-sort$=ing]", "aria-sort") == wanted


def test_what_a_recording_does_not_say_is_unknown(page: Any, tmp_path: Path) -> None:
    header, *events = (json.loads(line) for line in HELLO.read_text(encoding="utf-8").splitlines())
    events[0] |= {"started_at": "", "engine": "import:openai", "model": ""}
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(one) for one in (header, *events)) + "\n", encoding="utf-8")
    with ViewerThread(tmp_path) as there:
        for width in (1440, 390):
            at(of_size(page, width), there, 1)
            cells = page.locator("#sessions td").all_inner_texts()
            assert "unknown" in cells[1]
            assert all("unknown" in cells[place] for place in (4, 5)), cells
            assert "just now" not in page.inner_text("body")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto("about:blank")


@pytest.mark.parametrize("width", [960, 1080, 1440])
def test_the_task_is_the_widest_column_of_the_table(blank: Any, url: str, width: int) -> None:
    page = of_size(blank, width)
    at(page, f"{url}?errors=1", 2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    columns = {
        one: page.locator(f"#columns .{one}").bounding_box()["width"]
        for one in ("task", "made", "ended", "steps", "cost", "when")
    }
    assert columns["task"] == max(columns.values()) > 190
