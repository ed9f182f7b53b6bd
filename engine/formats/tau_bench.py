"""tau-bench: OpenAI's messages in `traj`, the benchmark's verdict in `reward`, one session for each task and trial.

The agent works for a simulated user, who ends the session with `###STOP###`; so does the tool that transfers to a
human, and the 30th response. An agent that writes its actions as text (`Action: {"name": ...}`) is heard as if it had
called them. Sources: tau-bench, `tau_bench/types.py`, `envs/base.py`, `agents/tool_calling_agent.py` and
`agents/chat_react_agent.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ..decision import ToolSpec
from .imported_session import Conversation, Ending, Foreign, Judged, Unreadable
from .openai import calls_of, hear
from .parsing import failure_in, first_time, listed, mapping, number, word

STOP = "###STOP###"
MOST_STEPS = 30
"""Responses after which tau-bench ends a session."""
RESPOND = "respond"
TRANSFER = "transfer_to_human_agents"
TRANSFERS = ToolSpec(
    name=TRANSFER,
    description="Transfer the user to a human agent, with a summary of the user's issue.",
    parameters={"type": "object", "properties": {"summary": {"type": "string"}}, "required": ["summary"]},
)
"""Offered wherever the prompt speaks of human agents; the other tools of a session are known when they are called."""
_USER_STOP = Ending(
    reason="custom:user_stop", status="completed", detail=f"the simulated user ended the session with {STOP}"
)
_RESULT = "API output: "
_READ = frozenset({"task_id", "trial", "reward", "traj", "info"})


def sessions(data: Any) -> Iterator[Foreign]:
    """The sessions in a list of results, or in one."""
    for one in data if isinstance(data, list) else [data]:
        yield _session(mapping(one))


def fits(data: Any) -> bool:
    """Whether these are results of tau-bench."""
    first = mapping(listed(data)[0] if listed(data) else data)
    return isinstance(first.get("traj"), list) and ("reward" in first or "task_id" in first)


def _session(data: dict[str, Any]) -> Foreign:
    messages = listed(data.get("traj"))
    if not messages:
        failure = word(mapping(data.get("info")).get("error"))
        raise Unreadable(f"it holds no messages{f'; it failed with: {failure[:200]}' if failure else ''}")
    foreign = Foreign(id=_id(data), within_file=True, judged=_judged(data))
    for name in data:
        if name not in _READ:
            foreign.lose(f"field: {name[:40]}")
    if data.get("info"):
        foreign.lose("field: info")
    if "human agent" in word(mapping(messages[0]).get("content")):
        foreign.tools = (TRANSFERS,)
    conversation = Conversation(foreign)
    in_text = _acts_in_text(messages)
    for place, message in enumerate(messages, 1):
        if place == len(messages) and _is_stop(message):
            foreign.leave_out("last words", message)
            foreign.ending = _USER_STOP
        elif in_text:
            _hear_text(conversation, message)
        else:
            _hear(conversation, message)
    failure = failure_in(mapping(data.get("info")))
    if failure:
        foreign.ending = Ending(reason="custom:error", status="failed", detail=failure)
    elif foreign.ending is None and conversation.steps >= MOST_STEPS and not _transferred(messages):
        foreign.ending = Ending(reason="step_limit", detail=f"tau-bench ends a session after {MOST_STEPS} responses")
    return foreign


def _id(data: dict[str, Any]) -> str:
    fields = {"task": "task_id", "trial": "trial"}
    return ".".join(f"{name}-{word(data.get(field))}" for name, field in fields.items() if field in data)


def _judged(data: dict[str, Any]) -> Judged | None:
    reward = number(data.get("reward"))
    if reward is None:
        return None
    details = {"reward": reward, **{name: data[name] for name in ("task_id", "trial") if word(data.get(name))}}
    return Judged(passed=reward >= 1 - 1e-6, name="tau-bench:reward", details=details)


def _is_stop(message: Any) -> bool:
    return mapping(message).get("role") == "user" and STOP in word(message.get("content"))


def _transferred(messages: list[Any]) -> bool:
    return any(name == TRANSFER for message in messages[-2:] for _, name, _ in calls_of(mapping(message)))


def _hear(conversation: Conversation, message: Any) -> None:
    """One message; what the environment answers to a call that failed says so in its first word."""
    entry = mapping(message)
    content = entry.get("content")
    if entry.get("role") == "tool" and isinstance(content, str) and content.startswith(("Error", "Unknown action")):
        message = {**entry, "is_error": True}
    hear(conversation, message)


# ---- actions in text


def _acts_in_text(messages: list[Any]) -> bool:
    responses = [mapping(message) for message in messages if mapping(message).get("role") == "assistant"]
    return not any(calls_of(message) for message in responses) and any(
        "Action:" in word(message.get("content")) for message in responses
    )


def _hear_text(conversation: Conversation, message: Any) -> None:
    entry = mapping(message)
    content = word(entry.get("content"))
    if entry.get("role") == "assistant":
        thought, _, written = content.rpartition("Action:")
        name, arguments = _action(written.strip())
        if name == RESPOND:
            said = word(mapping(arguments).get("content")) if isinstance(arguments, dict) else arguments
            if thought.strip():
                conversation.foreign.leave_out("thought", thought.strip())
            conversation.assistant(said, reasoning=(), t=first_time(entry))
        else:
            calls = [(f"{conversation.steps + 1}.0", name, msgspec.json.encode(arguments).decode())]
            conversation.assistant(thought.strip(), calls, t=first_time(entry))
    elif conversation.waiting and content.startswith(_RESULT):
        result = content[len(_RESULT) :]
        failed = result.startswith(("Error", "Unknown action"))
        conversation.result("", "", result, "error" if failed else "ok", t=first_time(entry))
    else:
        hear(conversation, message)


def _action(written: str) -> tuple[str, Any]:
    """The action that a text names; what is no action is a word to the user."""
    try:
        action = msgspec.json.decode(written)
    except (msgspec.DecodeError, RecursionError):
        return RESPOND, written
    named = mapping(action)
    if not word(named.get("name")) or "arguments" not in named:
        return RESPOND, written
    return word(named["name"]), named["arguments"]
