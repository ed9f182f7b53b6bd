"""Import of OpenHands sessions before its SDK: lists of actions and observations, and evaluation rows with such lists.

An action keeps the model's response in `tool_call_metadata`, so the actions of one response are one step. Actions
without it are calls by their name, or plain messages; an observation is the result of the action that is its `cause`.
Internal events of the program (states, recalls) and events of delegates are left out. A conversation's folder has a
file for each event. Source: OpenHands, `openhands/events/serialization`, `evaluation/utils/shared.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ..decision import Image, Usage, UserMessage
from ..decision.messages import ResultStatus
from .content_blocks import message_reasoning, parse_content
from .file_values import FileValue, decode_json
from .imported_session import ImportedEnding, ImportedSession, ImportedVerdict, Unreadable, without_repeated_lines
from .openai import parse_calls, parse_tools
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text, parse_time, parse_usage
from .session_builder import SessionBuilder

_SOURCES = ("agent", "user", "environment")
_MACHINERY = frozenset(
    {"agent_state_changed", "change_agent_state", "null", "recall", "condensation", "condensation_request", "pause",
     "resume", "loop_recovery", "task_tracking_state"}
)  # fmt: skip
"""Actions and observations that were not shown to a model as its own, or that only the program sees."""
_ROW_FIELDS = frozenset({"instance_id", "instruction", "history", "metadata", "error", "report", "resolved"})
_EVENT_FIELDS = frozenset(
    {"id", "timestamp", "source", "message", "action", "observation", "args", "content", "extras", "cause",
     "tool_call_metadata", "llm_metrics", "timeout", "success"}
)  # fmt: skip
_ARGUMENTS_ASIDE = frozenset(
    {"thought", "confirmation_state", "security_risk", "hidden", "blocking", "is_confirmed", "impl_source"}
)
"""Arguments of an action that are not part of the call."""
_ENDINGS: tuple[tuple[str, str], ...] = (
    ("maximum iteration", "step_limit"),
    ("maximum budget", "cost_limit"),
    ("StuckInLoop", "stuck"),
    ("stuck in a loop", "stuck"),
)
"""Words in an error that name the limit that ended a session, with the stop reason."""
_EVENT_FILE = re.compile(r"(?:event-)?\d+(?:-[\w-]+)?\.json\Z")


def is_line(data: Any) -> bool:
    """Return whether this is an event."""
    event = as_dict(data)
    told = isinstance(event.get("action"), str) or isinstance(event.get("observation"), str)
    return told and as_text(event.get("source")) in _SOURCES and "timestamp" in event and "kind" not in event


def matches(data: Any) -> bool:
    """Return whether these are events, or a row of an evaluation with events."""
    if isinstance(data, list):
        return any(is_line(event) for event in _flat(data[:5]))
    return any(is_line(event) for event in _flat(as_list(as_dict(data).get("history"))[:5]))


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of these events, or of a row of an evaluation."""
    if not matches(data):
        raise Unreadable("it contains no OpenHands events")
    row = {} if isinstance(data, list) else data
    reader = _EventReader(row)
    for event in without_repeated_lines(_flat(data if isinstance(data, list) else row["history"]), reader.session):
        reader.add_event(as_dict(event))
    reader.finish(as_text(row.get("error")))
    yield reader.session


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the events of a conversation's folder in order; None for any other path."""
    return read_event_folder(path, is_line)


def read_event_folder(path: Path, is_event: Callable[[Any], bool]) -> Iterator[FileValue] | None:
    """Return the events of a folder with one file per event, ordered by number; None for any other path."""
    folder = path / "events"
    if not path.is_dir() or not folder.is_dir():
        return None
    files = sorted((file for file in folder.iterdir() if _EVENT_FILE.match(file.name)), key=_number)
    return _read_files(path, files) if any(map(is_event, _first_events(files))) else None


