"""Tests of opencode's plugin: node loads it as opencode does, and a script stands for `endstop hook`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from endstop import read_record
from endstop.agent_hook.failure_log import NAME
from endstop.agent_hook.handler import answer_event
from endstop.agent_setup.agents import agents
from endstop.agent_setup.setup_parts import HookOptions, hook_part
from endstop.decision.events import ToolCallResult

from ..agent_hook.hooked_agents import settings_in

DRIVER = """
import { Endstop } from "./endstop.mjs";
const calls = [];
const client = { session: {
  abort: async (given) => void calls.push(["abort", given.path.id]),
  prompt: async (given) => void calls.push(["prompt", given.body.parts[0].text]),
}, tui: { showToast: async (given) => void calls.push(["toast", given.body.message]) } };
const hooks = await Endstop({ client, directory: process.cwd() });
const before = async (args) => {
  try {
    await hooks["tool.execute.before"]({ tool: "bash", sessionID: "s1", callID: "c1" }, { args });
    calls.push(["ran"]);
  } catch (error) { calls.push(["denied", error.message]); }
};
const after = async (text, exit) => {
  const output = { output: text, metadata: { exit } };
  await hooks["tool.execute.after"]({ tool: "bash", sessionID: "s1", callID: "c1", args: { command: "ls" } }, output);
  calls.push(["result", output.output]);
};
const idle = () => hooks.event({ event: { type: "session.idle", properties: { sessionID: "s1" } } });
const prompt = (text) => hooks["chat.message"]({ sessionID: "s1" }, { parts: [{ type: "text", text }] });
%s
console.log(JSON.stringify(calls));
"""
HOOK = """
import json, sys
event = json.load(sys.stdin)
with open("asked.jsonl", "a") as log:
    log.write(json.dumps([event, sys.argv[1:]]) + "\\n")
