"""What was said, for spans that may hold it: messages in the form of the conventions' JSON schemas.

A redaction of the engine's applies here as it does to records. Pictures are named, never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...decision import (
    AssistantMessage,
    FinishReason,
    Image,
    Message,
    SystemMessage,
    ToolCall,
    ToolResult,
    UserMessage,
)
from ...records.texts import Redact, Texts

FINISHES = {"tool_calls": "tool_call", "context_full": "length", "retry": "error"}
"""Finish reasons that the schema of output messages names otherwise."""


class Content:
    """Turns what was said into attributes."""

    def __init__(self, redact: Redact | None) -> None:
        self._texts = Texts(redact or str)

    def prompt(self, prompt: str | None) -> dict[str, Any]:
        """What a run was asked; nothing if it goes on from an answer."""
        if prompt is None:
            return {}
        return {"gen_ai.input.messages": _json([self._message(UserMessage(prompt))])}

    def answer(self, answer: str, finish: str) -> dict[str, Any]:
        """What a run answered."""
        return {"gen_ai.output.messages": _json([{**self._message(AssistantMessage(answer)), "finish_reason": finish}])}

    def asked(self, messages: Sequence[Message]) -> dict[str, Any]:
        """All that a model was shown."""
        return {"gen_ai.input.messages": _json([self._message(message) for message in messages])}

    def said(self, message: AssistantMessage, finish: FinishReason) -> dict[str, Any]:
        """What a model said."""
        told = {**self._message(message), "finish_reason": FINISHES.get(finish, finish)}
        return {"gen_ai.output.messages": _json([told])}

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """What a tool was called with, as the model wrote it."""
        return {"gen_ai.tool.call.arguments": self._texts.arguments(call.arguments)}

    def result(self, content: str) -> dict[str, Any]:
        """What a tool returned, as the model reads it."""
        return {"gen_ai.tool.call.result": self._texts.text(content)}

    def detail(self, text: str) -> str:
        """A sentence on what went wrong, which may quote what was said."""
        return self._texts.text(text)

    def _message(self, message: Message) -> dict[str, Any]:
        match self._texts.struct(message):
            case SystemMessage(text):
                return {"role": "system", "parts": [_text(text)]}
            case UserMessage(text):
                return {"role": "user", "parts": [_text(text)]}
            case AssistantMessage(text, calls, reasoning):
                thought = [{"type": "reasoning", "content": part.text} for part in reasoning if part.text]
                told = [_text(text)] if text else []
                return {"role": "assistant", "parts": [*thought, *told, *map(_call, calls)]}
            case ToolResult() as result:
                part = {"type": "tool_call_response", "id": result.call_id, "response": result.content}
                return {"role": "tool", "parts": [part, *map(_picture, result.images)]}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "content": text}


def _call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = msgspec.json.decode(call.arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        arguments = call.arguments
    return {"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments}


def _picture(image: Image) -> dict[str, Any]:
    if image.url:
        return {"type": "uri", "mime_type": image.media_type, "modality": "image", "uri": image.url}
    return _text(f"[image: {image.media_type}, {len(image.data)} bytes]")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
