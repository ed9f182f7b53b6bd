"""A page of `endstop export html` in a browser: what it shows, that it is alone, and that nobody's text is obeyed."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any
from zlib import compress

import pytest
from endstop import Engine
from endstop.html_export.recorded_session import embed_record, subagent_records
from endstop.html_export.request_table import RequestTableBuilder
from endstop.html_export.session_html import session_html
from endstop.http.module_bundle import bundle_modules
from endstop.model_request import find_request
from endstop.providers import Scripted, call
from endstop.records.format import Header, encode_line
from endstop.records.reader import read_record
from endstop.records.scan import scan
from endstop.tools import task_done, think

from ..other_loops import ENDS, events_of_calls, record_of_calls
from ..payer import by_step
from .shown import RECORDS, Site, delete_file, until
from .test_page_safety import BAD, PAYLOADS, poisoned

MARKS = {"succeeded": "✔", "failed": "✘", "nothing_found": "✘", "unknown": "·"}
NAMES = ["scenes", "gives_up", "question", "connection", "port_server", "approval", "premature"]


def exported(record: Path, folder: Path, *notices: str) -> str:
    """The address of a page of this record."""
    sessions = [embed_record(path, path) for path in (record, *subagent_records(record))]
    target = folder / f"{record.stem}.html"
    target.write_bytes(b"".join(session_html(sessions, notices)))
    return target.as_uri()


def written(path: Path, events: list[dict[str, Any]]) -> Path:
    """A record of these events."""
    lines = [encode_line(Header(session_id=path.stem)), *(json.dumps(event).encode() for event in events)]
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def test_calls_of_another_loop_are_marked_and_the_record_in_the_page_is_as_it_was(page: Any, tmp_path: Path) -> None:
    path = record_of_calls(tmp_path / "calls.jsonl")
    opened(page, exported(path, tmp_path))
    signs = "[...document.querySelectorAll('.call > .call-head > .sign')].map((sign) => sign.textContent)"
    assert page.evaluate(signs) == [MARKS[end] for end in ENDS]
    with page.expect_download() as download:
        page.click("#download")
    saved = read_record(download.value.path())
    assert [encode_line(event) for event in saved.runs[0].events] == [encode_line(event) for event in events_of_calls()]


def switch_off_network(page: Any) -> None:
    """Leave the page first: it may still load modules, which would fail then."""
    page.goto("about:blank")
    page.context.set_offline(True)


def opened(page: Any, address: str) -> Any:
    """This page, read to the end of the session's first run; the network is off."""
    switch_off_network(page)
    page.goto(address)
    page.wait_for_selector("#timeline .end")
    return page


def test_a_run_that_its_check_ended_shows_each_check_the_cut_and_the_score(page: Any, tmp_path: Path) -> None:
    opened(page, exported(Path("docs/pictures/until.jsonl"), tmp_path))
    checks = page.evaluate("[...document.querySelectorAll('[data-item=check]')].map((one) => one.textContent)")
    assert [text.partition("what it says")[0] for text in checks] == [
        "◔Check 1: 4 of 20 pass",
        "◔Check 2: 10 of 20 pass, +6",
        "◔Check 3: 16 of 20 pass, +6",
        "◔Check 4: 15 of 20 pass, -1",
        "◔Check 5: 19 of 20 pass, +4",
        "✔Check 6: `pytest -q` passes",
    ]
    timeline = page.text_content("#timeline")
    assert timeline.index("The response is cut, since the check is met") < timeline.index("Check 6")
    verdict = page.inner_text("#verdict")
    assert "score of its check: 4 → 20 of 20" in verdict
    assert "when its check was met, and its check `pytest -q` passed." in verdict
    assert page.locator("#verdict .passed").count() == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_file_shows_the_timeline_that_the_server_shows(page: Any, shown: Site, tmp_path: Path, name: str) -> None:
    runs = len(read_record(RECORDS / f"{name}.jsonl").runs)
    cards = "document.querySelectorAll('#timeline .run .end').length"
    shows_all = f"document.querySelector('#title').textContent !== '' && {cards} >= {runs}"
    # texts are formatted when they come into view, so only what stands there from the first is compared
    parts = "h3, h4, h5, .call strong, .call .why, .decision summary, .note strong"
    nodes = f"[...document.querySelectorAll('#title, #status, #budget, #timeline :is({parts})')]"
    told = f"{nodes}.map((node) => node.textContent)"
    page.goto(f"{shown.url}#s/{shown.keep_record(name)}")
    until(page, shows_all)
    served, title = page.evaluate(told), page.title()
    opened(page, exported(RECORDS / f"{name}.jsonl", tmp_path))
    until(page, shows_all)
    found = page.evaluate(told)
    assert len(found) > 5
    assert found == served
    assert page.title() == title
    for gone in ("#composer", "#delete", "#cancel", "#list", ".back"):
        assert not page.is_visible(gone), gone


