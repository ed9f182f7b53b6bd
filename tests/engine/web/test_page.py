"""The page of `endstop serve`, live: what is shown while a run goes on, and what can be done from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from endstop.decision import ReasoningDelta, ToolResult
from endstop.providers import QuotaExceeded, RateLimited, call, say

from .shown import Gate, Site, go_home, until

SUMMARY = "The port in config.ini is 8080 now; it was 3000. Restart the server."


AFTER_ALL = "2100-01-01T10:00:00.000+00:00"
"""Later than what tests begin on the page: what was created then stands on top of the list."""
SCROLLED_THROUGH = """async () => {
    const [list, links, before] = [document.getElementById('list'), new Set(), performance.now()];
    let most = 0;
    const frame = () => new Promise(requestAnimationFrame);
    while (performance.now() - before < 60000) {
        await frame();
        const shown = [...document.querySelectorAll('#sessions a')];
        for (const link of shown) links.add(link.hash);
        most = Math.max(most, shown.length);
        const end = list.scrollTop + list.clientHeight >= list.scrollHeight - 1;
        if (end && document.getElementById('more').hidden) break;
        list.scrollTop += 200;
    }
    return { links: [...links], most };
}"""
"""Scrolls through the whole list; the sessions that it saw, and the most nodes that there were at once."""
SEEN = """(() => {
    const [error, composer] = ['#composer details .error', '#composer'].map((one) => document.querySelector(one));
    return error.getBoundingClientRect().bottom <= composer.getBoundingClientRect().bottom;
})()"""
"""Whether the error of the editor is not below what can be seen of the box."""


def begin(page: Any, prompt: str) -> None:
    """Start a session from the page, and wait until it is shown."""
    page.fill("#prompt", prompt)
    page.click("#start button")
    until(page, "document.querySelector('#title').textContent !== ''")


def count(page: Any, selector: str) -> int:
    number: int = page.locator(selector).count()
    return number


def test_text_appears_while_the_model_still_writes(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["stream"] = [[say("The first half, ", pieces=4), gate, say("and the second.", pieces=3)]]
    begin(page, "stream")
    gate.reached()
    page.wait_for_selector("text=The first half,")
    assert page.text_content("#status").endswith("running")
    assert "writing" in page.text_content("#doing")
    assert count(page, ".end") == 0
    gate.open()
    page.wait_for_selector(".end")
    assert page.text_content(".text") == "The first half, and the second."


def test_a_reload_in_mid_run_shows_everything_once_and_goes_on(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["reload"] = [
        [say("I look."), call("read_file", path="short.txt")],
        [say("Half of it ", pieces=3), gate, say("and the rest.")],
    ]
    begin(page, "reload")
    gate.reached()
    page.wait_for_selector("text=Half of it")
    page.reload()
    page.wait_for_selector("text=Half of it")
    assert count(page, ".step") == 2
    gate.open()
    page.wait_for_selector(".end")
    assert page.locator(".text").all_text_contents() == ["I look.", "Half of it and the rest."]
    assert count(page, ".call") == 1


def test_the_progress_of_a_call_is_shown_while_it_runs(page: Any, shown: Site) -> None:
    shown.scripts["index"] = [[call("index", folder="docs")], say("Done.")]
    begin(page, "index")
    until(page, "document.querySelector('#doing').textContent.includes('index: half of docs')")
    shown.halfway.open()
    page.wait_for_selector(".end")
    assert "half of docs" not in page.text_content("#timeline")


def test_reasoning_is_open_while_it_comes_and_folded_when_it_is_done(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["reason"] = [[[ReasoningDelta("Let me see.")], gate, say("Seen.")]]
    begin(page, "reason")
    gate.reached()
    page.wait_for_selector(".reasoning[open] >> text=Let me see.")
    gate.open()
    page.wait_for_selector(".reasoning:not([open])")
    assert page.text_content(".reasoning summary").startswith("Thought for")


def test_a_question_is_answered_from_the_page(page: Any, shown: Site) -> None:
    shown.scripts["ask"] = [
        [call("ask_user", question="Which port?")],
        [call("task_done", summary=SUMMARY)],
    ]
    begin(page, "ask")
    page.wait_for_selector("#composer .question >> text=Which port?")
    assert page.text_content("#status").endswith("waits for an answer")
    page.fill("#composer textarea", "8080")
    page.click("#composer button")
    page.wait_for_selector(".end[data-status=completed]")
    assert "8080" in page.text_content(".said.you >> nth=-1")
    page.wait_for_selector("#composer .question", state="detached")  # the card may come before the list of sessions


def test_a_confirmation_is_given_with_one_press(page: Any, shown: Site) -> None:
    shown.scripts["confirm"] = [[call("task_done", summary=SUMMARY, requires_user_confirmation=True)]]
    begin(page, "confirm")
    page.wait_for_selector("#composer >> text=Please confirm")
    page.click("#composer button >> text=Yes")
    page.wait_for_selector(".end[data-status=completed]")
    assert SUMMARY in page.text_content(".end[data-status=completed]")


def test_a_confirmation_that_is_refused_hands_the_work_back_with_the_reason(page: Any, shown: Site) -> None:
    shown.scripts["refuse"] = [
        [call("task_done", summary="Too early.", requires_user_confirmation=True)],
        [call("task_done", summary=SUMMARY)],
    ]
    begin(page, "refuse")
    page.wait_for_selector("#composer >> text=Please confirm")
    page.fill("#composer textarea", "The README is missing.")
    page.click("#composer button >> text=No")
    page.wait_for_selector(".end[data-status=completed]")
    assert "The README is missing." in page.text_content(".note:has-text('Not accepted as complete')")


def test_a_call_that_waits_for_approval_is_shown_with_its_arguments_and_runs_after_one_press(
    page: Any, shown: Site
) -> None:
    shown.scripts["approve"] = [[call("delete_file", path="old.txt")], [call("task_done", summary=SUMMARY)]]
    begin(page, "approve")
    page.wait_for_selector("#composer >> text=May delete_file run?")
    assert page.locator("#composer label :is(dt, dd)").all_text_contents() == ["path", "old.txt"]
    assert "{" not in page.text_content("#composer label")
    assert page.locator("#composer .question button:visible").all_text_contents() == ["Allow", "Deny"]
    page.click("#composer button >> text=Allow")
    page.wait_for_selector(".end[data-status=completed]")


def test_a_call_that_is_not_approved_does_not_run_and_the_model_reads_why(page: Any, shown: Site) -> None:
    shown.scripts["deny"] = [[call("delete_file", path="old.txt")], [call("task_done", summary=SUMMARY)]]
    begin(page, "deny")
    page.wait_for_selector("#composer >> text=May delete_file run?")
    page.fill("#composer textarea", "that one is needed.")
    page.click("#composer button >> text=Deny")
    page.wait_for_selector(".end[data-status=completed]")
    results = [m.content for m in shown.requests[-1].messages if isinstance(m, ToolResult)]
    assert results[0] == "Not run: the user did not approve it and said: No, that one is needed."


def test_arguments_are_edited_before_the_call_runs_and_what_the_server_refuses_is_not_lost(
    page: Any, shown: Site
) -> None:
    page.refused = ("422",)
    move = call("move_file", path="old.txt", size=12345678901234567890)
    shown.scripts["edit"] = [[move], [call("task_done", summary=SUMMARY)]]
    begin(page, "edit")
    page.click("#composer summary >> text=Edit the arguments")
    box = "#composer details textarea"
    until(page, f"document.querySelector('{box}').value !== ''")
    assert page.input_value(box) == '{\n  "path": "old.txt",\n  "size": 12345678901234567890\n}'
    for wrong, told in (
        ('{"path": "new.txt",}', "JSON"),
        ("null", "a JSON object"),
        ("[1]", "Expected `object | null`"),
        ('{"path": 7, "size": 1}', "path"),
        ('{"paht": "x", "path": "y", "size": 1}', "no argument 'paht'"),
    ):
        page.fill(box, wrong)
        page.click("#composer button >> text=Run with these")
        page.wait_for_selector(f'#composer details .error:has-text("{told}")')
        assert page.input_value(box) == wrong
        until(page, SEEN)
    assert page.text_content("#composer .question .error") == ""
    page.fill(box, '{"path": "new.txt", "size": 12345678901234567891}')
    page.click("#composer button >> text=Run with these")
    page.wait_for_selector(".end[data-status=completed]")
    moved, *_ = [m.content for m in shown.requests[-1].messages if isinstance(m, ToolResult)]
    assert moved.endswith("new.txt moved, 12345678901234567891 bytes")
    assert "new.txt" in page.text_content(".call[data-kind=ordinary] .brief")
    assert "yes, with other arguments" in page.text_content(".said.you:has-text('You answered')")


def test_what_was_typed_for_one_question_stays_while_another_is_answered_and_another_session_is_looked_at(
    page: Any, shown: Site
) -> None:
    shown.scripts["two"] = [
        [call("delete_file", path="a.txt", id="d1"), call("delete_file", path="b.txt", id="d2")],
        [call("task_done", summary=SUMMARY)],
    ]
    begin(page, "two")
    page.wait_for_selector("#composer .question >> nth=1")
    page.click("#composer summary >> nth=1")
    page.fill("#composer details textarea >> nth=1", '{"path": "c.txt"}')
    page.fill("#composer .question textarea >> nth=1", "not that")
    page.click("#composer .question button >> text=Allow >> nth=0")
    until(page, "document.querySelectorAll('#composer .question').length === 1")
    assert page.input_value("#composer details textarea") == '{"path": "c.txt"}'
    assert page.input_value("#composer .question textarea") == "not that"
    here = page.evaluate("location.hash")
    go_home(page, shown)
    page.goto(f"{shown.url}{here}")
    page.wait_for_selector(".end >> nth=1")
    page.wait_for_selector("#composer details textarea")
    assert page.input_value("#composer details textarea") == '{"path": "c.txt"}'
    page.click("#composer button >> text=Run with these")
    page.wait_for_selector(".end[data-status=completed]")
    results = [m.content for m in shown.requests[-1].messages if isinstance(m, ToolResult)]
    assert [result.splitlines()[-1] for result in results[:2]] == ["a.txt is gone", "c.txt is gone"]


@pytest.mark.parametrize("width", [390, 1440])
def test_the_arguments_fit_a_phone_and_a_wide_screen(open_page: Callable[..., Any], shown: Site, width: int) -> None:
    shown.scripts["wide"] = [[call("delete_file", path="x" * 300)], [call("task_done", summary=SUMMARY)]]
    page = open_page(viewport={"width": width, "height": 844})
    page.goto(shown.url)
    begin(page, "wide")
    page.click("#composer summary >> text=Edit the arguments")
    until(page, "document.querySelector('#composer details textarea').value !== ''")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(
        "document.querySelector('#composer').scrollWidth <= document.querySelector('#composer').clientWidth"
    )
    assert page.evaluate("document.querySelector('#composer details textarea').labels[0].textContent") == (
        "All arguments, as JSON"
    )
    page.focus("#composer details textarea")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".end[data-status=completed]")


def test_a_message_while_it_runs_waits_for_the_next_step_and_is_then_shown_as_heard(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["steer"] = [[gate, call("read_file", path="short.txt")], [call("task_done", summary=SUMMARY)]]
    begin(page, "steer")
    gate.reached()
    page.fill("#composer textarea", "Leave the README alone.")
    page.click("#composer button")
    page.wait_for_selector("#unheard >> text=Leave the README alone.")
    gate.open()
    page.wait_for_selector(".end[data-status=completed]")
    assert "Leave the README alone." in page.text_content(".said.you:has-text('while it ran')")
    assert count(page, "#unheard li") == 0


def test_cancel_ends_the_run_and_from_its_verdict_one_can_go_on(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["cancel"] = [[say("Working on it"), gate]]
    shown.scripts["Go on."] = [[call("task_done", summary=SUMMARY)]]
    begin(page, "cancel")
    gate.reached()
    page.wait_for_selector("text=Working on it")
    page.click("#cancel")
    page.wait_for_selector(".end[data-status=cancelled]")
    page.wait_for_selector("#verdict >> text=It was cancelled at step 1; not checked.")
    page.click("#verdict >> text=Go on from here")
    assert page.input_value("#composer textarea") == "Go on."
    page.click("#composer button")
    page.wait_for_selector(".end[data-status=completed]")
    assert count(page, ".run") == 2


def test_A11_the_answer_stands_at_the_end_and_a_thought_is_none(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["finish"] = [
        [call("think", thought="The task is done, I believe.")],
        [gate, call("task_done", summary="Found it.", completion_percentage=50, next_phase="write it")],
        [call("write_file", path="config.ini", content="port = 8080")],
        [
            call("task_done", summary=SUMMARY, pending_issues=["The README still names port 3000."]),
            call("write_file", path="never.txt", content="never"),
        ],
    ]
    begin(page, "finish")
    gate.reached()
    page.wait_for_selector(".said.thought >> text=The task is done, I believe.")
    assert count(page, ".end") == 0
    gate.open()
    card = page.wait_for_selector(".end[data-status=completed]")
    assert SUMMARY in card.text_content()
    page.wait_for_selector("#verdict >> text=It said it was done at step 4; not checked.")
    told = page.inner_text("#verdict")
    assert "4 steps" in told
    assert "still open: The README still names port 3000." in told
    assert "50 % reported as done: Found it." in told
    assert "Last change: step 3" in told
    assert count(page, ".end") == 1
    assert "is unknown" in page.text_content(".note:has-text('Cut here')")
    assert count(page, ".call:has-text('never.txt')") == 0
    page.click("#tab-changes")
    page.wait_for_selector("ul[aria-labelledby=files-changed] summary >> text=config.ini")
    assert count(page, "ul[aria-labelledby=files-changed] > li") == 1
    assert page.wait_for_selector(".change pre").text_content() == "port = 8080"


ORDER = """[...document.querySelectorAll('.thought, .call, .cut')].filter((one) => one.checkVisibility()).map(
    (one) => (one.querySelector('.written, .call-head strong') ?? one.querySelector('strong')).textContent)"""
"""Thoughts, calls by their names, and the cut, in the order in which they are seen."""


def test_A11_a_thought_stands_where_it_stood_in_the_response_while_it_streams_and_after(page: Any, shown: Site) -> None:
    gate = Gate()
    shown.scripts["thinks"] = [
        [
            call("think", thought="First look."),
            call("read_file", path="short.txt"),
            call("think", thought="Then write."),
            call("write_file", path="a.txt", content="a"),
            call("think", thought="All is done."),
            gate,
            call("task_done", summary=SUMMARY),
        ]
    ]
    begin(page, "thinks")
    gate.reached()
    until(page, f"{ORDER}.join() === 'think,read_file,think,write_file,think'")
    gate.open()
    page.wait_for_selector(".end[data-status=completed]")
    whole = ["First look.", "read_file", "Then write.", "write_file", "All is done.", "task_done", "Cut here"]
    assert page.evaluate(ORDER) == whole
    page.reload()
    page.wait_for_selector(".end[data-status=completed]")
    assert page.evaluate(ORDER) == whole


def test_A8_what_is_still_open_stands_with_the_question_until_it_is_answered_and_after(page: Any, shown: Site) -> None:
    issues = ["test_login失败", "<b>test_payment</b>失败"]
    shown.scripts["issues"] = [
        [call("task_done", summary=SUMMARY, requires_user_confirmation=True, pending_issues=issues)]
    ]
    begin(page, "issues")
    page.wait_for_selector("#composer >> text=Please confirm")
    asked = "#timeline .said.question"
    assert page.locator(f"{asked} li").all_text_contents() == issues
    assert all(issue in page.text_content("#composer .question label") for issue in issues)
    page.fill("#composer textarea", "hm")  # neither a yes nor a no
    page.press("#composer textarea", "Control+Enter")
    page.wait_for_selector("#composer >> text=neither a yes nor a no")
    assert page.locator(f".run:nth-of-type(2) {asked.split()[1]} li").all_text_contents() == issues
    assert "waits for your answer" in page.text_content(".call")
    page.click("#composer button >> text=Yes")
    page.wait_for_selector(".end[data-status=completed]")
    assert page.locator(f"{asked} li").all_text_contents() == 2 * issues
    page.wait_for_selector("#verdict .told")
    open_still = [text for text in page.locator("#verdict .notes").all_text_contents() if text.startswith("still open")]
    assert open_still == [f"still open: {issue}" for issue in issues]


def test_a_limit_is_told_as_what_it_is_and_never_as_success(page: Any, shown: Site) -> None:
    shown.scripts["loop"] = [[call("read_file", path=f"short{number}.txt")] for number in range(20)]
    begin(page, "loop")
    page.wait_for_selector(".end[data-status=exhausted]")
    page.wait_for_selector("#verdict >> text=It was stopped at its limit of steps, 12 of 12; not checked.")
    assert page.get_attribute("#verdict .sentence", "data-known") == "unknown"
    assert count(page, "#budget *") == 0, "the verdict says what was used"
    assert count(page, ".said.loop:has-text('reminder')") >= 1


def test_calls_show_arguments_results_and_errors_and_fold_what_is_long(page: Any, shown: Site) -> None:
    shown.scripts["calls"] = [
        [call("read_file", path="long.txt"), call("read_file", path="missing.txt"), call("read_file", file="x")],
        [say("Enough.")],
    ]
    begin(page, "calls")
    page.wait_for_selector(".end")
    long, missing, invalid = page.locator(".call").all()
    assert 'path="long.txt"' in long.text_content()
    assert "line 40" not in long.text_content()
    long.locator("button >> text=Show all 40 lines").click()
    until(page, "document.querySelector('.call').textContent.includes('line 40 of long.txt')")
    assert missing.get_attribute("data-status") == "error"
    assert "there is no missing.txt" in missing.text_content()
    assert "invalid call, not run" in invalid.text_content()


def test_a_decision_shows_its_trace_when_it_is_asked_for(page: Any, shown: Site) -> None:
    shown.scripts["decide"] = [[call("task_done", summary=SUMMARY)]]
    begin(page, "decide")
    page.wait_for_selector(".end")
    assert count(page, ".decision table") == 0
    page.click(".decision summary")
    page.wait_for_selector(".decision tbody tr")
    rows = page.locator(".decision tbody tr").all_text_contents()
    assert rows[0].startswith("P0 compaction")
    assert rows[-1].startswith("P0.5 control_flow")
    assert "stop(completed)" in rows[-1]
    assert "accepted =" in rows[-1]


def test_an_attempt_that_failed_is_struck_through_and_said_to_have_failed(page: Any, shown: Site) -> None:
    shown.scripts["fail"] = [[say("I begin"), QuotaExceeded("no credit left")]]
    begin(page, "fail")
    page.wait_for_selector(".end[data-status=failed]")
    page.wait_for_selector("#verdict .notes >> text=no credit left")
    assert page.text_content(".void .text") == "I begin"


def test_a_session_whose_provider_was_away_says_so_and_goes_on_when_it_is_resumed(page: Any, shown: Site) -> None:
    shown.scripts["away"] = [[say("I begin"), RateLimited("slow down", retry_after=3)]]
    begin(page, "away")
    page.wait_for_selector("text=the provider was away: slow down. What was done is kept")
    assert page.text_content(".void .text") == "I begin"
    shown.scripts["away"] = [say("All done.")]
    page.click("text=Resume")
    assert page.wait_for_selector(".end[data-status=completed]")


def test_a_dropped_connection_is_shown_and_resumed_without_repetition(page: Any, shown: Site) -> None:
    page.refused = ("ERR_CONNECTION", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE")
    gate = Gate()
    shown.scripts["drop"] = [[say("Before the break, ", pieces=5), gate, say("and after it.", pieces=3)]]
    begin(page, "drop")
    gate.reached()
    page.wait_for_selector("text=Before the break,")
    shown.drop()
    page.wait_for_selector("#connection >> text=Reconnecting")
    gate.open()
    page.evaluate("document.querySelector('#connection button')?.click()")  # unless the page was quicker by itself
    page.wait_for_selector(".end")
    assert page.text_content(".text") == "Before the break, and after it."
    assert count(page, ".step") == 1
    resumed = [url for url in page.asked if url.endswith("/events")]
    assert len(resumed) == 2
    assert page.text_content("#connection") == ""


def test_a_tab_that_nobody_sees_holds_no_connection_and_goes_on_where_it_was(page: Any, shown: Site) -> None:
    see = """(hidden) => {
        Object.defineProperty(document, 'hidden', { get: () => hidden, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));
    }"""
    gates = [Gate(), Gate()]
    shown.scripts["hide"] = [[say("Seen, "), gates[0], say("unseen, "), gates[1], say("and seen again.")]]
    begin(page, "hide")
    gates[0].reached()
    page.wait_for_selector("text=Seen,")
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(see, True)
    gates[0].open()
    gates[1].reached()
    assert page.text_content(".text") == "Seen, "
    page.evaluate(see, False)
    page.wait_for_selector("text=unseen,")
    gates[1].open()
    page.wait_for_selector(".end")
    assert page.text_content(".text") == "Seen, unseen, and seen again."


def test_a_stream_that_says_nothing_at_all_is_given_up_and_asked_for_again(
    open_page: Callable[..., Any], shown: Site
) -> None:
    page = open_page()
    page.clock.install()
    page.goto(shown.url)
    page.evaluate("""async () => {
        window.states = [];
        window.fetch = (url, { signal }) => {
            const start = (stream) => signal.addEventListener('abort', () => stream.error(signal.reason));
            return Promise.resolve(new Response(new ReadableStream({ start })));
        };
        const { follow } = await import('./page/stream.js');
        follow('nowhere', { events() {}, state: (word) => states.push(word) });
    }""")
    until(page, "states.includes('open')")
    page.clock.fast_forward(30_000)
    assert page.evaluate("states") == ["connecting", "open"]
    page.clock.fast_forward(15_000)
    until(page, "states.includes('waiting')")
    page.clock.fast_forward(5_000)
    until(page, "states.filter((word) => word === 'open').length === 2")


def test_it_works_under_a_prefix(open_page: Callable[..., Any]) -> None:
    with Site().running(prefix="/deep/agent") as site:
        page = open_page()
        page.goto(site.url.rstrip("/"))
        site.scripts["where"] = [[say("Here.")]]
        begin(page, "where")
        page.wait_for_selector(".end")
        assert [url for url in page.asked if not url.startswith((site.url, "data:")) and url != site.url[:-1]] == []


def interrupted(page: Any, shown: Site, name: str) -> list[dict[str, Any]]:
    """Keep a session whose process died after its first step, `session_NAME` with `run_NAME`; gives its events."""
    shown.scripts["interrupt"] = [[call("read_file", path="short.txt")], [call("task_done", summary=SUMMARY)]]
    begin(page, "interrupt")
    page.wait_for_selector(".end")
    lines = httpx.get(f"{shown.url}sessions/{page.url.rpartition('/')[2]}/record", timeout=60).text.splitlines()[1:]
    events = [json.loads(line) for line in lines]
    cut = next(place for place, event in enumerate(events) if event["type"] == "STEP_FINISHED")
    half = [{**event, **({"run_id": f"run_{name}"} if "run_id" in event else {})} for event in events[: cut + 1]]
    shown.keep([half], name, f"session_{name}")
    shown.do(shown.store.mark_interrupted(f"session_{name}", "The process that ran it died."))
    return half


def test_what_was_shown_and_never_stored_is_gone_once_the_run_goes_on(page: Any, shown: Site) -> None:
    half = interrupted(page, shown, "lost")
    lost = [{**event, "seq": len(half) + place} for place, event in enumerate(half[2:5], 1)]
    lost.append({"type": "MESSAGE_ADDED", "seq": len(half) + 4, "text": "never kept", "origin": "user"})
    body = "".join(f"id: run_lost:{event['seq']}\ndata: {json.dumps(event)}\n\n" for event in [*half, *lost])
    first = {"status": 200, "content_type": "text/event-stream", "body": body}
    page.route("**/sessions/session_lost/events", lambda route: route.fulfill(**first), times=1)
    page.goto(f"{shown.url}#s/session_lost")
    page.wait_for_selector("#timeline >> text=never kept")
    page.click("#composer button >> text=Resume")
    page.wait_for_selector(".end[data-status=completed]")
    assert "never kept" not in page.text_content("#timeline")
    assert page.locator("#timeline .prompt, #timeline >> text=interrupt").first.is_visible()
    assert page.text_content("#timeline").count("goes on where its process was killed") == 1


def test_an_interrupted_session_says_so_and_is_resumed(page: Any, shown: Site) -> None:
    interrupted(page, shown, "half")
    page.goto(f"{shown.url}#s/session_half")
    page.wait_for_selector("#composer >> text=died")
    assert page.text_content("#status").endswith("interrupted")
    page.click("#composer button >> text=Resume")
    page.wait_for_selector(".end[data-status=completed]")
    assert "goes on where its process was killed" in page.text_content("#timeline")


def test_the_list_shows_what_is_new_filters_and_reads_on_where_it_is_scrolled(page: Any, shown: Site) -> None:
    shown.keep_record("question")
    for number in range(120):
        shown.keep([_run(f"run_many{number}")], f"many {number}", f"session_many{number:03}", created_at=AFTER_ALL)
    page.select_option("#filter", "awaiting_input")
    page.wait_for_selector("#sessions tr:has-text('waits for an answer')")
    until(page, "[...document.querySelectorAll('#sessions .status')].every(e => e.textContent.includes('waits for'))")
    page.select_option("#filter", "")
    page.wait_for_selector("#sessions >> text=many 119")
    seen = page.evaluate(SCROLLED_THROUGH)
    assert {f"#s/session_many{number:03}" for number in range(120)} <= set(seen["links"])
    assert len(seen["links"]) == len(set(seen["links"])) == int(page.text_content("#total"))
    assert seen["most"] < 60
    shown.keep([_run("run_newest")], "the newest", "session_newest", created_at=AFTER_ALL)
    page.evaluate("document.getElementById('list').scrollTop = 0")
    page.wait_for_selector("#sessions >> text=the newest")


def _run(run_id: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parents[2] / "records" / "hello.jsonl").read_text(encoding="utf-8").splitlines()
    events: list[dict[str, Any]] = [
        json.loads(line) for line in lines if not line.startswith(('{"type":"HEADER', '{"type":"AFTER'))
    ]
    events[0]["run_id"] = run_id
    return events


def test_the_record_is_downloaded_and_a_session_deleted_after_being_asked_again(page: Any, shown: Site) -> None:
    shown.scripts["delete"] = [[say("Done.")]]
    begin(page, "delete")
    page.wait_for_selector(".end")
    with page.expect_download() as downloading:
        page.click("#download")
    text = Path(downloading.value.path()).read_text(encoding="utf-8")
    assert text.startswith('{"type":"HEADER"')
    assert '"RUN_FINISHED"' in text
    id = page.url.rpartition("/")[2]
    page.click("#delete")
    assert page.text_content("#delete") == "Delete for good?"
    page.click("#delete")
    page.wait_for_selector("#home:not([hidden])")
    assert httpx.get(f"{shown.url}sessions/{id}", timeout=60).status_code == 404


def test_a_session_that_is_not_there_is_said_to_be_missing(page: Any, shown: Site) -> None:
    page.refused = ("404",)
    page.goto(f"{shown.url}#s/session_none")
    page.wait_for_selector("#trouble:not(:empty)")
    assert "session_none" in page.text_content("#trouble")


@pytest.mark.parametrize("width", [1200, 360])
def test_the_reader_who_scrolled_up_is_left_there_and_others_follow_the_end(
    open_page: Callable[..., Any], shown: Site, width: int
) -> None:
    gate, again = Gate(), Gate()
    page = open_page(viewport={"width": width, "height": 700})
    page.goto(shown.url)
    shown.scripts[f"scroll{width}"] = [
        [say("line\n" * 100), gate, say("more\n" * 50), again, say("the end")],
    ]
    begin(page, f"scroll{width}")
    gate.reached()
    below = "(({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight)"
    at_end = f"{below}(document.querySelector('#scroll')) < 40"
    until(page, f"document.querySelector('.text')?.textContent.length >= 500 && {at_end}")
    page.evaluate("document.querySelector('#scroll').scrollTop = 100")
    page.wait_for_selector("#to-end:visible")
    gate.open()
    again.reached()
    until(page, "document.querySelector('.text').textContent.length >= 750")
    assert page.evaluate("document.querySelector('#scroll').scrollTop") == 100
    page.click("#to-end")
    again.open()
    page.wait_for_selector(".end")
    until(page, at_end)


def test_a_server_without_a_model_says_what_to_do(open_page: Callable[..., Any]) -> None:
    with Site(agents=()).running() as site:
        page = open_page()
        page.goto(site.url)
        page.wait_for_selector("#agents >> text=endstop serve --model")
        assert page.is_disabled("#start button")


def test_where_there_are_several_agents_one_is_chosen(open_page: Callable[..., Any]) -> None:
    with Site(agents=("worker", "writer")).running() as site:
        page = open_page()
        page.goto(site.url)
        site.scripts["who"] = [[say("Me.")]]
        page.select_option("#agent", "writer")
        begin(page, "who")
        page.wait_for_selector(".end")
        assert site.get("sessions")["sessions"][0]["agent"] == "writer"
