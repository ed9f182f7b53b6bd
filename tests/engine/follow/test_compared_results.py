"""A circle whose results carry an agent's words that change each time, and a command whose results do change.

The words are in tests/decision/compared_results.toml, each with two examples; here they take turns.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import POLICIES, Facts, Policy, Repetition, Stop, ToolCall, ToolResult, fold
from endstop.decision.events import RunStarted, ToolCallResult
from endstop.decision.settings import settings_from_record, settings_to_record
from endstop.follow import Follower
from endstop.records.reader import read_record
from endstop.replay import replay
from endstop.testing import FakeClock
from msgspec.structs import replace

PAIRS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    (Path(__file__).parents[2] / "decision" / "compared_results.toml").read_text(encoding="utf-8")
)
WRAPPERS = pytest.mark.parametrize("wrapper", PAIRS["wrapper"], ids=[one["agent"] for one in PAIRS["wrapper"]])
COMMAND = json.dumps({"command": "./run"})


def in_words(wrapper: dict[str, Any], step: int, output: str) -> str:
    template: str = wrapper["first" if step % 2 else "second"].replace("30447", f"{30000 + step}")
    return template.replace("{output}", json.dumps(output) if wrapper.get("json") else output)


def stopped_at(follower: Follower, outputs: list[str], command: str = COMMAND) -> int | None:
    """The step after which the follower stops, if each step makes the same call and gets the next of these results."""
    follower.prompt("go")
    for step, output in enumerate(outputs, 1):
        call = ToolCall(f"c{step}", "bash", command)
        if isinstance(follower.step("", [call], [ToolResult(call.id, call.name, output)]), Stop):
            return step
    return None


@WRAPPERS
def test_a_circle_is_stopped_in_the_words_of_each_agent(wrapper: dict[str, Any]) -> None:
    outputs = [in_words(wrapper, step, "same") for step in range(1, 40)]
    at = stopped_at(Follower("agent", clock=FakeClock()), outputs)
    assert at is not None
    assert at <= 8


@WRAPPERS
def test_a_command_that_counts_is_no_circle_in_the_words_of_any_agent(wrapper: dict[str, Any]) -> None:
    outputs = [in_words(wrapper, step, f"{step} of 900 done") for step in range(1, 40)]
    follower = Follower("agent", clock=FakeClock())
    at = stopped_at(follower, outputs)
    assert follower.facts.repeats == 1
    fails = "code 1" in outputs[0] or "Code: 2" in outputs[0]
    assert at is None or fails  # one that fails in each step stagnates, whatever its numbers


@pytest.mark.parametrize("poll", PAIRS["running"], ids=[one["agent"] for one in PAIRS["running"]])
def test_polls_of_what_still_runs_are_never_a_circle(poll: dict[str, Any]) -> None:
    polls = [re.sub(r"063bb4|10\.0|:37|1006[34]", f"1{step:03}", poll["first"]) for step in range(1, 40)]
    follower = Follower("agent", clock=FakeClock())
    at = stopped_at(follower, polls, '{"session_id": 53698, "chars": ""}')
    assert follower.facts.repeats == 1
    whole = replace(POLICIES["agent"], repetition=Repetition(results="text"))
    assert at == stopped_at(Follower(whole, clock=FakeClock()), polls, '{"session_id": 53698, "chars": ""}')


@WRAPPERS
async def test_the_record_keeps_the_whole_result_and_replays_the_same(wrapper: dict[str, Any], tmp_path: Path) -> None:
    outputs = [in_words(wrapper, step, "same") for step in range(1, 40)]
    with Follower("agent", record=tmp_path / "run.jsonl", clock=FakeClock()) as follower:
        at = stopped_at(follower, outputs)
    record = read_record(tmp_path / "run.jsonl")
    results = [event for event in record.runs[0].events if isinstance(event, ToolCallResult)]
    assert [event.content for event in results] == outputs[:at]
    assert len({event.fingerprint for event in results}) == 1
    assert (await replay(tmp_path / "run.jsonl")).same


def test_a_record_of_an_older_version_is_compared_by_the_whole_text() -> None:
    before = settings_from_record(Policy, {})
    assert before.repetition.results == "text"
    assert fold(Facts(), RunStarted(run_id="r", session_id="s", policy=before)).compared == "text"
    assert settings_to_record(Policy())["repetition"]["results"] == "said"


def test_a_run_can_compare_whole_results() -> None:
    codex = PAIRS["wrapper"][0]
    outputs = [in_words(codex, step, "same").replace("Wall time: 0", f"Wall time: {step}") for step in range(1, 20)]
    policy = Policy(repetition=Repetition(results="text"))
    assert stopped_at(Follower(policy, clock=FakeClock()), outputs) is None
    policy = replace(policy, repetition=replace(policy.repetition, results="said"))
    assert stopped_at(Follower(policy, clock=FakeClock()), outputs) == 6
