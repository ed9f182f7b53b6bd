"""Import of Cursor conversations: from its database (`state.vscdb`) and from the agent's transcripts.

In the database, a conversation (`composerData:<id>`) lists bubbles (`bubbleId:<conversation>:<id>`); older ones hold
them themselves. A bubble of the model is a thought, a text or one call with its result: several are one response.
A transcript (`~/.cursor/projects/<project>/agent-transcripts/<id>.jsonl`) has one message per line, without results.
Cursor publishes no description of either.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ..decision import Reasoning, Usage
from ..decision.messages import ResultStatus
from .content_blocks import count_dropped_parts, parse_content
from .file_values import FileValue, decode_json
from .imported_session import ImportedSession, Unreadable
from .openai import add_user_message
from .parsing import as_dict, as_json, as_list, as_text, describe_failure, first_text, parse_time, usage_from_counts
from .session_builder import ResponseParts, SessionBuilder
from .sqlite_files import is_database, open_database, table_names

_TABLE, _OLDER_TABLE = "cursordiskkv", "itemtable"
_OLDER_KEYS = ("composer.composerData", "workbench.panel.aichat.view.aichat.chatdata")
_COMPOSER, _BUBBLE = "composerData:", "bubbleId:"
_USER, _MODEL = 1, 2
_COMPOSER_FIELDS = frozenset(
    {"_v", "composerId", "fullConversationHeadersOnly", "conversation", "createdAt", "lastUpdatedAt", "modelConfig",
     "status", "unifiedMode", "forceMode", "isAgentic", "hasLoaded"}
)  # fmt: skip
_BUBBLE_FIELDS = frozenset(
    {"_v", "type", "bubbleId", "text", "richText", "createdAt", "timingInfo", "modelInfo", "tokenCount", "thinking",
     "allThinkingBlocks", "toolFormerData", "capabilityType", "requestId", "serverBubbleId", "usageUuid",
     "errorDetails", "id", "rawText", "initText", "modelType", "aiType", "messageType", "isFocused", "isAgentic",
     "unifiedMode", "checkpointId", "conversationState"}
)  # fmt: skip
_LINE_FIELDS = frozenset({"role", "message", "type", "status", "error"})
_CALL_FIELDS = frozenset(
    {"tool", "toolIndex", "modelCallId", "toolCallId", "status", "name", "rawArgs", "params", "result", "error",
     "userDecision"}
)  # fmt: skip
_CUT_OFF = ("aborted", "cancelled")


def is_line(data: Any) -> bool:
    """Return whether this is a line of a transcript."""
    line = as_dict(data)
    if line.get("type") == "turn_ended":
        return "status" in line
    return _is_message(line)


def matches(data: Any) -> bool:
    """Return whether this is a conversation in the form of `read_store`, or the lines of a transcript."""
    if isinstance(data, list):
        return bool(data) and is_line(data[0]) and any(_is_message(as_dict(line)) for line in data[:2])
    return "composer" in as_dict(data) and "bubbles" in data


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a conversation or a transcript."""
    if not matches(data):
        raise Unreadable("it is not a Cursor conversation")
    yield _read_transcript(data) if isinstance(data, list) else _read_conversation(data)


def _is_message(line: dict[str, Any]) -> bool:
    return (
        line.get("role") in ("user", "assistant")
        and "content" in as_dict(line.get("message"))
        and not {"content", "uuid", "sessionId", "session_id", "timestamp"} & line.keys()
    )


# ---- transcripts


def _read_transcript(lines: list[Any]) -> ImportedSession:
    session = ImportedSession()
    builder = SessionBuilder(session)
    response = ResponseParts()
    for line in map(as_dict, lines):
        session.count_unread_fields("line field", line, _LINE_FIELDS)
        of_model = _is_message(line) and line["role"] == "assistant"
        if not response.is_empty and (response.calls or not of_model):
            builder.add_parts(response)
            response = ResponseParts()
        if of_model:
            _add_parts(response, line, session)
        elif line.get("type") == "turn_ended":
            _end_turn(builder, line)
        elif _is_message(line):
            _add_prompt(builder, line)
        else:
            session.count_unknown("line", line.get("type"), line)
    if not response.is_empty:
        builder.add_parts(response)
    return session


def _end_turn(builder: SessionBuilder, line: dict[str, Any]) -> None:
    status = as_text(line.get("status"))
    if status in _CUT_OFF:
        builder.add_user((), "interrupt")
    elif status == "error":
        builder.add_failure(describe_failure(line))


def _add_prompt(builder: SessionBuilder, line: dict[str, Any]) -> None:
    content = parse_content(line["message"]["content"], builder.session, pictures=True)
    add_user_message(builder, content, None)


def _add_parts(response: ResponseParts, line: dict[str, Any], session: ImportedSession) -> None:
    """Add a line of the model. Text that is followed by more did not end a run: Cursor leaves out the calls between."""
    content = parse_content(line["message"]["content"], session)
    count_dropped_parts(content, session, results=True)
    response.texts += [content.text] if content.text else []
    response.calls += content.calls
    response.reasoning += content.reasoning


