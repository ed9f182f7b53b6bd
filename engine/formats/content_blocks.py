"""What a message holds: text alone, or a list of typed parts, as OpenAI's and Anthropic's messages have them.

Sources: OpenAI API reference, "Chat Completions" (content parts); Anthropic API reference, "Messages" (content blocks).
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from msgspec import Struct

from ..decision import Image, Reasoning
from .imported_session import Foreign, RawCall
from .parsing import as_json, first_word, listed, mapping, word

_TEXTS = frozenset({"text", "input_text", "output_text", "refusal"})
_PICTURES = frozenset({"image", "image_url", "input_image"})
_MARKS = frozenset({"type", "cache_control", "id"})
_READ: dict[str, frozenset[str]] = {
    **dict.fromkeys(_TEXTS, _MARKS | {"text", "refusal"}),
    "tool_use": _MARKS | {"name", "input", "caller"},
    "tool_result": _MARKS | {"tool_use_id", "content", "is_error"},
    "thinking": _MARKS | {"thinking", "text", "reasoning", "signature"},
    "reasoning": _MARKS | {"thinking", "text", "reasoning", "signature"},
    "redacted_thinking": _MARKS | {"data"},
}
"""What is read of each kind of part; other fields are listed as lost."""
_SERVER = ("server_tool_use", "mcp_tool_use", "mcp_tool_result")


class Result(Struct):
    """A part that answers a call."""

    call_id: str
    content: Any
    is_error: bool


class Content(Struct):
    """What a message holds, sorted."""

    text: str = ""
    images: list[Image] = []
    reasoning: list[Reasoning] = []
    calls: list[RawCall] = []
    results: list[Result] = []
    refused: bool = False
    """Whether a part of it is a refusal."""


def drop(
    content: Content, foreign: Foreign, *, calls: bool = False, results: bool = False, reasoning: bool = False
) -> None:
    """Count what a message holds that one in its role cannot keep."""
    foreign.lose("call", len(content.calls) if calls else 0)
    foreign.lose("thought", len(content.reasoning) if reasoning else 0)
    for result in content.results if results else ():
        foreign.leave_out("answer", result.content)


def content_of(content: Any, foreign: Foreign, *, pictures: bool = False) -> Content:
    """Sort what a message holds. `pictures`: whether this message may keep them, as results of tools may."""
    if content is None or isinstance(content, str):
        return Content(text=content or "")
    found = Content()
    texts: list[str] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = word(mapping(part).get("type")) or ("text" if "text" in mapping(part) else "")
        if kind in _READ:
            foreign.lose_fields("part field", part, _READ[kind], f"{kind}.")
        if kind in _TEXTS:
            texts.append(word(part.get("text")) or word(part.get("refusal")))
            found.refused = found.refused or kind == "refusal"
        elif kind in _PICTURES:
            texts.append("[image]")
            image = _image(part) if pictures else None
            if image is None:
                foreign.lose("image")
            else:
                found.images.append(image)
        elif kind == "tool_use":
            found.calls.append((word(part.get("id")), word(part.get("name")), as_json(part.get("input"))))
        elif kind == "tool_result":
            is_error = part.get("is_error") is True
            found.results.append(Result(word(part.get("tool_use_id")), part.get("content"), is_error))
        elif (thought := reasoning_of(part)) is not None:
            found.reasoning.append(thought)
        elif kind in _SERVER or kind.endswith("_tool_result"):
            foreign.lose("provider tool")
        else:
            foreign.leave_out(f"content part: {kind[:40] or type(part).__name__}", part)
            texts.append(f"[{kind[:40] or 'unknown'}]")
    found.text = "\n".join(texts)
    return found


def reasoning_of(part: Any) -> Reasoning | None:
    """One block of reasoning, if it is one."""
    block = mapping(part)
    match block.get("type"):
        case "thinking" | "reasoning":
            text = first_word(block, "thinking", "text", "reasoning")
            return Reasoning(text, word(block.get("signature")))
        case "redacted_thinking":
            return Reasoning("", word(block.get("data")), True)
        case _:
            return None


def blocks_of(message: dict[str, Any]) -> list[Reasoning]:
    """Reasoning beside the content, as servers of OpenAI's format and litellm send it."""
    blocks = [reasoning_of(part) for part in listed(message.get("thinking_blocks"))]
    found = [block for block in blocks if block is not None]
    text = first_word(message, "reasoning_content", "reasoning")
    return found or ([Reasoning(text)] if text else [])


def _image(part: dict[str, Any]) -> Image | None:
    source = mapping(part.get("source"))
    if source.get("type") == "base64":
        return _decoded(word(source.get("data")), word(source.get("media_type")))
    address = part.get("image_url") or source
    url = address if isinstance(address, str) else word(mapping(address).get("url"))
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        return _decoded(data, head.partition(";")[0])
    return Image(url=url) if url else None


def _decoded(data: str, media_type: str) -> Image | None:
    try:
        return Image(data=b64decode(data), media_type=media_type or "image/png")
    except (binascii.Error, ValueError):
        return None
