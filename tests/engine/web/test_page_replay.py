"""The page's fold and its replay: the view is a function of the events so far, whichever way one came there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from endstop.records.format import encode_line
from endstop.records.reader import read_record

from .conftest import PATIENCE
from .shown import RECORDS, Site, until

Modules = Callable[[str, Any], Any]
NAMES = sorted(path.stem for path in RECORDS.glob("*.jsonl"))
LAST_STATES = """async (events) => {
    const { fold } = await import('./page/model.js');
    const { budgets } = await import('./page/budget.js');
    return fold(events).runs.map((run) => {
        return {
            run_id: run.id, steps: run.steps, rounds: run.rounds, usage: run.usage, status: run.outcome?.status,
            running: [...run.calls.values()].filter((call) => !call.status).length,
            budgets: budgets(run, run.t), ends: run.items.filter((item) => item.kind === 'end').length,
            duration: run.t + run.earlier,
        };
    });
}"""
ANY_WAY = """async ([events, positions]) => {
    const { fold } = await import('./page/model.js');
    const { timeline } = await import('./page/view.js');
    const root = document.createElement('div');
    const show = timeline(root);
    const wrong = [];
    for (const position of positions) {
        show(fold(events, position));
        const fresh = document.createElement('div');
        timeline(fresh)(fold(events, position));
        if (root.innerHTML !== fresh.innerHTML) wrong.push(position);
    }
    return wrong;
}"""


def events_of(name: str) -> list[dict[str, Any]]:
    """The events as the server sends them: whole, where the file leaves out what an earlier run of it has."""
    runs = read_record(RECORDS / f"{name}.jsonl").runs
    return [json.loads(encode_line(event)) for run in runs for event in run.events]


@pytest.mark.parametrize("name", NAMES)
def test_the_last_state_of_every_record_agrees_with_its_outcomes(modules: Modules, name: str) -> None:
    events = events_of(name)
    outcomes = [event["outcome"] for event in events if event["type"] == "RUN_FINISHED"]
    answered = {event["call_id"] for event in events if event["type"] == "QUESTION_ANSWERED"}
    runs = modules(LAST_STATES, events)
    assert len(runs) == len(outcomes)
    for run, outcome in zip(runs, outcomes, strict=True):
        for same in ("run_id", "steps", "rounds", "status"):
            assert run[same] == outcome[same]
        for same in ("input_tokens", "output_tokens", "cost_usd", "estimated"):
            assert run["usage"][same] == outcome["usage"][same]
        assert run["ends"] == 1
        assert run["running"] == len([one for one in outcome["questions"] if one["call_id"] not in answered])
        used = {
            "_".join(filter(None, (one["scope"], kind, one["name"]))): (one["used"], one[bound])
            for one in run["budgets"]
            for bound, kind in (("hard", ""), ("soft", "soft"))
            if one[bound] is not None
        }
        assert used == {name: (one["used"], one["allowed"]) for name, one in outcome["limits"].items()}


@pytest.mark.parametrize("name", ["scenes", "question", "gives_up", "connection", "port", "premature"])
def test_whichever_way_one_came_to_a_point_it_looks_the_same(modules: Modules, name: str) -> None:
    events = events_of(name)
    end = len(events)
    ways = [0, end, end // 2, end // 2 + 1, 3, end - 1, end // 3, end // 3 + 7, end // 3 - 7, 1, end]
    assert modules(ANY_WAY, [events, ways]) == []


def test_the_scrubber_shows_by_keyboard_the_state_of_each_step(page: Any, shown: Site) -> None:
    id = shown.keep_record("port_steps")
    page.goto(f"{shown.url}#s/{id}")
    page.wait_for_selector(".end")
    steps = page.locator(".step").count()
    assert steps > 1
    page.click("#replay")
    assert page.evaluate("document.activeElement.id") == "position"
    page.keyboard.press("Home")
    assert page.locator(".step").count() == 0
    assert page.locator(".said.you").count() == 1
    assert page.text_content("#status").endswith("running")
    for step in range(1, steps + 1):
        page.keyboard.press("PageUp")
        assert page.locator(".step").count() == step
        assert page.get_attribute("#position", "aria-valuetext").startswith(f"step {step}: the request")
        assert page.locator(".end").count() == 0
    page.keyboard.press("ArrowRight")
    assert "step" in page.get_attribute("#position", "aria-valuetext")
    page.keyboard.press("PageDown")
    assert page.locator(".step").count() == steps
    page.keyboard.press("PageDown")
    assert page.locator(".step").count() == steps - 1
    page.keyboard.press("End")
    assert page.locator(".end").count() == 1
    page.click("#replay")
    assert page.is_hidden("#scrubber")
    assert page.locator(".end").count() == 1


def test_a_replay_plays_at_the_recorded_pace_times_the_speed_and_pauses(page: Any, shown: Site) -> None:
    events = events_of("hello")
    end = max(event.get("t", 0) for event in events)
    id = shown.keep([events], "pace", "session_pace")
    page.goto(f"{shown.url}#s/{id}")
    page.wait_for_selector(".end")
    page.click("#replay")
    page.select_option("#speed", "64")
    before = page.evaluate("performance.now()")
    # the card is away for so short a time that a look from outside may come too late
    page.evaluate(
        """() => {
            const look = () => { window.gone ||= !document.querySelector('.end'); };
            new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
        }"""
    )
    page.click("#play")
    until(page, "window.gone && document.querySelector('.end') !== null")
    took = page.evaluate("performance.now()") - before
    assert took >= end / 64 * 0.9
    until(page, "document.querySelector('#play').textContent.includes('Play')")
    page.select_option("#speed", "1")
    page.focus("#position")
    page.keyboard.press("Space")
    until(page, "document.querySelector('#play').textContent.includes('Pause')")
    page.keyboard.press("Space")
    assert "Play" in page.text_content("#play")
    assert page.locator(".end").count() == 0


def test_marks_of_missing_events_are_shown_where_they_are_missing(modules: Modules) -> None:
    events = events_of("hello")
    events[5:9] = [{"type": "LAGGED", "missed": 4, "next_seq": 10, "run_id": events[0]["run_id"]}]
    text = modules(
        """async (events) => {
            const { fold } = await import('./page/model.js');
            const { timeline } = await import('./page/view.js');
            const root = document.createElement('div');
            timeline(root)(fold(events));
            return root.textContent;
        }""",
        events,
    )
    assert "4 events are missing here" in text
    assert "Answer" in text


def test_an_event_stream_is_read_right_wherever_it_is_torn(modules: Modules) -> None:
    stream = (
        'retry: 1000\n\n: heartbeat\n\nid: run_a:1\ndata: {"n":1}\n\nid: run_a:2\r\ndata: {"text":'
        '\r\ndata: "two"}\r\n\r\n'
        'event: lagged\ndata: {"missed":3}\n\nid: run_a:7\ndata:{"n":7}\n\ndata: torn'
    )
    found = modules(
        """async (stream) => {
            const { parser } = await import('./page/stream.js');
            const all = [];
            for (let size = 1; size <= stream.length; size++) {
                const parse = parser(({ id, event, data }) => [id, event, JSON.parse(data)]);
                const found = [];
                for (let from = 0; from < stream.length; from += size) {
                    found.push(...parse(stream.slice(from, from + size)));
                }
                all.push(JSON.stringify(found));
            }
            return [...new Set(all)];
        }""",
        stream,
    )
    assert [json.loads(one) for one in found] == [
        [
            ["run_a:1", "", {"n": 1}],
            ["run_a:2", "", {"text": "two"}],
            ["run_a:2", "lagged", {"missed": 3}],
            ["run_a:7", "", {"n": 7}],
        ]
    ]


def test_ten_thousand_events_are_folded_and_shown_without_long_pauses(page: Any, shown: Site) -> None:
    """Bounds that only something quadratic would break; docs/guides/page.md has what was measured."""
    start, *_, end = events_of("hello")
    events = [{**start, "run_id": "run_long"}]
    for step in range(1, 1001):
        attempt = f"{step}.1"
        events += [
            {"type": "STEP_STARTED", "step": step, "round": 1},
            {"type": "ATTEMPT_STARTED", "attempt": attempt},
            *({"type": "TEXT_MESSAGE_CONTENT", "attempt": attempt, "delta": f"word {word} "} for word in range(4)),
            {"type": "TOOL_CALL_START", "attempt": attempt, "call_id": attempt, "name": "read_file"},
            {"type": "TOOL_CALL_ARGS", "attempt": attempt, "call_id": attempt, "delta": '{"path": "a"}'},
            {"type": "TOOL_CALL_RESULT", "call_id": attempt, "name": "read_file", "content": "text\n" * 30},
            {"type": "STEP_FINISHED", "step": step},
        ]
    events.append({**end, "outcome": {**end["outcome"], "run_id": "run_long"}})
    events = [{**event, "seq": number, "t": number} for number, event in enumerate(events, 1)]
    shown.keep([events], "long", "session_long")
    page.goto(f"{shown.url}#s/session_long")
    page.wait_for_selector(".end", timeout=4 * PATIENCE)  # it takes seconds of CPU, and cores may be busy
    assert page.locator(".step").count() == 1000
    milliseconds = page.evaluate(
        """async (text) => {
            const { fold } = await import('./page/model.js');
            const events = JSON.parse(text);
            const before = performance.now();
            fold(events);
            return performance.now() - before;
        }""",
        json.dumps(events),
    )
    assert milliseconds < 1000