answers = json.load(open("answers.json"))
answer = answers.get(event["hook_event_name"], "")
print(answer if isinstance(answer, str) else json.dumps(answer))
sys.exit(answers.get("code", 0))
"""


def _driven(
    folder: Path, script: str, answers: dict[str, Any], program: str | None = None
) -> tuple[list[Any], list[Any]]:
    """Run a script against the plugin; return what happened, and what the hook was asked."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("there is no node here: apt-get install nodejs")
    folder.mkdir(exist_ok=True)
    (folder / "hook.py").write_text(HOOK)
    (folder / "answers.json").write_text(json.dumps(answers))
    words = (program,) if program else (sys.executable, str(folder / "hook.py"))
    part = hook_part(agents()["opencode"], HookOptions(until=("true 'a b'",), act=True), {}, program=words)
    assert part is not None
    (folder / "endstop.mjs").write_text(part.whole)
    (folder / "driver.mjs").write_text(DRIVER % script)
    ran = subprocess.run([node, "driver.mjs"], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    asked = folder / "asked.jsonl"
    lines = asked.read_text().splitlines() if asked.exists() else []
    return json.loads(ran.stdout), [json.loads(line) for line in lines]


def test_events_are_asked_in_claude_codes_shapes_and_the_agent_is_named(tmp_path: Path) -> None:
    script = """
        await prompt("do it"); await before({ command: "ls" });
        await after("a.txt", 0); await after("no", 2); await idle();
    """
    happened, asked = _driven(tmp_path, script, {})
    assert happened == [["ran"], ["result", "a.txt"], ["result", "no"]]
    about = {"session_id": "s1", "cwd": str(tmp_path), "agent": "opencode"}
    call = {"tool_name": "bash", "tool_input": {"command": "ls"}, "tool_use_id": "c1"}
    assert [event for event, _ in asked] == [
        {"hook_event_name": "UserPromptSubmit", "prompt": "do it", **about},
        {"hook_event_name": "PreToolUse", **call, **about},
        {"hook_event_name": "PostToolUse", **call, "tool_response": "a.txt", **about},
        {"hook_event_name": "PostToolUseFailure", **call, "error": "no", **about},
        {"hook_event_name": "Stop", "stop_hook_active": False, **about},
    ]
    assert [words for _, words in asked][-2:] == [
        ["hook", "--until", "true 'a b'"],
        ["hook", "--until", "true 'a b'", "--timeout", "630"],
    ]


def test_the_hook_takes_what_the_plugin_sends_and_answers_as_the_plugin_reads_it(tmp_path: Path) -> None:
    script = """
        await prompt("do it"); await before({ command: "ls" });
        await after("a.txt", 0); await after("no", 2); await idle();
    """
    _, asked = _driven(tmp_path / "plugin", script, {})
    prompt, before, after, failed, idle = (event for event, _ in asked)
    settings = settings_in(tmp_path, "false")

    def answer(event: dict[str, Any], **changed: Any) -> dict[str, Any]:
        said = answer_event(json.dumps({**event, **changed}).encode(), settings, {})
        return json.loads(said) if said else {}

    assert answer(prompt) == {}
    told, denied, ended = [], [], ""
    for number in range(9):
        said = answer(before, tool_use_id=f"c{number}")
        ended = said.get("stopReason", "") if said.get("continue") is False else ""
        if ended:
            break
        if said.get("hookSpecificOutput", {}).get("permissionDecision") == "deny":
            denied.append(said["hookSpecificOutput"]["permissionDecisionReason"])
            continue
        said = answer(after, tool_use_id=f"c{number}")
        told += [number] if said.get("hookSpecificOutput", {}).get("additionalContext") else []
    assert told[:1] == [2]
    assert len(denied) == 1
    assert "bash" in ended
    assert answer(prompt, session_id="s2") == {}
    answer(before, session_id="s2")
    answer(failed, session_id="s2")
    assert answer(idle, session_id="s2")["decision"] == "block"
    (run,) = read_record(settings.folder / "s2.jsonl").runs
    assert run.started.prompt == "do it"
    assert run.started.engine.startswith("follow:opencode ")
    (result,) = (event for event in run.events if isinstance(event, ToolCallResult))
    assert (result.status, result.content) == ("error", "no")
    assert not (settings.folder / NAME).exists()


def test_a_call_is_denied_told_or_ends_the_session(tmp_path: Path) -> None:
    denied = {
        "PreToolUse": {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no more"}}
    }
    told = {"PostToolUse": {"hookSpecificOutput": {"additionalContext": "the same again"}, "systemMessage": "look"}}
    ended = {"PreToolUse": {"continue": False, "stopReason": "a circle"}}
    answers = [
        _driven(tmp_path / str(index), 'await before({}); await after("x", 0);', {**given})[0]
        for index, given in enumerate((denied, told, ended))
    ]
    assert answers == [
        [["denied", "no more"], ["result", "x"]],
        [["ran"], ["toast", "look"], ["result", "x\n\nthe same again"]],
        [["abort", "s1"], ["denied", "a circle"], ["result", "x"]],
    ]


def test_an_end_that_is_refused_sends_the_session_on_and_that_is_no_prompt_of_the_person(tmp_path: Path) -> None:
    script = """
        await idle(); await prompt("the tests fail");
        await idle(); await prompt("the tests fail"); await prompt("new");
    """
    happened, asked = _driven(tmp_path, script, {"Stop": {"decision": "block", "reason": "the tests fail"}})
    assert happened == [["prompt", "the tests fail"], ["prompt", "the tests fail"]]
    assert [event.get("stop_hook_active", event.get("prompt")) for event, _ in asked] == [False, True, "new"]


def test_a_hook_that_fails_changes_nothing(tmp_path: Path) -> None:
    script = 'await before({}); await after("x", 0); await idle();'
    untouched = [["ran"], ["result", "x"]]
    deny = {"hookSpecificOutput": {"permissionDecision": "deny"}}
    assert _driven(tmp_path / "gone", script, {}, program="/nowhere/endstop")[0] == untouched
    assert _driven(tmp_path / "words", script, {"PreToolUse": "Traceback", "Stop": "null"})[0] == untouched
    assert _driven(tmp_path / "code", script, {"PreToolUse": deny, "code": 1})[0] == untouched
