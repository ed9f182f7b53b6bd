"""From a report to the full output of a call that failed: in a browser, with a real viewer over the same records."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from endstop.analysis.report import report_records
from endstop.analysis.scoring import Ratings
from endstop.analysis.timeline import record_timeline
from endstop.cli.report import report_html
from endstop.cli.views.report_page import report_page
from endstop.cli.views.timeline_page import SessionSection
from endstop.cli.views.view_links import ViewLinks
from endstop.records.files import find_records
from endstop.records.scan import scan
from endstop.viewer.viewer_app import ViewerOptions

from ..viewer.viewing import viewing
from .made_session import run_of_steps
from .shown import PATIENCE, RECORDS
from .test_exported_page import written

FAILED_STEP = 40
LINES = 30
ID = str(run_of_steps("run_links", 1)[0]["session_id"])


@contextmanager
def viewer(folder: Path) -> Iterator[str]:
    """The address of a viewer of this folder, which runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    site = viewing(folder, options=ViewerOptions(report=report_html))
    try:
        up = asyncio.run_coroutine_threadsafe(site.__aenter__(), loop).result(PATIENCE)
        yield up.url
        asyncio.run_coroutine_threadsafe(site.__aexit__(None, None, None), loop).result(PATIENCE)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


def records(folder: Path) -> Path:
    """Two files of one session id, of which the second has a call that fails with a long output."""
    folder.mkdir()
    events = run_of_steps("run_links", 60, failed={FAILED_STEP}, prompt="Find the broken line")
    written(folder / "links.jsonl", run_of_steps("run_links", 3, prompt="The first file of this id"))
    (folder / "second.jsonl").write_bytes(written(folder.parent / "links.jsonl", events).read_bytes())
    return folder


def static_report(folder: Path, view: str, target: Path) -> str:
    report = report_records(find_records([folder]))
    sections = [SessionSection(chosen, record_timeline(Path(chosen.record))) for chosen in report.telling]
    target.write_text(report_page(report, sections, Ratings(), links=ViewLinks(view, "records/")), encoding="utf-8")
    return target.as_uri()


def shows_the_failure(page: Any) -> None:
    page.wait_for_selector(f'.here[data-call="{FAILED_STEP}.1"]')
    assert page.inner_text(".here").count("text") >= LINES, "the whole output"
    assert page.inner_text("#title") == "Find the broken line"


@pytest.mark.parametrize("served", [False, True])
def test_two_presses_lead_from_a_bar_to_the_output_of_the_call_that_failed(
    open_page: Callable[..., Any], tmp_path: Path, served: bool
) -> None:
    folder = records(tmp_path / "records")
    with viewer(folder) as url:
        page = open_page()
        page.refused = ("404",)  # the list of agents, which a viewer does not have
        page.goto(f"{url}/report" if served else static_report(folder, url, tmp_path / "report.html"))
        session = page.locator("details.session", has_text="Find the broken line")
        assert session.locator("h3").inner_text() == "Find the broken line"
        session.locator(".strip").click()
        session.locator(".cells .cell.bad").click()
        shows_the_failure(page)


def test_rows_lead_to_steps_and_calls_with_the_keyboard_alone(open_page: Callable[..., Any], tmp_path: Path) -> None:
    folder = records(tmp_path / "records")
    with viewer(folder) as url:
        page = open_page()
        page.refused = ("404",)
        address = static_report(folder, url, tmp_path / "report.html")
        page.goto(address)
        session = page.locator("details.session", has_text="Find the broken line")
        session.locator("summary").first.press("Enter")
        session.locator("a.failed").press("Enter")
        shows_the_failure(page)
        page.goto(address)
        session.locator("summary").first.press("Enter")
        session.locator("tr.step >> nth=6").locator("a").press("Enter")
        page.wait_for_selector('.here[data-step="7"]')


def test_without_javascript_the_rows_are_links(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(static_report(records(tmp_path / "records"), "http://127.0.0.1:1/", tmp_path / "report.html"))
    page.locator("details.session", has_text="Find the broken line").locator("summary").first.click()
    href = page.locator("a.failed").get_attribute("href")
    context.close()
    assert href == f"http://127.0.0.1:1/#s/{ID}~2/1/step/{FAILED_STEP}/call/{FAILED_STEP}.1"


def test_a_second_file_of_an_id_has_the_id_that_the_viewer_gives_it(tmp_path: Path) -> None:
    folder = records(tmp_path / "records")
    linked = {Path(one.record).name: one.view_id for one in report_records(find_records([folder])).telling}
    with viewer(folder) as url:
        listed = httpx.get(f"{url}/sessions", trust_env=False, timeout=PATIENCE).json()["sessions"]
    assert linked == {one["file"]: one["id"] for one in listed} == {"links.jsonl": ID, "second.jsonl": f"{ID}~2"}


@pytest.mark.parametrize("path", sorted(RECORDS.glob("*.jsonl")), ids=lambda path: path.stem)
def test_each_cell_names_a_step_that_the_record_has(path: Path) -> None:
    steps: list[set[int]] = []
    for event in map(json.loads, (line for line in path.read_text(encoding="utf-8").splitlines())):
        if event["type"] == "RUN_STARTED":
            steps.append(set())
        elif event["type"] == "STEP_STARTED":
            steps[-1].add(event["step"])
    timeline = record_timeline(path)
    assert [run.number for run in timeline.runs] == sorted({run.number for run in timeline.runs})
    for run in timeline.runs:
        numbers = [cell.number for cell in run.cells]
        assert len(numbers) == len(set(numbers))
        assert set(numbers) <= steps[run.number - 1]
    calls = {event.call_id for event in scan(path) if hasattr(event, "call_id")}
    assert {call.id for run in timeline.runs for cell in run.cells for call in cell.calls} <= calls
