"""Import of Qwen Code transcripts: `~/.qwen/projects/<project>/chats/<session>.jsonl`.

Each line wraps a content of the Gemini API with its time, its id and the id of the line before it. Lines with the same
id are one message. Requests that failed are in the telemetry (`qwen-code.api_error`).
Source: qwen-code, `packages/core/src/services/chatRecordingService.ts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..decision import UserMessage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from .content_blocks import MessageContent, count_dropped_parts
from .gemini_content import parse_parts, parse_token_counts
from .imported_session import ImportedSession, Unreadable
from .line_tree import leave_out_rewound
from .parsing import as_dict, as_list, as_text, first_text, parse_time
from .session_builder import SessionBuilder

_LINE_FIELDS = frozenset(
    {"uuid", "parentUuid", "sessionId", "timestamp", "type", "subtype", "provenance", "cwd", "version", "gitBranch",
     "message", "model", "usageMetadata", "contextWindowSize", "systemPayload", "toolCallResult", "agentId",
     "isSidechain"}
)  # fmt: skip
_LINES_SAMPLED = 20
_USERS_OWN = ("", "mid_turn_user_message")
"""Subtypes of user lines that are from the user; others are notices and the like."""
_API_ERROR = "qwen-code.api_error"


def is_line(data: Any) -> bool:
    """Return whether this is a line of a transcript."""
    line = as_dict(data)
    return {"uuid", "parentUuid", "sessionId"} <= line.keys() and (
        isinstance(as_dict(line.get("message")).get("parts"), list) or "systemPayload" in line
    )


def matches(data: Any) -> bool:
    """Return whether these are the lines of a transcript."""
    return any(_is_message(as_dict(line)) for line in as_list(data)[:_LINES_SAMPLED] if is_line(line))


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a transcript."""
    if not matches(data):
        raise Unreadable("it is not a Qwen Code transcript")
    session = ImportedSession()
    lines = [as_dict(line) for line in data]
    reader = _TranscriptReader(session)
    for line in _merge_lines(leave_out_rewound(lines, session, _is_message, _goes_on)):
        reader.add_line(line)
    yield session


def _is_message(line: dict[str, Any]) -> bool:
    return line.get("type") in ("user", "assistant", "tool_result") and "parts" in as_dict(line.get("message"))


def _goes_on(line: dict[str, Any]) -> bool:
    """Return whether the user continues from an earlier line here."""
    return line.get("type") == "user" or line.get("subtype") == "rewind"


def _merge_lines(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines, with those of the same id merged into the first of them."""
    merged: dict[Any, dict[str, Any]] = {}
    for number, line in enumerate(lines):
        key = as_text(line.get("uuid")) or number
        begun = merged.get(key)
        if begun is None:
            merged[key] = line
            continue
        message = as_dict(begun.get("message"))
        parts = [*as_list(message.get("parts")), *as_list(as_dict(line.get("message")).get("parts"))]
        merged[key] = {**begun, **line, "message": {**message, "parts": parts}, "timestamp": begun.get("timestamp")}
    return list(merged.values())


class _TranscriptReader:
    """Reader that adds the lines of a transcript to a session."""

    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._builder = SessionBuilder(session)

    def add_line(self, line: dict[str, Any]) -> None:
        """Add a line."""
        t = parse_time(line.get("timestamp"))
        self._session.count_unread_fields("line field", line, _LINE_FIELDS)
        if not _is_message(line):
            self._add_other(line, t)
            return
        if not self._session.id:
            of, agent = as_text(line.get("sessionId")), as_text(line.get("agentId"))
            self._session.id = ".".join(filter(None, (of, agent)))
            self._session.parent = ParentCall(session_id=of) if of and agent else None
        content = parse_parts(line["message"]["parts"], self._session, pictures=line["type"] != "assistant")
        match line["type"]:
            case "assistant":
                self._add_response(line, content, t)
            case "tool_result":
                self._add_results(line, content, t)
            case _:
                self._add_words(line, content, t)

    def _add_other(self, line: dict[str, Any], t: float | None) -> None:
        event = as_dict(as_dict(line.get("systemPayload")).get("uiEvent"))
        if event.get("event.name") == _API_ERROR:
            status = as_text(event.get("status_code"))
            message = first_text(event, "error_message", "error", "error_type")
            self._builder.add_failure(f"status {status}: {message}" if status else message, t=t)
            return
        if line.get("subtype") == "chat_compression" and self._add_compaction(as_dict(line.get("systemPayload")), t):
            return
        detail = first_text(line, "subtype")
        kind = as_text(line.get("type"))[:40] or "none"
        self._session.count_dropped(f"line: {kind}{f' ({detail[:40]})' if detail else ''}", line)

    def _add_compaction(self, payload: dict[str, Any], t: float | None) -> bool:
        """Add a compaction. Return False if the history that it kept is missing or nothing comes before it."""
        put_first = []
        for content in map(as_dict, as_list(payload.get("compressedHistory"))):
            if content.get("role") == "user":
                put_first.append(UserMessage.of(parse_parts(content.get("parts"), self._session, pictures=True).parts))
            else:
                self._session.count_dropped("own words", content)
        counted = as_dict(payload.get("info"))
        before, after = counted.get("originalTokenCount"), counted.get("newTokenCount")
        return bool(put_first) and self._builder.add_compaction(
            put_first, before_tokens=before, after_tokens=after, t=t
        )

    def _add_response(self, line: dict[str, Any], content: MessageContent, t: float | None) -> None:
        count_dropped_parts(content, self._session, results=True)
        model, counts = as_text(line.get("model")), as_dict(line.get("usageMetadata"))
        self._session.model = self._session.model or model
        self._builder.add_response(
            content.text,
            content.calls,
            content.reasoning,
            usage=parse_token_counts(
                counts.get("promptTokenCount"),
                counts.get("candidatesTokenCount"),
                counts.get("cachedContentTokenCount"),
                counts.get("thoughtsTokenCount"),
            ),
            model=model,
            t=t,
        )

    def _add_results(self, line: dict[str, Any], content: MessageContent, t: float | None) -> None:
        count_dropped_parts(content, self._session, calls=True, reasoning=True)
        outcome = as_dict(line.get("toolCallResult")).get("status")
        for block in content.results:
            failed = block.is_error or outcome == "error"
            status: ResultStatus = "cancelled" if outcome == "cancelled" else "error" if failed else "ok"
            self._builder.add_result(block.call_id, "", as_text(block.content), status, content.images, t)

    def _add_words(self, line: dict[str, Any], content: MessageContent, t: float | None) -> None:
        count_dropped_parts(content, self._session, calls=True, results=True, reasoning=True)
        if not content.parts:
            return
        if as_text(line.get("subtype")) not in _USERS_OWN:
            self._builder.hold(UserMessage.of(content.parts), t)
        else:
            self._builder.add_user(content.parts, "user", t)