# ---- the database


def read_store(path: Path) -> Iterator[FileValue] | None:
    """Return the conversations of a Cursor database; None for any other file."""
    if not path.is_file() or not is_database(path):
        return None
    tables = {name.lower() for name in table_names(path)}
    if _TABLE in tables:
        return _read_database(path)
    return _read_older(path) if _OLDER_TABLE in tables and _holds_chats(path) else None


def _holds_chats(path: Path) -> bool:
    with open_database(path) as connection:
        return any(_older_entries(connection))


def _older_entries(connection: sqlite3.Connection) -> list[Any]:
    rows = connection.execute("SELECT value FROM ItemTable WHERE key IN (?, ?) ORDER BY key", _OLDER_KEYS)
    return [_decode(value) for (value,) in rows]


def _read_older(path: Path) -> Iterator[FileValue]:
    """Yield the conversations of a project, which versions of 2023 and 2024 keep in two entries."""
    with open_database(path) as connection:
        entries = [as_dict(entry) for entry in _older_entries(connection)]
    composers = [as_dict(one) for entry in entries for one in as_list(entry.get("allComposers"))]
    tabs = [as_dict(one) for entry in entries for one in as_list(entry.get("tabs"))]
    found = [(as_text(one.get("composerId")), one) for one in composers if one.get("conversation")]
    found += [(as_text(tab.get("tabId")), _composer_of_tab(tab)) for tab in tabs if tab.get("bubbles")]
    for number, (id, composer) in enumerate(found, 1):
        data = {"id": id, "composer": composer, "bubbles": {}}
        yield FileValue(place=f"conversation {id}", number=number, data=data)


def _composer_of_tab(tab: dict[str, Any]) -> dict[str, Any]:
    """Return a tab of the chat as a conversation: its bubbles have the same content under other names."""
    types = {"user": _USER, "ai": _MODEL}
    bubbles = [as_dict(bubble) for bubble in as_list(tab.get("bubbles"))]
    return {
        **{name: value for name, value in tab.items() if name not in ("bubbles", "tabId")},
        "conversation": [
            {
                **bubble,
                "type": types.get(as_text(bubble.get("type")), bubble.get("type")),
                "text": first_text(bubble, "text", "rawText"),
                "modelInfo": {"modelName": bubble.get("modelType")},
            }
            for bubble in bubbles
        ],
    }


def _read_database(path: Path) -> Iterator[FileValue]:
    with open_database(path) as connection:
        ids = [key.removeprefix(_COMPOSER) for key, _ in _entries(connection, _COMPOSER, "key, 1")]
        for number, id in enumerate(ids, 1):
            ((_, composer),) = _entries(connection, _COMPOSER + id, "key, value", whole=True)
            bubbles = {key.rpartition(":")[2]: value for key, value in _entries(connection, f"{_BUBBLE}{id}:")}
            value = FileValue(place=f"conversation {id}", number=number)
            value.data = {"id": id, "composer": _decode(composer), "bubbles": bubbles}
            if bubbles or as_list(as_dict(value.data["composer"]).get("conversation")):
                value.data["bubbles"] = {name: _decode(one) for name, one in bubbles.items()}
                yield value


def _entries(
    connection: sqlite3.Connection, prefix: str, columns: str = "key, value", *, whole: bool = False
) -> list[tuple[str, Any]]:
    """Return the entries whose keys begin with `prefix`, or with `whole` the one with that key. Uses the index."""
    where, end = ("key = ?", ()) if whole else ("key >= ? AND key < ?", (prefix[:-1] + chr(ord(prefix[-1]) + 1),))
    return connection.execute(
        f"SELECT {columns} FROM cursorDiskKV WHERE {where} ORDER BY key", (prefix, *end)
    ).fetchall()


def _decode(value: Any) -> Any:
    try:
        return decode_json(value.encode("utf-8", "replace") if isinstance(value, str) else bytes(value))
    except (Unreadable, TypeError):
        return None


def _read_conversation(data: dict[str, Any]) -> ImportedSession:
    composer = as_dict(data.get("composer"))
    reader = _ConversationReader()
    reader.session.id = as_text(data.get("id"))
    reader.session.count_unread_fields("field", composer, _COMPOSER_FIELDS)
    reader.model = as_text(as_dict(composer.get("modelConfig")).get("modelName"))
    for bubble in _bubbles(composer, as_dict(data.get("bubbles")), reader.session):
        reader.add_bubble(bubble)
    reader.finish(as_text(composer.get("status")))
    return reader.session


def _bubbles(composer: dict[str, Any], found: dict[str, Any], session: ImportedSession) -> Iterator[dict[str, Any]]:
    """Yield the bubbles in the order of the conversation. Bubbles that it does not list are counted."""
    headers = [
        as_text(as_dict(header).get("bubbleId")) for header in as_list(composer.get("fullConversationHeadersOnly"))
    ]
    inside = [as_dict(bubble) for bubble in as_list(composer.get("conversation"))]
    if not headers:
        yield from inside
        return
    for id in headers:
        bubble = as_dict(found.get(id))
        session.count_loss("no message", not bubble)
        if bubble:
            yield bubble
    for id in found.keys() - set(headers):
        session.count_dropped("rewound", found[id])


