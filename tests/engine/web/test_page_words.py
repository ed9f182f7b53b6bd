"""The words of the page for what became of a call, and words that stay whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest
from endstop.decision.messages import ResultStatus
from endstop.providers import call

from .shown import Site

Modules = Callable[[str, Any], Any]
WHY = """async (events) => {
    const { fold } = await import('./page/model.js');
    const { skippedWords } = await import('./page/words.js');
    const run = fold(events).runs[0];
    return [...run.calls.values()].filter((call) => call.status === 'skipped').map(skippedWords);
}"""
STARTED = {"type": "RUN_STARTED", "run_id": "r", "tools": [{"name": "task_done", "kind": "completion"}]}


def step(names: list[str], *, closing: bool = False) -> list[dict[str, Any]]:
    """A step with these calls, all of which but the completion are skipped."""
    begin = {"type": "STEP_STARTED", "step": 1, "round": 1, "closing": closing}
    starts = [{"type": "TOOL_CALL_START", "attempt": "1.1", "call_id": name, "name": name} for name in names]
    results = [
        {"type": "TOOL_CALL_RESULT", "call_id": name, "name": name, "content": "Not run", "status": "skipped"}
        for name in names
        if name != "task_done" or closing
    ]
    return [STARTED, begin, *starts, *results]


@pytest.mark.parametrize(
    ("events", "why"),
    [
        (step(["task_done", "write_file"]), "not run: it stood after task_done"),
        (step(["write_file", "task_done"]), "not run: task_done came in the same response"),
        (step(["write_file"], closing=True), "not run: the limit is reached"),
        (step(["task_done"], closing=True), "not run: the limit is reached"),
        (step(["write_file"]), "not run"),
    ],
)
def test_a_call_that_was_not_run_says_why(modules: Modules, events: list[dict[str, Any]], why: str) -> None:
    assert modules(WHY, events) == [why]


def test_each_status_of_a_result_has_words(modules: Modules) -> None:
    known = modules("async () => Object.keys((await import('./page/words.js')).RESULT)", None)
    assert set(known) == set(get_args(ResultStatus))


def test_a_call_in_a_closing_step_names_the_limit(page: Any, shown: Site) -> None:
    shown.scripts["limit"] = [[call("write_file", path=f"{number}.txt", content="x")] for number in range(13)]
    page.fill("#prompt", "limit")
    page.click("#start button")
    page.wait_for_selector(".card[data-status=exhausted]")
    told = page.text_content(".call[data-status=skipped] .call-head")
    assert "not run: the limit is reached" in told
    assert "completion" not in told


def test_words_are_not_broken_where_a_line_has_room_for_them(page: Any) -> None:
    assert page.evaluate("getComputedStyle(document.body).overflowWrap") == "break-word"


@pytest.mark.parametrize(("count", "words"), [(1, "1 token in, 1 out"), (2, "2 tokens in, 1 out")])
def test_one_is_singular(modules: Modules, count: int, words: str) -> None:
    function = "async (usage) => (await import('./page/text.js')).tokens(usage)"
    assert modules(function, {"input_tokens": count, "output_tokens": 1}) == words
