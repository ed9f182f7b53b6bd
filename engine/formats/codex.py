"""Import of Codex rollouts: `~/.codex/sessions/<year>/<month>/<day>/rollout-<time>-<id>.jsonl`.

A line is a `session_meta`, a `turn_context` (the model), a `response_item` (an item of OpenAI's Responses API), a
`compacted` history or an `event_msg` (what the interface showed: most of it repeats the items). Older rollouts have
the plain items, after a line with the session's id. Consecutive items of the model are one response, up to the next
result or message; its token counts are in the `token_count` event before it or, in other versions, after it and its
results. Source: Codex, `codex-rs/protocol/src/{protocol,models}.rs`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..decision import Usage, UserMessage
from ..decision.events import ParentCall
from ..decision.messages import ResultStatus
from .content_blocks import count_dropped_parts, parse_content, parse_reasoning
from .imported_session import ImportedSession, RawCall, Unreadable
from .parsing import as_dict, as_json, as_list, as_text, describe_failure, first_text, parse_time, usage_from_counts
from .response_items import RESULT_ITEMS, is_item, reasoning_block
from .session_builder import ResponseParts, SessionBuilder

_LINE_TYPES = frozenset(
    {"session_meta", "turn_context", "response_item", "compacted", "event_msg", "world_state",
     "inter_agent_communication_metadata"}
)  # fmt: skip
_LINES_SAMPLED = 20
_PROVIDER_CALLS = frozenset({"web_search_call", "image_generation_call", "file_search_call", "code_interpreter_call"})
_ITEM_FIELDS = frozenset(
    {"type", "id", "role", "content", "summary", "encrypted_content", "name", "namespace", "arguments", "input",
     "action", "call_id", "output", "tools", "status", "execution", "phase", "metadata",
     "internal_chat_message_metadata_passthrough"}
)  # fmt: skip
"""Fields of an item that are read or carry no content."""
_META_FIELDS = frozenset(
    {"id", "session_id", "timestamp", "instructions", "base_instructions", "cwd", "originator", "cli_version", "source",
     "git", "model_provider", "parent_thread_id", "thread_source"}
)  # fmt: skip
_COMPACTED_FIELDS = frozenset(
    {"message", "replacement_history", "window_id", "window_number", "first_window_id", "previous_window_id"}
)
_EXIT_CODE = re.compile(r"^(?:Exit code:|Process exited with code) (-?\d+)", re.MULTILINE)
_HEAD = 400
"""Number of characters at the start of a result in which its exit code is searched for."""


def is_line(data: Any) -> bool:
    """Return whether this is a line of a rollout in the current form."""
    return "payload" in as_dict(data) and as_text(data.get("type")) in _LINE_TYPES


def is_old_line(data: Any) -> bool:
    """Return whether this is a line in the older form but not an item: the first line, or one with `record_type`."""
    line = as_dict(data)
    return "type" not in line and ("record_type" in line or _is_old_header(line))


def matches(data: Any) -> bool:
    """Return whether these are the lines of a rollout."""
    return any(is_line(line) or is_old_line(line) for line in as_list(data)[:_LINES_SAMPLED])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a rollout. Raises Unreadable if it has no message."""
    reader = _RolloutReader(data)
    for line in as_list(data):
        reader.add_line(as_dict(line))
    reader.finish()
    if not reader.session.messages:
        raise Unreadable(f"a Codex rollout{reader.version} in which nothing was said")
    yield reader.session


def _is_old_header(line: dict[str, Any]) -> bool:
    return {"id", "timestamp", "instructions"} <= line.keys() and "type" not in line


