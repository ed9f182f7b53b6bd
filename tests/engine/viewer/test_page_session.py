"""A session in the page of `endstop view`: read from its beginning, and what is known of its file is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from endstop.formats import ImportOptions
from endstop.formats.importer import Importer, RecordFolder
from endstop.formats.session_files import find_sessions
from endstop.records.reader import read_record
from endstop.records.recorder import RecordWriter

from ..other_loops import CHANGED, ENDS, FAILED, SESSION, events_of_calls, record_of_calls
from ..web.made_session import HELLO, run_of_steps
from ..web.shown import of_size, until
from .viewing import RECORDS, ViewerThread

SCROLLED = "document.querySelector('#scroll').scrollTop"
BELOW_END = "((one) => one.scrollHeight - one.scrollTop - one.clientHeight)(document.querySelector('#scroll'))"
LIVE = "session_09d37def9618"
TITLE = "W" * 400
"""A task of one word, far wider than any screen."""


def write_session(path: Path, id: str, steps: int, prompt: str) -> None:
    header = json.loads(HELLO.read_text(encoding="utf-8").splitlines()[0])
    events = run_of_steps(f"run_{id}", steps, failed=(2,), prompt=prompt)
    events[0]["session_id"] = header["session_id"] = id
    path.write_text("".join(json.dumps(one) + "\n" for one in (header, *events)), encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("records")
    for name in ("loop", "connection", "hello"):
        shutil.copy(RECORDS / f"{name}.jsonl", folder)
    for number in range(30):
        write_session(folder / f"{number}.jsonl", f"session_{number}", 9, f"Task {number}")
    write_session(folder / "wide.jsonl", "session_wide", 3, TITLE)
    write_session(folder / "redacted.jsonl", "session_redacted", 3, "Mail it to [redacted:email:3f9a1c]")
    (folder / "newer.jsonl").write_text(HELLO.read_text().replace('"version":"', '"version":"9', 1))
    (folder / "torn.jsonl").write_bytes((RECORDS / "add.jsonl").read_bytes()[:-30])
    history = folder / "history.json"
    history.write_text(json.dumps([{"role": "user", "content": "Say hi"}, {"role": "assistant", "content": "Hi."}]))
    (found,) = find_sessions(str(history), "openai")
    (imported,) = Importer(RecordFolder(folder), ImportOptions()).import_all([found])
    Path(imported.record).rename(folder / "imported.jsonl")  # type: ignore[union-attr]
    record_of_calls(folder / "calls.jsonl")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    with ViewerThread(folder) as address:
        yield address


@pytest.fixture
def page(blank: Any) -> Any:
    return of_size(blank, 1440, 700)


def link_to(page: Any, url: str, file: str) -> str:
    sessions = page.request.get(f"{url}sessions?limit=200").json()["sessions"]
    return f"{url}#s/{next(one['id'] for one in sessions if one['file'] == file)}"


def test_what_is_over_opens_at_its_beginning_and_a_key_leads_to_its_end(page: Any, url: str) -> None:
    page.goto(f"{url}#s/session_1")
    page.wait_for_selector(".end")
    assert page.evaluate(SCROLLED) == 0
    assert page.is_visible("#to-end")
    page.keyboard.press("e")
    until(page, f"{SCROLLED} > 1000")
    page.wait_for_selector("#to-end", state="hidden")
    page.keyboard.press("j")  # another one, whose timeline stands where that one's end was
    page.wait_for_function("document.querySelector('#title').textContent !== 'Task 1'")
    page.wait_for_selector(".end")
    assert page.evaluate(SCROLLED) == 0


def test_a_session_that_is_written_is_followed_to_its_end(page: Any, tmp_path: Path) -> None:
    (run,) = read_record(RECORDS / "loop.jsonl").runs
    writer = RecordWriter(tmp_path / "live.jsonl", LIVE, "2026-01-01T00:00:00Z", "0.1.0")
    half = len(run.events) // 2
    for event in run.events[:half]:
        writer.write(event)
    writer.flush()
    with ViewerThread(tmp_path) as url:
        page.goto(f"{url}#s/{LIVE}")
        until(page, f"{SCROLLED} > 100")
        for event in run.events[half:]:
            writer.write(event)
        writer.flush()
        page.wait_for_selector(".end")
        until(page, BELOW_END + " < 2")
        writer.close()
        page.goto("about:blank")  # it would ask a server that is gone


def test_E5_the_list_and_the_head_of_a_session_count_the_same_errors(page: Any, url: str) -> None:
    sessions = {one["file"]: one for one in page.request.get(f"{url}sessions?limit=200").json()["sessions"]}
    counted = {"1.jsonl": 1, "connection.jsonl": 1, "loop.jsonl": 0, "hello.jsonl": 0, "calls.jsonl": FAILED}
    for file, errors in counted.items():
        assert sessions[file]["errors"] == errors, file
        page.goto(f"{url}#s/{sessions[file]['id']}")
        page.wait_for_selector(".end")
        until(page, f"document.querySelector('#errors').textContent.split(' ')[0] === '{errors}'")


MARKS = {"succeeded": ("quiet", "✔"), "failed": ("bad", "✘"), "nothing_found": ("bad", "✘"), "unknown": ("quiet", "·")}
SHOWN = """[...document.querySelectorAll('.call > .call-head > .sign')]
    .map((sign) => [sign.className.replace('sign ', ''), sign.textContent])"""


def test_no_call_of_another_loop_has_a_tick_unless_it_is_known_to_have_succeeded(page: Any, url: str) -> None:
    page.goto(link_to(page, url, "calls.jsonl"))
    page.wait_for_selector(".end")
    assert page.evaluate(SHOWN) == [list(MARKS[end]) for end in ENDS]
    assert page.locator(".call[data-failed]").count() == FAILED


def test_files_of_another_loop_are_listed_if_they_were_changed_and_not_if_they_were_read(page: Any, url: str) -> None:
    page.goto(link_to(page, url, "calls.jsonl"))
    page.wait_for_selector(f"#tab-changes >> text=Changes {len(CHANGED)}")
    page.click("#tab-changes")
    files = page.wait_for_selector("ul[aria-labelledby=files-changed]")
    assert [file.text_content() for file in files.query_selector_all("summary code")] == CHANGED
    page.click("#tab-calls")
    page.wait_for_selector(".calls tr.failed")
    assert page.locator(".calls tr.failed").count() == FAILED


def test_calls_are_marked_while_the_session_of_another_loop_is_followed(page: Any, tmp_path: Path) -> None:
    events = events_of_calls()
    writer = RecordWriter(tmp_path / "live.jsonl", SESSION, "2026-01-01T00:00:00Z", "0.1.0")
    half = len(events) // 2
    for event in events[:half]:
        writer.write(event)
    writer.flush()
    with ViewerThread(tmp_path) as url:
        page.goto(f"{url}#s/{SESSION}")
        page.wait_for_selector(".call")
        for event in events[half:]:
            writer.write(event)
        writer.flush()
        page.wait_for_selector(".end")
        assert page.evaluate(SHOWN) == [list(MARKS[end]) for end in ENDS]
        writer.close()
        page.goto("about:blank")  # it would ask a server that is gone


def test_no_button_leads_to_an_end_that_is_seen(page: Any, url: str) -> None:
    page.set_viewport_size({"width": 1440, "height": 2500})
    page.goto(link_to(page, url, "hello.jsonl"))
    page.wait_for_selector(".end")
    assert not page.is_visible("#to-end")


def test_what_is_known_of_a_file_stands_beside_its_session_and_in_the_list(page: Any, url: str) -> None:
    for file, words in (
        ("redacted.jsonl", "⚠ redacted: some of its texts were replaced"),
        ("torn.jsonl", "⚠ 1 of its lines cannot be read; it was shown without them"),
    ):
        page.goto(link_to(page, url, file))
        page.wait_for_selector(".step")
        assert page.inner_text("#about-record") == words
        assert words in page.inner_text("#sessions tr:has(a[aria-current])")
    page.goto(link_to(page, url, "hello.jsonl"))
    page.wait_for_selector(".end")
    assert not page.is_visible("#about-record")


def test_a_file_that_cannot_be_read_is_named_with_why_and_nothing_else(page: Any, url: str) -> None:
    page.goto(link_to(page, url, "newer.jsonl"))
    page.wait_for_selector("#about-record >> text=upgrade endstop")
    assert page.inner_text("#title") == "newer.jsonl"
    assert page.inner_text("#status").endswith("unreadable")
    assert page.inner_text("#connection") == page.inner_text("#trouble") == ""
    assert not page.is_visible("#jumps")
    assert not page.is_visible("#to-end")


def test_a_session_that_is_only_read_offers_no_way_to_go_on(page: Any, url: str) -> None:
    page.goto(link_to(page, url, "connection.jsonl"))
    page.wait_for_selector(".end")
    page.wait_for_selector("#verdict .sentence")
    assert page.locator("text=Go on from here").count() == 0
    assert "endstop run --resume connection.jsonl" in page.inner_text("#verdict")


def test_of_an_imported_session_no_limit_and_no_time_are_told_that_are_not_known(page: Any, url: str) -> None:
    page.goto(link_to(page, url, "imported.jsonl"))
    page.wait_for_selector(".end")
    text = page.inner_text("#session")
    assert "1 step" in text
    for guessed in ("1,000,000", "0 ms", "0.0 s"):
        assert guessed not in text


@pytest.mark.parametrize("width", [390, 1440])
def test_a_task_of_one_long_word_makes_the_page_no_wider(blank: Any, url: str, width: int) -> None:
    page = of_size(blank, width)
    page.goto(f"{url}#s/session_wide")
    page.wait_for_selector(".end")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_link_brings_its_row_of_the_list_into_sight(page: Any, url: str) -> None:
    page.goto(url)
    page.wait_for_selector("#sessions a")
    last = page.request.get(f"{url}sessions?limit=200").json()["sessions"][-1]["id"]
    page.goto("about:blank")
    page.goto(f"{url}#s/{last}")
    page.wait_for_selector("#sessions a[aria-current]")
    row, box = page.locator("#sessions a[aria-current]").bounding_box(), page.locator("#list").bounding_box()
    assert box["y"] <= row["y"] <= box["y"] + box["height"] - row["height"] / 2


def test_an_empty_folder_says_what_comes_there_and_has_no_controls(page: Any, tmp_path: Path) -> None:
    with ViewerThread(tmp_path) as url:
        page.goto(url)
        page.wait_for_selector("#list-note >> text=There are no records here")
        for control in ("#filters", "#columns", "#report"):
            assert not page.is_visible(control)
        write_session(tmp_path / "new.jsonl", "session_new", 1, "A new one")
        page.wait_for_selector("#sessions a >> text=A new one")
        assert page.is_visible("#filters")
        page.goto("about:blank")
