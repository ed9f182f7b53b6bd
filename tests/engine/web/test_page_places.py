"""Places in the page: what an address names, the next error, the next decision, and what a bad link leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .made_session import run_of_steps
from .shown import Site, until

FAILED = (3, 20, 30)
MARKED = "document.querySelector('.here')"
IN_SIGHT = f"""(() => {{
    if (!{MARKED}) return false;
    const [node, box] = ['.here', '#scroll'].map((one) => document.querySelector(one).getBoundingClientRect());
    return node.top >= box.top && node.top < box.bottom;
}})()"""
"""Whether the beginning of what is marked is seen."""
STILL = """async () => {
    const scroll = document.getElementById('scroll');
    const frame = () => new Promise(requestAnimationFrame);
    for (let before = -1; before !== scroll.scrollTop; ) {
        before = scroll.scrollTop;
        for (let frames = 0; frames < 10; frames++) await frame();
    }
}"""
"""Waits until the timeline does not move any more."""


def at_rest(page: Any) -> None:
    """What is marked is seen, and stays so."""
    until(page, IN_SIGHT)
    page.evaluate(STILL)
    assert page.evaluate(IN_SIGHT)


def marked(page: Any) -> str:
    label: str = page.evaluate(f"{MARKED}.closest('.step')?.ariaLabel ?? {MARKED}.className")
    return label


@pytest.fixture(scope="module")
def session(shown: Site) -> str:
    """A session of two runs, the first of 30 steps: ten times what the window shows."""
    runs = [run_of_steps("run_1", 30, failed=FAILED), run_of_steps("run_2", 4)]
    return shown.keep(runs, "A task", "session_of_30")


@pytest.fixture(scope="module")
def long_session(shown: Site) -> str:
    """The same with 1,000 steps, which take a browser four seconds of CPU each time that it opens them."""
    runs = [run_of_steps("run_3", 1000, failed=(3, 700, 1000)), run_of_steps("run_4", 4)]
    return shown.keep(runs, "A long task", "session_long")


@pytest.mark.parametrize(
    ("place", "step", "item"),
    [
        ("1/step/15", "Step 15", "step"),
        ("1/step/20/call/20.1", "Step 20", "call"),
        ("2/step/4", "Step 4 of run 2", "step"),
    ],
)
def test_an_address_opens_the_step_or_the_call_that_it_names(
    page: Any, shown: Site, session: str, place: str, step: str, item: str
) -> None:
    opened(page, shown, session, place, step, item)
    page.reload()
    until(page, MARKED)
    at_rest(page)
    assert marked(page) == step


@pytest.mark.long
def test_in_a_thousand_steps_an_address_and_the_next_error_are_found_too(
    page: Any, shown: Site, long_session: str
) -> None:
    opened(page, shown, long_session, "1/step/700/call/700.1", "Step 700", "call")
    page.wait_for_selector(".run:nth-of-type(2) .end")  # all of it is there
    for step in (1000, 3):
        page.keyboard.press("x")
        until(page, f"{MARKED}?.closest('.step').ariaLabel === 'Step {step}'")
        at_rest(page)
    page.evaluate(f"location.hash = '#s/{long_session}/1/step/1001'")
    page.wait_for_selector("#trouble:has-text('run 1 has 1,000 steps, and no step 1001')")


def opened(page: Any, shown: Site, session: str, place: str, step: str, item: str) -> None:
    """Open this place of a session by its address, and find it."""
    page.goto(f"{shown.url}#s/{session}/{place}")
    until(page, MARKED)
    page.wait_for_selector(".run:nth-of-type(2) .end")
    at_rest(page)
    assert marked(page) == step
    assert page.evaluate(f"{MARKED}.dataset.item") == item
    assert page.evaluate(f"{MARKED} === document.activeElement")
    assert page.evaluate(f"{MARKED}.closest('.run').dataset.run") == place[0]
    assert page.text_content("#trouble") == ""


def test_a_call_that_an_address_names_is_opened_with_its_full_output(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}/1/step/20/call/20.1")
    until(page, f"{MARKED}?.textContent.match(/text/g).length >= 30")


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("1/step/31", "run 1 has 30 steps, and no step 31"),
        ("3/step/1", "this session has 2 runs, and no run 3"),
        ("1/step/7/call/8.1", "step 7 has no call 8.1"),
    ],
)
def test_a_place_that_is_not_there_is_named(page: Any, shown: Site, session: str, place: str, told: str) -> None:
    page.goto(f"{shown.url}#s/{session}/{place}")
    page.wait_for_selector(f"#trouble:has-text('{told}')")
    assert not page.evaluate(MARKED)
    page.evaluate("location.hash = `${location.hash.split('/').slice(0, 2).join('/')}/1/step/2`")
    until(page, MARKED)
    assert page.text_content("#trouble") == ""


@pytest.mark.parametrize(
    "wrong", ["x", "s", "s/", "s/a/b", "s/a/1/step", "s/a/1/step/x", "s/a/1/step/1/call/", "s/a/1/stop/1"]
)
def test_an_address_of_another_form_says_that_it_leads_nowhere(page: Any, shown: Site, wrong: str) -> None:
    page.goto(f"{shown.url}#{wrong}")
    page.wait_for_selector(f"#lost:has-text('This link leads nowhere: #{wrong}')")
    assert page.is_visible("#home")
    page.click("#home-link")
    page.wait_for_selector("#lost", state="hidden")


def test_ids_may_hold_anything(page: Any, shown: Site) -> None:
    id = "a/b ü%#?&.jsonl~2"
    events = run_of_steps("run_odd", 2)
    odd = 'call "1"/2]'
    events = [{**event, "call_id": odd} if event.get("call_id") == "2.1" else event for event in events]
    shown.keep([events], "An odd one", "session_odd")
    hash = page.evaluate(
        "async ([id, odd]) => (await import('./page/address.js')).hashOf({ id, run: 1, step: 2, call: odd })", [id, odd]
    )
    read = page.evaluate("async (hash) => (await import('./page/address.js')).placeOf(hash)", hash)
    assert read == {"id": id, "run": 1, "step": 2, "call": odd}
    page.evaluate("(hash) => (location.hash = hash.replace(/^#s.[^/]*/, '#s/session_odd'))", hash)
    until(page, f"{MARKED}?.dataset.call === {odd!r}")


def test_a_bad_link_keeps_nothing_of_the_session_before(page: Any, shown: Site, session: str) -> None:
    page.refused = ("404",)
    page.goto(f"{shown.url}#s/{session}/1/step/2")
    until(page, MARKED)
    page.wait_for_selector("#download:visible")
    page.wait_for_selector("#replay:visible")
    page.evaluate("location.hash = '#s/session_none'")
    page.wait_for_selector("#trouble:has-text('session_none')")
    assert page.text_content("#status") == ""
    assert page.text_content("#doing") == ""
    assert page.text_content("#timeline") == ""
    assert "A task" not in page.text_content("#session")
    assert page.locator("#session .head button:visible").count() == 0
    assert page.locator("#composer *").count() == 0


def test_next_error_goes_through_all_errors_wraps_and_says_so(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}")
    until(page, "document.querySelector('#errors').textContent === '3 errors'")
    page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    page.evaluate("""() => {
        window.heard = [];
        new MutationObserver(() => heard.push(document.getElementById('said').textContent))
            .observe(document.getElementById('said'), { childList: true, characterData: true, subtree: true });
    }""")
    for number, (key, step) in enumerate([("x", 3), ("x", 20), ("x", 30), ("x", 3), ("X", 30), ("X", 20)]):
        page.keyboard.press(key)
        until(page, f"{MARKED}?.closest('.step').ariaLabel === 'Step {step}'")
        at_rest(page)
        place = FAILED.index(step) + 1
        again = {3: ", again from the start", 4: ", again from the end"}.get(number, "")
        assert page.text_content("#jumped") == f"error {place} of 3{again}"
        assert page.evaluate("location.hash") == f"#s/{session}/1/step/{step}/call/{step}.1"
        until(page, f"heard.join().includes('error {place} of 3{again}: Step {step}, read_file failed')")
    page.click("[aria-label='Next error']")
    until(page, f"{MARKED}.closest('.step').ariaLabel === 'Step 30'")


def test_next_error_begins_where_the_reader_is(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}/1/step/16")
    until(page, MARKED)
    at_rest(page)
    page.keyboard.press("x")
    until(page, f"{MARKED}.closest('.step').ariaLabel === 'Step 20'")
    at_rest(page)
    page.evaluate("document.querySelector('#scroll').scrollTop = 0")
    page.evaluate(STILL)
    page.keyboard.press("x")
    until(page, f"{MARKED}.closest('.step').ariaLabel === 'Step 3'")


def test_next_decision_opens_its_trace_and_the_address_names_its_step(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}/1/step/22")
    until(page, MARKED)
    page.keyboard.press("d")
    page.wait_for_selector(".decision.here[open] table")
    assert page.evaluate(f"{MARKED}.querySelector('summary').textContent").find("Decision: went on") >= 0
    assert page.evaluate("location.hash") == f"#s/{session}/1/step/22"
    page.keyboard.press("Shift+D")
    until(page, "location.hash.endsWith('/step/21')")


def test_a_session_without_errors_says_so(page: Any, shown: Site) -> None:
    id = shown.keep([run_of_steps("run_fine", 2)], "A good one", "session_fine")
    page.goto(f"{shown.url}#s/{id}")
    until(page, "document.querySelector('#errors').textContent === '0 errors'")
    assert page.is_disabled("[aria-label='Next error']")
    page.keyboard.press("x")
    until(page, "document.querySelector('#jumped').textContent === 'no error here'")


def test_a_failed_request_is_one_error_whatever_the_run_ends_with(page: Any, shown: Site) -> None:
    page.goto(f"{shown.url}#s/{shown.keep_record('connection')}")
    page.wait_for_selector(".end[data-status=failed]")
    until(page, "document.querySelector('#errors').textContent === '1 error'")
    page.keyboard.press("x")
    until(page, f"{MARKED}?.textContent.includes('The request failed')")


def test_E5_a_limit_is_no_error(page: Any, shown: Site) -> None:
    page.goto(f"{shown.url}#s/{shown.keep_record('loop')}")
    page.wait_for_selector(".end[data-status=exhausted]")
    until(page, "document.querySelector('#errors').textContent === '0 errors'")
    page.keyboard.press("x")
    until(page, "document.querySelector('#jumped').textContent === 'no error here'")


FAILURE = {"type": "ATTEMPT_FAILED", "attempt": "1.1", "kind": "server", "message": "down"}
RESULT = {"type": "TOOL_CALL_RESULT", "call_id": "c", "name": "write_file", "content": ""}
LIMIT = {"type": "LIMIT_REACHED", "step": 1, "limit": "seconds", "used": 1, "allowed": 1}


@pytest.mark.parametrize(
    ("events", "errors"),
    [
        ([FAILURE, {"type": "ATTEMPT_RETRACTED", "attempt": "1.1", "by": "1.2"}], 1),
        ([{**FAILURE, "beside": True}, {**FAILURE, "kind": "cancelled"}], 0),
        ([{**RESULT, "status": "truncated", "judged": {"end": "failed"}}], 1),
        ([LIMIT, {**RESULT, "status": "truncated", "judged": {"end": "unknown"}}], 0),
        ([LIMIT, {**RESULT, "status": "unknown"}], 0),
        ([{"type": "COMPLETION_REJECTED", "call_id": "c", "reason": "tests fail", "by": "gate"}], 0),
        ([{"type": "EVALUATION_FINISHED", "verdict": "failed"}], 0),
    ],
)
def test_E5_what_failed_is_an_error_and_no_verdict_nor_what_a_limit_cut_off(
    modules: Callable[[str, Any], Any], events: list[dict[str, Any]], errors: int
) -> None:
    """`tests/engine/analysis/test_summary.py` says the same of the figures from which the list takes its errors."""
    begun = [{"type": "RUN_STARTED", "run_id": "r"}, {"type": "STEP_STARTED", "step": 1}]
    counted = """async (events) => {
        const { fold } = await import('./page/model.js');
        const { timeline } = await import('./page/view.js');
        const { KINDS } = await import('./page/jump.js');
        const root = document.createElement('div');
        timeline(root)(fold(events));
        return root.querySelectorAll(KINDS.error).length;
    }"""
    assert modules(counted, [*begun, *events]) == errors


def test_the_link_to_a_step_is_copied_and_marks_it(open_page: Callable[..., Any], shown: Site, session: str) -> None:
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto(f"{shown.url}#s/{session}/1/step/9")
    until(page, MARKED)
    at_rest(page)
    page.click("[data-run='1'] [data-step='10'] [aria-label='Copy the link to step 10']")
    until(page, "document.querySelector('#jumped').textContent === 'link copied'")
    assert page.evaluate("navigator.clipboard.readText()") == f"{shown.url}#s/{session}/1/step/10"
    assert page.evaluate("location.hash") == f"#s/{session}/1/step/10"
    assert marked(page) == "Step 10"


def test_the_keys_of_a_link_without_a_clipboard_lead_to_the_address_bar(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}/1/step/9")
    until(page, MARKED)
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined, configurable: true })")
    page.focus("[data-run='1'] [data-step='9'] .call .link")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#jumped').textContent === 'the link is in the address bar'")
    assert page.evaluate("location.hash") == f"#s/{session}/1/step/9/call/9.1"


def test_n_on_the_front_goes_to_the_box_for_a_new_prompt(page: Any, shown: Site) -> None:
    page.focus("#home-link")
    page.keyboard.press("n")
    until(page, "document.activeElement.id === 'prompt'")


def test_every_run_of_a_session_has_a_heading(page: Any, shown: Site, session: str) -> None:
    page.goto(f"{shown.url}#s/{session}")
    page.wait_for_selector(".run:nth-of-type(2) .end")
    headings = page.eval_on_selector_all(".run > * h3, .run > h3", "all => all.map(one => one.textContent)")
    assert headings == ["You asked", "Run 2: You asked"]
