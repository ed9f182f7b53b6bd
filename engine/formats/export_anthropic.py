"""Export of messages in Anthropic's form: roles `user` and `assistant`, each with a text or a list of content blocks.

The system prompt is not a message in this form, so it is left out. Reasoning without a signature is left out because
the API rejects it. Source: Anthropic API reference, "Messages".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ..decision import Message, SystemMessage, ToolResult
from ..providers.anthropic_format import encode_turn


def to_anthropic_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages of a session without the system prompt. The results of a response form one message."""
    out: list[dict[str, Any]] = []
    before: Message | None = None
    for message in messages:
        if isinstance(message, SystemMessage):
            continue
        turn = encode_turn(message)
        blocks = [msgspec.json.decode(block) for block in turn.blocks]
        if isinstance(message, ToolResult) and isinstance(before, ToolResult):
            out[-1]["content"] += blocks
        else:
            out.append({"role": turn.role, "content": _text_or(blocks)})
        before = message
    return out


def _text_or(blocks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return the blocks, or only the text if they are a single text block."""
    match blocks:
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return blocks