def _first_events(files: list[Path]) -> Iterator[Any]:
    """Yield the content of the first few files, as far as it can be read."""
    for file in files[:3]:
        try:
            yield decode_json(file.read_bytes())
        except (Unreadable, OSError):
            continue


def _number(file: Path) -> int:
    return int(re.findall(r"\d+", file.name)[0])


def _read_files(path: Path, files: list[Path]) -> Iterator[FileValue]:
    events = []
    for file in files:
        try:
            events.append(decode_json(file.read_bytes()))
        except (Unreadable, OSError) as error:
            yield FileValue(place=f"events/{file.name}", error=str(error))
    yield FileValue(place=path.name, data=events)


def _flat(history: list[Any]) -> Iterator[Any]:
    """Yield the events of a history; older ones keep pairs of an action and its observation."""
    for entry in history:
        yield from entry if isinstance(entry, list) else [entry]


class _EventReader:
    """Reader that adds events to a session."""

    def __init__(self, row: dict[str, Any]) -> None:
        metadata = as_dict(row.get("metadata"))
        self.session = ImportedSession(id=as_text(row.get("instance_id")), verdict=_verdict(row))
        self.session.model = as_text(as_dict(metadata.get("llm_config")).get("model"))
        self.session.count_unread_fields("field", row, _ROW_FIELDS)
        self.session.count_unread_fields("field", metadata, ("llm_config",), "metadata.")
        self._builder = SessionBuilder(self.session)
        self._response_id = ""
        """Id of the response to which the latest action belonged."""
        self._call_of: dict[str, str] = {}
        """Id of each action's call, by the id of its event."""
        self._counted = Usage()
        """Token counts of the session so far."""
        self._delegated = False

    def add_event(self, event: dict[str, Any]) -> None:
        name = as_text(event.get("action")) or as_text(event.get("observation"))
        if self._delegated and name != "delegate":
            self.session.count_dropped("side chain", _contents(event))
            return
        self.session.count_unread_fields("line field", event, _EVENT_FIELDS)
        t = parse_time(event.get("timestamp"))
        if name in _MACHINERY or not is_line(event):
            self.session.count_unknown("line", name, _contents(event))
            self._note_state(event)
        elif "observation" in event:
            self._delegated = False
            self._add_observation(event, t)
        elif name == "system":
            self.session.tools = self.session.tools or parse_tools(as_dict(event.get("args")).get("tools"))
            self._builder.add_system(as_text(as_dict(event.get("args")).get("content")), t)
        elif event["source"] == "agent":
            self._add_action(name, event, t)
            self._delegated = name == "delegate"
        elif name == "message":
            self._builder.add_user(_prompt(event).parts, "user" if event["source"] == "user" else "nudge", t)
        else:
            self.session.count_dropped(f"line: {name[:40]} by {event['source']}", _contents(event))

    def finish(self, error: str) -> None:
        """Read the error with which an evaluation ended."""
        if error:
            self.session.ending = _ending(error)

    def _note_state(self, event: dict[str, Any]) -> None:
        state = as_dict(event.get("extras")).get("agent_state")
        if state == "error":
            self.session.ending = _ending(as_text(as_dict(event.get("extras")).get("reason")) or "an error")
        elif state is not None:
            self.session.ending = None

    # ---- responses

    def _add_action(self, name: str, event: dict[str, Any], t: float | None) -> None:
        metadata, args = as_dict(event.get("tool_call_metadata")), as_dict(event.get("args"))
        response = as_dict(metadata.get("model_response"))
        id = as_text(response.get("id"))
        usage = self._spent(as_dict(event.get("llm_metrics")))
        self._call_of[as_text(event.get("id"))] = as_text(metadata.get("tool_call_id"))
        if id and id == self._response_id:
            return  # its call is in the response that was added with the first action
        self._response_id = id
        choice = as_dict(next(iter(as_list(response.get("choices"))), None))
        message = as_dict(choice.get("message"))
        calls = parse_calls(message)
        if not calls and name != "message":
            plain = {key: value for key, value in args.items() if key not in _ARGUMENTS_ASIDE}
            own_id = as_text(metadata.get("tool_call_id")) or as_text(event.get("id"))
            calls = [(own_id, as_text(metadata.get("function_name")) or name, as_json(plain))]
        text = args.get("content") if name == "message" and not calls else args.get("thought")
        spoken = parse_content(message.get("content"), self.session).text if message else as_text(text)
        self._builder.add_response(
            spoken,
            calls,
            message_reasoning(message),
            usage=parse_usage(response.get("usage")) or usage,
            raw_finish=as_text(choice.get("finish_reason")),
            model=as_text(response.get("model")),
            t=t,
        )

    def _spent(self, metrics: dict[str, Any]) -> Usage | None:
        """Return the usage since the previous event, from the session's running counts."""
        total = as_dict(metrics.get("accumulated_token_usage"))
        counted = parse_usage(total)
        if counted is None:
            return None
        before, self._counted = self._counted, counted
        if counted.input_tokens < before.input_tokens or counted.output_tokens <= before.output_tokens:
            return None
        return Usage(
            input_tokens=counted.input_tokens - before.input_tokens,
            output_tokens=counted.output_tokens - before.output_tokens,
        )

    # ---- results

    def _add_observation(self, event: dict[str, Any], t: float | None) -> None:
        extras = as_dict(event.get("extras"))
        content = as_text(event.get("content"))
        metadata, cause = as_dict(event.get("tool_call_metadata")), as_text(event.get("cause"))
        name, own = as_text(metadata.get("function_name")), as_text(metadata.get("tool_call_id"))
        pending = [call.id for call in self._builder.pending_calls]
        id = next((one for one in (own, self._call_of.get(cause), cause) if one and one in pending), own)
        pictures = as_list(extras.get("image_urls")) or list(filter(None, [extras.get("screenshot")]))
        images = parse_content([_picture(one) for one in pictures], self.session, pictures=True).images
        if id:
            self._builder.add_result(id, name, content, _status(event, extras), images, t)
        elif content:
            self.session.count_loss("image", len(images))
            self._builder.add_user([content], "nudge", t)


