"""Tests of how the page shows Markdown, code, diffs and long outputs, copies them, and shows the request of a step."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.decision.file_edits import file_edits
from msgspec import to_builtins

from ..other_loops import record_of_calls
from .shown import Site, until
from .test_exported_page import exported, opened
from .test_page_replay import events_of

Modules = Callable[[str, Any], Any]
MARKDOWN = """# Found

**Two** places in `server.conf`, see [the manual](https://docs.example.org/ports).

- one
- two

| key | value |
| --- | --- |
| port | 8080 |

```python
def serve(port):
    return port
```
"""
RENDER = """async (text) => {
    const { markdown } = await import('./page/markdown.js');
    const root = document.createElement('div');
    root.append(...((await markdown(text)) ?? ['null']));
    const all = [...root.querySelectorAll('*')];
    return { html: root.innerHTML, tags: all.map((one) => one.localName),
        names: all.flatMap((one) => one.getAttributeNames()) };
}"""
TAGS = {
    *("p", "span", "ul", "ol", "li", "blockquote", "div", "table", "thead", "tbody", "tr", "th", "td"),
    *("em", "strong", "s", "br", "hr", "code", "pre", "a", "button"),
}
NAMES = {"class", "role", "aria-level", "aria-label", "tabindex", "href", "rel", "target", "start", "type", "title"}
HOSTILE = [
    "**b** <script>window.hit=1</script> <img src=x onerror=window.hit=1> <svg onload=window.hit=1>",
    "[press](javascript:window.hit=1) [press](JaVaScRiPt&#58;window.hit=1) <javascript:window.hit=1>",
    "[press](data:text/html,<script>window.hit=1</script>) [press](vbscript:x) [file](file:///etc/passwd)",
    "![x](http://evil.example/x.png) ![x](javascript:window.hit=1) ![x](data:image/svg+xml,<svg onload=window.hit=1>)",
    '[press](http://evil.example/" onclick="window.hit=1) [a]: http://evil.example "\\" onload=window.hit=1"',
    "```html\n<script>window.hit=1</script>\n```\n\n    <iframe src=//evil.example>\n",
    '```"><script>window.hit=1</script>\ntext\n```',
    "# \u202egnihtemos\u202c\n\n- \u2066x\u2069 \u200f\ufeff\n"
    "- \x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x00\x07\x9b31m",
    "| a | b |\n|---|---|\n| <img src=x onerror=window.hit=1> | &lt;script&gt; &#x202e;x |\n",
    "<details open ontoggle=window.hit=1>\n\n**x**\n\n</details>\n<style>body{display:none}</style>",
]
HIDDEN = (
    "[...'\\u202e\\u202c\\u2066\\u2069\\u200f\\ufeff\\x00\\x07\\x1b\\x9b'].filter((one) => text.includes(one)).length"
)


def kept(site: Site, name: str, *steps: list[dict[str, Any]], **begin: Any) -> str:
    """A session with these steps, and its address."""
    start, *_, end = events_of("hello")
    events = [{**start, "run_id": f"run_{name}", "prompt": name, **begin}]
    for number, step in enumerate(steps, 1):
        events += [
            {"type": "STEP_STARTED", "step": number, "round": number},
            *step,
            {"type": "STEP_FINISHED", "step": number},
        ]
    events.append({**end, "outcome": {**end["outcome"], "run_id": f"run_{name}"}})
    site.keep([[{**event, "seq": seq, "t": seq} for seq, event in enumerate(events, 1)]], name, f"session_{name}")
    return f"{site.url}#s/session_{name}"


def said(text: str) -> list[dict[str, Any]]:
    """A text."""
    return [{"type": "TEXT_MESSAGE_CONTENT", "attempt": "1.1", "delta": text}]


def called(name: str, arguments: dict[str, Any], result: str, status: str = "ok") -> list[dict[str, Any]]:
    """A call and its result."""
    call = {"attempt": "1.1", "call_id": name}
    return [
        {"type": "TOOL_CALL_START", **call, "name": name},
        {"type": "TOOL_CALL_ARGS", **call, "delta": json.dumps(arguments)},
        {"type": "TOOL_CALL_END", **call},
        {"type": "TOOL_EXECUTION_STARTED", "call_id": name, "name": name},
        {"type": "TOOL_CALL_RESULT", "call_id": name, "name": name, "content": result, "status": status},
    ]


# ---- Markdown


def test_markdown_is_formatted_and_what_is_recorded_is_one_click_away(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "markdown", said(MARKDOWN), said("No marks at all.")))
    page.wait_for_selector(".text.markdown table")
    text = page.locator(".text.markdown")
    assert text.locator("[role=heading]").text_content() == "Found"
    assert text.locator("strong").text_content() == "Two"
    assert text.locator("li").all_text_contents() == ["one", "two"]
    link = text.locator("a")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://docs.example.org/ports",
        "noopener noreferrer",
    )
    assert "the manual (docs.example.org)" in text.text_content()
    page.wait_for_selector(".text.markdown pre .word")
    block = page.locator(".block:has(> .text)").first
    block.hover()
    block.locator("button >> text=As recorded").click()
    assert block.locator(".text").text_content() == MARKDOWN
    assert block.locator("[aria-pressed=true]").count() == 1
    block.locator("button >> text=As recorded").click()
    assert block.locator(".text.markdown li").count() == 2
    assert page.locator(".text.words").text_content() == "No marks at all."


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_markdown_becomes_elements_of_the_list_and_text(modules: Modules, text: str) -> None:
    made = modules(RENDER, text)
    assert set(made["tags"]) <= TAGS
    assert set(made["names"]) <= NAMES
    assert "javascript:" not in " ".join(part for part in made["html"].split("href=")[1:])


def test_nothing_in_hostile_markdown_is_obeyed_loaded_or_hidden(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "hostile", *(said(f"# x\n\n{text}") for text in HOSTILE)))
    page.wait_for_selector(".end")
    for number in range(1, len(HOSTILE) + 1):
        page.evaluate(f"document.querySelector('.step[data-step=\"{number}\"]').scrollIntoView()")
        page.wait_for_selector(f".step[data-step='{number}'] .markdown")
    assert page.evaluate("window.hit") is None
    assert page.evaluate("(() => { const text = document.body.textContent; return " + HIDDEN + "; })()") == 0
    links = page.evaluate(
        "[...document.querySelectorAll('.markdown a')].map((one) => [one.protocol, one.rel, one.target])"
    )
    assert {tuple(link) for link in links} == {("http:", "noopener noreferrer", "_blank")}
    assert not [url for url in page.asked if "evil.example" in url.split("#")[0]]


SLOW = [
    "_a_" * 60_000,
    "a" + " " * 190_000 + "b",
    "[" * 190_000,
    "> " * 90_000,
    "* " * 90_000,
    "`" * 190_000,
    "**a " * 45_000,
]


@pytest.mark.parametrize("text", SLOW, ids=lambda text: text[:8].strip())
def test_a_text_made_to_be_slow_is_not(modules: Modules, text: str) -> None:
    """A bound that only something quadratic would break: marked takes minutes for some of these."""
    function = """async (text) => {
        const { markdown } = await import('./page/markdown.js');
        const before = performance.now();
        await markdown(text);
        return performance.now() - before;
    }"""
    assert modules(function, text) < 20_000


def test_a_text_above_the_bound_stays_plain_and_says_so(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "bound", said("# Title\n\n" + "word " * 41_000)))
    page.wait_for_selector("text=Plain: too long to format")
    assert page.locator(".text.markdown").count() == 0
    assert page.text_content(".text").startswith("# Title")


def test_nothing_of_the_libraries_is_loaded_before_a_text_needs_it(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "plain", said("Plain words only.")))
    page.wait_for_selector(".end")
    until(page, "document.querySelector('.text').parentNode.querySelector('.tools button')")
    assert not [url for url in page.asked if "/vendor/" in url]


def test_while_a_replay_goes_back_a_formatted_text_is_the_written_one_again(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "back", [*said("**bold** "), *said("and more")]))
    page.wait_for_selector(".text.markdown strong")
    page.click("#replay")
    page.evaluate("document.querySelector('#position').focus()")
    page.keyboard.press("End")
    page.wait_for_selector(".text.markdown strong")
    page.keyboard.press("Home")
    until(page, "!document.querySelector('.text.markdown')")


# ---- code and diffs


@pytest.mark.parametrize(
    ("name", "language"),
    [("src/a.py", "python"), ("a.tsx", "typescript"), ("Dockerfile", "dockerfile"), ("x/Makefile", "makefile"),
     ("a.toml", "ini"),
     ("py", "python"), ("shell", "bash"), ("", ""), ("notes", ""), ("constructor", ""), ("a.__proto__", "")],
)  # fmt: skip
def test_a_name_says_the_language(modules: Modules, name: str, language: str) -> None:
    assert modules("async (name) => (await import('./page/code.js')).languageOf(name)", name) == language


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ('{"a": [1, 2]}', "json"), ("[not json]", ""), ("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b", "diff"),
        ("- a list\n- of things", ""),
        ('Traceback (most recent call last):\n  File "x"', "traceback"), ("plain", ""),
    ],
)  # fmt: skip
def test_its_shape_says_the_language(modules: Modules, text: str, shape: str) -> None:
    assert modules("async (text) => (await import('./page/code.js')).shapeOf(text)", text) == shape


def test_program_text_is_coloured_and_stays_letter_for_letter(page: Any, shown: Site) -> None:
    program = "\n".join(
        f'def f{n}(x: int) -> str:\n    """Say <b>{n}</b> & so."""\n    return "\\n"\n' for n in range(90)
    )
    page.goto(kept(shown, "program", called("read_file", {"path": "src/a.py"}, program)))
    page.wait_for_selector(".output .word")
    page.click("button >> text=Show all")
    until(
        page,
        "document.querySelector('.output').textContent.includes('def f89')"
        " && document.querySelectorAll('.output .word').length >= 180",
    )
    assert page.text_content(".output") == program
    page.click("button >> text=Show less")
    until(page, "!document.querySelector('.output').textContent.includes('def f89')")


def test_long_lines_stay_plain_so_that_nothing_is_slow(page: Any, shown: Site) -> None:
    page.goto(
        kept(
            shown,
            "lines",
            called("read_file", {"path": "a.c"}, "int x;\n" + "a" * 900 + "\n"),
            called("read_b", {"path": "b.c"}, "int x;\n"),
        )
    )
    page.wait_for_selector(".step:nth-of-type(2) .output .name")
    assert page.locator(".step:nth-of-type(1) .output span").count() == 0


EDITS: list[tuple[dict[str, Any], list[str]]] = [
    ({"path": "a", "old": "1\n2\n3", "new": "1\nx\n3"}, [" 1", "-2", "+x", " 3"]),
    ({"file_path": "a", "old_string": "x", "new_string": "y"}, ["-x", "+y"]),
    ({"command": "str_replace", "path": "a", "old_str": "x", "new_str": ""}, ["-x"]),
    ({"command": "insert", "path": "a", "insert_line": 3, "insert_text": "x\ny"}, ["@@ line 3 @@", "+x", "+y"]),
    ({"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}]}, ["-x", "+y"]),
    ({"input": "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch"},
     ["*** Update File: a", "-x", "+y", "*** End Patch"]),
    ({"pattern": "old", "path": "a"}, []),
]  # fmt: skip


def test_edits_become_lines_with_signs_where_the_judgement_says_that_the_texts_are(modules: Modules) -> None:
    given = [(json.dumps(one), file_edits("edit_file", json.dumps(one), (), "", False)) for one, _ in EDITS]
    function = """async (calls) => {
        const { editAt } = await import('./page/edits.js');
        return calls.map(([args, edits]) => edits.flatMap((edit) => editAt(args, edit).lines));
    }"""
    assert modules(function, to_builtins(given)) == [lines for _, lines in EDITS]


def test_a_compared_text_is_both_texts(modules: Modules) -> None:
    before = "\n".join(str(n * 7 % 13) for n in range(60))
    after = "\n".join(str(n * 5 % 11) for n in range(50))
    lines = modules("async ([a, b]) => (await import('./page/edits.js')).compared(a, b)", [before, after])
    assert "\n".join(line[1:] for line in lines if line[0] != "+") == before
    assert "\n".join(line[1:] for line in lines if line[0] != "-") == after
    assert any(line[0] == " " for line in lines)


EDIT = {"path": "src/a.py", "old": "import os\nPORT = 1\n", "new": "import os\nPORT = 2\n"}


def is_diff(page: Any) -> None:
    page.wait_for_selector(".edit del")
    assert page.text_content(".edit del") == "-PORT = 1\n"
    assert page.text_content(".edit ins") == "+PORT = 2\n"
    assert "+1−1" in page.text_content(".edit-head")


def test_an_edit_is_shown_as_a_diff_and_its_arguments_as_recorded(page: Any, tmp_path: Path) -> None:
    record = record_of_calls(tmp_path / "edit.jsonl", [("edit_file", EDIT, "Replaced one passage.", "")])
    opened(page, exported(record, tmp_path))
    is_diff(page)
    page.click(".arguments summary")
    page.wait_for_selector(".arguments .tools button >> text=As recorded")
    page.hover(".arguments .block")
    page.click(".arguments .tools button >> text=As recorded")
    assert json.loads(page.text_content(".arguments .args")) == EDIT


# ---- long outputs


def test_a_result_of_many_megabytes_is_shown_in_pieces_and_downloaded_whole(page: Any, shown: Site) -> None:
    line = "0123456789 abcdefghijklmnopqrstuvwxyz\n"
    result = line * 60_000
    page.goto(kept(shown, "large", called("dump", {}, result)))
    page.wait_for_selector(".end")
    first = len(page.text_content(".output"))
    assert first < 2000
    page.click(".foot button >> text=Show more of 60,000 lines")
    assert 50_000 < len(page.text_content(".output")) < 150_000
    page.click(".foot button")
    page.evaluate(
        """() => {
            const button = document.querySelector('.foot button');
            for (let presses = 0; presses < 40 && button.textContent !== 'Show less'; presses++) button.click();
        }"""
    )
    assert len(page.text_content(".output")) <= 2_200_000
    assert "download the rest" in page.text_content(".foot")
    page.hover(".result .block")
    with page.expect_download() as download:
        page.click(".result .tools button >> text=Download")
    assert download.value.suggested_filename == "dump.txt"
    assert download.value.path().read_text() == result


def test_json_in_one_line_is_shown_in_several_and_as_recorded(page: Any, shown: Site) -> None:
    result = json.dumps(
        {"status": "ok", "checks": [{"name": "http", "ok": True}, {"name": "tls", "ok": False}], "port": 8080}
    )
    page.goto(kept(shown, "json", called("status", {}, result)))
    page.wait_for_selector(".output .name")
    page.click(".foot button") if page.locator(".foot").count() else None
    assert json.loads(page.text_content(".output")) == json.loads(result)
    page.hover(".result .block")
    page.click(".result button >> text=As recorded")
    assert page.text_content(".output") == result


def test_a_link_to_a_call_shows_its_whole_output(page: Any, shown: Site) -> None:
    address = kept(shown, "whole", called("dump", {}, "\n".join(f"line {n}" for n in range(60))))
    page.goto(f"{address}/1/step/1/call/dump")
    until(page, "document.querySelector('.output')?.textContent.includes('line 59')")


# ---- copies


def test_copies_are_what_is_shown_and_are_said(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(kept(shown, "copy", called("dump", {}, "one \x1b[31mred\u202e")))
    page.wait_for_selector(".result .tools button", state="attached")
    page.hover(".result .block")
    page.click(".result .tools button >> text=Copy")
    until(page, "document.querySelector('#said').textContent === 'Copied the result of dump'")
    assert page.evaluate("navigator.clipboard.readText()") == "one red‹202E›"


def test_without_a_clipboard_a_copy_goes_by_selection(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page()
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(kept(shown, "fallback", called("dump", {}, "one")))
    page.wait_for_selector(".result .tools button", state="attached")
    page.evaluate("document.addEventListener('copy', () => (window.selected = document.activeElement.value))")
    page.focus(".result .tools button")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('.result .tools button').textContent === 'Copied'")
    assert page.evaluate("window.selected") == "one"
    assert page.evaluate("document.activeElement.className") == "tool"


# ---- the request


def test_the_request_of_a_step_is_shown_and_escape_goes_back(page: Any, shown: Site) -> None:
    page.goto(f"{shown.url}#s/{shown.keep_record('port_server')}")
    page.wait_for_selector(".end")
    page.focus(".step[data-step='2'] .request")
    page.keyboard.press("Enter")
    page.wait_for_selector(".panel .message")
    told = page.text_content(".panel")
    assert "Request of step 2" in told
    assert "made again from the record" in told
    assert "Set the port to 8080" in told
    assert "write_file" in told
    assert page.locator(".panel .tool-spec").count() >= 2
    page.click(".panel .tool-spec summary >> nth=0")
    page.wait_for_selector(".panel .tool-spec pre")
    page.keyboard.press("Escape")
    page.wait_for_selector(".panel", state="detached")
    assert page.evaluate("document.activeElement.matches('.step[data-step=\"2\"] .request')")


def test_a_request_that_is_not_there_is_said_in_the_panel(page: Any, shown: Site) -> None:
    page.refused = ("404",)
    page.goto(kept(shown, "lost", said("x")))
    page.wait_for_selector(".end")
    page.route("**/request?*", lambda route: route.fulfill(status=404, json={"detail": "the session has no step 1"}))
    page.click(".request")
    page.wait_for_selector(".panel .error >> text=the session has no step 1")
    page.click(".panel button >> text=Close")
    page.wait_for_selector(".panel", state="detached")


def test_of_an_imported_history_the_panel_says_that_the_request_is_not_known(page: Any, shown: Site) -> None:
    page.goto(kept(shown, "imported", said("x")))
    page.wait_for_selector(".end")
    answer = {
        "run": 1,
        "step": 1,
        "model": "m",
        "system": "",
        "messages": [{"role": "user", "text": "<b>x</b>"}],
        "tools": [],
    }
    page.route("**/request?*", lambda route: route.fulfill(json={**answer, "source": "imported", "redacted": True}))
    page.click(".request")
    page.wait_for_selector(".panel >> text=What the agent itself sent is not known")
    assert "redacted" in page.text_content(".panel")
    assert "<b>x</b>" in page.text_content(".panel .message")
