"""Parser for content in the form of the Gemini API: a text or a list of parts, as kept by Gemini CLI and Qwen Code.

Source: Gemini API reference, "Content" (parts).
"""

from __future__ import annotations

from typing import Any

from ..decision import Image, Reasoning, Usage
from ..decision.reported_usage import sum_of_counts
from .content_blocks import MessageContent, ResultBlock, decode_image
from .imported_session import ImportedSession
from .parsing import as_dict, as_json, as_list, as_text, usage_from_counts

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
    return ResultBlock(as_text(response.get("id")), as_json(content), failed)


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
