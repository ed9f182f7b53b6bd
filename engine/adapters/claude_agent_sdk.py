"""The Claude Agent SDK: hooks for a session of Claude Code.

    from endstop.adapters.claude_agent_sdk import Endstop
    endstop = Endstop(policy="agent", completion=("finish_task",), record="run.jsonl")
    options = ClaudeAgentOptions(..., hooks=endstop.hooks())

The loop is in Claude Code, a separate program, so hooks see calls, results and the last text, but no response while it
streams: cutting responses is left to the proxy. `PostToolBatch` comes once all calls of a response have results, so it
reports the step and decides; `PostToolUse` says which calls succeeded; `Stop` and `SubagentStop` decide after a
response without calls. A run is one prompt with what follows; each sub-agent has its own run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ..decision import GoOn, Policy, Stop, ToolCall, ToolResult
from ..follow import Follower
from ..formats.parsing import as_dict, as_json, as_list, as_text
from .followed_run import MOST_RUNS, STATUSES_OF_ITS_OWN, AdapterOptions, FollowedRun, FollowedRuns
from .missing_framework import MissingFramework

try:
    from claude_agent_sdk import HookMatcher
except ModuleNotFoundError as error:
    Base: Any = MissingFramework("claude-agent-sdk", error)
else:
    Base = object

Answer = dict[str, Any]
"""The answer of a hook; an empty one changes nothing."""
CHECK_MARGIN = 60.0
"""Seconds that a hook may take in addition to the check."""
SERVER_PREFIX = "mcp__"
"""The prefix of the name of an MCP server's tool: `mcp__SERVER__TOOL`."""


