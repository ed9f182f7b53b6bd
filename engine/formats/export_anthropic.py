"""Messages in Anthropic's form: roles `user` and `assistant` alone, each with a text or a list of content blocks.

The system prompt is no message there, so it is left out. So is reasoning without a signature: the API refuses it.
Source: Anthropic API reference, "Messages".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import msgspec

from ..decision import AssistantMessage, Image, Message, Reasoning, SystemMessage, ToolCall, ToolResult, UserMessage
from ..decision.messages import message_parts
from ..providers.openai_format import CLAUDE, encode_arguments


def to_anthropic_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The messages of a session, but the system prompt. All results of one response are one message."""
    out: list[dict[str, Any]] = []
    results: list[dict[str, Any]] = []
    for message in messages:
        match message:
            case SystemMessage():
                pass
            case ToolResult():
                if not results:
                    out.append({"role": "user", "content": results})
                results.append(_result(message))
                continue
            case UserMessage():
                content = [_part(part) for part in message.parts] if message.images else message.text
                out.append({"role": "user", "content": content})
            case AssistantMessage():
                out.append({"role": "assistant", "content": _response(message)})
        results = []
    return out


def _response(message: AssistantMessage) -> str | list[dict[str, Any]]:
    blocks = [block for part in message_parts(message) if (block := _block(part))]
    if not any(block["type"] != "text" for block in blocks):
        return message.text
    return blocks


def _block(part: str | ToolCall | Reasoning) -> dict[str, Any] | None:
    match part:
        case ToolCall():
            return _call(part)
        case Reasoning():
            return _thought(part)
        case _:
            return _part(part)


def _thought(block: Reasoning) -> dict[str, Any] | None:
    """A block of thinking as the API wants it back; None without a signature, of another vendor, or for other items."""
    if not block.signature or block.vendor not in CLAUDE or (block.redacted and block.vendor):
        return None
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.signature}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.json.decode(encode_arguments(call.arguments))
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _result(result: ToolResult) -> dict[str, Any]:
    """A result. Only one with status `ok` is not an error."""
    parts: tuple[str | Image, ...] = (result.content, *result.images)
    content = [_part(part) for part in parts if part] if result.images else result.content
    failed = {} if result.status == "ok" else {"is_error": True}
    return {"type": "tool_result", "tool_use_id": result.call_id, "content": content, **failed}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if part.url:
        return {"type": "image", "source": {"type": "url", "url": part.url}}
    data = b64encode(part.data).decode("ascii")
    return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": data}}
