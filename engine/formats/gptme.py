"""Import of gptme's conversations: `~/.local/share/gptme/logs/<conversation>/conversation.jsonl`.

A line is a message. In the tool format a response keeps its calls as lines of its text, `@name(id): {arguments}`, and a
result is a message of the system with the call's id. Calls in Markdown or XML, which have no ids, stay text, and their
results are messages of the loop.
Source: gptme, `message.py` (`Message.to_dict`), `tools/base.py` (`toolcall_re`), `llm/utils.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from ..decision import Usage
from ..decision.reported_usage import sum_of_counts
from .content_blocks import parse_content
from .imported_session import ImportedSession, RawCall, Unreadable
from .parsing import as_dict, as_list, as_text, parse_time, usage_from_counts
from .session_builder import SessionBuilder

_FIELDS = frozenset({"role", "content", "timestamp", "metadata", "call_id", "pinned", "hide", "quiet", "ephemeral_ttl"})
_CALL = re.compile(r"^@([^\r\n]+?)\(([\w\-:.]+)\):\s*(?=\{)", re.MULTILINE)
_ARGUMENTS = json.JSONDecoder(strict=False)
_LOOKED_AT = 20
"""Number of lines by which a conversation is recognised."""


def matches(data: Any) -> bool:
    """Return whether these are the lines of a conversation, judged by a system message that only gptme writes so."""
    return any(_is_own(as_dict(line)) for line in as_list(data)[:_LOOKED_AT])


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the only session of a conversation."""
    if not matches(data):
        raise Unreadable("it is not a conversation of gptme")
    session = ImportedSession()
    builder = SessionBuilder(session)
    for line in map(as_dict, data):
        _add_line(builder, line)
    yield session


def _is_own(line: dict[str, Any]) -> bool:
    return line.get("role") == "system" and "timestamp" in line and bool({"pinned", "call_id"} & line.keys())


def _add_line(builder: SessionBuilder, line: dict[str, Any]) -> None:
    session, t = builder.session, parse_time(line.get("timestamp"))
    if line.get("ui_only") is True:
        session.count_dropped("shown only", line.get("content"))
        return
    session.count_unread_fields("message field", line, _FIELDS)
    content = parse_content(line.get("content"), session)
    match line.get("role"):
        case "system" if line.get("call_id"):
            builder.add_result_content(as_text(line["call_id"]), "", content, t=t)
        case "system":
            builder.add_system(content.text, t)
        case "user":
            builder.add_prompt(content, t=t)
        case "assistant":
            _add_response(builder, content.text, as_dict(line.get("metadata")), t)
        case role:
            session.count_unknown("role", role, line)


def _add_response(builder: SessionBuilder, content: str, metadata: dict[str, Any], t: float | None) -> None:
    text, calls = _split_calls(content)
    model = as_text(metadata.get("served_model")) or as_text(metadata.get("model"))
    builder.session.model = builder.session.model or model
    usage = _parse_usage(as_dict(metadata.get("usage")), metadata.get("cost"))
    builder.add_response(text, calls, usage=usage, model=model, t=t)


def _split_calls(content: str) -> tuple[str, list[RawCall]]:
    """Return the text without its calls, and the calls."""
    texts: list[str] = []
    calls: list[RawCall] = []
    at = searched = 0
    while found := _CALL.search(content, searched):
        try:
            _, end = _ARGUMENTS.raw_decode(content, found.end())
        except (ValueError, RecursionError):
            searched = found.end()  # words that only look like a call
            continue
        texts.append(content[at : found.start()])
        calls.append((found[2], found[1], content[found.end() : end]))
        at = searched = end
    texts.append(content[at:])
    return ("".join(texts).strip("\n") if calls else content), calls


def _parse_usage(usage: dict[str, Any], cost: Any) -> Usage | None:
    """Return the token counts. Tokens written to or read from a cache are not part of the input."""
    cached = usage.get("cache_read_tokens")
    input = sum_of_counts(usage.get("input_tokens"), cached, usage.get("cache_creation_tokens"))
    return usage_from_counts(
        input, usage.get("output_tokens"), cached=cached, reasoning=usage.get("reasoning_tokens"), cost=cost
    )
