"""Encoder for Anthropic's messages: turns the messages of a session into the content blocks of a request.

Each message is encoded once and kept as the bytes of its blocks. A request joins them, because the API requires user
and assistant turns to alternate and all results of a turn's calls to be in one message. Source: Anthropic API
reference, "Messages".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
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
    """Calls of server tools: the index of each one's block, and its id."""
    answers: frozenset[str] = frozenset()
    """Ids of the calls (of server tools or the engine's tools) whose results are in these blocks."""


def encode_turn(message: Message, *, images: bool = True) -> Turn:
    """Encode one message. `images`: whether the model can see; if not, images are left out."""
    match message:
        case SystemMessage(text):
            return Turn("system", () if is_blank(text) else (_text(text),))
        case UserMessage(text, pictures):
            if pictures and images:
                return Turn("user", tuple([_part(part) for part in message.parts if not _is_blank(part)]))
            return Turn("user", (_text(NO_OUTPUT if is_blank(text) else text),))
        case ToolResult():
            return Turn("user", (_result(message, images),), answers=frozenset({message.call_id}))
        case AssistantMessage():
            return _assistant(message)


def encode_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools, without the fields that only the engine uses."""
    return [{"name": t.name, "description": t.description, "input_schema": t.parameters} for t in tools]


def encode_system(turns: Iterable[Turn], *, mark: bool) -> bytes:
    """Return the system prompt, which comes first in a session, as a JSON list of blocks; empty if there is none."""
    system = takewhile(lambda turn: turn.role == "system", turns)
    blocks = [block for turn in system for block in turn.blocks]
    return b"[%s]" % b",".join(_marked(blocks) if mark else blocks) if blocks else b""


class TurnJoiner:
    """Joiner of the turns for each request of a session: neighbours with one role become one message.

    Messages that no later request changes are kept as bytes, so that a long session costs no more than a short one.
    """

    def __init__(self) -> None:
        self._edition = 0
        self._taken = 0
        self._whole: list[bytes] = []
        """The messages of the first `_taken` turns."""

    def join(self, turns: Sequence[Turn], marks: frozenset[int], stable: int, edition: int) -> bytes:
        """Return the messages of a request as a JSON list. `marks`: indexes of the turns that are marked for the cache.

        The first `stable` turns stay in the session. If `edition` is another one, earlier turns have changed.
        """
        if edition != self._edition or stable < self._taken:
            self._edition, self._taken, self._whole = edition, 0, []
        settled, messages = min((*marks, stable - 1)), [*self._whole]
        for begin, end in _groups(turns, self._taken):
            message = _message(turns, range(begin, end), marks)
            messages += message
            if begin == self._taken and end <= settled and not _open_uses(turns, range(begin, end), stable):
                self._whole += message
                self._taken = end
        return b"[%s]" % b",".join(messages)


def _groups(turns: Sequence[Turn], begin: int) -> Iterator[tuple[int, int]]:
    """Yield the first index of each group of neighbours with one role, and the index after its last."""
    for at in range(begin + 1, len(turns) + 1):
        if at == len(turns) or turns[at].role != turns[begin].role:
            yield begin, at
            begin = at


def _message(turns: Sequence[Turn], places: range, marks: frozenset[int]) -> list[bytes]:
    """Return the turns at these indexes as one message; empty for the system prompt and for turns without blocks."""
    blocks: list[bytes] = []
    for at in places:
        own = turns[at].blocks
        if turns[at].uses:
            own = _without_open_uses(turns, at)
        blocks += _marked(own) if at in marks and own else own
    role = turns[places[0]].role
    if not blocks or (role == "system" and not places[0]):
        return []
    if role == "system":  # not the first message, which the API does not accept here: nothing is lost
        role = "user"
    return [b'{"role":"%s","content":[%s]}' % (role.encode(), b",".join(blocks))]


def _open_uses(turns: Sequence[Turn], places: range, stable: int) -> bool:
    """Return whether the turns at these indexes call a server tool whose result is not in the first `stable` turns."""
    return any(turns[at].uses and _unanswered(turns[:stable], at) for at in places)


def _unanswered(turns: Sequence[Turn], at: int) -> set[int]:
    """Return the indexes of the blocks that call a server tool without a result in this turn or any later one."""
    answered = frozenset[str]().union(*(turn.answers for turn in turns[at:]))
    return {number for number, id in turns[at].uses if id not in answered}


def _without_open_uses(turns: Sequence[Turn], at: int) -> tuple[bytes, ...]:
    """Return a turn's blocks without the server tool calls that have no result, which the API rejects.

    They are kept if only results or responses follow. Code that runs at the vendor may have called our tools: its
    own call then has no result yet, and the vendor continues it with their results.
    """
    if all(turn.role == "assistant" or turn.answers for turn in turns[at + 1 :]):
        return turns[at].blocks
    left_out = _unanswered(turns, at)
    return tuple([block for number, block in enumerate(turns[at].blocks) if number not in left_out])


def _marked(blocks: Sequence[bytes]) -> list[bytes]:
    return [*blocks[:-1], blocks[-1][:-1] + MARK]


# ---- blocks


def _text(text: str) -> bytes:
    return msgspec.json.encode({"type": TEXT, TEXT: text})


def _is_blank(part: str | Image) -> bool:
    return isinstance(part, str) and is_blank(part)


def _part(part: str | Image) -> bytes:
    return _text(part) if isinstance(part, str) else msgspec.json.encode(encode_image(part))


def _result(result: ToolResult, images: bool) -> bytes:
    content: list[Any] = [{"type": TEXT, TEXT: NO_OUTPUT if is_blank(result.content) else result.content}]
    if images:
        content += map(encode_image, result.images)
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    if result.status in FAILED:
        block["is_error"] = True
    return msgspec.json.encode(block)


def encode_image(image: Image) -> dict[str, Any]:
    """Encode an image. If it has a URL, the vendor fetches it."""
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
    """Collector of the encoded content blocks of one response."""

    def __init__(self) -> None:
        self.uses: list[tuple[int, str]] = []
        self.answers: set[str] = set()
        self._blocks: list[dict[str, Any] | bytes] = []

    def add_text(self, text: str) -> None:
        """Add a text, unless it is blank: the API rejects blank texts."""
        if not is_blank(text):
            self._blocks.append({"type": TEXT, TEXT: text})

    def add_call(self, call: ToolCall) -> None:
        """Add a call of one of our tools, with its arguments as the model wrote them."""
        input = msgspec.Raw(encode_arguments(call.arguments).encode())
        self._blocks.append({"type": CALL, "id": call.id, "name": call.name, "input": input})

    def add_reasoning(self, block: Reasoning) -> None:
        """Add signed thinking, or a block that only the vendor reads, unchanged."""
        if not block.redacted:
            self._blocks.append({"type": "thinking", "thinking": block.text, "signature": block.signature})
        elif block.vendor == VENDOR:
            self._add_item(block.signature)
        else:
            self._blocks.append({"type": "redacted_thinking", "data": block.signature})

    def _add_item(self, item: str) -> None:
        """Add an item that the parser kept: a whole block, or additional fields of the text or call before it."""
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
        """Return the blocks as JSON."""
        return tuple([block if isinstance(block, bytes) else msgspec.json.encode(block) for block in self._blocks])