class _RolloutReader:
    """Reader that adds the lines of a rollout to a session."""

    def __init__(self, lines: Any) -> None:
        self.session = ImportedSession()
        self.version = ""
        self._builder = SessionBuilder(self.session)
        self._model = ""
        self._response: ResponseParts | None = None
        self._usage: Usage | None = None
        """Token counts of the response whose items follow."""
        self._total: Any = None
        """Token counts of the whole session, which show whether a count is a repetition."""
        self._typed = frozenset(_typed_texts(as_list(lines)))

    def add_line(self, line: dict[str, Any]) -> None:
        t = parse_time(line.get("timestamp"))
        payload = as_dict(line.get("payload"))
        match line.get("type") if "payload" in line else "":
            case "session_meta":
                self._add_meta(payload)
            case "turn_context":
                self._model = as_text(payload.get("model")) or self._model
            case "response_item":
                self._add_item(payload, t)
            case "event_msg":
                self._add_event(payload, t)
            case "compacted":
                self._end_response()
                self._add_compaction(payload, t)
            case "" if _is_old_header(line):
                self._add_meta(line)
            case "" if is_item(line) or "role" in line:
                self._add_item(line, t)
            case kind:
                named = as_text(kind) or as_text(line.get("record_type"))
                self.session.count_unknown("line", named, payload)

    def finish(self) -> None:
        """Add the pending items."""
        self._end_response()
        self.session.count_loss("usage without a response", self._usage is not None)
        self.session.model = self.session.model or self._model

    def _add_meta(self, meta: dict[str, Any]) -> None:
        session = self.session
        session.count_unread_fields("line field", meta, _META_FIELDS, "session_meta.")
        if session.id:
            return  # a rollout that continues another one repeats its line
        session.id = first_text(meta, "id", "session_id")
        spawned = as_dict(as_dict(as_dict(meta.get("source")).get("subagent")).get("thread_spawn"))
        parent = first_text(meta, "parent_thread_id") or first_text(spawned, "parent_thread_id")
        session.parent = ParentCall(session_id=parent) if parent else None
        self.version = f" of version {meta['cli_version']}" if meta.get("cli_version") else ""
        instructions = meta.get("base_instructions") or meta.get("instructions")
        self._builder.add_system(as_text(as_dict(instructions).get("text")) or as_text(instructions))

    def _add_compaction(self, compacted: dict[str, Any], t: float | None) -> None:
        """Add a compaction: its summary, and the messages that replace the history if the line has them."""
        session = self.session
        session.count_unread_fields("line field", compacted, _COMPACTED_FIELDS, "compacted.")
        summary = parse_content(compacted.get("message"), session)
        put_first = []
        for item in map(as_dict, as_list(compacted.get("replacement_history"))):
            if item.get("role") == "user":
                put_first.append(UserMessage.of(parse_content(item.get("content"), session, pictures=True).parts))
            else:
                session.count_loss(f"item: compacted {first_text(item, 'role', 'type')[:40]}")
        if not self._builder.add_compaction(put_first or (UserMessage.of(summary.parts),), t=t):
            self._builder.hold(UserMessage.of(summary.parts), t)

    # ---- events

    def _add_event(self, event: dict[str, Any], t: float | None) -> None:
        match event.get("type"):
            case "token_count":
                self._add_usage(as_dict(event.get("info")))
            case "turn_aborted" if event.get("reason") != "review_ended":
                self._end_response()
                self._builder.add_user((), "interrupt", t)
            case "error" | "stream_error":
                self._end_response()
                self._builder.add_failure(describe_failure(event) or as_text(event.get("message")), t=t)
            case kind:
                self.session.count_loss(f"line: event_msg ({as_text(kind)[:40]})")

    def _add_usage(self, info: dict[str, Any]) -> None:
        total, last = info.get("total_token_usage"), info.get("last_token_usage")
        usage = _parse_usage(as_dict(last))
        if usage is None or (total is not None and total == self._total):
            return
        self._total = total
        if self._response is not None and self._response.usage is None:
            self._response.usage = usage
            return
        self.session.count_loss("usage without a response", self._usage is not None)
        self._usage = usage

    # ---- items

    def _add_item(self, item: dict[str, Any], t: float | None) -> None:
        kind = as_text(item.get("type")) or "message"
        self.session.count_unread_fields("item field", item, _ITEM_FIELDS)
        if kind == "message":
            self._add_message(item, t)
        elif kind == "reasoning":
            thought = parse_reasoning(reasoning_block(item))
            if thought is not None:
                self._open(t).reasoning.append(thought)
        elif kind in RESULT_ITEMS or (kind.endswith("_output") and item.get("call_id")):
            self._add_result(item, t)
        elif kind in _PROVIDER_CALLS:
            self.session.count_loss("provider tool")
        elif kind.endswith("_call"):
            self._open(t).calls.append(_parse_call(kind, item))
        else:
            self.session.count_unknown("item", kind, item)

    def _add_message(self, item: dict[str, Any], t: float | None) -> None:
        role = item.get("role")
        content = parse_content(item.get("content"), self.session, pictures=role == "user")
        count_dropped_parts(content, self.session, calls=True, results=True, reasoning=True)
        if role == "assistant":
            self._open(t).texts.append(content.text)
            return
        self._end_response()
        if role in ("developer", "system"):
            self._builder.add_system(content.text, t)
        elif role != "user":
            self.session.count_unknown("role", role, item)
        elif content.parts:
            self._builder.add_user(content.parts, "user", t, typed=content.text in self._typed)

    def _add_result(self, item: dict[str, Any], t: float | None) -> None:
        """Add a result. It waits with its response, whose token counts may follow it."""
        if self._response is not None:
            self._response.results.append((item, t))
        else:
            self._write_result(item, t)

    def _write_result(self, item: dict[str, Any], t: float | None) -> None:
        output = item.get("output") if "output" in item else as_json(item.get("tools"))
        whole = as_dict(output)
        failed = whole.get("success") is False
        if "content" in whole:
            output = whole.get("content_items") or whole["content"]
        content = parse_content(output, self.session, pictures=True)
        status: ResultStatus = "error" if failed or _exit_code(content.text) else "ok"
        self._builder.add_result_content(as_text(item.get("call_id")), "", content, status, t)

    def _open(self, t: float | None) -> ResponseParts:
        if self._response is not None and self._response.results:
            self._end_response()
        if self._response is None:
            self._response = ResponseParts(t)
            self._response.usage, self._usage = self._usage, None
        return self._response

    def _end_response(self) -> None:
        response, self._response = self._response, None
        if response is None:
            return
        response.model = self._model
        self._builder.add_parts(response)
        for item, t in response.results:
            self._write_result(item, t)


