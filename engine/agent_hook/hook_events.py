"""The events of coding agents as their hooks get them: the JSON of each agent, read into one form.

Names and shapes are from recorded calls of hooks: Claude Code 2.1, Codex 0.169, Qwen Code 0.15 and Gemini CLI 0.61.
Those of Cursor are from its documentation. A plugin asks with the shapes of Claude Code and says `agent`. Fields that
are not known are ignored, and of an event that is not known nothing is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..decision.messages import ResultStatus

Agent = Literal["claude", "codex", "qwen", "gemini", "cursor", "plugin"]
"""Whose answers are accepted: that of a plugin is read by ourselves."""
EventKind = Literal["prompt", "tool_before", "tool_after", "end", "subagent_end", "session_end"]

_CLAUDE: dict[str, EventKind] = {
    "UserPromptSubmit": "prompt",
    "PreToolUse": "tool_before",
    "PostToolUse": "tool_after",
    "PostToolUseFailure": "tool_after",
    "Stop": "end",
    "SubagentStop": "subagent_end",
    "SessionEnd": "session_end",
}
_GEMINI: dict[str, EventKind] = {
    "BeforeAgent": "prompt",
    "BeforeTool": "tool_before",
    "AfterTool": "tool_after",
    "AfterAgent": "end",
}
_CURSOR: dict[str, EventKind] = {
    "beforeSubmitPrompt": "prompt",
    "preToolUse": "tool_before",
    "postToolUse": "tool_after",
    "postToolUseFailure": "tool_after",
    "stop": "end",
    "subagentStop": "subagent_end",
    "sessionEnd": "session_end",
}
KINDS: Mapping[str, EventKind] = {**_CLAUDE, **_GEMINI, **_CURSOR}
"""The kind of each event, by the agent's own name for it. Codex and Qwen Code use the names of Claude Code."""
VOLATILE = frozenset({"durationMs", "duration_ms", "totalDurationMs", "durationSeconds", "duration_seconds", "pid"})
"""Fields of a result that tell how long it took or which process it was. The model does not see them."""
LARGEST_RESULT = 2_000_000
"""Most characters of a result that are kept: what an agent shows its model is far shorter."""


class HookEvent(Struct, frozen=True, kw_only=True):
    """One event of an agent."""

    agent: Agent
    kind: EventKind
    name: str
    """The agent's own name of the event, which its answer repeats."""
    session: str
    """The agent's id of the session."""
    subagent: str = ""
    """Its id of the sub-agent in which it happened; empty for the main agent."""
    turn: str = ""
    """Its id of the prompt that it works on; empty if it does not say."""
    folder: str = ""
    call_id: str = ""
    tool: str = ""
    arguments: str = ""
    """The arguments of the call, as JSON."""
    result: str = ""
    """What the tool said, as far as the hook is told."""
    status: ResultStatus = "ok"
    text: str = ""
    """The prompt, or the latest text of the model."""
    goes_on: bool = False
    """Whether the agent says that a hook has sent it on before (`stop_hook_active`)."""
    model: str = ""
    program: str = ""
    """The agent's name for the record, such as `claude-code`."""


_PROGRAMS: Mapping[Agent, str] = {
    "claude": "claude-code",
    "codex": "codex",
    "qwen": "qwen-code",
    "gemini": "gemini-cli",
    "cursor": "cursor",
}


