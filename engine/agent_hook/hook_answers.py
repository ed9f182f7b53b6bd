"""What a hook answers: the JSON that an agent accepts for what was decided.

`ACCEPTED` is the table of what each agent does with it. An agent that gets a field that it does not know may fail the
hook and go on (Codex), so nothing is sent beyond the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from .hook_events import Agent, EventKind, HookEvent

Does = Literal["tell", "deny", "end", "send_on", "say"]


class HookAnswer(Struct, frozen=True, kw_only=True):
    """What was decided at an event."""

    tell: str = ""
    """What the model is told as context."""
    deny: str = ""
    """Why the call does not run, for the model."""
    end: str = ""
    """Why the agent is to end, for the person."""
    send_on: str = ""
    """Why the agent is not to end, for the model."""
    say: str = ""
    """What is said to the person."""


class Accepted(Struct, frozen=True, kw_only=True):
    """What an agent accepts of a hook."""

    tell: frozenset[EventKind] = frozenset()
    """Events at which a text reaches the model."""
    end: frozenset[EventKind] = frozenset()
    """Events at which the hook can end the agent."""
    say: frozenset[EventKind] = frozenset()
    """Events at which a text reaches the person."""
    style: Literal["claude", "gemini", "cursor"] = "claude"
    """Whose fields it reads."""
    loop_limit: int | None = None
    """Number of times in a row that it lets a hook send it on; None without a limit of its own."""


_TOOLS: frozenset[EventKind] = frozenset({"tool_before", "tool_after"})
_ALL: frozenset[EventKind] = frozenset({"prompt", "tool_before", "tool_after", "end", "subagent_end"})
ACCEPTED: Mapping[Agent, Accepted] = {
    "claude": Accepted(tell=frozenset({"tool_after"}), end=_TOOLS, say=_ALL, loop_limit=8),
    "codex": Accepted(tell=frozenset({"tool_after"}), say=_ALL),
    "qwen": Accepted(tell=frozenset({"tool_after"}), say=_ALL),
    "gemini": Accepted(tell=frozenset({"tool_after"}), end=_TOOLS, say=_ALL, style="gemini"),
    "cursor": Accepted(tell=frozenset({"tool_after"}), style="cursor", loop_limit=5),
    "plugin": Accepted(tell=frozenset({"tool_after"}), end=_TOOLS, say=_ALL),
}
"""What each agent accepts. Cursor's row was only read, in its documentation; the others were tried."""


def can(agent: Agent, does: Literal["tell", "end", "say"], kind: EventKind) -> bool:
    """Return whether an agent does this at such an event."""
    events: frozenset[EventKind] = getattr(ACCEPTED[agent], does)
    return kind in events


def answer_json(event: HookEvent, answer: HookAnswer) -> dict[str, Any]:
    """Return the JSON for an answer; empty if there is nothing to say. What the agent does not accept is left out."""
    match ACCEPTED[event.agent].style:
        case "claude":
            return _claude(event, answer)
        case "gemini":
            return _gemini(event, answer)
        case "cursor":
            return _cursor(answer)


def _claude(event: HookEvent, answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if answer.deny:
        said["hookSpecificOutput"] = {
            "hookEventName": event.name,
            "permissionDecision": "deny",
            "permissionDecisionReason": answer.deny,
        }
    elif answer.end and can(event.agent, "end", event.kind):  # beside a denial it is ignored
        said |= {"continue": False, "stopReason": answer.end}
    elif answer.tell and can(event.agent, "tell", event.kind):
        said["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": answer.tell}
    if answer.send_on:
        said |= {"decision": "block", "reason": answer.send_on}
    return _with_message(said, event, answer)


def _gemini(event: HookEvent, answer: HookAnswer) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if answer.end:
        said |= {"continue": False, "stopReason": answer.end}
    elif answer.deny or answer.send_on:
        said |= {"decision": "deny" if answer.deny else "block", "reason": answer.deny or answer.send_on}
    elif answer.tell and can(event.agent, "tell", event.kind):
        said["hookSpecificOutput"] = {"hookEventName": event.name, "additionalContext": answer.tell}
    return _with_message(said, event, answer)


def _with_message(said: dict[str, Any], event: HookEvent, answer: HookAnswer) -> dict[str, Any]:
    if answer.say and can(event.agent, "say", event.kind):
        said["systemMessage"] = answer.say
    return said


def _cursor(answer: HookAnswer) -> dict[str, Any]:
    if answer.deny:
        return {"permission": "deny", "user_message": answer.say or answer.deny, "agent_message": answer.deny}
    if answer.send_on:
        return {"followup_message": answer.send_on}
    return {"additional_context": answer.tell} if answer.tell else {}
