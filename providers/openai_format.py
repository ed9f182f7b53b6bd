"""Encoder of messages and tools in OpenAI's chat format, which most providers and litellm use.

Source: OpenAI API reference, "Chat Completions" (create, and the chunk object).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from ..decision import AssistantMessage, Image, Message, Reasoning, SystemMessage, ToolResult, ToolSpec, UserMessage
from ..decision.call_arguments import count_members
from .provider import Request

NO_OUTPUT = "(no output)"
"""Sent for a result without text: some servers drop an empty result, which leaves the call unanswered."""
ReasoningFormat = Literal["none", "text", "signed", "details"]
"""How reasoning is sent back to a model: not at all, as text with calls, in signed blocks, or in signed blocks of
OpenRouter's format."""
CLAUDE = frozenset({"", "anthropic"})
"""Vendors of signed blocks that Claude accepts through any provider."""
PicturePlacement = Literal["none", "prompt", "inside", "after"]
"""How `encode_message` treats images. `none`: it leaves them out, because the model cannot see; the marks in a prompt
stay. Otherwise images of a prompt are parts of its message, and those of a tool's result are left out (`prompt`), in
the same message as its text (`inside`), or left out for the caller to send with `encode_pictures` after the results
(`after`)."""


def encode_message(
    message: Message, thinking: ReasoningFormat = "none", pictures: PicturePlacement = "none"
) -> dict[str, Any]:
    """Encode one message."""
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(text, images):
            if images and pictures != "none":
                parts = [_text(part) if isinstance(part, str) else _picture(part) for part in message.parts]
                return {"role": "user", "content": parts}
            return {"role": "user", "content": text}
        case ToolResult(call_id=id, content=content, images=images):
            if not content.strip():
                content = NO_OUTPUT
            if images and pictures == "inside":
                return {"role": "tool", "tool_call_id": id, "content": [_text(content), *map(_picture, images)]}
            return {"role": "tool", "tool_call_id": id, "content": content}
        case AssistantMessage(text=text, calls=calls):
            out: dict[str, Any] = {"role": "assistant", "content": text or None, **_reasoning_out(message, thinking)}
            if calls:
                out["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": encode_arguments(call.arguments)},
                    }
                    for call in calls
                ]
            return out


def _reasoning_out(message: AssistantMessage, thinking: ReasoningFormat) -> dict[str, Any]:
    """Encode the reasoning that is sent back with a message.

    signed: complete blocks, unchanged. A block that was cut has no signature and is left out: with it, every later
    request of the session would be rejected (Anthropic API reference, "Extended thinking"). text: only with calls,
    where DeepSeek and Moonshot reject a request without it (DeepSeek API docs, "Thinking Mode"). details: OpenRouter
    API docs, "Reasoning Tokens".
    """
    signed = [block for block in message.reasoning if block.signature and block.vendor in CLAUDE]
    signed = [block for block in signed if not (block.redacted and block.vendor)]  # these contain items of another form
    if thinking == "signed":
        return {"thinking_blocks": [_block_out(block) for block in signed]} if signed else {}
    if thinking == "details":
        return {"reasoning_details": [_detail_out(*one) for one in enumerate(signed)]} if signed else {}
    text = "".join(block.text for block in message.reasoning)
    return {"reasoning_content": text} if thinking == "text" and text and message.calls else {}


def _block_out(block: Reasoning) -> dict[str, str]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.signature}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def _detail_out(index: int, block: Reasoning) -> dict[str, Any]:
    where = {"format": "anthropic-claude-v1", "index": index}
    if block.redacted:
        return {"type": "reasoning.encrypted", "data": block.signature, **where}
    return {"type": "reasoning.text", "text": block.text, "signature": block.signature, **where}


def encode_pictures(results: Sequence[ToolResult]) -> dict[str, Any]:
    """Encode the images of tool results as one user message, each after a line that names its call.

    For servers that accept only text in a `tool` message. It comes after the results' own messages.
    """
    content: list[dict[str, Any]] = []
    for result in results:
        content += [_text(f"What {result.name} ({result.call_id}) shows:"), *map(_picture, result.images)]
    return {"role": "user", "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": image_url(image)}}


def image_url(image: Image) -> str:
    """Return the URL of an image; if it has none, a `data:` URL with its bytes."""
    return image.url or f"data:{image.media_type};base64,{b64encode(image.data).decode()}"


def encode_arguments(arguments: str) -> str:
    """Encode a call's arguments as a JSON object, which every provider accepts.

    The arguments that a model wrote are not always valid JSON (the response was cut off, or the model made a mistake),
    and servers then reject every later request of the session. The model still sees what it wrote, under
    `invalid_json`.
    """
    if not arguments.strip():
        return "{}"
    return arguments if count_members(arguments) is not None else json.dumps({"invalid_json": arguments})


def encode_tools(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Encode tools, without the fields that only the engine uses."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools
    ]


M = TypeVar("M")
T = TypeVar("T")


class EncodedSession(Generic[M, T]):
    """Cache of a session's encoded messages and tools, kept in `Request.memo`. Each is encoded once."""

    def __init__(
        self,
        message: Callable[[Message], M],
        tools: Callable[[Sequence[ToolSpec]], T],
        pictures: Callable[[Sequence[ToolResult]], M] | None = None,
    ) -> None:
        self._encode_message = message
        self._encode_tools = tools
        self._encode_pictures = pictures
        self._edition = 0
        self._taken = 0
        self._pieces: list[M] = []
        self._tools: tuple[tuple[ToolSpec, ...], T] | None = None

    def messages(self, request: Request) -> list[M]:
        """Return the encoded messages of a request, ephemeral ones last."""
        if request.edition != self._edition or len(request.messages) < self._taken:
            self._edition, self._taken, self._pieces = request.edition, 0, []
        self._add(request.messages[self._taken :])
        self._taken = len(request.messages)
        return self._pieces + [self._encode_message(message) for message in request.ephemeral]

    def _add(self, messages: Sequence[Message]) -> None:
        """Encode new messages; images follow the last result, since nothing may come between calls and results."""
        waiting: list[ToolResult] = []
        for number, message in enumerate(messages, 1):
            self._pieces.append(self._encode_message(message))
            if self._encode_pictures is None or not isinstance(message, ToolResult):
                continue
            if message.images:
                waiting.append(message)
            if waiting and not isinstance(next(iter(messages[number : number + 1]), None), ToolResult):
                self._pieces.append(self._encode_pictures(waiting))
                waiting = []

    def tools(self, request: Request) -> T:
        """Return the encoded tools of a request."""
        if self._tools is None or self._tools[0] is not request.tools:
            self._tools = (request.tools, self._encode_tools(request.tools))
        return self._tools[1]