async def made(name: str, folder: Path, *response: Any) -> Path:
    """The record of a run with this response."""
    record = folder / f"{name}.jsonl"
    await Engine(Scripted([*response]), presets=[task_done, think]).run("改端口号", record=record)
    return record


def test_A11_a_thought_stands_before_the_completion_call_and_the_cut_and_leaves_in_a_replay(
    clean_tab: Any, shown: Site, tmp_path: Path
) -> None:
    responses = call("think", thought="任务全部完成"), call("task_done", summary="已成功将端口号修改为8080")
    address = exported(shown.do(made("done", tmp_path, *responses)), tmp_path)
    page = opened(clean_tab, address)
    seen = "[...document.querySelectorAll('.thought, .call, .cut')].filter((one) => one.checkVisibility())"
    assert page.evaluate(f"{seen}.map((one) => one.className.split(' ').at(-1))") == ["thought", "call", "cut"]
    assert "任务全部完成" in page.text_content(".thought")
    page.click("#replay")
    page.keyboard.press("Home")
    page.keyboard.press("End")
    for _ in range(20):
        page.keyboard.press("ArrowLeft")
        if page.is_hidden(".thought"):
            break
    assert page.is_hidden(".thought")
    assert page.is_visible(".call[data-kind=think]")
    page.keyboard.press("End")
    assert page.is_hidden(".call[data-kind=think]")
    page.click("#replay")
    id = read_record(tmp_path / "done.jsonl").header.session_id
    page.goto(f"{address}#s/{id}/1/step/1/call/{page.get_attribute('[data-kind=think]', 'data-call')}")
    page.wait_for_selector(".here .thought")


def test_A8_what_is_still_open_stands_with_the_question_as_text(clean_tab: Any, shown: Site, tmp_path: Path) -> None:
    issues = ["test_login失败", "<img src=x onerror=alert(1)>test_payment失败"]
    asks = call("task_done", summary="已修改", requires_user_confirmation=True, pending_issues=issues)
    page = opened(clean_tab, exported(shown.do(made("asks", tmp_path, asks)), tmp_path))
    assert page.locator(".question li").all_text_contents() == issues
    assert page.is_visible(".question li")


def test_a_file_asks_for_nothing_and_works_without_network(clean_tab: Any, tmp_path: Path) -> None:
    page = opened(clean_tab, exported(RECORDS / "scenes.jsonl", tmp_path))
    page.keyboard.press("t")
    page.keyboard.press("d")
    page.click("#replay")
    page.keyboard.press("Home")
    assert page.locator(".step").count() == 0
    page.keyboard.press("PageUp")
    assert page.locator(".step").count() == 1
    page.keyboard.press("End")
    assert page.locator("#timeline .end").count() > 0
    assert page.asked == [page.url.partition("#")[0]]
    assert page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_a_file_opens_at_the_start_and_links_lead_to_steps_and_calls(clean_tab: Any, tmp_path: Path) -> None:
    address = exported(RECORDS / "loop.jsonl", tmp_path)
    page = opened(clean_tab, address)
    assert page.evaluate("document.querySelector('#scroll').scrollTop") == 0
    id = read_record(RECORDS / "loop.jsonl").header.session_id
    page.goto(f"{address}#s/{id}/1/step/7")
    page.wait_for_selector('.here[data-step="7"]')
    called = page.get_attribute(".here .call", "data-call")
    page.goto(f"{address}#s/{id}/1/step/7/call/{called}")
    page.wait_for_selector(f'.here[data-call="{called}"]')
    page.goto(f"{address}#s/{id}/9/step/1")
    page.wait_for_selector("#trouble >> text=no run 9")
    page.goto(f"{address}#nonsense")
    page.wait_for_selector("#lost >> text=This link leads nowhere")
    assert page.is_visible("#timeline .end")


def test_the_download_of_a_file_is_the_record(clean_tab: Any, tmp_path: Path) -> None:
    record = RECORDS / "scenes.jsonl"
    page = opened(clean_tab, exported(record, tmp_path))
    with page.expect_download() as download:
        page.click("#download")
    download.value.save_as(tmp_path / "again.jsonl")
    again, before = read_record(tmp_path / "again.jsonl"), read_record(record)
    assert again.header == before.header
    assert [run.events for run in again.runs] == [run.events for run in before.runs]


