"""The words of the page for what became of a call, and words that stay whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, get_args

import pytest
from endstop.decision import Facts, Policy, fold
from endstop.decision.call_judgement import CallJudge
from endstop.decision.events import RunStarted, ToolCallResult
from endstop.decision.messages import ResultStatus
from endstop.providers import call
from endstop.records.format import encode_line

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


def judged(status: ResultStatus, engine: str) -> tuple[dict[str, Any], str, str]:
    """A result in a run of this engine, how the call ended as the library judges it, and as a page without that."""
    started = RunStarted(run_id="r", session_id="s", policy=Policy(), engine=engine)
    result = ToolCallResult(call_id="c", name="t", content="Exit code 1", status=status)
    end = CallJudge(started).judge(result, fold(Facts(), started)).end
    return json.loads(encode_line(result)), end, engine


ENDS = """async (given) => {
    const { fold } = await import('./page/model.js');
    const { resultOf } = await import('./page/words.js');
    return given.map(([event, , engine]) => {
        const run = fold([{ type: 'RUN_STARTED', run_id: 'r', engine }, event]).runs[0];
        const call = [...run.calls.values()][0];
        return [call.end, resultOf(call)[1]];
    });
}"""


def test_how_a_call_of_our_own_loop_ended_is_the_same_in_the_page_and_in_the_library(modules: Modules) -> None:
    cases = [judged(status, "0.1.0") for status in get_args(ResultStatus)]
    told = [[{**event, "judged": {"end": end}}, end, engine] for event, end, engine in cases]
    ends = [end for end, _ in modules(ENDS, told)]
    assert ends == [end for _, end, _ in cases]
    assert ends.count("succeeded") == 1


@pytest.mark.parametrize("engine", ["import:openai", "follow:proxy 1"])
def test_a_page_that_is_not_told_how_a_call_of_another_loop_ended_shows_no_tick(modules: Modules, engine: str) -> None:
    cases = [judged(status, engine) for status in get_args(ResultStatus)]
    shown = modules(ENDS, cases)
    assert {end for end, _ in shown} == {"unknown"}
    assert "✔" not in {sign for _, sign in shown}
    told = [[{**event, "judged": {"end": end}}, end, engine] for event, end, _ in cases]
    assert [end for end, _ in modules(ENDS, told)] == [end for _, end, _ in cases]


def test_each_status_of_a_result_has_words(modules: Modules) -> None:
    known = modules("async () => Object.keys((await import('./page/words.js')).RESULT)", None)
    assert set(known) == set(get_args(ResultStatus))


def test_a_call_in_a_closing_step_names_the_limit(page: Any, shown: Site) -> None:
    shown.scripts["limit"] = [[call("write_file", path=f"{number}.txt", content="x")] for number in range(13)]
    page.fill("#prompt", "limit")
    page.click("#start button")
    page.wait_for_selector(".end[data-status=exhausted]")
    told = page.text_content(".call[data-status=skipped] .call-head")
    assert "not run: the limit is reached" in told
    assert "completion" not in told


def test_words_are_not_broken_where_a_line_has_room_for_them(page: Any) -> None:
    assert page.evaluate("getComputedStyle(document.body).overflowWrap") == "break-word"


@pytest.mark.parametrize(("count", "words"), [(1, "1 token in, 1 out"), (2, "2 tokens in, 1 out")])
def test_one_is_singular(modules: Modules, count: int, words: str) -> None:
    function = "async (usage) => (await import('./page/text.js')).tokens(usage)"
    assert modules(function, {"input_tokens": count, "output_tokens": 1}) == words


CHECKS = """async (events) => {
    const { fold } = await import('./page/model.js');
    const { checkWords } = await import('./page/words.js');
    const run = fold(events).runs[0];
    const told = run.items.map((item) => item.kind === 'check' ? checkWords(item)[2] : item.head);
    return [told, run.check.scores];
}"""


def test_a_check_is_a_line_with_its_score_and_the_change_since_the_last_one(modules: Modules) -> None:
    begin = {"type": "CHECK_STARTED", "step": 0, "place": "start", "name": "pytest -q"}
    answers: list[dict[str, Any]] = [
        {"said": "not_met", "score": 39, "of": 44},
        {"said": "unknown", "detail": "no network"},
        {"said": "not_met", "score": 41, "of": 44},
        {"said": "not_met", "score": 40, "of": 44, "guard_changed": ["tests/a.py"]},
        {"said": "met"},
    ]
    ended = [{"type": "CHECK_ENDED", "step": n, "place": "step", **answer} for n, answer in enumerate(answers)]
    blocked = {"type": "BLOCK_REPORTED", "call_id": "c", "reason": "There is no key."}
    told, scores = modules(CHECKS, [{**STARTED, "carried": None}, begin, *ended, blocked])
    assert told == [
        "39 of 44 pass",
        "Check: no answer",
        "41 of 44 pass, +2",
        "40 of 44 pass, -1, with the original tests/a.py",
        "`pytest -q` passes",
        "Reported as impossible, handed back",
    ]
    assert scores == [39, 41, 40, 44]


def test_a_check_without_a_score_only_fails_or_passes(modules: Modules) -> None:
    names = [{"type": "CHECK_STARTED", "step": 0, "place": "start", "name": "make"}]
    ended = [
        {"type": "CHECK_ENDED", "step": n, "place": "step", **said}
        for n, said in enumerate([{"said": "not_met"}, {"said": "met", "guard_changed": ["Makefile"]}])
    ]
    told, scores = modules(CHECKS, [STARTED, *names, *ended])
    assert told == ["fails", "`make` passes, but only with changed Makefile"]
    assert scores == []
