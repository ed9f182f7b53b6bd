"""The views of a session: changes, calls, requests and decisions, each with its tab, its key and its address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..other_loops import CHANGED, ENDS, FAILED, record_of_calls
from .shown import until
from .test_exported_page import exported, opened

NAMES = ["Conversation", f"Changes {len(CHANGED)}", f"Calls {len(ENDS)} ({FAILED} failed)", "Requests", "Decisions"]
WORDS = {"succeeded": "succeeded", "failed": "failed", "nothing_found": "failed", "unknown": "unknown"}
ROWS = (
    "[...document.querySelectorAll('.calls tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
)


def views(page: Any, folder: Path) -> Any:
    opened(page, exported(record_of_calls(folder / "calls.jsonl"), folder))
    until(page, f"document.querySelectorAll('[role=tab]')[1].textContent === {json.dumps(NAMES[1])}")
    return page


def shown(page: Any) -> list[str]:
    return list(page.evaluate("[...document.querySelectorAll('[role=tabpanel]:not([hidden])')].map((one) => one.id)"))


def test_each_view_has_a_tab_a_key_and_an_address(page: Any, tmp_path: Path) -> None:
    views(page, tmp_path)
    assert page.locator("[role=tablist] [role=tab]").all_text_contents() == NAMES
    for key, name in enumerate(["conversation", "changes", "calls", "requests", "decisions"], 1):
        page.keyboard.press(str(key))
        until(page, f"document.querySelector('#panel-{name}').textContent !== ''")
        assert shown(page) == [f"panel-{name}"]
        assert page.locator("[aria-selected=true]").get_attribute("id") == f"tab-{name}"
        assert page.evaluate("location.hash").endswith(f"/{name}") == (name != "conversation")
    page.reload()
    until(page, "document.querySelector('#panel-decisions li') !== null")
    assert shown(page) == ["panel-decisions"]
    page.focus("#tab-decisions")
    page.keyboard.press("ArrowRight")
    assert shown(page) == ["panel-conversation"]


def test_changes_are_the_files_that_calls_changed_and_what_a_program_may_have_changed_is_apart(
    page: Any, tmp_path: Path
) -> None:
    views(page, tmp_path).click("#tab-changes")
    page.wait_for_selector("#panel-changes a >> text=Step 6")
    entries = page.locator("ul[aria-labelledby=files-changed] > li").all_text_contents()
    assert [entry.split(" ")[0].removesuffix("1") for entry in entries] == CHANGED
    perhaps = page.locator("ul[aria-labelledby=perhaps-changed] > li").all_text_contents()
    assert perhaps[0] == "plot.png, by python3 b.py, Step 8"
    page.click("#panel-changes a >> text=Step 6")
    page.wait_for_selector(".call.here")
    assert shown(page) == ["panel-conversation"]


def test_calls_say_in_a_word_how_they_ended_and_are_sorted_and_filtered(page: Any, tmp_path: Path) -> None:
    views(page, tmp_path).click("#tab-calls")
    page.wait_for_selector(".calls tbody tr")
    rows = page.evaluate(ROWS)
    assert [row[3][1:] for row in rows] == [WORDS[end] for end in ENDS]
    assert [row[2] for row in rows][:3] == ["ls", "cat a.py", "grep -n y a.py"]
    assert [row[4] for row in rows][:4] == ["", "0", "1", "1"]
    page.click(".calls th button >> text=Tool")
    assert page.locator(".calls th[aria-sort]").get_attribute("aria-sort") == "ascending"
    assert [row[1] for row in page.evaluate(ROWS)] == sorted(row[1] for row in rows)
    page.click(".calls th button >> text=Tool")
    assert page.locator(".calls th[aria-sort]").get_attribute("aria-sort") == "descending"
    page.check("#panel-calls label >> text=failed")
    assert {row[3][1:] for row in page.evaluate(ROWS)} == {"failed"}
    assert len(page.evaluate(ROWS)) == FAILED


def test_requests_and_decisions_are_told_for_each_step(page: Any, tmp_path: Path) -> None:
    views(page, tmp_path).click("#tab-requests")
    page.click("#panel-requests summary >> text=Step 2")
    page.wait_for_selector("#panel-requests >> text=Messages (")
    assert "cat a.py" in page.text_content("#panel-requests details[open] pre >> nth=-1")
    page.click("#tab-decisions")
    page.wait_for_selector("#panel-decisions li")
    told = page.text_content("#panel-decisions")
    assert "ended the run: a plain answer ends it" in told
    assert "Why is not recorded." in told, "another program's reasons are not known"
    assert "because the response called a tool" not in told
    assert "_" not in page.locator("#panel-decisions").inner_text()


CHANGE = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n- x\n+ y\n z\n"
DIFF = f"Done:\n\n{CHANGE}\nThat is all.\n- one\n- two"


def test_a_diff_in_a_text_is_drawn_as_one_and_keeps_its_signs(modules: Any) -> None:
    parts = modules("async (text) => (await import('./page/code.js')).diffParts(text)", DIFF)
    assert [part["diff"] for part in parts] == [False, True, False]
    assert "- x\n+ y" in parts[1]["text"]
    fenced = modules("async (text) => (await import('./page/code.js')).diffParts(text)", f"```\n{DIFF}\n```")
    assert [part["diff"] for part in fenced] == [False]


def test_what_a_client_put_around_an_output_is_opened(modules: Any) -> None:
    told = """async (text) => {
        const { output } = await import('./page/output.js');
        return output(text, { what: 'it' }).node.querySelector('pre').textContent;
    }"""
    for recorded, output in (
        (json.dumps({"output": "a\nb\n", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}), "a\nb\n"),
        ("<returncode>0</returncode>\n<output>\na\n</output>", "a"),
        (json.dumps({"output": "a", "rows": 3}), '{"output": "a", "rows": 3}'),
    ):
        assert modules(told, recorded) == output
