"""Encoder for Anthropic's messages: what a session holds, as the content blocks of a request.

Each message is encoded once and kept as the bytes of its blocks. A request joins them, since the vendor wants turns of
user and assistant in turn, and all results of a turn's calls in one message. Source: Anthropic API reference,
"Messages".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from ..decision import (
    AssistantMessage,
    Image,
    Message,
    Reasoning,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from ..decision.messages import is_blank, message_parts
from .anthropic_stream import CALL, TEXT, VENDOR
from .openai_format import CLAUDE, NO_OUTPUT, encode_arguments

FAILED = frozenset({"error", "invalid", "truncated", "unknown"})
"""Statuses of results that are sent as errors."""
MARK = b',"cache_control":{"type":"ephemeral"}}'
"""End of a block that is marked for the prompt cache (Anthropic API reference, "Prompt caching")."""
Role = Literal["system", "user", "assistant"]


class Turn(Struct, frozen=True):
    """One message as its content blocks, each of them JSON."""

    role: Role
    blocks: tuple[bytes, ...]
    uses: tuple[tuple[int, str], ...] = ()
    """The blocks that use a tool of the vendor's, and the ids of the uses."""
    answers: frozenset[str] = frozenset()
    """The uses, or calls of our tools, whose results are here."""


def encode_turn(message: Message, *, images: bool = True) -> Turn:
    """Encode one message. `images`: whether the model can see; without, they are left out."""
    match message:
        case SystemMessage(text):
            return Turn("system", () if is_blank(text) else (_text(text),))
        case UserMessage(text):
            return Turn("user", (_text(NO_OUTPUT if is_blank(text) else text),))
        case ToolResult():
            return Turn("user", (_result(message, images),), answers=frozenset({message.call_id}))
        case AssistantMessage():
            return _assistant(message)


def encode_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools, without the fields that only the engine uses."""
    return [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in tools]


def encode_system(turns: Iterable[Turn], *, mark: bool) -> bytes:
    """The system prompt as a list of blocks; empty without one."""
    blocks = [block for turn in turns if turn.role == "system" for block in turn.blocks]
    return b"[%s]" % b",".join(_marked(blocks) if mark else blocks) if blocks else b""


def encode_turns(turns: Sequence[Turn], marks: frozenset[int]) -> bytes:
    """All turns but the system's, neighbours of one role joined. `marks`: indexes of those marked for the cache."""
    messages: list[tuple[Role, list[bytes]]] = []
    for at, turn in enumerate(turns):
        if turn.role == "system":
            continue
        blocks = _without_open_uses(turns, at) if turn.uses else [*turn.blocks]
        if at in marks and blocks:
            blocks = _marked(blocks)
        if messages and messages[-1][0] == turn.role:
            messages[-1][1].extend(blocks)
        elif blocks:
            messages.append((turn.role, blocks))
    return b"[%s]" % b",".join(
        b'{"role":"%s","content":[%s]}' % (role.encode(), b",".join(blocks)) for role, blocks in messages
    )


def _without_open_uses(turns: Sequence[Turn], at: int) -> list[bytes]:
    """The blocks of a turn without uses of the vendor's tools that have no result: a request with one is rejected.

    A result may come turns later, where the vendor's code calls tools of ours. While only their results have followed,
    or nothing, the vendor goes on from an open use, which stays.
    """
    after = turns[at + 1 :]
    if all(turn.role == "assistant" or turn.answers for turn in after):
        return [*turns[at].blocks]
    answered = turns[at].answers.union(*(turn.answers for turn in after))
    left_out = {number for number, id in turns[at].uses if id not in answered}
    return [block for number, block in enumerate(turns[at].blocks) if number not in left_out]


def _marked(blocks: Sequence[bytes]) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + MARK]


# ---- blocks


def _text(text: str) -> bytes:
    return msgspec.json.encode({"type": TEXT, TEXT: text})


def _result(result: ToolResult, images: bool) -> bytes:
    content: list[Any] = [{"type": TEXT, TEXT: NO_OUTPUT if is_blank(result.content) else result.content}]
    if images:
        content += map(encode_image, result.images)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    if result.status in FAILED:
        block["is_error"] = True
    return msgspec.json.encode(block)


def encode_image(image: Image) -> dict[str, Any]:
    """Encode an image; one with a URL is fetched by the vendor."""
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    data = b64encode(image.data).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": data}}


def _assistant(message: AssistantMessage) -> Turn:
    content = _Content()
    for part in message_parts(message):
        if isinstance(part, str):
            content.add_text(part)
        elif isinstance(part, ToolCall):
            content.add_call(part)
        elif part.signature and part.vendor in CLAUDE:
            content.add_reasoning(part)
    return Turn("assistant", content.encoded(), tuple(content.uses), frozenset(content.answers))


class _Content:
    """The content blocks of one response, as far as they are encoded."""

    def __init__(self) -> None:
        self.uses: list[tuple[int, str]] = []
        self.answers: set[str] = set()
        self._blocks: list[dict[str, Any] | bytes] = []

    def add_text(self, text: str) -> None:
        """Add a text; a blank one would be rejected."""
        if not is_blank(text):
            self._blocks.append({"type": TEXT, TEXT: text})

    def add_call(self, call: ToolCall) -> None:
        """Add a call of one of our tools, with its arguments as the model wrote them."""
        input = msgspec.Raw(encode_arguments(call.arguments).encode())
        self._blocks.append({"type": CALL, "id": call.id, "name": call.name, "input": input})

    def add_reasoning(self, block: Reasoning) -> None:
        """Add signed thinking, or an item of the vendor's, unchanged."""
        if not block.redacted:
            self._blocks.append({"type": "thinking", "thinking": block.text, "signature": block.signature})
        elif block.vendor == VENDOR:
            self._add_item(block.signature)
        else:
            self._blocks.append({"type": "redacted_thinking", "data": block.signature})

    def _add_item(self, item: str) -> None:
        """Add a block that is the vendor's own, or what one of ours had besides its text or call."""
        fields: dict[str, Any] = msgspec.json.decode(item)
        kind = str(fields.get("type"))
        if kind in (TEXT, CALL):
            last = self._blocks[-1] if self._blocks else None
            if isinstance(last, dict) and last["type"] == kind:
                self._blocks[-1] = msgspec.json.encode({**last, **fields})
            return
        if kind.endswith("_tool_use"):
            self.uses.append((len(self._blocks), str(fields.get("id"))))
        elif kind.endswith("_tool_result"):
            self.answers.add(str(fields.get("tool_use_id")))
        self._blocks.append(item.encode())

    def encoded(self) -> tuple[bytes, ...]:
        """The blocks as JSON."""
        return tuple([block if isinstance(block, bytes) else msgspec.json.encode(block) for block in self._blocks])