class _ConversationReader:
    """Reader that adds the bubbles of a conversation to a session."""

    def __init__(self) -> None:
        self.session = ImportedSession()
        self.model = ""
        self._builder = SessionBuilder(self.session)
        self._response: ResponseParts | None = None

    def add_bubble(self, bubble: dict[str, Any]) -> None:
        """Add a bubble."""
        self.session.count_unread_fields("message field", bubble, _BUBBLE_FIELDS)
        t = parse_time(bubble.get("createdAt")) or parse_time(as_dict(bubble.get("timingInfo")).get("clientStartTime"))
        if bubble.get("type") == _USER:
            self._end_response()
            self._builder.add_user([as_text(bubble.get("text"))], "user", t)
        elif bubble.get("type") == _MODEL:
            self._add_part(bubble, t)
        else:
            self.session.count_unknown("role", bubble.get("type"), bubble)

    def finish(self, status: str) -> None:
        """Add the pending response. `status`: how the conversation ended."""
        self._end_response()
        self.session.model = self.session.model or self.model
        if status in _CUT_OFF:
            self._builder.add_user((), "interrupt")

    def _add_part(self, bubble: dict[str, Any], t: float | None) -> None:
        call, error = as_dict(bubble.get("toolFormerData")), as_dict(bubble.get("errorDetails"))
        response = self._open(call, t)
        response.model = as_text(as_dict(bubble.get("modelInfo")).get("modelName")) or response.model
        if text := as_text(bubble.get("text")):
            response.texts.append(text)
        for thought in (bubble.get("thinking"), *as_list(bubble.get("allThinkingBlocks"))):
            if text := first_text(as_dict(thought), "text", "thinking"):
                response.reasoning.append(Reasoning(text, as_text(as_dict(thought).get("signature"))))
        if call:
            self._add_call(response, call)
        response.usage = _add_usage(response.usage, as_dict(bubble.get("tokenCount")))
        if error:
            self._end_response()
            self._builder.add_failure(first_text(error, "message", "error"), t=t)

    def _open(self, call: dict[str, Any], t: float | None) -> ResponseParts:
        """Return the response that a bubble belongs to. A call begins a new one unless one request made both calls."""
        response = self._response
        if response is not None and response.calls:
            made_by = as_text(call.get("modelCallId"))
            if not made_by or made_by != response.id:
                self._end_response()
        self._response = self._response or ResponseParts(t)
        return self._response

    def _add_call(self, response: ResponseParts, call: dict[str, Any]) -> None:
        self.session.count_unread_fields("call field", call, _CALL_FIELDS)
        response.id = as_text(call.get("modelCallId"))
        arguments = as_json(call.get("rawArgs") or call.get("params") or {})
        name = as_text(call.get("name")) or f"tool_{as_text(call.get('tool'))}"
        response.calls.append((as_text(call.get("toolCallId")), name, arguments))
        response.results.append((call, response.t))

    def _end_response(self) -> None:
        response, self._response = self._response, None
        if response is None or response.is_empty:
            return
        response.model = response.model or self.model
        self._builder.add_parts(response)
        for result, t in response.results:
            self._add_result(result, t)

    def _add_result(self, call: dict[str, Any], t: float | None) -> None:
        content = as_json(call.get("result")) or as_json(call.get("error"))
        status = _result_status(call)
        if content or status in ("ok", "denied"):
            self._builder.add_result(as_text(call.get("toolCallId")), as_text(call.get("name")), content, status, t=t)


def _result_status(call: dict[str, Any]) -> ResultStatus:
    if call.get("userDecision") == "rejected":
        return "denied"
    match call.get("status"):
        case "completed":
            return "error" if _exit_code(call.get("result")) else "ok"
        case "cancelled" | "aborted":
            return "cancelled"
        case "error":
            return "error"
        case _:
            return "unknown"


def _exit_code(result: Any) -> int:
    """Return the exit code in a terminal's result; 0 if there is none."""
    if isinstance(result, str) and result.startswith("{"):
        try:
            result = msgspec.json.decode(result)
        except (msgspec.DecodeError, RecursionError):
            return 0
    code = as_dict(result).get("exitCode")
    return code if isinstance(code, int) else 0


def _add_usage(usage: Usage | None, counted: dict[str, Any]) -> Usage | None:
    """Return the token counts of a response plus those of one more bubble. Cursor writes unknown counts as 0."""
    more = usage_from_counts(counted.get("inputTokens"), counted.get("outputTokens"))
    if usage is None or more is None:
        return usage or more
    return Usage(
        input_tokens=max(usage.input_tokens, more.input_tokens), output_tokens=usage.output_tokens + more.output_tokens
    )
