"""Import of pi sessions: `~/.pi/agent/sessions/<project>/<time>_<id>.jsonl`.

A line is the session, a message, a change of the model, a compaction or the like. From version 2 on, lines form a
tree: each line names the one before it, and lines that are not on the path to the last line were abandoned.
Source: pi-mono, `packages/coding-agent/src/core/session-manager.ts`, `packages/ai/src/types.ts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..decision import Usage, UserMessage
from ..decision.messages import ResultStatus
from ..decision.reported_usage import sum_of_counts
from .content_blocks import MessageContent, count_dropped_parts, parse_content
from .imported_session import ImportedSession, Unreadable, without_repeated_lines
from .parsing import as_dict, as_json, as_list, as_text, parse_time, usage_from_counts
from .session_builder import SessionBuilder

_TYPES = frozenset(
    {"session", "message", "model_change", "thinking_level_change", "compaction", "branch_summary", "custom",
     "custom_message", "label", "session_info"}
)  # fmt: skip
_SESSION_FIELDS = frozenset({"type", "version", "id", "timestamp", "cwd", "provider", "modelId", "thinkingLevel"})
_MESSAGE_FIELDS = frozenset(
    {"role", "content", "api", "provider", "model", "usage", "stopReason", "timestamp", "errorMessage", "responseId",
     "responseModel", "toolCallId", "toolName", "isError", "details"}
)  # fmt: skip
_FINISH_WORDS = {"stop": "stop", "length": "length", "toolUse": "tool_calls"}


def is_line(data: Any) -> bool:
    """Return whether this is a line of a session."""
    line = as_dict(data)
    if _is_header(line):
        return True
    if line.get("type") == "message":
        return "role" in as_dict(line.get("message")) and "timestamp" in line
    return as_text(line.get("type")) in _TYPES and "timestamp" in line and "sessionId" not in line


def matches(data: Any) -> bool:
    """Return whether these are the lines of a session."""
    return _is_header(as_dict(as_list(data)[0] if as_list(data) else None))


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a file."""
    if not matches(data):
        raise Unreadable("it is not a pi session")
    session = ImportedSession()
    reader = _SessionReader(session)
    for line in _without_left([as_dict(line) for line in without_repeated_lines(data, session)], session):
        reader.add_line(line)
    yield session


def _is_header(line: dict[str, Any]) -> bool:
    return line.get("type") == "session" and {"id", "timestamp", "cwd"} <= line.keys()


def _without_left(lines: Sequence[dict[str, Any]], session: ImportedSession) -> list[dict[str, Any]]:
    """Return the lines on the path to the last one; all lines if they form no tree."""
    known = {as_text(line.get("id")): line for line in lines if "parentId" in line}
    if not known:
        return list(lines)
    path: set[str] = set()
    id = next(reversed(known))
    while id in known and id not in path:
        path.add(id)
        id = as_text(known[id].get("parentId"))
    kept = []
    for line in lines:
        if "parentId" in line and as_text(line.get("id")) not in path:
            session.count_dropped("rewound", line.get("message"))
        else:
            kept.append(line)
    return kept


