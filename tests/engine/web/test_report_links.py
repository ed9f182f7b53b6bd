"""From the numbers, names and marks of a report to a real viewer over the same records."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from endstop.analysis.report import report_records
from endstop.analysis.scoring import Ratings
from endstop.cli.report import served_report
from endstop.cli.views.report_page import SessionSection, read_section, report_page
from endstop.cli.views.view_links import ViewLinks, sessions_link
from endstop.http.document_page import ReportPage, report_html
from endstop.records.files import find_records
from endstop.viewer.viewer_app import ViewerOptions

from ..viewer.viewing import viewing
from .made_session import run_of_steps
from .shown import PATIENCE, RECORDS
from .test_exported_page import written

MISSING = "What does plan.txt say about June?"
"""Beginning of the task of the session with a call that fails."""
ID = str(run_of_steps("run_links", 1)[0]["session_id"])


@contextmanager
def viewer(folder: Path) -> Iterator[str]:
    """The address of a viewer of this folder, which runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    site = viewing(folder, options=ViewerOptions(report=served_report))
    try:
        up = asyncio.run_coroutine_threadsafe(site.__aenter__(), loop).result(PATIENCE)
        yield up.url
        asyncio.run_coroutine_threadsafe(site.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def records(folder: Path) -> Path:
    """Two files of one session id, and a session with a call that fails."""
    folder.mkdir()
    shutil.copy(RECORDS / "missing.jsonl", folder)
    events = run_of_steps("run_links", 60, prompt="Find the broken line")
    written(folder / "links.jsonl", run_of_steps("run_links", 3, prompt="The first file of this id"))
    (folder / "second.jsonl").write_bytes(written(folder.parent / "links.jsonl", events).read_bytes())
    return folder


def document_of(paths: Sequence[Path], view: str = "./") -> ReportPage:
    report = report_records(paths, processes=1)
    sections = [SessionSection(chosen, *read_section(Path(chosen.record))) for chosen in report.telling]
    return report_page(report, sections, Ratings(), viewer=ViewLinks(view, "records/"))


def static_report(folder: Path, view: str, target: Path) -> str:
    target.write_text(report_html(document_of(find_records([folder]), view)).html, encoding="utf-8")
    return target.as_uri()


def row_of(page: Any, task: str) -> Any:
    return page.locator("table.sessions tr", has_text=task)


@pytest.mark.parametrize("served", [False, True])
def test_a_press_leads_from_a_mark_of_the_strip_to_the_step_with_the_call_that_failed(
    open_page: Callable[..., Any], tmp_path: Path, served: bool
) -> None:
    folder = records(tmp_path / "records")
    with viewer(folder) as url:
        page = open_page()
        page.refused = ("404",)  # the list of agents, which a viewer does not have
        page.goto(f"{url}/report" if served else static_report(folder, url, tmp_path / "report.html"))
        row = row_of(page, MISSING)
        row.scroll_into_view_if_needed()
        mark = row.locator("a.cell.has-error")
        assert mark.get_attribute("aria-label") == "Step 1: a call with an error"
        mark.click()
        page.wait_for_selector('.here[data-step="1"]')
        assert page.inner_text("#title").startswith(MISSING)


def test_names_marks_and_numbers_are_reached_with_the_keyboard_alone(
    open_page: Callable[..., Any], tmp_path: Path
) -> None:
    folder = records(tmp_path / "records")
    with viewer(folder) as url:
        page = open_page()
        page.refused = ("404",)
        address = static_report(folder, url, tmp_path / "report.html")
        page.goto(address)
        row = row_of(page, MISSING)
        row.scroll_into_view_if_needed()
        row.locator("a.cell.has-error").wait_for()
        row.locator("th a").focus()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className").startswith("cell has-")
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        page.wait_for_selector(".here[data-step]")
        page.goto(address)
        page.locator("#groups td a").first.press("Enter")
        page.wait_for_selector("#sessions a")
        assert page.evaluate("location.search").startswith("?model=")
        page.goto(address)
        row_of(page, "Find the broken line").locator("th a").press("Enter")
        page.wait_for_selector("#title:has-text('Find the broken line')")


def links_of(document: ReportPage) -> dict[str, str]:
    """The links of a report to lists of sessions, each with the number that it stands on."""
    found = {}
    for cell in cells(msgspec.to_builtins(document)):
        if cell.get("link", "").startswith("?"):
            found[cell["link"]] = cell.get("text") or cell["value"]
    return found


def cells(part: Any) -> Iterator[dict[str, Any]]:
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list | tuple):
        for one in part:
            yield from cells(one)


def test_each_number_leads_to_exactly_the_sessions_that_it_counts() -> None:
    paths = find_records([RECORDS])
    counted: dict[str, set[str]] = {}
    for path in paths:
        for link in links_of(document_of([path])):
            counted.setdefault(link, set()).add(path.relative_to(RECORDS).as_posix())
    numbers = links_of(document_of(paths))
    assert len(numbers) > 40
    assert {link.partition("=")[0][1:] for link in numbers} >= {
        *("ended", "run_ending", "work", "trouble", "reached", "model", "policy", "tool", "failed")
    }
    with viewer(RECORDS) as url, httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        for link in numbers:
            found = client.get(f"{url}/sessions{link}&limit=200").json()
            # the report of a session without steps has no table of steps, so that it says less than the whole
            without = {one["file"] for one in found["sessions"] if not one["steps"]}
            assert {one["file"] for one in found["sessions"]} - without == counted[link] - without, link


def test_the_list_says_by_what_a_link_filters_and_can_be_cleared(open_page: Callable[..., Any]) -> None:
    with viewer(RECORDS) as url:
        page = open_page()
        page.refused = ("404",)
        page.goto(f"{url}?ended=at+a+limit")
        page.wait_for_selector("[name=ended] option:has-text('at a limit (')", state="attached")
        assert page.is_visible("[name=ended]")
        assert not page.is_visible("[name=work]")
        assert page.input_value("[name=ended]") == "at a limit"
        page.click("#clear")
        page.wait_for_function("location.search === ''")
        assert not page.is_visible("[name=ended]")


def test_a_link_can_name_the_sessions_themselves() -> None:
    with viewer(RECORDS) as url, httpx.Client(trust_env=False, timeout=PATIENCE) as client:
        every = [one["id"] for one in client.get(f"{url}/sessions?limit=200").json()["sessions"]]
        found = client.get(f"{url}/sessions{sessions_link([every[0], every[2], 'a,b'])}").json()
    assert [one["id"] for one in found["sessions"]] == [every[0], every[2]]
    assert sessions_link([]) == sessions_link(["x" * 100] * 700) == ""


def test_a_second_file_of_an_id_has_the_id_that_the_viewer_gives_it(tmp_path: Path) -> None:
    folder = records(tmp_path / "records")
    linked = {Path(one.record).name: one.view_id for one in report_records(find_records([folder])).telling}
    with viewer(folder) as url:
        listed = httpx.get(f"{url}/sessions", trust_env=False, timeout=PATIENCE).json()["sessions"]
    others = {name: id for name, id in linked.items() if name == "missing.jsonl"}
    assert (
        linked == {one["file"]: one["id"] for one in listed} == {**others, "links.jsonl": ID, "second.jsonl": f"{ID}~2"}
    )