def test_texts_of_others_stay_texts(clean_tab: Any, tmp_path: Path) -> None:
    page = clean_tab
    switch_off_network(page)
    for number, bad in enumerate([*PAYLOADS, "<!--<script>", "</SCRIPT \n>x<!-- ]]>"]):
        record = written(tmp_path / f"bad{number}.jsonl", poisoned(bad, number))
        page.goto(exported(record, tmp_path, f"a notice with {bad}"))
        page.wait_for_selector("#timeline .end")
        page.keyboard.press("t")
        page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
        assert page.evaluate("window.hit") is None, bad
        parts = "iframe, object, embed, form form, #timeline :is(script, style, meta, link, svg), #about :not(p)"
        assert page.evaluate(f"[...document.querySelectorAll({parts!r})].map((one) => one.outerHTML)") == [], bad
        assert page.evaluate("document.scripts.length") == 5, bad  # sessions, licences, events, requests and the script
        text = page.evaluate("document.body.innerText + document.title")
        assert BAD.findall(text) == []
        if not BAD.search(bad) and "\n" not in bad:
            assert page.evaluate("document.querySelector('.text').textContent") == bad
            assert bad in page.text_content("#about")


def test_the_policy_of_a_file_stops_scripts_and_requests(clean_tab: Any, tmp_path: Path) -> None:
    page = opened(clean_tab, exported(RECORDS / "hello.jsonl", tmp_path))
    page.refused = ("Content Security Policy", "requires 'Trusted", "Failed to load", "net::ERR")
    page.evaluate(
        """() => {
            const add = (name, given) => {
                try {
                    document.body.append(Object.assign(document.createElement(name), given));
                } catch {}
            };
            add("script", { textContent: "window.hit = 1" });
            add("script", { src: "data:text/javascript,window.hit=1" });
            add("img", { src: "http://127.0.0.1:9/x.png" });
            add("style", { textContent: "body { display: none }" });
        }"""
    )
    assert page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'fetched', () => 'refused')") == "refused"
    until(page, "new Set(violations).size >= 4")
    found = set(page.evaluate("violations.splice(0)"))
    assert found == {"require-trusted-types-for", "img-src", "style-src-elem", "connect-src"}
    assert page.evaluate("window.hit") is None
    assert page.is_visible("#timeline")


def test_a_file_shows_where_nothing_can_be_stored(clean_tab: Any, tmp_path: Path) -> None:
    """As in the previews of mail programs, which show files in a sandbox."""
    address = exported(RECORDS / "hello.jsonl", tmp_path)
    (tmp_path / "frame.html").write_text(
        f'<iframe sandbox="allow-scripts" src="{address}" width=1000 height=800></iframe>'
    )
    page = clean_tab
    page.goto((tmp_path / "frame.html").as_uri())
    inside = page.frame_locator("iframe")
    inside.locator("#timeline .end").wait_for()
    inside.locator("#scroll").press("t")
    inside.locator("#help").click()
    inside.locator("#keys[open]").wait_for()


async def with_subagent(folder: Path) -> Path:
    clerk = Engine(by_step([call("delete_file", id="d", path="old.txt")], "It is gone."), tools=[])
    steps = ([call("clerk", id="c", prompt="Delete old.txt.")], "All done.")
    record = folder / "office.jsonl"
    await Engine(by_step(*steps), tools=[clerk.as_tool("clerk", "Deletes files."), delete_file]).run(
        "Tidy up.", record=record
    )
    return record


def test_the_sessions_of_sub_agents_are_in_the_file(clean_tab: Any, tmp_path: Path, shown: Site) -> None:
    record = shown.do(with_subagent(tmp_path))
    page = opened(clean_tab, exported(record, tmp_path))
    page.click("#timeline .result .note a")
    page.wait_for_selector("#timeline .said >> text=Delete old.txt.")
    page.click("#timeline .said a")
    page.wait_for_selector("#timeline .said >> text=Tidy up.")


