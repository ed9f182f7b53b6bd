"""SWE-agent's trajectories (`.traj`): what the model was shown and said in `history`, how it ended in `info`.

Where the model called functions, these are the calls. Where it wrote its action as text, the action becomes a call:
of the tool by whose name it begins, if that is one of SWE-agent's own commands, else of `bash`; its argument is the
whole action. SWE-agent ends a session at `submit`, so a `submit` after which it went on was handed back.
Sources: SWE-agent, documentation "Output files", `sweagent/agent/agents.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from ...decision import AssistantMessage, ToolResult, ToolSpec, Usage
from .conversation import Conversation, RawCall
from .foreign import Ending, Foreign, Unreadable
from .loose import first_word, listed, mapping, number, word
from .openai import calls_of
from .parts import blocks_of, content_of

SUBMIT = "submit"
BASH = "bash"
SUBMITS = ToolSpec(name=SUBMIT, description="Submit the work and end the session.", parameters={"type": "object"})
"""Always offered; the other tools of a session are known when they are called."""
COMMANDS = frozenset(
    {
        "append", "create", "edit", "exit_forfeit", "filemap", "find_file", "goto", "image_editor", "insert", "open",
        "scroll_down", "scroll_up", "search_dir", "search_file", "str_replace_editor", "submit", "undo_edit",
        "view_image",
    }
)  # fmt: skip
"""SWE-agent's own commands; those that a system prompt documents come to them."""
_DOCUMENTED = re.compile(r"^(\w+):\n[ \t]+docstring:", re.MULTILINE)
_ENDINGS: dict[str, tuple[str, Any]] = {
    "exit_cost": ("cost_limit", None),
    "exit_context": ("token_limit", None),
    "exit_total_execution_time": ("time_limit", None),
    "exit_command_timeout": ("time_limit", None),
    "exit_format": ("invalid_calls", None),
    "exit_api": ("provider_error", None),
    "exit_environment_error": ("custom:environment_error", "failed"),
    "exit_error": ("custom:error", "failed"),
    "exit_forfeit": ("custom:forfeit", "exhausted"),
    "exit_command": ("custom:exit_command", "completed"),
    "early_exit": ("custom:early_exit", "exhausted"),
}
"""Exit statuses, and what they are for us. One that stands in brackets behind `submitted` ended the session, too."""


def sessions(data: Any) -> Iterator[Foreign]:
    """The session of a trajectory; each attempt of one that was tried several times."""
    if isinstance(data, list):
        for one in data:
            yield from sessions(one)
        return
    attempts = [mapping(attempt) for attempt in listed(mapping(data).get("attempts"))]
    if not attempts:
        yield _session(mapping(data), "")
    for count, attempt in enumerate(attempts, 1):
        yield _session(attempt, f"attempt-{count}")


def fits(data: Any) -> bool:
    """Whether this is a trajectory of SWE-agent."""
    first = mapping(listed(data)[0] if listed(data) else data)
    if listed(first.get("attempts")):
        first = mapping(first["attempts"][0])
    steps, history = listed(first.get("trajectory")), listed(first.get("history"))
    return any("observation" in mapping(step) for step in steps[:3]) or any(
        "agent" in mapping(entry) and "role" in mapping(entry) for entry in history[:3]
    )


def _session(data: dict[str, Any], id: str) -> Foreign:
    info = mapping(data.get("info"))
    foreign = Foreign(id=id, within_file=True, usage=_usage(mapping(info.get("model_stats"))))
    foreign.model, foreign.tools = _model(data), (SUBMITS,)
    status = word(info.get("exit_status"))
    history = [mapping(entry) for entry in listed(data.get("history"))] or list(_history_of(data))
    if not any(entry.get("role") == "assistant" for entry in history):
        raise Unreadable("it holds no response of the model")
    own = COMMANDS.union(*(_DOCUMENTED.findall(_text(entry, foreign)) for entry in history[:3]))
    foreign.ending = _ending(status)
    shown = not any(_is_demo(entry) and entry.get("role") == "assistant" for entry in history)
    ears = _Ears(Conversation(foreign), own, shown)
    for entry in _without_exit(history, status):
        ears.hear(entry)
    ears.finish(mapping(next(reversed(listed(data.get("trajectory"))), None)))
    _hand_back(foreign)
    return foreign


def _is_demo(entry: dict[str, Any]) -> bool:
    return entry.get("is_demo") is True or entry.get("message_type") == "demonstration"


def _hand_back(foreign: Foreign) -> None:
    """Mark the results of each `submit` after which the session went on: it was not accepted."""
    said = foreign.said
    last = max(place for place, one in enumerate(said) if isinstance(one.message, AssistantMessage))
    for place, one in enumerate(said[:last]):
        if isinstance(one.message, ToolResult) and one.message.name == SUBMIT:
            said[place] = replace(one, message=replace(one.message, status="rejected"))


