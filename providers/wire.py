"""The OpenAI chat format, which most providers and litellm speak: messages and tools out, finish reasons in.

Source: OpenAI API reference, "Chat Completions" (create, and the chunk object).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from ..decision import (
    AssistantMessage,
    FinishReason,
    Message,
    Reasoning,
    SystemMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from ..decision.assembler import members
from .provider import Request

FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "refusal": "content_filter",
    "error": "error",
}
"""Finish reasons of the chat format and of servers that let their own words through. All others are `other`."""


def finish_of(raw: str) -> FinishReason:
    """Our finish reason for a provider's word."""
    return FINISH.get(raw, "other")


Thinking = Literal["none", "text", "signed"]
"""How a model wants its reasoning back: not at all, as text beside calls, or in blocks that bear its signature."""


def message_out(message: Message, thinking: Thinking = "none") -> dict[str, Any]:
    """One message as the chat format wants it."""
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage(text):
            return {"role": "user", "content": text}
        case ToolResult(call_id=id, content=content):
            return {"role": "tool", "tool_call_id": id, "content": content}
        case AssistantMessage(text=text, calls=calls):
            out: dict[str, Any] = {"role": "assistant", "content": text or None, **_reasoning_out(message, thinking)}
            if calls:
                out["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": arguments_out(call.arguments)},
                    }
                    for call in calls
                ]
            return out


def _reasoning_out(message: AssistantMessage, thinking: Thinking) -> dict[str, Any]:
    """The reasoning that goes back with a message.

    Signed: whole blocks, unchanged. One that was cut has no signature, and every later request of the session would
    be refused for it (Anthropic API reference, "Extended thinking"). Text: beside calls only, which is where DeepSeek
    and Moonshot refuse a request without it (DeepSeek API docs, "Thinking Mode").
    """
    if thinking == "signed":
        blocks = [_block_out(block) for block in message.reasoning if block.signature]
        return {"thinking_blocks": blocks} if blocks else {}
    text = "".join(block.text for block in message.reasoning)
    return {"reasoning_content": text} if thinking == "text" and text and message.calls else {}


def _block_out(block: Reasoning) -> dict[str, str]:
    if block.redacted:
        return {"type": "redacted_thinking", "data": block.signature}
    return {"type": "thinking", "thinking": block.text, "signature": block.signature}


def arguments_out(arguments: str) -> str:
    """A call's arguments as every provider takes them back: one JSON object.

    What a model wrote is not always one (a response cut off in the middle of a call, a slip), and servers answer each
    later request of the session with an error if it comes back to them. The model still reads what it wrote.
    """
    if not arguments.strip():
        return "{}"
    return arguments if members(arguments) is not None else json.dumps({"invalid_json": arguments})


def tools_out(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    """Tools as the chat format wants them: kinds and other private fields stay here."""
    return [
        {
            "type": "function",
            "function": {"name": t.name, "description": t.description, "parameters": t.parameters},
        }
        for t in tools
    ]


M = TypeVar("M")
T = TypeVar("T")


class Encoded(Generic[M, T]):
    """What a provider made of a session: each message encoded once, the tools once. Lives in `Request.memo`."""

    def __init__(self, message: Callable[[Message], M], tools: Callable[[Sequence[ToolSpec]], T]) -> None:
        self._encode_message = message
        self._encode_tools = tools
        self._edition = 0
        self._pieces: list[M] = []
        self._tools: tuple[tuple[ToolSpec, ...], T] | None = None

    def messages(self, request: Request) -> list[M]:
        """The encoded messages of this request, the ephemeral ones last."""
        if request.edition != self._edition or len(request.messages) < len(self._pieces):
            self._edition = request.edition
            self._pieces = []
        encode = self._encode_message
        self._pieces += [encode(message) for message in request.messages[len(self._pieces) :]]
        return self._pieces + [encode(message) for message in request.ephemeral]

    def tools(self, request: Request) -> T:
        """The encoded tools of this request."""
        if self._tools is None or self._tools[0] is not request.tools:
            self._tools = (request.tools, self._encode_tools(request.tools))
        return self._tools[1]
