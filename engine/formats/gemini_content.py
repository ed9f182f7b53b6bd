"""Parser for messages in the Gemini API's format, which Gemini CLI and Qwen Code also use in their session files.

The API reads the names of fields in camel case and with underscores alike. Source: Gemini API reference, "Content".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..decision import Image, Reasoning, Usage
from ..decision.reported_usage import sum_of_counts
from .content_blocks import MessageContent, ResultBlock, count_dropped_parts, decode_image
from .imported_session import ImportedSession
from .parsing import as_dict, as_json, as_list, as_text, usage_from_counts
from .session_builder import SessionBuilder

_PART_FIELDS = frozenset(
    {"text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData", "fileData"}
)


def parse_parts(content: Any, session: ImportedSession, *, pictures: bool = False) -> MessageContent:
    """Parse a content: a text, one part or a list of parts. `pictures`: whether the message may keep images."""
    found = MessageContent()
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            found.parts.append(part)
        elif isinstance(part, dict):
            _add_part(found, part, session, pictures)
        elif part is not None:
            session.count_dropped(f"content part: {type(part).__name__}", part)
    found.parts = [part for part in found.parts if part]
    found.text = "\n".join("[image]" if isinstance(part, Image) else part for part in found.parts)
    return found


def _add_part(found: MessageContent, part: dict[str, Any], session: ImportedSession, pictures: bool) -> None:
    session.count_unread_fields("part field", part, _PART_FIELDS)
    call, response = as_dict(part.get("functionCall")), as_dict(part.get("functionResponse"))
    if call:
        found.calls.append((as_text(call.get("id")), as_text(call.get("name")), as_json(call.get("args") or {})))
    elif response:
        found.results.append(_parse_response(response))
    elif part.get("thought"):
        found.reasoning.append(Reasoning(as_text(part.get("text")), as_text(part.get("thoughtSignature"))))
    elif "text" in part:
        found.parts.append(as_text(part["text"]))
    elif "inlineData" in part or "fileData" in part:
        _add_file(found, part, session, pictures)
    else:
        kind = next(iter(part), "none")
        session.count_unknown("content part", kind, part)
        found.parts.append(f"[{kind[:40]}]")


def _parse_response(response: dict[str, Any]) -> ResultBlock:
    inside = response.get("response")
    held = as_dict(inside)
    failed = bool(held.get("error"))
    content = held["error"] if failed else held.get("output", inside)
    return ResultBlock(as_text(response.get("id")), as_json(content), failed, as_text(response.get("name")))


def _add_file(found: MessageContent, part: dict[str, Any], session: ImportedSession, pictures: bool) -> None:
    data, file = as_dict(part.get("inlineData")), as_dict(part.get("fileData"))
    type, url = as_text(data.get("mimeType") or file.get("mimeType")), as_text(file.get("fileUri"))
    image = decode_image(as_text(data.get("data")), type) if data else Image(url=url) if url else None
    if pictures and image is not None and type.startswith("image/"):
        found.images.append(image)
        found.parts.append(image)
        return
    session.count_loss("image" if type.startswith("image/") else f"content part: {type[:40] or 'file'}")
    found.parts.append(f"[{type[:40] or 'file'}]")


def parse_token_counts(input: Any, output: Any, cached: Any, thoughts: Any) -> Usage | None:
    """Return a response's token counts. Cached tokens are part of the input; thoughts are not part of the output."""
    return usage_from_counts(input, sum_of_counts(output, thoughts), cached=cached, reasoning=thoughts)


def is_parts(content: Any) -> bool:
    """Return whether this is a list of parts."""
    return any(_PART_FIELDS & as_dict(part).keys() for part in as_list(content))


# ---- contents of a request


def is_content(data: Any) -> bool:
    """Return whether this is a content of a request: a list of parts, or one, with a role or without."""
    return isinstance(data, dict) and isinstance(data.get("parts"), list | dict)


def parts_of(content: Any) -> list[dict[str, Any]]:
    """Return the parts of a content, with the names of their fields in camel case."""
    parts = as_dict(content).get("parts")
    return [_in_camel_case(part) for part in map(as_dict, [parts] if isinstance(parts, dict) else as_list(parts))]


def _in_camel_case(part: dict[str, Any]) -> dict[str, Any]:
    named = {camel_case(name): value for name, value in part.items()}
    for name in ("inlineData", "fileData"):
        if name in named:
            named[name] = {camel_case(field): value for field, value in as_dict(named[name]).items()}
    return named


def camel_case(name: str) -> str:
    """Return the name of a field in camel case: `function_call` becomes `functionCall`."""
    first, *others = name.split("_")
    return first + "".join(word[:1].upper() + word[1:] for word in others)


def join_parts(parts: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts of a response, with consecutive texts joined. A part with a signature stays on its own."""
    joined: list[dict[str, Any]] = []
    for part in parts:
        last = joined[-1] if joined else {}
        if "text" in part and "text" in last and {*part, *last} <= {"text", "thought"} and _of_one_kind(part, last):
            joined[-1] = {**last, "text": as_text(last["text"]) + as_text(part["text"])}
        else:
            joined.append(part)
    return joined


def _of_one_kind(part: dict[str, Any], other: dict[str, Any]) -> bool:
    return bool(part.get("thought")) == bool(other.get("thought"))


def merge_contents(contents: Iterable[Any]) -> list[dict[str, Any]]:
    """Return contents, with consecutive ones of the model merged: some clients keep each event of a stream as one."""
    merged: list[dict[str, Any]] = []
    for content in contents:
        role, parts = as_text(as_dict(content).get("role")) or "user", parts_of(content)
        if role == "model" and merged and merged[-1]["role"] == "model":
            merged[-1]["parts"] = join_parts([*merged[-1]["parts"], *parts])
        else:
            merged.append({"role": role, "parts": parts})
    return merged


def add_content(builder: SessionBuilder, content: dict[str, Any]) -> None:
    """Add a merged content of a request. Results without an id of their call go to the next call of their tool."""
    from_model = content["role"] == "model"
    found = parse_parts(content["parts"], builder.session, pictures=not from_model)
    if from_model:
        count_dropped_parts(found, builder.session, results=True)
        builder.add_response(found.text, found.calls, found.reasoning)
        return
    count_dropped_parts(found, builder.session, calls=True, reasoning=True)
    for result in found.results:
        id = result.call_id if builder.knows(result.call_id) else ""
        builder.add_result(id, result.name, as_text(result.content), "error" if result.is_error else "ok")
    if found.parts or not found.results:
        builder.add_user(found.parts, "beside" if found.results else "user")
