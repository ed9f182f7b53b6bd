"""How the page is made: small, for the keyboard, for a phone, for a screen reader, in light and in dark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from endstop.http.page_files import INDEX, SCRIPT, page_files
from endstop.providers import call, say

from ..cli.pages import DARK, LIGHT
from .shown import Gate, Site, go_home, until

PAGE = Path(__file__).parents[3] / "engine" / "web" / "page"
FILES = sorted(path for path in [*PAGE.iterdir(), *(PAGE / "report").iterdir()] if path.is_file())
SESSIONS = ["scenes", "gives_up", "question", "connection", "port_server"]
FIRST_BYTES, OWN_BYTES = 77_000, 230_000
"""What the page's own files may weigh: compressed, those that are read before the first paint, which
docs/guides/page.md gives a time; and all, as they are. The libraries have a limit of their own, in
test_page_vendor.py."""

NAMELESS = """() => {
    const controls = 'a, button, input, select, textarea, summary, dialog, progress, nav, '
        + '[role=meter], [role=group], [role=region]';
    const text = (elements) => [...elements].map((element) => element.textContent).join('').trim();
    const by = (element) => document.getElementById(element.getAttribute('aria-labelledby') ?? '');
    const named = (element) => text(element.labels ?? []) || element.getAttribute('aria-label') || text([element])
        || element.title || by(element)?.textContent;
    const nameless = [...document.querySelectorAll(controls)].filter((one) => one.checkVisibility() && !named(one));
    return nameless.map((one) => one.outerHTML.slice(0, 200));
}"""
HEADINGS = """() => {
    const seen = [...document.querySelectorAll('h1, h2, h3, h4, h5')].filter((one) => one.checkVisibility());
    return seen.map((one) => Number(one.tagName[1]));
}"""
DOUBLED = """() => {
    const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
    return ids.filter((id, at) => ids.indexOf(id) !== at);
}"""
FITS = "document.querySelector('#scroll').scrollWidth <= document.querySelector('#scroll').clientWidth"
LIVE = "[...document.querySelectorAll('#timeline :is([aria-live], [role=status], [role=alert], output)')].length"


def open_all(page: Any, site: Site, id: str) -> None:
    page.goto(f"{site.url}#s/{id}")
    page.wait_for_selector(".end")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")


def test_the_page_is_small_and_brings_nothing_from_elsewhere() -> None:
    files = page_files()
    first = {INDEX, *re.findall(r"(?:href|src)=page/([\w.]+)", files[INDEX].content.decode())}
    assert SCRIPT in first
    assert sum(len(files[name].zipped) for name in first) < FIRST_BYTES
    assert sum(path.stat().st_size for path in FILES if path.parent == PAGE) < OWN_BYTES
    for path in FILES:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
        assert len(text.splitlines()) < 350, path.name


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix in (".js", ".html")], ids=lambda path: path.name
)
def test_no_file_of_the_page_makes_markup_or_code_of_text(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    forbidden = (
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
        r"|\beval\b|new Function"
    )
    assert re.findall(forbidden, text) == []
    assert re.findall(r"\sstyle=|\son[a-z]+=\"|<script(?![^>]*src=)", text) == []


def on_phone_and_desktop(page: Any) -> Iterator[int]:
    """The page at the one width and then at the other: only its style sheets know of widths."""
    for width in (360, 1200):
        page.set_viewport_size({"width": width, "height": 740})
        yield width


def test_it_fits_a_phone_and_all_controls_have_names(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page()
    page.goto(shown.url)
    ids = {name: shown.keep_record(name) for name in SESSIONS}
    for name, id in ids.items():
        open_all(page, shown, id)
        for _ in range(2):
            for width in on_phone_and_desktop(page):
                assert page.evaluate("document.documentElement.scrollWidth") <= width, name
                assert page.evaluate(FITS), name
                assert page.evaluate(NAMELESS) == [], name
                assert page.evaluate(DOUBLED) == [], name
                levels = page.evaluate(HEADINGS)
                assert levels.count(1) == 1, name
                assert [(one, next) for one, next in pairwise(levels) if next > one + 1] == [], name
            page.click("#replay")
        go_home(page, shown)
    for id in ids.values():
        page.wait_for_selector(f"#sessions a[href$={id}]")
    for width in on_phone_and_desktop(page):
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(NAMELESS) == []


def test_dark_and_light_are_what_the_reader_prefers(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page()
    page.goto(shown.url)
    for scheme, table in (("light", LIGHT), ("dark", DARK)):
        page.emulate_media(color_scheme=scheme)
        red, green, blue = (int(table["page"][at : at + 2], 16) for at in (1, 3, 5))
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"


def test_who_wants_no_motion_sees_none(open_page: Callable[..., Any], shown: Site) -> None:
    gate = Gate()
    shown.scripts["motion"] = [[gate, say("done")]]
    page = open_page()
    page.goto(shown.url)
    page.fill("#prompt", "motion")
    page.click("#start button")
    page.wait_for_selector("#status .turning")
    for motion, name in (("reduce", "none"), ("no-preference", "turn")):
        page.emulate_media(reduced_motion=motion)
        assert page.evaluate("getComputedStyle(document.querySelector('#status .turning')).animationName") == name
    gate.open()
    page.wait_for_selector(".end")


def test_from_start_to_answer_to_cancel_by_keyboard_alone(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["by keyboard"] = [[call("ask_user", question="Which one?")], [say("On it"), gate]]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "prompt"
    page.keyboard.type("by keyboard")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("#composer >> text=Which one?")
    page.keyboard.press("m")
    page.keyboard.type("the first")
    page.keyboard.press("Control+Enter")
    gate.reached()
    page.wait_for_selector("text=On it")
    page.keyboard.press("Escape")
    for _ in range(30):
        if page.evaluate("document.activeElement.id") == "cancel":
            break
        page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector(".end[data-status=cancelled]")


def test_the_shortcuts_are_listed_work_and_can_be_switched_off(open_page: Callable[..., Any], shown: Site) -> None:
    page = open_page()  # the switch is kept in the browser
    page.goto(shown.url)
    ids = [shown.keep_record(name) for name in ("hello", "greeting")]
    page.wait_for_selector("#sessions tr")
    page.focus("#home-link")
    page.keyboard.press("?")
    listed = page.locator("#shortcuts dt").all_text_contents()
    assert {"n", "j", "k", "m", "e", "t", "r", "?"} <= set(listed)
    page.keyboard.press("Escape")
    page.wait_for_selector("#keys", state="hidden")
    page.keyboard.press("j")
    page.wait_for_selector(".end")
    first, title = page.url, page.title()
    there = f"document.title === {title!r} && document.querySelector('.end')"
    page.keyboard.press("j")
    until(page, f"location.href !== {first!r} && document.title !== {title!r} && document.querySelector('.end')")
    page.keyboard.press("k")
    until(page, f"location.href === {first!r} && {there}")
    page.keyboard.press("t")
    until(page, "document.querySelector('.decision[open] table')")
    page.keyboard.press("r")
    page.wait_for_selector("#scrubber:not([hidden])")
    page.keyboard.press("r")
    page.wait_for_selector("#scrubber", state="hidden")
    page.keyboard.press("n")
    page.wait_for_selector("#home:not([hidden])")
    assert page.evaluate("document.activeElement.id") == "prompt"
    page.keyboard.type("?nj")
    assert page.input_value("#prompt") == "?nj"
    page.click("#help")
    page.uncheck("#single")
    page.click("#keys button")
    page.focus("#home-link")
    page.keyboard.press("?")
    assert page.is_hidden("#keys")
    assert len(ids) == 2


def test_a_screen_reader_hears_of_steps_and_ends_and_not_of_each_token(page: Any, shown: Site) -> None:
    gates = [Gate(), Gate()]
    shown.scripts["heard"] = [
        [gates[0], say("word " * 50, pieces=50), call("read_file", path="missing")],
        [gates[1], say("Done.")],
    ]
    page.fill("#prompt", "heard")
    page.click("#start button")
    gates[0].reached()
    page.wait_for_selector(".step")
    page.evaluate("""() => {
        window.heard = [];
        new MutationObserver(() => heard.push(document.getElementById('said').textContent))
            .observe(document.getElementById('said'), { childList: true, characterData: true, subtree: true });
    }""")
    gates[0].open()
    gates[1].reached()
    until(page, "heard.join().includes('Step 2')")
    gates[1].open()
    until(page, "heard.join().includes('It ended with an answer at step 2')")
    heard = page.evaluate("heard")
    assert len(heard) <= 4
    assert "word" not in "".join(heard)
    assert "read_file failed" in "".join(heard)
    assert page.evaluate(LIVE) == 0