class _SessionReader:
    """Reader that adds the lines of a session."""

    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._builder = SessionBuilder(session)
        self._index_of: dict[str, int] = {}
        """Index in the session's messages at which a line's content begins, by the line's id."""

    def add_line(self, line: dict[str, Any]) -> None:
        """Add a line."""
        session, t, kind = self._session, parse_time(line.get("timestamp")), as_text(line.get("type"))
        self._index_of[as_text(line.get("id"))] = len(session.messages)
        match kind:
            case "session":
                session.count_unread_fields("line field", line, _SESSION_FIELDS, "session.")
                session.id = as_text(line.get("id"))
                session.model = as_text(line.get("modelId"))
            case "message":
                self._add_message(as_dict(line.get("message")), t)
            case "compaction":
                summary = as_text(line.get("summary"))
                kept_from = self._index_of.get(as_text(line.get("firstKeptEntryId")))
                before = line.get("tokensBefore")
                if not self._builder.add_compaction(
                    (UserMessage(summary),), kept_from=kept_from, before_tokens=before, t=t
                ):
                    self._builder.hold(UserMessage(summary), t)
            case "branch_summary":
                self._builder.hold(UserMessage(as_text(line.get("summary"))), t)
            case "custom_message":
                self._builder.hold(UserMessage(parse_content(line.get("content"), session).text), t)
            case "model_change" | "thinking_level_change" | "session_info" | "label":
                session.count_loss(f"line: {kind}")
            case _:
                session.count_unknown("line", kind, line)

    def _add_message(self, message: dict[str, Any], t: float | None) -> None:
        session, role = self._session, as_text(message.get("role"))
        if role == "bashExecution":
            self._add_command(message, t)
            return
        session.count_unread_fields("message field", message, _MESSAGE_FIELDS)
        content = _parse_blocks(message.get("content"), session, pictures=role in ("user", "toolResult"))
        match role:
            case "user":
                self._builder.add_prompt(content, t=t)
            case "assistant":
                self._add_response(message, content, t)
            case "toolResult":
                status: ResultStatus = "error" if message.get("isError") is True else "ok"
                id, name = as_text(message.get("toolCallId")), as_text(message.get("toolName"))
                self._builder.add_result_content(id, name, content, status, t)
            case "custom" | "hookMessage" | "branchSummary" | "compactionSummary":
                self._builder.hold(UserMessage(content.text or as_text(message.get("summary"))), t)
            case _:
                session.count_unknown("role", role, message)

    def _add_response(self, message: dict[str, Any], content: MessageContent, t: float | None) -> None:
        session, reason, model = self._session, as_text(message.get("stopReason")), as_text(message.get("model"))
        if reason == "error":
            if content.text or content.calls or content.reasoning:
                session.count_dropped("failed response", content.text)
                count_dropped_parts(content, session, calls=True, reasoning=True)
            self._builder.add_failure(as_text(message.get("errorMessage")), model=model, t=t)
            return
        count_dropped_parts(content, session, results=True)
        self._builder.add_response(
            content.text,
            content.calls,
            content.reasoning,
            usage=_parse_usage(as_dict(message.get("usage"))),
            raw_finish=_FINISH_WORDS.get(reason, "" if reason == "aborted" else reason),
            model=model,
            t=t,
        )
        if reason == "aborted":
            self._builder.add_user((), "interrupt", t)

    def _add_command(self, message: dict[str, Any], t: float | None) -> None:
        """Add a command that the user ran: text before the next prompt, unless the model never saw it."""
        text = f"{as_text(message.get('command'))}\n{as_text(message.get('output'))}"
        if message.get("excludeFromContext") is True:
            self._session.count_dropped("local command", text)
        else:
            self._builder.hold(UserMessage(text), t)


def _parse_blocks(content: Any, session: ImportedSession, *, pictures: bool) -> MessageContent:
    """Parse content blocks, which are Anthropic's under other names."""
    if not isinstance(content, list):
        return parse_content(content, session)
    return parse_content([_rename(block) for block in content], session, pictures=pictures)


def _rename(block: Any) -> Any:
    match as_dict(block).get("type"):
        case "toolCall":
            kept = {name: value for name, value in block.items() if name not in ("arguments", "thoughtSignature")}
            return {**kept, "type": "tool_use", "input": as_json(block.get("arguments"))}
        case "thinking":
            kept = {name: value for name, value in block.items() if name not in ("thinkingSignature", "redacted")}
            signature = as_text(block.get("thinkingSignature"))
            if block.get("redacted") is True:
                return {"type": "redacted_thinking", "data": signature}
            return {**kept, "signature": signature}
        case "text":
            return {name: value for name, value in block.items() if name != "textSignature"}
        case "image" if "data" in block:
            source = {"type": "base64", "data": block["data"], "media_type": block.get("mimeType")}
            return {"type": "image", "source": source}
        case _:
            return block


def _parse_usage(usage: dict[str, Any]) -> Usage | None:
    """Return the token counts. Tokens written to or read from a cache are not part of the input."""
    return usage_from_counts(
        sum_of_counts(usage.get("input"), usage.get("cacheRead"), usage.get("cacheWrite")),
        usage.get("output"),
        cached=usage.get("cacheRead"),
        reasoning=usage.get("reasoning"),
        cost=as_dict(usage.get("cost")).get("total"),
    )
