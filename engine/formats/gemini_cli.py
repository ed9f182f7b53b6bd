"""Import of Gemini CLI sessions: `~/.gemini/tmp/<project>/chats/session-*.json`, and `.jsonl` of newer versions.

A message of the model is a response with its calls, their results and its token counts. In the newer form, a line is
a message (which replaces one with the same id), a change of the session (`$set`) or a step back (`$rewindTo`).
Source: gemini-cli, `packages/core/src/services/{chatRecordingTypes,chatRecordingService}.ts`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..decision import Reasoning
from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, count_dropped_parts
from .gemini_content import parse_parts, parse_token_counts
from .imported_session import ImportedSession, RawCall, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, parse_time
from .session_builder import SessionBuilder

_SESSION_FIELDS = frozenset({"sessionId", "projectHash", "startTime", "lastUpdated", "messages", "kind"})
_MESSAGE_FIELDS = frozenset({"id", "timestamp", "type", "content", "toolCalls", "thoughts", "tokens", "model"})
_CALL_FIELDS = frozenset(
    {"id", "name", "args", "result", "status", "timestamp", "displayName", "description", "renderOutputAsMarkdown"}
)
_API_ERROR = "[API Error"
_CANCELLED = "Request cancelled"
_STATUSES: dict[str, ResultStatus] = {"success": "ok", "error": "error", "cancelled": "cancelled"}


def is_line(data: Any) -> bool:
    """Return whether this is a line of a session in the newer form, other than a message."""
    line = as_dict(data)
    return "$set" in line or "$rewindTo" in line or (_is_header(line) and "messages" not in line)


def matches(data: Any) -> bool:
    """Return whether this is a session, or the lines of one."""
    if isinstance(data, list):
        return _is_header(as_dict(data[0] if data else None))
    return _is_header(as_dict(data)) and isinstance(data.get("messages"), list)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a file."""
    if not matches(data):
        raise Unreadable("it is not a Gemini CLI session")
    session = ImportedSession()
    whole, messages = _replay(data, session) if isinstance(data, list) else (data, data["messages"])
    session.count_unread_fields("field", whole, _SESSION_FIELDS)
    session.id = as_text(whole.get("sessionId"))
    reader = _SessionReader(session)
    for number, message in enumerate(messages):
        reader.add_message(as_dict(message), as_dict(messages[number + 1]) if number + 1 < len(messages) else {})
    yield session


def _is_header(line: dict[str, Any]) -> bool:
    return "sessionId" in line and "projectHash" in line


def _replay(lines: list[Any], session: ImportedSession) -> tuple[dict[str, Any], list[Any]]:
    """Return the session and its messages, after all changes that the lines describe."""
    whole: dict[str, Any] = {}
    messages: dict[str, Any] = {}
    for line in map(as_dict, lines):
        if "$rewindTo" in line:
            _rewind(messages, as_text(line["$rewindTo"]), session)
        elif "$set" in line or _is_header(line):
            change = as_dict(line.get("$set")) or line
            whole |= {name: value for name, value in change.items() if name != "$set"}
            if isinstance(change.get("messages"), list):
                messages = {as_text(as_dict(one).get("id")): one for one in change["messages"]}
        elif line.get("id"):
            messages[as_text(line["id"])] = line
        else:
            session.count_dropped("line: none", line)
    return whole, list(messages.values())


def _rewind(messages: dict[str, Any], id: str, session: ImportedSession) -> None:
    """Remove the message with this id and what follows it; everything if there is none, as Gemini CLI does."""
    ids = list(messages)
    for one in ids[ids.index(id) if id in messages else 0 :]:
        session.count_dropped("rewound", messages.pop(one))


class _SessionReader:
    """Reader that adds the messages of a session."""

    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._builder = SessionBuilder(session)
        self._answered: set[str] = set()
        """Ids of the calls that have their results."""

    def add_message(self, message: dict[str, Any], following: dict[str, Any]) -> None:
        """Add a message. `following`: the next one, which tells whether a command called the model."""
        session, t = self._session, parse_time(message.get("timestamp"))
        session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
        kind = as_text(message.get("type"))
        content = parse_parts(message.get("content"), session, pictures=kind == "user")
        text = content.text.strip()
        if kind == "gemini":
            self._add_response(message, t)
        elif kind == "user" and text.startswith(("/", "?")) and following.get("type") != "gemini":
            session.count_dropped("local command", content.text)
        elif kind == "user":
            self._add_words(content, t)
        elif kind == "error" and text.startswith(_API_ERROR):
            self._builder.add_failure(content.text, t=t)
        elif kind == "info" and text.startswith(_CANCELLED):
            self._builder.add_user((), "interrupt", t)
        else:
            session.count_unknown("role", kind, message)

    def _add_words(self, content: MessageContent, t: float | None) -> None:
        """Add a message in the user's role. Results in it are mostly those that the calls have, too."""
        count_dropped_parts(content, self._session, calls=True, reasoning=True)
        for block in content.results:
            if block.call_id not in self._answered:
                status: ResultStatus = "error" if block.is_error else "ok"
                self._builder.add_result(block.call_id, "", as_text(block.content), status, content.images, t)
        if content.parts or not content.results:
            self._builder.add_user(content.parts, t=t)

    def _add_response(self, message: dict[str, Any], t: float | None) -> None:
        session = self._session
        content = parse_parts(message.get("content"), session)
        count_dropped_parts(content, session, results=True)
        model, tokens = as_text(message.get("model")), as_dict(message.get("tokens"))
        session.model = session.model or model
        calls = [as_dict(call) for call in as_list(message.get("toolCalls"))]
        listed = {as_text(call.get("id")) for call in calls}
        self._builder.add_response(
            content.text,
            [*(call for call in content.calls if call[0] not in listed), *map(_parse_call, calls)],
            [*content.reasoning, *_parse_thoughts(message.get("thoughts"))],
            usage=parse_token_counts(
                _add(tokens.get("input"), tokens.get("tool")),
                tokens.get("output"),
                tokens.get("cached"),
                tokens.get("thoughts"),
            ),
            model=model,
            t=t,
        )
        for call in calls:
            self._add_result(call, t)

    def _add_result(self, call: dict[str, Any], t: float | None) -> None:
        session = self._session
        session.count_unread_fields("call field", call, _CALL_FIELDS)
        status = _STATUSES.get(as_text(call.get("status")))
        if status is None and not call.get("result"):
            return
        content = parse_parts(call.get("result"), session, pictures=True)
        texts = [as_text(block.content) for block in content.results] + ([content.text] if content.text else [])
        failed = any(block.is_error for block in content.results)
        if status in (None, "ok"):
            status = "error" if failed else "ok"
        when = parse_time(call.get("timestamp")) or t
        self._answered.add(as_text(call.get("id")))
        self._builder.add_result(
            as_text(call.get("id")), as_text(call.get("name")), "\n".join(texts), status, content.images, when
        )


def _parse_call(call: dict[str, Any]) -> RawCall:
    return as_text(call.get("id")), as_text(call.get("name")), as_json(call.get("args") or {})


def _parse_thoughts(thoughts: Any) -> Iterator[Reasoning]:
    for thought in map(as_dict, as_list(thoughts)):
        lines = (as_text(thought.get("subject")), as_text(thought.get("description")))
        yield Reasoning("\n".join(filter(None, lines)))


def _add(*counts: Any) -> int:
    return sum(count for count in counts if isinstance(count, int))
