"""SWE-agent's trajectories (`.traj`): what the model was shown and said in `history`, how it ended in `info`.

Where the model called functions, these are the calls. Where it wrote its action as text, the action becomes a call:
of the tool by whose name it begins, if that is one of SWE-agent's own commands, else of `bash`; its argument is the
whole action. SWE-agent ends a session at `submit`, so a `submit` after which it went on was handed back.
Sources: SWE-agent, documentation "Output files", `sweagent/agent/agents.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from ..decision import AssistantMessage, ToolResult, ToolSpec, Usage
from .content_blocks import blocks_of, content_of
from .imported_session import Conversation, Ending, Foreign, RawCall, Unreadable
from .openai import calls_of
from .parsing import first_word, listed, mapping, number, word

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
_READ = frozenset({"attempts", "environment", "history", "info", "replay_config", "trajectory", "trajectory_format"})
_ENTRY = frozenset(
    {"action", "agent", "cache_control", "content", "execution_time", "extra_info", "function_call", "is_demo",
     "message_type", "messages", "observation", "query", "reasoning", "reasoning_content", "response", "role",
     "state", "tags", "thinking_blocks", "thought", "tool_call_id", "tool_call_ids", "tool_calls"}
)  # fmt: skip
"""Fields of an entry that are read, or say nothing of what was said; others are listed as lost."""
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
    history += _only_in_trajectory(history, data, foreign)
    own = COMMANDS.union(*(_DOCUMENTED.findall(_text(entry, Foreign())) for entry in history[:3]))
    foreign.ending = _ending(status)
    foreign.lose_fields("field", data, _READ)
    shown = not any(_is_demo(entry) and entry.get("role") == "assistant" for entry in history)
    ears = _Ears(Conversation(foreign), own, shown)
    for entry in _without_exit(history, status, foreign):
        ears.hear(entry)
    ears.finish(mapping(next(reversed(listed(data.get("trajectory"))), None)))
    _hand_back(foreign)
    return foreign


def _only_in_trajectory(history: list[dict[str, Any]], data: dict[str, Any], foreign: Foreign) -> list[dict[str, Any]]:
    """What stands in the trajectory and not in the history: the last steps, where the session broke off in one."""
    steps = [mapping(step) for step in listed(data.get("trajectory"))]
    spoken = [entry for entry in history if entry.get("role") == "assistant" and not _is_demo(entry)]
    if not listed(data.get("history")) or not spoken or len(steps) <= len(spoken):
        return []
    latest = [place for place, step in enumerate(steps, 1) if _is_step(spoken[-1], step)]
    if not latest:
        for step in steps[len(spoken) :]:
            foreign.leave_out("step", {"content": [step.get("response"), step.get("observation")]})
        return []
    known, more = steps[latest[-1] - 1], list(_told(steps[latest[-1] :]))
    if more and history[-1] is spoken[-1] and "observation" in known:
        more.insert(0, {"role": "user", "content": known["observation"]})
    return more


def _is_step(entry: dict[str, Any], step: dict[str, Any]) -> bool:
    """Whether an entry of the history is this step of the trajectory."""
    action = word(entry.get("action")).strip()
    if "action" in entry and action != word(step.get("action")).strip():
        return False
    said = {word(step.get(name)).strip() for name in ("response", "thought")}
    same = {_text(entry, Foreign()).strip(), word(entry.get("thought")).strip()} & said
    return bool(same) and bool(action or same - {""})


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
        self._foreign.lose_fields("message field", entry, _ENTRY)
        if _is_demo(entry):
            if self._demonstrations:
                self._foreign.lose("demonstration")
                self._conversation.system(text)
            else:
                self._foreign.leave_out("demonstration", entry)
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
                kind = "result without a call" if role == "tool" else f"role: {word(role)[:40] or 'none'}"
                self._foreign.leave_out(kind, text)

    def finish(self, last: dict[str, Any]) -> None:
        """The result of the last action is in the trajectory alone, where the loop ended on it."""
        if self._conversation.waiting and word(last.get("action")).strip() == self._action.strip():
            self._conversation.result("", "", word(last.get("observation")))

    def _respond(self, entry: dict[str, Any], text: str) -> None:
        self._action = word(entry.get("action"))
        calls = calls_of(entry) or self._call_of(self._action)
        thought = word(entry.get("thought"))
        if calls and "thought" in entry and _is_all(thought + self._action, text):
            text = thought
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


def _is_all(parts: str, text: str) -> bool:
    """Whether a response holds nothing but these parts, in the marks that stand around an action."""
    return not (Counter(_LETTERS.findall(text)) - Counter(_LETTERS.findall(parts)) - _FENCES)


_LETTERS = re.compile(r"\w")
_FENCES = Counter("bashDISCUSSION")
"""Letters of the marks themselves."""


def _text(entry: dict[str, Any], foreign: Foreign) -> str:
    return content_of(entry.get("content"), foreign, pictures=True).text


def _history_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The history of a file that holds only the steps, each with what the model was shown."""
    steps = [mapping(step) for step in listed(data.get("trajectory"))]
    if steps:
        for shown in listed(steps[0].get("query") or steps[0].get("messages")):
            yield mapping(shown)
    yield from _told(steps)


def _told(steps: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Steps of a trajectory as entries of a history."""
    for step in steps:
        yield {"role": "assistant", "content": step.get("response"), **step}
        if "observation" in step:
            yield {"role": "user", "content": step["observation"]}


def _without_exit(history: list[dict[str, Any]], status: str, foreign: Foreign) -> list[dict[str, Any]]:
    """The history without the words that SWE-agent itself says, in the model's name, when an error ends a session."""
    places = [place for place, entry in enumerate(history) if entry.get("role") == "assistant"]
    last = history[places[-1]]
    said = "" if word(last.get("action")).strip() else word(last.get("content"))
    own = said.startswith("Exit" if "exit" in status else "Exit due to ")
    if not own or len(places) < 2:
        return history
    if not status:
        foreign.ending = Ending(reason="custom:exit", status="exhausted", detail=said[:200])
    for entry in history[places[-1] :]:
        foreign.leave_out("own words", entry)
    return history[: places[-1]]


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
