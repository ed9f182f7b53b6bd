"""Rows A3, A6 and F10 in the page: what is known of the work and of a cut, thoughts, rounds, states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endstop.providers import call

from .shown import Site, go_home, until

Modules = Callable[[str, Any], Any]
RECORDS = Path(__file__).parents[2] / "records"
TASKS = json.loads((RECORDS / "tasks.json").read_text())
NOT_RIGHT = [name for name, task in TASKS.items() if task["right"] is False and task["status"] == "completed"]
SUMMARY = "The port in config.ini is 8080 now; it was 3000."


def begin(page: Any, prompt: str) -> None:
    page.fill("#prompt", prompt)
    page.click("#start button")
    until(page, "document.querySelector('#title').textContent !== ''")


# ---- A3


def test_A3_no_record_that_is_not_right_is_shown_as_done(page: Any, shown: Site) -> None:
    for name in NOT_RIGHT:
        page.goto(f"{shown.url}#s/{shown.keep_record(name)}")
        told = page.wait_for_selector("#verdict .told").text_content()
        assert "not checked" in told, name
        assert page.locator("#verdict .passed").count() == 0, name
        assert page.locator("#status.good, nav .status.good").count() == 0, "how it ended says nothing of the work"
        go_home(page, shown)


def test_A3_a_report_after_a_failed_edit_names_it_and_the_verdict_has_the_largest_words(page: Any, shown: Site) -> None:
    shown.scripts["fails"] = [[call("write_file", path="x")], [call("task_done", summary=SUMMARY)]]
    begin(page, "fails")
    page.wait_for_selector("#verdict .told")
    assert "write_file failed earlier, and no later call made up for it" in page.text_content("#verdict")
    sizes = page.evaluate(
        "[...document.querySelectorAll('main *')].filter((one) => one.checkVisibility() && one.textContent.trim())"
        ".map((one) => [parseFloat(getComputedStyle(one).fontSize), one.closest('.sentence') !== null])"
    )
    largest = max(size for size, _ in sizes)
    assert all(inside for size, inside in sizes if size == largest)


# ---- A6


@pytest.mark.parametrize(
    ("response", "head", "words"),
    [
        ({}, "Cut here", "whether anything would have followed task_done is unknown"),
        ({"cut_at_end": True}, "The response ended here", "nothing was cut off after task_done"),
        ({"raw_finish": "tool_calls"}, "The response ended here", "nothing was cut off after task_done"),
        ({"after_cut": {}}, "The response ended here", "nothing was cut off after task_done"),
        (
            {"after_cut": {"output_tokens": 20, "calls": ["read_file"]}},
            "Cut here",
            "this saved about 20 output tokens and 1 tool call (read_file)",
        ),
        (
            {"after_cut": {"output_tokens": 20, "whole": False}},
            "Cut here",
            "this saved at least about 20 output tokens",
        ),
    ],
)
def test_A6_what_is_known_of_a_cut_is_said_beside_the_completion_call(
    modules: Modules, response: dict[str, Any], head: str, words: str
) -> None:
    events = [
        {"type": "RUN_STARTED", "run_id": "r", "tools": [{"name": "task_done", "kind": "completion"}]},
        {"type": "STEP_STARTED", "step": 1},
        {
            "type": "RESPONSE_FINISHED",
            "attempt": "1.1",
            "finish": "tool_calls",
            "cut_at": "c",
            "message": {"calls": [{"id": "c", "name": "task_done", "arguments": "{}"}]},
            **response,
        },
    ]
    told = modules(
        """async (events) => {
            const { fold } = await import('./page/model.js');
            const { timeline } = await import('./page/view.js');
            const root = document.createElement('div');
            timeline(root)(fold(events));
            return [root.querySelector('.call').textContent, root.querySelector('.note').textContent];
        }""",
        events,
    )
    assert "task_done" in told[0]
    assert told[1] == f"✂{head}: {words}"


# ---- F10


def test_F10_a_thought_is_blue_and_apart_and_its_call_is_not_told_twice(page: Any, shown: Site) -> None:
    shown.scripts["think"] = [
        [call("think", thought="The task is done, I believe.")],
        [call("task_done", summary=SUMMARY)],
    ]
    begin(page, "think")
    page.wait_for_selector(".end[data-status=completed]")
    page.wait_for_selector("#verdict .told")
    colours = page.evaluate(
        "[getComputedStyle(document.querySelector('.said.thought')).borderTopColor,"
        " getComputedStyle(document.querySelector('#verdict .sign')).color]"
    )
    assert colours == ["rgb(47, 109, 168)", "rgb(163, 50, 111)"]
    assert page.locator(".call:visible").all_text_contents()[0].startswith("✔task_done")
    assert page.locator(".end .thought, .thought .end").count() == 0


def test_F10_a_confirmation_that_was_given_leaves_nothing_running_or_waiting(page: Any, shown: Site) -> None:
    shown.scripts["sure"] = [[call("task_done", summary=SUMMARY, requires_user_confirmation=True)]]
    begin(page, "sure")
    page.wait_for_selector("#composer >> text=Please confirm")
    assert "waits for your answer" in page.text_content(".call")
    assert "running" not in page.text_content(".call")
    page.click("#composer button >> text=Yes")
    page.wait_for_selector(".end[data-status=completed]")
    told = page.text_content(".call")
    assert "accepted" in told
    assert [word for word in ("running", "waits", "NaN") if word in page.text_content("#timeline")] == []
    page.wait_for_selector("#verdict >> text=accepted by the user, not checked")


def test_F10_a_question_that_was_answered_does_not_wait_any_more(page: Any, shown: Site) -> None:
    shown.scripts["which"] = [[call("ask_user", question="Which port?")], [call("task_done", summary=SUMMARY)]]
    begin(page, "which")
    page.wait_for_selector("#composer .question >> text=Which port?")
    page.fill("#composer textarea", "8080")
    page.click("#composer button")
    page.wait_for_selector(".end[data-status=completed]")
    assert "waits" not in page.text_content("#timeline")


PLANS = {"type": "object", "properties": {"steps": {"items": {"properties": {"tool": {}, "arguments": {}}}}}}


def planned(name: str) -> list[dict[str, Any]]:
    """Events of two rounds of a model that plans with a tool of this name."""
    told: list[dict[str, Any]] = [
        {
            "type": "RUN_STARTED",
            "run_id": "r",
            "prompt": "go",
            "tools": [{"name": name, "parameters": PLANS}, {"name": "decide", "kind": "completion"}],
        }
    ]
    for number, percentage in ((1, 40), (2, 100)):
        plan = {"goal": f"goal {number}", "steps": [{"tool": "write", "arguments": {"text": "a"}}]}
        results = [{"step": 1, "tool": "write", "status": "ok", "result": "wrote a"}]
        for step, tool, given, content in (
            (2 * number - 1, name, plan, json.dumps(results)),
            (2 * number, "decide", {"summary": "so"}, "Noted."),
        ):
            id = f"c{step}"
            message = {"calls": [{"id": id, "name": tool, "arguments": json.dumps(given)}]}
            told += [
                {"type": "STEP_STARTED", "step": step},
                {"type": "RESPONSE_FINISHED", "attempt": f"{step}.1", "finish": "tool_calls", "message": message},
                {"type": "TOOL_EXECUTION_STARTED", "call_id": id, "name": tool},
            ]
            if tool == "decide":
                told.append(
                    {"type": "PHASE_REPORTED", "percentage": percentage, "summary": "So far.", "next_phase": "more"}
                )
            told += [
                {"type": "TOOL_CALL_RESULT", "call_id": id, "name": tool, "content": content},
                {"type": "STEP_FINISHED", "step": step},
            ]
    end = {
        "run_id": "r",
        "session_id": "s",
        "status": "completed",
        "stop_reason": "completed",
        "usage": {"input_tokens": 1, "output_tokens": 1},
        "steps": 4,
        "duration_ms": 1,
    }
    return [*told, {"type": "DECISION_MADE", "round": 1, "decision": {"do": "stop", "reason": "completed"}},
            {"type": "RUN_FINISHED", "outcome": end}]  # fmt: skip


@pytest.mark.parametrize("name", ["plan_and_execute", "renamed"])
def test_F10_a_round_of_plan_execute_and_think_is_a_card(modules: Modules, name: str) -> None:
    rounds, inside, calls = modules(
        """async (events) => {
            const { fold } = await import('./page/model.js');
            const { timeline } = await import('./page/view.js');
            const root = document.createElement('div');
            timeline(root)(fold(events));
            return [[...root.querySelectorAll('.round')].map((one) => one.textContent),
                root.querySelectorAll('.round .end').length, root.querySelectorAll('.end').length];
        }""",
        planned(name),
    )
    assert (len(rounds), inside, calls) == (2, 0, 1)
    assert rounds[0].startswith("Round 1: goal 1")
    assert '✔write: text="a" · wrote a' in rounds[0]
    assert "◇ ThoughtSo far.\n→ 40 % reported as done, next: more" in rounds[0]
    assert rounds[1].startswith("Round 2: goal 2")
