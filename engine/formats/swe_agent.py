"""Import of SWE-agent trajectories (`.traj`): the conversation in `history`, the ending in `info`.

If the model wrote its actions as text instead of function calls, each action becomes a call: of the tool named by its
first word if that is one of SWE-agent's commands, otherwise of `bash`. The argument is the whole action. SWE-agent ends
a session at `submit`, so a `submit` after which the session went on was rejected.
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
from .content_blocks import message_reasoning, parse_content
from .imported_session import ImportedEnding, ImportedSession, RawCall, Unreadable
from .openai import parse_calls
from .parsing import as_dict, as_list, as_text, first_text, usage_from_counts
from .session_builder import SessionBuilder

SUBMIT = "submit"
BASH = "bash"
SUBMIT_TOOL = ToolSpec(name=SUBMIT, description="Submit the work and end the session.", parameters={"type": "object"})
"""The tool that every imported session offers. Other tools are known only from their calls."""
COMMANDS = frozenset(
    {
        "append", "create", "edit", "exit_forfeit", "filemap", "find_file", "goto", "image_editor", "insert", "open",
        "scroll_down", "scroll_up", "search_dir", "search_file", "str_replace_editor", "submit", "undo_edit",
        "view_image",
    }
)  # fmt: skip
"""Commands of SWE-agent, in addition to those that the system prompt documents."""
_SESSION_FIELDS = frozenset(
    {"attempts", "environment", "history", "info", "replay_config", "trajectory", "trajectory_format"}
)
_ENTRY_FIELDS = frozenset(
    {"action", "agent", "cache_control", "content", "execution_time", "extra_info", "function_call", "is_demo",
     "message_type", "messages", "observation", "query", "reasoning", "reasoning_content", "response", "role",
     "state", "tags", "thinking_blocks", "thought", "tool_call_id", "tool_call_ids", "tool_calls"}
)  # fmt: skip
"""Fields of an entry that are read or carry no content; others are counted as losses."""
_DOCUMENTED = re.compile(r"^(\w+):\n[ \t]+docstring:", re.MULTILINE)
_EXIT_STATUSES: dict[str, tuple[str, Any]] = {
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
"""Stop reason and status for each exit status. `submitted (X)` counts as X."""
_LETTERS = re.compile(r"\w")
_FENCES = Counter("bashDISCUSSION")
"""Letters of the markup around an action: a code block marked `bash` under the heading DISCUSSION."""


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a trajectory, or one session for each of its attempts."""
    if isinstance(data, list):
        for one in data:
            yield from sessions(one)
        return
    attempts = [as_dict(attempt) for attempt in as_list(as_dict(data).get("attempts"))]
    if not attempts:
        yield _session(as_dict(data), "")
    for count, attempt in enumerate(attempts, 1):
        yield _session(attempt, f"attempt-{count}")


def matches(data: Any) -> bool:
    """Return whether this is a trajectory of SWE-agent."""
    first = as_dict(as_list(data)[0] if as_list(data) else data)
    if as_list(first.get("attempts")):
        first = as_dict(first["attempts"][0])
    steps, history = as_list(first.get("trajectory")), as_list(first.get("history"))
    return any("observation" in as_dict(step) for step in steps[:3]) or any(
        "agent" in as_dict(entry) and "role" in as_dict(entry) for entry in history[:3]
    )


def _session(data: dict[str, Any], id: str) -> ImportedSession:
    info = as_dict(data.get("info"))
    session = ImportedSession(id=id, within_file=True, usage=_usage(as_dict(info.get("model_stats"))))
    session.model, session.tools = _model(data), (SUBMIT_TOOL,)
    status = as_text(info.get("exit_status"))
    history = [as_dict(entry) for entry in as_list(data.get("history"))] or list(_history_of(data))
    if not any(entry.get("role") == "assistant" for entry in history):
        raise Unreadable("it contains no response of the model")
    history += _missing_from_history(history, data, session)
    own = COMMANDS.union(*(_DOCUMENTED.findall(_text(entry, ImportedSession())) for entry in history[:3]))
    session.ending = _ending(status)
    session.count_unread_fields("field", data, _SESSION_FIELDS)
    only_texts = not any(_is_demo(entry) and entry.get("role") == "assistant" for entry in history)
    reader = _HistoryReader(SessionBuilder(session), own, only_texts)
    for entry in _without_exit(history, status, session):
        reader.read(entry)
    reader.finish(as_dict(next(reversed(as_list(data.get("trajectory"))), None)))
    _reject_early_submits(session)
    return session