def _typed_texts(lines: list[Any]) -> Iterator[str]:
    """Yield the texts that the user typed, as the interface showed them."""
    for line in lines:
        payload = as_dict(as_dict(line).get("payload"))
        item = as_dict(payload.get("item"))
        if payload.get("type") == "user_message":
            yield as_text(payload.get("message"))
        elif item.get("type") == "UserMessage":
            yield "\n".join(as_text(as_dict(part).get("text")) for part in as_list(item.get("content")))


def _parse_call(kind: str, item: dict[str, Any]) -> RawCall:
    id = first_text(item, "call_id", "id")
    name = as_text(item.get("name")) or kind.removesuffix("_call")
    if kind == "custom_tool_call":
        return id, name, as_json({"input": item.get("input")})
    return id, name, as_json(item.get("arguments") if "arguments" in item else item.get("action"))


def _parse_usage(counted: dict[str, Any]) -> Usage | None:
    return usage_from_counts(
        counted.get("input_tokens"),
        counted.get("output_tokens"),
        cached=counted.get("cached_input_tokens"),
        reasoning=counted.get("reasoning_output_tokens"),
    )


def _exit_code(text: str) -> int:
    """Return the exit code named in a result; 0 if there is none."""
    if text.startswith("{"):
        try:
            code = as_dict(as_dict(msgspec.json.decode(text)).get("metadata")).get("exit_code")
        except (msgspec.DecodeError, RecursionError):
            return 0
        return code if isinstance(code, int) else 0
    found = _EXIT_CODE.search(text[:_HEAD])
    return int(found[1]) if found else 0
