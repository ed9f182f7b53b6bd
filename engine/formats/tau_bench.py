"""Import of tau-bench results: OpenAI messages in `traj`, the verdict in `reward`, one session per task and trial.

A simulated user ends the session with `###STOP###`. It also ends with a transfer to a human agent, and after 30
responses. Actions written as text (`Action: {"name": ...}`) are read as tool calls.
Sources: tau-bench, `tau_bench/types.py`, `envs/base.py`, `agents/tool_calling_agent.py`, `agents/chat_react_agent.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..decision import ToolSpec
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, Unreadable
from .openai import add_message, parse_calls
from .parsing import as_dict, as_list, as_number, as_text, describe_failure, message_time
from .session_builder import SessionBuilder

STOP = "###STOP###"
MAX_RESPONSES = 30
"""Number of responses after which tau-bench ends a session."""
RESPOND = "respond"
TRANSFER = "transfer_to_human_agents"
TRANSFER_TOOL = ToolSpec(
    name=TRANSFER,
    description="Transfer the user to a human agent, with a summary of the user's issue.",
    parameters={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
)
"""Offered if the prompt mentions human agents. Other tools are known only from their calls."""
_USER_STOP = ImportedEnding(
    reason="custom:user_stop", status="completed", detail=f"the simulated user ended the session with {STOP}"
)
_RESULT_PREFIX = "API output: "
_SESSION_FIELDS = frozenset({"task_id", "trial", "reward", "traj", "info"})


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the sessions of one result or a list of results."""
    for one in data if isinstance(data, list) else [data]:
        yield _session(as_dict(one))


def matches(data: Any) -> bool:
    """Return whether these are results of tau-bench."""
    first = as_dict(as_list(data)[0] if as_list(data) else data)
    return isinstance(first.get("traj"), list) and ("reward" in first or "task_id" in first)


def _session(data: dict[str, Any]) -> ImportedSession:
    messages = as_list(data.get("traj"))
    if not messages:
        failure = as_text(as_dict(data.get("info")).get("error"))
        raise Unreadable(f"it contains no messages{f'; it failed with: {failure[:200]}' if failure else ''}")
    session = ImportedSession(id=_id(data), within_file=True, verdict=_verdict(data))
    for name in data:
        if name not in _SESSION_FIELDS:
            session.count_loss(f"field: {name[:40]}")
    if data.get("info"):
        session.count_loss("field: info")
    if "human agent" in as_text(as_dict(messages[0]).get("content")):
        session.tools = (TRANSFER_TOOL,)
    builder = SessionBuilder(session)
    in_text = _acts_in_text(messages)
    for place, message in enumerate(messages, 1):
        if place == len(messages) and _is_stop(message):
            session.count_dropped("last words", message)
            session.ending = _USER_STOP
        elif in_text:
            _add_text_action(builder, message)
        else:
            _add_message(builder, message)
    failure = describe_failure(as_dict(data.get("info")))
    if failure:
        session.ending = ImportedEnding(reason="custom:error", status="failed", detail=failure)
    elif session.ending is None and builder.steps >= MAX_RESPONSES and not _transferred(messages):
        session.ending = ImportedEnding(
            reason="step_limit", detail=f"tau-bench ends a session after {MAX_RESPONSES} responses"
        )
    return session


def _id(data: dict[str, Any]) -> str:
    fields = {"task": "task_id", "trial": "trial"}
    return ".".join(f"{name}-{as_text(data.get(field))}" for name, field in fields.items() if field in data)


def _verdict(data: dict[str, Any]) -> ImportedVerdict | None:
    reward = as_number(data.get("reward"))
    if reward is None:
        return None
    details = {"reward": reward, **{name: data[name] for name in ("task_id", "trial") if as_text(data.get(name))}}
    return ImportedVerdict(passed=reward >= 1 - 1e-6, name="tau-bench:reward", details=details)


def _is_stop(message: Any) -> bool:
    return as_dict(message).get("role") == "user" and STOP in as_text(message.get("content"))


def _transferred(messages: list[Any]) -> bool:
    return any(name == TRANSFER for message in messages[-2:] for _, name, _ in parse_calls(as_dict(message)))


def _add_message(builder: SessionBuilder, message: Any) -> None:
    """Add a message. The result of a failed call is recognised by its first words, which tau-bench writes."""
    entry = as_dict(message)
    content = entry.get("content")
    if entry.get("role") == "tool" and isinstance(content, str) and content.startswith(("Error", "Unknown action")):
        message = {**entry, "is_error": True}
    add_message(builder, message)


# ---- actions in text


def _acts_in_text(messages: list[Any]) -> bool:
    responses = [as_dict(message) for message in messages if as_dict(message).get("role") == "assistant"]
    return not any(parse_calls(message) for message in responses) and any(
        "Action:" in as_text(message.get("content")) for message in responses
    )


def _add_text_action(builder: SessionBuilder, message: Any) -> None:
    entry = as_dict(message)
    content = as_text(entry.get("content"))
    if entry.get("role") == "assistant":
        thought, _, written = content.rpartition("Action:")
        name, arguments = _parse_action(written.strip())
        if name == RESPOND:
            answer = as_text(as_dict(arguments).get("content")) if isinstance(arguments, dict) else arguments
            if thought.strip():
                builder.session.count_dropped("thought", thought.strip())
            builder.add_response(answer, reasoning=(), t=message_time(entry))
        else:
            calls = [(f"{builder.steps + 1}.0", name, msgspec.json.encode(arguments).decode())]
            builder.add_response(thought.strip(), calls, t=message_time(entry))
    elif builder.pending_calls and content.startswith(_RESULT_PREFIX):
        result = content[len(_RESULT_PREFIX) :]
        failed = result.startswith(("Error", "Unknown action"))
        builder.add_result("", "", result, "error" if failed else "ok", t=message_time(entry))
    else:
        add_message(builder, message)


def _parse_action(written: str) -> tuple[str, Any]:
    """Return the name and arguments of an action. Text that is not an action is a message to the user (`respond`)."""
    try:
        action = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return RESPOND, written
    named = as_dict(action)
    if not as_text(named.get("name")) or "arguments" not in named:
        return RESPOND, written
    return as_text(named["name"]), named["arguments"]