def _missing_from_history(
    history: list[dict[str, Any]], data: dict[str, Any], session: ImportedSession
) -> list[dict[str, Any]]:
    """Return the last steps of the trajectory that are missing from the history, because the session broke off."""
    steps = [as_dict(step) for step in as_list(data.get("trajectory"))]
    spoken = [entry for entry in history if entry.get("role") == "assistant" and not _is_demo(entry)]
    if not as_list(data.get("history")) or not spoken or len(steps) <= len(spoken):
        return []
    latest = [place for place, step in enumerate(steps, 1) if _is_step(spoken[-1], step)]
    if not latest:
        for step in steps[len(spoken) :]:
            session.count_dropped("step", {"content": [step.get("response"), step.get("observation")]})
        return []
    for step in _unheard(steps[: latest[-1]], spoken):
        session.count_dropped("step", {"content": [step.get("response"), step.get("observation")]})
    known, more = steps[latest[-1] - 1], list(_steps_as_history(steps[latest[-1] :]))
    if more and history[-1] is spoken[-1] and "observation" in known:
        more.insert(0, {"role": "user", "content": known["observation"]})
    return more


def _unheard(steps: list[dict[str, Any]], spoken: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps missing from the middle of the history, if there are more steps than responses."""
    heard = 0
    for step in steps if len(steps) > len(spoken) else ():
        if heard < len(spoken) and _is_step(spoken[heard], step):
            heard += 1
        else:
            yield step


def _is_step(entry: dict[str, Any], step: dict[str, Any]) -> bool:
    """Return whether a history entry belongs to this step of the trajectory."""
    action = as_text(entry.get("action")).strip()
    if "action" in entry and action != as_text(step.get("action")).strip():
        return False
    texts = {as_text(step.get(name)).strip() for name in ("response", "thought")}
    same = {_text(entry, ImportedSession()).strip(), as_text(entry.get("thought")).strip()} & texts
    return bool(same) and bool(action or same - {""})


def _is_demo(entry: dict[str, Any]) -> bool:
    return entry.get("is_demo") is True or entry.get("message_type") == "demonstration"


def _reject_early_submits(session: ImportedSession) -> None:
    """Mark the results of each `submit` after which the session went on as rejected."""
    messages = session.messages
    last = max(index for index, one in enumerate(messages) if isinstance(one.message, AssistantMessage))
    for index, one in enumerate(messages[:last]):
        if isinstance(one.message, ToolResult) and one.message.name == SUBMIT:
            messages[index] = replace(one, message=replace(one.message, status="rejected"))


class _HistoryReader:
    """Reader that adds the entries of a history to a session."""

    def __init__(self, builder: SessionBuilder, own: frozenset[str], demonstrations: bool) -> None:
        self._builder = builder
        self._session = builder.session
        self._own = own
        self._keep_demonstrations = demonstrations
        """Whether demonstrations are texts for the system prompt, not whole conversations."""
        self._begun = False
        self._action = ""

    def read(self, entry: dict[str, Any]) -> None:
        text = _text(entry, self._session)
        self._session.count_unread_fields("message field", entry, _ENTRY_FIELDS)
        if _is_demo(entry):
            if self._keep_demonstrations:
                self._session.count_loss("demonstration")
                self._builder.add_system(text)
            else:
                self._session.count_dropped("demonstration", entry)
            return
        match entry.get("role"):
            case "system":
                self._builder.add_system(text)
            case "assistant":
                self._respond(entry, text)
            case "tool" | "user" if self._builder.pending_calls:
                self._answer(entry, text)
            case "user":
                self._builder.add_user([text], "nudge" if self._begun else "user")
                self._begun = True
            case "tool":
                self._session.count_dropped("result without a call", text)
            case role:
                self._session.count_unknown("role", role, text)

    def finish(self, last: dict[str, Any]) -> None:
        """Add the result of the last action, which only the trajectory has if the session ended with it."""
        if self._builder.pending_calls and as_text(last.get("action")).strip() == self._action.strip():
            self._builder.add_result("", "", as_text(last.get("observation")))

    def _respond(self, entry: dict[str, Any], text: str) -> None:
        self._action = as_text(entry.get("action"))
        calls = parse_calls(entry) or self._call_of(self._action)
        thought = as_text(entry.get("thought"))
        if calls and "thought" in entry and _is_only((thought, self._action), text):
            text = thought
        self._builder.add_response(text, calls, message_reasoning(entry))

    def _call_of(self, action: str) -> list[RawCall]:
        if not action.strip():
            return []
        name = action.split(maxsplit=1)[0]
        command = msgspec.json.encode({"command": action}).decode()
        return [(f"{self._builder.steps + 1}.0", name if name in self._own else BASH, command)]

    def _answer(self, entry: dict[str, Any], text: str) -> None:
        ids = [as_text(id) for id in as_list(entry.get("tool_call_ids"))] or [as_text(entry.get("tool_call_id"))]
        images = parse_content(entry.get("content"), ImportedSession(), pictures=True).images
        for id in ids:
            self._builder.add_result(id, "", text, images=images)


def _is_only(parts: Iterable[str], text: str) -> bool:
    """Return whether a response consists only of these parts and the markup around an action."""
    elsewhere = ""
    for part in parts:
        if part in text:
            text = text.replace(part, "", 1)  # checked first, because counting letters takes longer
        else:
            elsewhere += part
    return not (Counter(_LETTERS.findall(text)) - Counter(_LETTERS.findall(elsewhere)) - _FENCES)


def _text(entry: dict[str, Any], session: ImportedSession) -> str:
    return parse_content(entry.get("content"), session, pictures=True).text


def _history_of(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the history of a file that has only the steps of the trajectory."""
    steps = [as_dict(step) for step in as_list(data.get("trajectory"))]
    if steps:
        for entry in as_list(steps[0].get("query") or steps[0].get("messages")):
            yield as_dict(entry)
    yield from _steps_as_history(steps)


def _steps_as_history(steps: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the steps of the trajectory as history entries."""
    for step in steps:
        yield {"role": "assistant", "content": step.get("response"), **step}
        if "observation" in step:
            yield {"role": "user", "content": step["observation"]}


def _without_exit(history: list[dict[str, Any]], status: str, session: ImportedSession) -> list[dict[str, Any]]:
    """Return the history without the message that SWE-agent writes in the model's name after an error."""
    places = [place for place, entry in enumerate(history) if entry.get("role") == "assistant"]
    last = history[places[-1]]
    text = "" if as_text(last.get("action")).strip() else as_text(last.get("content"))
    own = text.startswith("Exit" if "exit" in status else "Exit due to ")
    if not own or len(places) < 2:
        return history
    if not status:
        session.ending = ImportedEnding(reason="custom:exit", status="exhausted", detail=text[:200])
    for entry in history[places[-1] :]:
        session.count_dropped("own words", entry)
    return history[: places[-1]]


def _ending(status: str) -> ImportedEnding | None:
    """Return the ending for an exit status; None for a plain `submitted`, for which the call suffices."""
    if not status or status == "submitted":
        return None
    inner = status.removeprefix("submitted").strip(" ()")
    named = re.sub(r"[^a-z0-9]+", "_", inner.lower())[:60].strip("_")
    broken = "error" in named or "fail" in named
    reason, ends_as = _EXIT_STATUSES.get(inner, (f"custom:{named or 'ended'}", "failed" if broken else "exhausted"))
    return ImportedEnding(reason=reason, status=ends_as, detail=f"SWE-agent's exit status: {status}")


def _usage(stats: dict[str, Any]) -> Usage | None:
    names = ("tokens_sent", "tokens_received", "instance_cost")
    sent, received, cost = (stats.get(name) for name in names)
    return usage_from_counts(sent, received, cost=cost)


def _model(data: dict[str, Any]) -> str:
    config = data.get("replay_config")
    if isinstance(config, str):
        try:
            config = msgspec.json.decode(config)
        except (msgspec.DecodeError, RecursionError):
            config = None
    agent = as_dict(as_dict(config).get("agent"))
    model = agent.get("model")
    return as_text(model) or first_text(as_dict(model), "name", "model_name")
