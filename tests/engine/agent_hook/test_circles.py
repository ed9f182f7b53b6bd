"""An agent that goes in a circle is told, then denied, then ended; one that works is never denied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from endstop import read_record
from endstop.agent_hook.event_handling import answer_event
from endstop.decision import events as ev
from endstop.replay import replay

from .hooked_agents import AGENTS, HookedAgent, circle, recorded_sessions, runs_of, settings_in


@pytest.mark.parametrize("name", AGENTS)
async def test_a_circle_is_told_then_denied_then_ended_or_said(name: str, tmp_path: Path) -> None:
    agent = HookedAgent(name, settings_in(tmp_path), tmp_path)
    agent.prompt("Say same.")
    told = denied = 0
    for number in circle(agent, most=10):
        told = told or (number if agent.told else 0)
        denied = denied or (number if agent.denied else 0)
    assert (told, denied) == (3, 7)
    if name in ("claude", "gemini"):
        assert agent.number == 8
        assert 'echo same" gave the same result 6 times' in agent.ended
    else:
        assert not agent.ended
        assert agent.denied == 4
        assert len(agent.said) == 1  # once, not at each denial
        assert "endstop proxy --upstream" in agent.said[0]
    agent.ask("SessionEnd")
    assert agent.log == ""
    ((prompt, outcome),) = runs_of(agent.record)
    assert (prompt, outcome.stop_reason) == ("Say same.", "stuck")
    assert (await replay(agent.record)).same


@pytest.mark.parametrize("name", AGENTS)
def test_the_circle_of_a_recorded_session_is_found(name: str, tmp_path: Path) -> None:
    settings, answers = settings_in(tmp_path), []
    for event in recorded_sessions(name)[-1]:
        answers.append(answer_event(json.dumps(event).encode(), settings, {}).decode())
    said = "".join(answers)
    assert said.count("3 times") == 1
    if name != "gemini":  # whose own check ends a circle after the fifth call
        assert "gave the same result 6 times" in said


@pytest.mark.parametrize("name", AGENTS)
async def test_the_other_recorded_sessions_are_left_alone_and_recorded(name: str, tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    for events in recorded_sessions(name)[:-1]:
        for event in events:
            assert answer_event(json.dumps(event).encode(), settings, {}) == b""
    files, failing, beside = (settings.folder / f"{one[0]['session_id']}.jsonl" for one in recorded_sessions(name)[:-1])
    for path in (files, failing, beside):
        ((prompt, outcome),) = runs_of(path)
        assert prompt == "Write the word one into the file one.txt and read it back."
        assert outcome.stop_reason == "text_final"
        assert "The file one.txt is written and holds one." in outcome.answer
        assert outcome.usage.estimated
        assert (await replay(path)).same
    results = [event for event in read_record(failing).runs[0].events if isinstance(event, ev.ToolCallResult)]
    assert len(results) == 2
    assert all("missing.txt: No such file" in one.content or "err" in one.content for one in results)
    if name == "claude":
        assert [one.status for one in results] == ["error", "error"]
    together = 1 if name != "qwen" else 2  # which runs them one after the other
    assert runs_of(beside)[0][1].steps == together + 1


@pytest.mark.parametrize("name", AGENTS)
def test_a_hundred_useful_steps_are_left_alone(name: str, tmp_path: Path) -> None:
    agent = HookedAgent(name, settings_in(tmp_path), tmp_path)
    agent.prompt("Write thirty files, and test them.")
    for number in range(30):
        agent.call(f"cat part{number}.txt", f"line {number} of the old part\nand what it holds: {number * 7}")
        agent.call(f"echo new{number} > part{number}.txt", "")
        agent.call("pytest -q", f"{number + 1} passed, {30 - number} failed in 0.{number}s", fails=True)
    for number in range(10):
        agent.call(f"grep -rn word{number} .", f"./part{number}.txt:3:word{number} stands here")
    assert (agent.denied, agent.ended, agent.said, agent.log) == (0, "", [], "")


@pytest.mark.parametrize("name", AGENTS)
def test_a_call_that_does_something_else_is_not_denied_and_begins_anew(name: str, tmp_path: Path) -> None:
    agent = HookedAgent(name, settings_in(tmp_path), tmp_path)
    agent.prompt("Say same.")
    for _ in range(7):
        agent.call("echo same", "same")
    assert agent.denied == 1
    assert agent.call("cat notes.txt", "these are the notes\nthat nobody has read so far")
    assert agent.call("echo same", "same")
    assert (agent.denied, agent.ended) == (1, "")


@pytest.mark.parametrize("name", AGENTS)
def test_a_new_prompt_begins_anew(name: str, tmp_path: Path) -> None:
    agent = HookedAgent(name, settings_in(tmp_path), tmp_path)
    agent.prompt("Say same.")
    for _ in range(7):
        agent.call("echo same", "same")
    agent.prompt("Once more.")
    assert agent.call("echo same", "same")
    assert [run.started.prompt for run in read_record(agent.record).runs] == ["Say same.", "Once more."]


def test_another_turn_without_an_event_of_its_prompt_is_another_run(tmp_path: Path) -> None:
    agent = HookedAgent("codex", settings_in(tmp_path), tmp_path)
    for _ in range(7):
        agent.call("echo same", "same")
    agent.turn += 1
    assert agent.call("echo same", "same")
    assert [run.started.prompt for run in read_record(agent.record).runs] == [None, None]


def test_an_empty_prompt_between_the_calls_of_qwen_code_is_none(tmp_path: Path) -> None:
    agent = HookedAgent("qwen", settings_in(tmp_path), tmp_path)
    agent.prompt("Say same.")
    for _ in range(7):
        agent.ask("UserPromptSubmit", prompt="")
        agent.call("echo same", "same")
    assert agent.denied == 1


def test_calls_that_were_not_run_are_no_lost_results(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    agent.prompt("Go.")
    for number in range(20):  # the person denies each second call
        agent.begin(f"rm part{number}.txt")
        agent.call(f"cat part{number}.txt", f"this is part {number} of what there is to read {number * 31}")
    assert (agent.denied, agent.ended, agent.told) == (0, "", [])
    agent.end()
    (run,) = read_record(agent.record).runs
    results = [event for event in run.events if isinstance(event, ev.ToolCallResult)]
    assert len(results) == 20
    assert {one.status for one in results} == {"ok"}


def test_failing_calls_that_differ_are_denied_once_then_the_agent_is_ended(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    agent.prompt("Go.")
    for number in range(30):
        agent.call(f"frobnicate --try {number}", "frobnicate: command not found", fails=True)
        if agent.ended:
            break
    assert agent.denied == 1
    assert "nothing new came of its calls" in agent.ended or "same results" in agent.ended
    assert agent.number < 16


def test_a_sub_agent_has_a_record_of_its_own(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path), tmp_path)
    agent.prompt("Go.")
    bash = {"tool_name": "Bash", "tool_input": {"command": "echo same"}}
    for number in range(6):
        agent.ask("PreToolUse", **bash, tool_use_id=f"x{number}", agent_id="explorer/1")
        agent.ask("PostToolUse", **bash, tool_use_id=f"x{number}", agent_id="explorer/1", tool_response="same")
    assert agent.call("echo same", "same")  # the sub-agent's circle is not the main agent's
    answer = agent.ask("PreToolUse", **bash, tool_use_id="x7", agent_id="explorer/1")
    assert answer["hookSpecificOutput"]["permissionDecision"] == "deny"
    agent.ask("SubagentStop", agent_id="explorer/1", last_assistant_message="Nothing.")
    sessions = {read_record(path).header.session_id for path in agent.settings.folder.glob("*.jsonl")}
    assert sessions == {"s1", "s1.explorer/1"}


def test_a_hook_that_watches_answers_nothing_and_records_where_it_would_have_stopped(tmp_path: Path) -> None:
    agent = HookedAgent("claude", settings_in(tmp_path, watch=True), tmp_path)
    agent.prompt("Say same.")
    for _ in range(9):
        agent.call("echo same", "same")
    agent.end()
    assert (agent.denied, agent.ended, agent.told, agent.said) == (0, "", [], [])
    assert "would have answered deny" in agent.log
    (run,) = read_record(agent.record).runs
    assert [event.reason for event in run.events if isinstance(event, ev.AlarmRaised)] == ["stuck"]
    assert not any(isinstance(event, ev.MessageAdded) for event in run.events)