def _prompt(event: dict[str, Any]) -> UserMessage:
    args = as_dict(event.get("args"))
    images = [_picture(one) for one in as_list(args.get("image_urls"))]
    blocks: list[Any] = [first_text(args, "content") or as_text(event.get("message")), *images]
    parts: list[str | Image] = parse_content(blocks, ImportedSession(), pictures=True).parts
    return UserMessage.of(parts)


def _picture(url: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": as_text(url)}}


def _status(event: dict[str, Any], extras: dict[str, Any]) -> ResultStatus:
    if event.get("observation") == "user_rejected":
        return "denied"
    code = as_number(as_dict(extras.get("metadata")).get("exit_code"))
    code = as_number(extras.get("exit_code")) if code is None else code
    failed = event.get("observation") == "error" or event.get("success") is False or (code is not None and code > 0)
    return "error" if failed else "ok"


def _contents(event: dict[str, Any]) -> dict[str, Any]:
    """Return the contents of an event in the form in which they are counted."""
    args = as_dict(event.get("args"))
    return {"content": [as_text(event.get("content")), as_text(args.get("content")), as_text(args.get("thought"))]}


def _ending(error: str) -> ImportedEnding:
    reason = next((reason for words, reason in _ENDINGS if words.lower() in error.lower()), "custom:error")
    return ImportedEnding(reason=reason, status="failed" if reason == "custom:error" else None, detail=error[:500])


def _verdict(row: dict[str, Any]) -> ImportedVerdict | None:
    resolved = as_dict(row.get("report")).get("resolved", row.get("resolved"))
    if not isinstance(resolved, bool):
        return None
    return ImportedVerdict(passed=resolved, name="import:resolved", details={"resolved": resolved})