class _Ears:
    """Hears the entries of a history."""

    def __init__(self, conversation: Conversation, own: frozenset[str], demonstrations: bool) -> None:
        self._conversation = conversation
        self._foreign = conversation.foreign
        self._own = own
        self._demonstrations = demonstrations
        """Whether demonstrations are texts that were shown, and not messages of a conversation."""
        self._begun = False
        self._action = ""

    def hear(self, entry: dict[str, Any]) -> None:
        text = _text(entry, self._foreign)
        if _is_demo(entry):
            self._foreign.lose("demonstration")
            self._conversation.system(text if self._demonstrations else "")
            return
        match entry.get("role"):
            case "system":
                self._conversation.system(text)
            case "assistant":
                self._respond(entry, text)
            case "tool" | "user" if self._conversation.waiting:
                self._answer(entry, text)
            case "user":
                self._conversation.user(text, "nudge" if self._begun else "user")
                self._begun = True
            case role:
                self._foreign.lose("result without a call" if role == "tool" else f"role: {word(role)[:40] or 'none'}")

    def finish(self, last: dict[str, Any]) -> None:
        """The result of the last action is in the trajectory alone, where the loop ended on it."""
        if self._conversation.waiting and word(last.get("action")).strip() == self._action.strip():
            self._conversation.result("", "", word(last.get("observation")))

    def _respond(self, entry: dict[str, Any], text: str) -> None:
        self._action = word(entry.get("action"))
        calls = calls_of(entry) or self._call_of(self._action)
        if calls and "thought" in entry:
            text = word(entry.get("thought"))
        self._conversation.assistant(text, calls, blocks_of(entry))

    def _call_of(self, action: str) -> list[RawCall]:
        if not action.strip():
            return []
        name = action.split(maxsplit=1)[0]
        command = msgspec.json.encode({"command": action}).decode()
        return [(f"{self._conversation.steps + 1}.0", name if name in self._own else BASH, command)]

    def _answer(self, entry: dict[str, Any], text: str) -> None:
        ids = [word(id) for id in listed(entry.get("tool_call_ids"))] or [word(entry.get("tool_call_id"))]
        images = content_of(entry.get("content"), Foreign(), pictures=True).images
        for id in ids:
            self._conversation.result(id, "", text, images=images)


def _text(entry: dict[str, Any], foreign: Foreign) -> str:
    return content_of(entry.get("content"), foreign, pictures=True).text


def _history_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The history of a file that holds only the steps, each with what the model was shown."""
    steps = [mapping(step) for step in listed(data.get("trajectory"))]
    if steps:
        for shown in listed(steps[0].get("query") or steps[0].get("messages")):
            yield mapping(shown)
    for step in steps:
        yield {"role": "assistant", "content": step.get("response"), **step}
        if "observation" in step:
            yield {"role": "user", "content": step["observation"]}


def _without_exit(history: list[dict[str, Any]], status: str) -> list[dict[str, Any]]:
    """The history without the words that SWE-agent itself says, in the model's name, when an error ends a session."""
    if "exit" not in status:
        return history
    places = [place for place, entry in enumerate(history) if entry.get("role") == "assistant"]
    last = history[places[-1]]
    own = not last.get("action") and word(last.get("content")).startswith("Exit")
    return history[: places[-1]] if own and len(places) > 1 else history


def _ending(status: str) -> Ending | None:
    """How it ended, by its exit status; a plain `submitted` is told by the call."""
    if not status or status == "submitted":
        return None
    inner = status.removeprefix("submitted").strip(" ()")
    named = re.sub(r"[^a-z0-9]+", "_", inner.lower())[:60].strip("_")
    broken = "error" in named or "fail" in named
    reason, ends_as = _ENDINGS.get(inner, (f"custom:{named or 'ended'}", "failed" if broken else "exhausted"))
    return Ending(reason=reason, status=ends_as, detail=f"SWE-agent's exit status: {status}")


def _usage(stats: dict[str, Any]) -> Usage | None:
    names = ("tokens_sent", "tokens_received", "instance_cost")
    sent, received, cost = (max(0, number(stats.get(name)) or 0) for name in names)
    if not (sent or received):
        return None
    return Usage(input_tokens=int(sent), output_tokens=int(received), cost_usd=cost if cost > 0 else None)


def _model(data: dict[str, Any]) -> str:
    config = data.get("replay_config")
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except (msgspec.DecodeError, RecursionError):
            config = None
    agent = mapping(mapping(config).get("agent"))
    model = agent.get("model")
    return word(model) or first_word(mapping(model), "name", "model_name")
