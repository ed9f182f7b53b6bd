"""Agents as their hooks see them: recorded events, and agents that do what their hook answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from endstop import read_record
from endstop.agent_hook.event_handling import answer_event
from endstop.agent_hook.hook_log import NAME
from endstop.agent_hook.hook_settings import HookSettings
from endstop.decision import Outcome, Policy
from endstop.decision.events import RunFinished
from endstop.decision.until_rules import policy_for_until
from endstop.follow.follower import followed_policy

AGENTS = ("claude", "codex", "qwen", "gemini")
PAYLOADS = Path(__file__).parent / "payloads"
"""What hooks of Claude Code 2.1.197, Codex 0.169.0, Qwen Code 0.15.10 and Gemini CLI 0.61.0 got on stdin, in four
sessions each: write and read a file; calls that fail; two calls side by side; the same call 14 times."""
_GEMINI = {
    "UserPromptSubmit": "BeforeAgent",
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "Stop": "AfterAgent",
}


def recorded_sessions(agent: str) -> list[list[dict[str, Any]]]:
    """The recorded sessions of an agent, each as its events."""
    sessions: dict[str, list[dict[str, Any]]] = {}
    for line in (PAYLOADS / f"{agent}.jsonl").read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        sessions.setdefault(event["session_id"], []).append(event)
    return list(sessions.values())


def settings_in(folder: Path, *until: str, policy: Policy | None = None, **more: Any) -> HookSettings:
    chosen = policy_for_until(policy or Policy())
    return HookSettings(policy=followed_policy(chosen), folder=folder / "hook", until=until, **more)


class HookedAgent:
    """An agent with a hook, in one session."""

    def __init__(
        self, agent: str, settings: HookSettings, work: Path, session: str = "s1", environ: Mapping[str, str] = {}
    ) -> None:
        self.agent, self.settings, self.work, self.session, self.environ = agent, settings, work, session, environ
        self.number = 0
        self.ended = ""
        """Why the hook has ended it."""
        self.said: list[str] = []
        """What its person was told."""
        self.told: list[str] = []
        """What its model was told."""
        self.denied = 0
        self.turn = 0

    def ask(self, name: str, **fields: Any) -> dict[str, Any]:
        """Ask the hook at an event with the name that Claude Code has for it, and return its answer."""
        own = {
            "claude": {"prompt_id": f"p{self.turn}", "permission_mode": "bypassPermissions"},
            "codex": {"turn_id": f"t{self.turn}", "model": "gpt-5.5"},
            "qwen": {"timestamp": "2026-11-29T14:38:07.078Z"},
            "gemini": {"timestamp": "2026-11-29T14:38:07.078Z"},
        }[self.agent]
        name = _GEMINI.get(name, name) if self.agent == "gemini" else name
        event = {"session_id": self.session, "cwd": str(self.work), "hook_event_name": name, **own, **fields}
        said = answer_event(json.dumps(event).encode(), self.settings, self.environ)
        answer: dict[str, Any] = json.loads(said) if said else {}
        if answer.get("continue") is False:
            self.ended = answer["stopReason"]
        if "systemMessage" in answer:
            self.said.append(answer["systemMessage"])
        context = answer.get("hookSpecificOutput", {}).get("additionalContext")
        if context:
            self.told.append(context)
        return answer

    def prompt(self, text: str) -> None:
        self.turn += 1
        self.ask("UserPromptSubmit", prompt=text)

    def begin(self, command: str) -> dict[str, Any]:
        self.number += 1
        return self.ask("PreToolUse", **self._call(command))

    def call(self, command: str, output: str, *, fails: bool = False) -> bool:
        """Make a call as the hook lets it. Return whether it ran."""
        answer = self.begin(command)
        denied = answer.get("decision") == "deny" or (
            answer.get("hookSpecificOutput", {}).get("permissionDecision") == "deny"
        )
        self.denied += denied
        if denied or (self.ended and self.agent == "gemini"):
            return False
        self.finish(command, output, fails=fails)
        return True

    def finish(self, command: str, output: str, *, fails: bool = False) -> dict[str, Any]:
        if self.agent == "claude" and fails:
            return self.ask("PostToolUseFailure", **self._call(command), error=f"Exit code 1\n{output}")
        return self.ask("PostToolUse", **self._call(command), tool_response=self._response(command, output))

    def _call(self, command: str) -> dict[str, Any]:
        tool = "Bash" if self.agent in ("claude", "codex") else "run_shell_command"
        call: dict[str, Any] = {"tool_name": tool, "tool_input": {"command": command}}
        return call if self.agent == "gemini" else {**call, "tool_use_id": f"id{self.number}"}

    def _response(self, command: str, output: str) -> Any:
        group = 20_000 + 37 * self.number  # differs each time
        match self.agent:
            case "claude":
                return {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
            case "codex":
                return f"{output}\n"
            case "qwen":
                text = f"Command: {command}\nDirectory: (root)\nOutput: {output}\nError: (none)\nExit Code: 0"
                return {"llmContent": f"{text}\nSignal: 0\nProcess Group PGID: {group}", "returnDisplay": output}
            case _:
                text = f"Output: {output}\nProcess Group PGID: {group}"
                return {
                    "llmContent": f"<untrusted_context>\n{text}\n</untrusted_context>",
                    "returnDisplay": output,
                }

    def end(self, text: str = "Done.", *, again: bool = False) -> str:
        """Come to the end, and return why the hook sends it on; empty if it lets it go."""
        goes_on = again or self.agent == "qwen"  # which says so at the first end, too
        name = "prompt_response" if self.agent == "gemini" else "last_assistant_message"
        answer = self.ask("Stop", stop_hook_active=goes_on, **{name: text})
        reason = str(answer.get("reason", ""))
        if reason and self.agent in ("qwen", "gemini"):
            self.ask("UserPromptSubmit", prompt=reason)  # what the hook says comes back as a prompt
        return reason

    @property
    def record(self) -> Path:
        return self.settings.folder / f"{self.session}.jsonl"

    @property
    def log(self) -> str:
        path = self.settings.folder / NAME
        return path.read_text(encoding="utf-8") if path.exists() else ""


def runs_of(record: Path) -> list[tuple[str | None, Outcome]]:
    """The prompt and the outcome of each run in a record."""
    runs = read_record(record).runs
    ends = [[event.outcome for event in run.events if isinstance(event, RunFinished)] for run in runs]
    return [(run.started.prompt, outcome) for run, (outcome,) in zip(runs, ends, strict=True)]


def circle(agent: HookedAgent, most: int = 20) -> Iterator[int]:
    """Make the same call until the agent is ended; yield the number of each call that is asked for."""
    for number in range(1, most + 1):
        agent.call("echo same", "same")
        yield number
        if agent.ended:
            return
