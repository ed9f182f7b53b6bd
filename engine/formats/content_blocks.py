"""Parser for the content of a message: plain text, or a list of content parts (OpenAI) or content blocks (Anthropic).

Sources: OpenAI API reference, "Chat Completions" (content parts); Anthropic API reference, "Messages" (content blocks).
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import Any

from msgspec import Struct

from ..decision import Image, Reasoning
from .imported_session import ImportedSession, RawCall
from .parsing import as_dict, as_json, as_list, as_text, first_text

_TEXT_TYPES = frozenset({"text", "input_text", "output_text", "refusal"})
_IMAGE_TYPES = frozenset({"image", "image_url", "input_image"})
OPENAI = "openai"
"""`vendor` of a block whose signature OpenAI encrypted. Other vendors' providers do not send such a block."""
_COMMON_FIELDS = frozenset({"type", "cache_control", "id"})
_FIELDS_READ: dict[str, frozenset[str]] = {
    **dict.fromkeys(_TEXT_TYPES, _COMMON_FIELDS | {"text", "refusal"}),
    "tool_use": _COMMON_FIELDS | {"name", "input", "caller"},
    "tool_result": _COMMON_FIELDS | {"tool_use_id", "content", "is_error"},
    "thinking": _COMMON_FIELDS | {"thinking", "text", "reasoning", "signature"},
    "reasoning": _COMMON_FIELDS | {"thinking", "text", "reasoning", "signature", "vendor"},
    "redacted_thinking": _COMMON_FIELDS | {"data", "vendor"},
}
"""Fields that are read, by type of block; others are counted as losses."""
_SERVER_TOOL_TYPES = ("server_tool_use", "mcp_tool_use", "mcp_tool_result")


class ResultBlock(Struct):
    """A block with the result of a tool call."""

    call_id: str
    content: Any
    is_error: bool
    name: str = ""
    """The tool's name, where the block has it."""


class MessageContent(Struct):
    """The content of a message, sorted by type."""

    text: str = ""
    parts: list[str | Image] = []
    """Its texts and kept images, in order."""
    images: list[Image] = []
    reasoning: list[Reasoning] = []
    calls: list[RawCall] = []
    results: list[ResultBlock] = []
    refused: bool = False
    """Whether one of the blocks is a refusal."""


def count_dropped_parts(
    content: MessageContent,
    session: ImportedSession,
    *,
    calls: bool = False,
    results: bool = False,
    reasoning: bool = False,
) -> None:
    """Count the blocks that are dropped because a message in its role cannot have them.

    `calls`, `results`, `reasoning`: which kinds of blocks the message cannot have.
    """
    session.count_loss("call", len(content.calls) if calls else 0)
    session.count_loss("thought", len(content.reasoning) if reasoning else 0)
    for result in content.results if results else ():
        session.count_dropped("answer", result.content)


def parse_content(content: Any, session: ImportedSession, *, pictures: bool = False) -> MessageContent:
    """Parse the content of a message. `pictures`: whether the message may keep images."""
    if content is None or isinstance(content, str):
        return MessageContent(text=content or "", parts=[content] if content else [])
    found = MessageContent()
    texts: list[str | Image] = []
    for part in content if isinstance(content, list) else [content]:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = as_text(as_dict(part).get("type")) or ("text" if "text" in as_dict(part) else "")
        if kind in _FIELDS_READ:
            session.count_unread_fields("part field", part, _FIELDS_READ[kind], f"{kind}.")
        if kind in _TEXT_TYPES:
            texts.append(as_text(part.get("text")) or as_text(part.get("refusal")))
            found.refused = found.refused or kind == "refusal"
        elif kind in _IMAGE_TYPES:
            image = _parse_image(part) if pictures else None
            texts.append("[image]" if image is None else image)
            if image is None:
                session.count_loss("image")
            else:
                found.images.append(image)
        elif kind == "tool_use":
            found.calls.append((as_text(part.get("id")), as_text(part.get("name")), as_json(part.get("input"))))
        elif kind == "tool_result":
            is_error = part.get("is_error") is True
            found.results.append(ResultBlock(as_text(part.get("tool_use_id")), part.get("content"), is_error))
        elif (thought := parse_reasoning(part)) is not None:
            found.reasoning.append(thought)
        elif kind in _SERVER_TOOL_TYPES or kind.endswith("_tool_result"):
            session.count_loss("provider tool")
        else:
            session.count_dropped(f"content part: {kind[:40] or type(part).__name__}", part)
            texts.append(f"[{kind[:40] or 'unknown'}]")
    found.parts = [text for text in texts if text]
    found.text = "\n".join("[image]" if isinstance(text, Image) else text for text in texts)
    return found


def _vendor_of(block: dict[str, Any]) -> str:
    return OPENAI if block.get("vendor") == OPENAI else ""


def parse_reasoning(part: Any) -> Reasoning | None:
    """Return a reasoning block; None if the block is of another type."""
    block = as_dict(part)
    match block.get("type"):
        case "thinking" | "reasoning":
            text = first_text(block, "thinking", "text", "reasoning")
            return Reasoning(text, as_text(block.get("signature")), vendor=_vendor_of(block))
        case "redacted_thinking":
            return Reasoning("", as_text(block.get("data")), True, _vendor_of(block))
        case _:
            return None


def message_reasoning(message: dict[str, Any]) -> list[Reasoning]:
    """Return the reasoning next to the content, in the form of OpenAI-compatible servers and litellm."""
    blocks = [parse_reasoning(part) for part in as_list(message.get("thinking_blocks"))]
    found = [block for block in blocks if block is not None]
    text = first_text(message, "reasoning_content", "reasoning")
    return found or ([Reasoning(text)] if text else [])


def _parse_image(part: dict[str, Any]) -> Image | None:
    source = as_dict(part.get("source"))
    if source.get("type") == "base64":
        return decode_image(as_text(source.get("data")), as_text(source.get("media_type")))
    address = part.get("image_url") or source
    url = address if isinstance(address, str) else as_text(as_dict(address).get("url"))
    if url.startswith("data:"):
        head, _, data = url[5:].partition(",")
        return decode_image(data, head.partition(";")[0])
    return Image(url=url, media_type=as_text(source.get("media_type")) or "image/png") if url else None


def decode_image(data: str, media_type: str) -> Image | None:
    """Return an image from its Base64 data; None if that is invalid."""
    try:
        return Image(data=b64decode(data), media_type=media_type or "image/png")
    except (binascii.Error, ValueError):
        return None