class EndstopSessionHooks(Base):
    """Hooks that follow each prompt of their sessions, nudge it, and end it.

    options: see `AdapterOptions`. `completion` and `question` name tools as Claude Code does, or those of an MCP server
    without its prefix. Hooks do not learn which tools exist, so usual names are not recognised. `stream` has no effect.
    """

    def __init__(self, policy: Policy | str = "agent", **options: Unpack[AdapterOptions]) -> None:
        self.runs = FollowedRuns("claude-agent-sdk", policy, options)
        self._named = {*options.get("completion", ()), *options.get("question", ())}
        until = self.runs.until
        self._timeout = None if until is None else until.timeout + CHECK_MARGIN
        """Seconds that a hook may take; None for Claude Code's own default."""
        self._reports: dict[tuple[str, str], str] = {}
        """Why sub-agents were ended here, for the agent above them, which does not learn it otherwise."""

    def hooks(self, others: Mapping[Any, Sequence[Any]] | None = None) -> dict[Any, list[Any]]:
        """Return the hooks for `ClaudeAgentOptions(hooks=...)`. others: your other hooks by event, which are kept."""
        callbacks = {
            "UserPromptSubmit": self.on_prompt,
            "SubagentStart": self.on_subagent_start,
            "PostToolUse": self.on_result,
            "PostToolBatch": self.on_step,
            "Stop": self.on_stop,
            "SubagentStop": self.on_stop,
            "StopFailure": self.on_failure,
        }
        hooks = {event: list(matchers) for event, matchers in (others or {}).items()}
        for event, callback in callbacks.items():
            hooks.setdefault(event, []).append(HookMatcher(hooks=[callback], timeout=self._timeout))
        return hooks

    # ---- hooks

    async def on_prompt(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Handle a message of the user, or Claude Code's message that a background task has ended."""
        text, run = event["prompt"], self._run(event)
        run.guarded(lambda follower: follower.prompt(text))
        stop = None if run.responses else await run.start()
        if stop is not None:
            return self._stop(event, run, stop)
        told = [self._reports.pop(key) for key in list(self._reports) if key[0] == _key(event)[0] and key[1] in text]
        return _context("UserPromptSubmit", "\n".join(told))

    async def on_subagent_start(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Handle the start of a sub-agent. Its prompt follows later, if at all."""
        self._run(event)
        return {}

    async def on_result(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Handle a successful call. That of a sub-agent tells its prompt, or that it has ended."""
        self._run(event).seen.add(event["tool_use_id"])
        key = (event["session_id"], as_text(as_dict(event["tool_response"]).get("agentId")))
        below = self.runs.get(key)
        prompt = as_text(as_dict(event["tool_input"]).get("prompt"))
        if key[1] and below is not None and not below.responses and prompt:
            below.guarded(lambda follower: follower.prompt(prompt))
        return _context("PostToolUse", self._reports.pop(key, ""))

    async def on_step(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Report the step once all calls of a response have results, and decide."""
        run = self._run(event)
        calls = [(self._name(one["tool_name"]), one) for one in event["tool_calls"]]
        run.responses += 1
        run.guarded(lambda follower: _tell_step(follower, run, calls))
        decision = await run.decide()
        if isinstance(decision, Stop):
            return self._stop(event, run, decision)
        return _context("PostToolBatch", _words(run, decision))

    async def on_stop(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Handle a response without calls, with which the agent would end: ask it to go on, or let it end."""
        run, text = self._run(event), event.get("last_assistant_message") or ""
        run.responses += 1
        run.guarded(lambda follower: follower.response(text, finish="stop"))
        if any(task.get("type") == "subagent" for task in event.get("background_tasks") or ()):
            return {}  # it waits for them, and goes on when they have ended
        decision = await run.decide()
        words = _words(run, decision)
        if isinstance(decision, GoOn) and decision.say:
            return {"decision": "block", "reason": words}
        stopped = isinstance(decision, Stop) and decision.final_status not in STATUSES_OF_ITS_OWN
        told = {"systemMessage": run.end_text(decision)} if isinstance(decision, Stop) and stopped else {}
        self.runs.end(_key(event))
        return told

    async def on_failure(self, event: Any, tool_use_id: str | None, context: Any) -> Answer:
        """Handle a request that failed for good, after which the agent ends."""
        run, text = self._run(event), event.get("last_assistant_message") or as_text(event.get("error"))
        run.guarded(lambda follower: follower.failed(text))
        self.runs.end(_key(event))
        return {}

    def close(self) -> None:
        """End the runs that no hook has ended, such as those that came to `max_turns`."""
        self.runs.close()

    # ---- runs

    def _run(self, event: Any) -> FollowedRun:
        """Return the run that a hook is about; a new one if none is open."""
        key = _key(event)
        return self.runs.get(key) or self.runs.open(key, checked=not key[1])

    def _stop(self, event: Any, run: FollowedRun, stop: Stop) -> Answer:
        """End the run, and return the answer of a hook that ends the agent."""
        text = run.end_text(stop)
        self.runs.end(_key(event))
        self._report(_key(event), text)
        return {"continue_": False, "stopReason": text, "systemMessage": text}

    def _report(self, key: tuple[str, str], text: str) -> None:
        """Keep why a sub-agent was ended, until the agent above hears of it; the oldest is given up for another."""
        if key[1]:
            self._reports[key] = text
        while len(self._reports) > MOST_RUNS:
            self._reports.pop(next(iter(self._reports)))

    def _name(self, name: str) -> str:
        """Return a tool's name as the options spell it."""
        short = name.split("__", 2)[-1] if name.startswith(SERVER_PREFIX) else name
        return short if short in self._named else name


def _key(event: Any) -> tuple[str, str]:
    return event["session_id"], event.get("agent_id") or ""


def _tell_step(follower: Follower, run: FollowedRun, calls: list[tuple[str, Any]]) -> None:
    """Tell a response by its calls, and their results: those that no `PostToolUse` came for have failed."""
    made = [ToolCall(one["tool_use_id"], name, as_json(one["tool_input"])) for name, one in calls]
    follower.response("", made, finish="tool_calls")
    for name, one in calls:
        status = "ok" if one["tool_use_id"] in run.seen else "error"
        follower.result(ToolResult(one["tool_use_id"], name, _text(one.get("tool_response")), status))  # type: ignore[arg-type]


def _text(response: Any) -> str:
    """Return a result as the model gets it, given as a text or as blocks."""
    if isinstance(response, list):
        return "\n".join(as_text(as_dict(block).get("text")) for block in as_list(response))
    return response if isinstance(response, str) else as_json(response)


def _words(run: FollowedRun, decision: Any) -> str:
    """Return what a decision tells the model. A reminder stays in the history here, like a nudge."""
    say = decision.say if isinstance(decision, GoOn) else ""
    return "\n".join(text for text in (say, run.take_reminder()) if text)


def _context(event: str, text: str) -> Answer:
    """Return an answer that adds words for the model, in the user's role, to the event of the hook."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}} if text else {}


Endstop = EndstopSessionHooks
"""The adapter under the name that all adapters have."""