def test_a_file_fits_the_screen_in_both_colours(open_page: Callable[..., Any], tmp_path: Path) -> None:
    page = opened(open_page(), exported(RECORDS / "scenes.jsonl", tmp_path, "A notice " * 30))
    for width, scheme in product((390, 1440), ("light", "dark")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate("document.querySelector('#scroll').clientHeight") > 250
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
        assert dark == (scheme == "dark")


def test_without_javascript_a_file_says_what_it_is(browser: Any, tmp_path: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(exported(RECORDS / "port_server.jsonl", tmp_path))
    assert page.title() == "Set the port to 8080 · endstop"
    told = page.inner_text("noscript")
    context.close()
    assert "Set the port to 8080" in told
    assert "needs JavaScript" in told


# ---- requests

REQUESTS = """async ([sessions, table, asked]) => {
    for (const [name, value] of [["held-sessions", JSON.stringify(sessions)], ["held-requests-0", table]]) {
        document.getElementById(name)?.remove();
        const node = Object.assign(document.createElement("script"), { type: "application/octet-stream", id: name });
        node.textContent = value;
        document.body.append(node);
    }
    const { id } = sessions.sessions[0];
    const { answer } = await import(`./page/embedded.js?${id}`);
    const found = asked.map(([run, step]) => answer(`sessions/${id}/request?run=${run}&step=${step}`));
    return (await Promise.all(found)).map((one) => one ?? null);
}"""


@pytest.mark.parametrize("name", ["scenes", "gives_up", "loop", "approval"])
def test_a_file_tells_the_request_of_each_step_as_the_viewer_does(
    modules: Callable[[str, Any], Any], name: str
) -> None:
    events = list(scan(RECORDS / f"{name}.jsonl", attachments=True))
    table = RequestTableBuilder()
    for event in events:
        table.feed(event)
    asked = [(row.run, row.step) for row in table.table().requests]
    assert len(asked) > 1
    held = b64encode(compress(encode_line(table.table()))).decode()
    given = [{"sessions": [{"id": name}]}, held, [*asked, (1, 999)]]
    *found, none = modules(REQUESTS, given)
    assert found == [json.loads(encode_line(find_request(events, *place))) for place in asked]
    assert none is None


# ---- the bundle

FORMS = {
    "main.js": """import whole, { part as other, more } from "./a/one.js";
import * as all from './a/two.js';
import "./side.js";
import { p, q } from "./a/parts.js";
export const said = [whole(), other, more(2), all.default.name, all.x, all.y, window.side, p, q];
Promise.all([import("./a/two.js"), import(`./a/${"late"}.js`)]).then(([two, late]) => {
  window.result = [...said, two.x, late.default];
});
""",
    "a/one.js": """export default function named() { return named.name; }
export const part = "</script><!--<script>";
export async function* streams() {}
const shown = (n) => n * 2;
export { shown as more };
""",
    "a/two.js": """var a=class{static name='C'};const x=1,z=3;export{z as y,x};export default a;
//# sourceMappingURL=two.map""",
    "a/late.js": """const load = "a name of its own";
export { x as default } from "./two.js";""",
    "a/parts.js": "export const { p, long: q } = { p: 'P', long: 'Q' };",
    "side.js": "window.side = (window.side ?? 0) + 1;",
}


def test_a_bundle_does_what_the_modules_do(clean_tab: Any, tmp_path: Path) -> None:
    script = bundle_modules("main.js", FORMS)
    assert "sourceMappingURL" not in script
    (tmp_path / "bundle.html").write_text(
        f"<!doctype html><link rel=icon href=data:,><script type=module>{script}</script>"
    )
    page = clean_tab
    page.goto((tmp_path / "bundle.html").as_uri())
    until(page, "window.result")
    expected = ["named", "</script><!--<script>", 4, "C", 1, 3, 1, "P", "Q", 1, 1]
    assert page.evaluate("window.result") == expected


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ({"main.js": 'import "./a.js";', "a.js": 'import "./main.js";'}, "circle: main.js -> a.js -> main.js"),
        ({"main.js": 'import { x } from "./gone.js";'}, "main.js imports gone.js, which is not a file"),
        (
            {"main.js": 'import { x } from "./a.js";', "a.js": "export const y = 1;"},
            "imports x of a.js, which does not",
        ),
        ({"main.js": "export let x = 1;"}, "main.js: a bundle cannot express `export let x = 1;`"),
        ({"main.js": 'export * from "./a.js";', "a.js": ""}, "cannot express"),
        ({}, "the page imports main.js"),
    ],
)
def test_what_a_bundle_cannot_express_is_an_error(sources: dict[str, str], why: str) -> None:
    with pytest.raises(ValueError, match=why.replace(".", r"\.").replace("*", r"\*")):
        bundle_modules("main.js", sources)