def read_event(given: bytes | str) -> HookEvent | None:
    """Return the event in what an agent has written to stdin; None for one from which nothing follows.

    Raises ValueError for what is not a JSON object, or has no session.
    """
    said: Any = msgspec.json.decode(given)
    if not isinstance(said, dict):
        raise ValueError(f"the event is no JSON object but {type(said).__name__}")
    name = _text(said, "hook_event_name")
    kind = KINDS.get(name)
    if kind is None:
        return None
    session = _text(said, "session_id") or _text(said, "conversation_id")
    if not session:
        raise ValueError(f"{name} names no session: session_id is missing")
    agent = _agent(said, name)
    failed = name.lower().endswith("failure")
    response = said.get("error_message", said.get("error")) if failed else said.get("tool_response")
    if response is None:
        response = said.get("tool_output", "")
    text = said.get("prompt") if kind == "prompt" else said.get("last_assistant_message", said.get("prompt_response"))
    return HookEvent(
        agent=agent,
        kind=kind,
        name=name,
        session=session,
        subagent=_text(said, "agent_id") or _text(said, "subagent_id"),
        turn=_text(said, "turn_id") or _text(said, "prompt_id") or _text(said, "generation_id"),
        folder=_text(said, "cwd") or next(iter(_texts(said.get("workspace_roots"))), ""),
        call_id=_text(said, "tool_use_id"),
        tool=_text(said, "tool_name"),
        arguments=_arguments(said.get("tool_input")),
        result=result_text(response) if kind == "tool_after" else "",
        status="error" if failed or _has_error(response) else "ok",
        text=text if isinstance(text, str) else "",
        goes_on=said.get("stop_hook_active") is True,
        model=_text(said, "model"),
        program=_PROGRAMS.get(agent) or _text(said, "agent"),
    )


def _agent(said: Mapping[str, Any], name: str) -> Agent:
    """Return the agent that writes such an event."""
    if _text(said, "agent"):
        return "plugin"
    if name in _GEMINI:
        return "gemini"
    if name in _CURSOR or "conversation_id" in said:
        return "cursor"
    if "turn_id" in said or "model" in said:
        return "codex"
    return "qwen" if "timestamp" in said else "claude"


def result_text(response: Any) -> str:
    """Return what a tool said, as nearly as possible as the model reads it, without what changes each time.

    That is the text itself, the text for the model beside the one for the screen (Qwen Code, Gemini CLI), the output
    and errors of a command (Claude Code), blocks of text (MCP), or else the JSON of the result.
    """
    if isinstance(response, str):
        text = response
    elif isinstance(response, list):
        text = _blocks(response)
    elif isinstance(response, dict):
        text = _structured(response)
    else:
        text = "" if response is None else _json(response)
    return text[:LARGEST_RESULT]


def _structured(response: dict[str, Any]) -> str:
    if "llmContent" in response:
        return result_text(response["llmContent"])
    if isinstance(response.get("stdout"), str) and isinstance(response.get("stderr"), str):
        return "\n".join(filter(None, (response["stdout"], response["stderr"])))
    if isinstance(response.get("content"), list | str):
        return result_text(response["content"])
    file = response.get("file")
    if isinstance(file, dict) and isinstance(file.get("content"), str):
        return str(file["content"])
    for name in ("text", "output"):
        if isinstance(response.get(name), str):
            return str(response[name])
    return _json(response)


def _blocks(blocks: list[Any]) -> str:
    """Return the texts of a list of blocks; its JSON if one of them has none."""
    texts = [block if isinstance(block, str) else _text(block, "text") for block in blocks]
    return "\n".join(texts) if all(texts) else _json(blocks)


def _json(value: Any) -> str:
    return msgspec.json.encode(_without_volatile(value), order="sorted").decode()


def _without_volatile(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_volatile(one) for name, one in value.items() if name not in VOLATILE}
        case list():
            return [_without_volatile(one) for one in value]
        case _:
            return value


def _has_error(response: Any) -> bool:
    """Return whether a result says of itself that the call failed."""
    return isinstance(response, dict) and bool(response.get("error") or response.get("is_error") is True)


def _arguments(given: Any) -> str:
    if isinstance(given, str):
        return given
    return "{}" if given is None else msgspec.json.encode(given, order="sorted").decode()


def _text(said: Any, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def _texts(values: Any) -> list[str]:
    return [one for one in values if isinstance(one, str)] if isinstance(values, list) else []
