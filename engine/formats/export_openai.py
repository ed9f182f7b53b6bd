"""Export of a record as OpenAI chat messages: one object with the messages that the model read and wrote.

It has only OpenAI's fields, so that any program that reads OpenAI messages can read it; data about the run is in
`metadata`. Arguments of calls are exported exactly as the model wrote them.
Source: OpenAI API reference, "Chat Completions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..decision import AssistantMessage, Event, Message, SystemMessage, ToolResult, UserMessage
from ..decision import events as ev
from ..providers.openai_format import encode_message, encode_pictures, encode_tools
from .exports import EXPORT_LOSSES, count_losses, exported_messages

_LOSS_KINDS = EXPORT_LOSSES.keys() - {"arguments"}


def export(session_id: str, events: Sequence[Event]) -> tuple[dict[str, Any], Counter[str]]:
    """Return the session, and the counts of what it leaves out (`EXPORT_LOSSES`)."""
    started: ev.RunStarted | None = None
    work: str | None = None
    for event in events:
        if isinstance(event, ev.RunStarted):
            started = started or event
        elif isinstance(event, ev.RunFinished):
            work = event.outcome.work
    whole: dict[str, Any] = {"id": session_id}
    if started is not None and started.model:
        whole["model"] = started.model
    if started is not None and started.tools:
        whole["tools"] = encode_tools(started.tools)
    if work is not None:
        whole["metadata"] = {"work": work}
    whole["messages"] = [to_openai(message) for message in exported_messages(events)]
    return whole, count_losses(events, _LOSS_KINDS)


def to_openai_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages of a session. Images of tool results follow a response's last result, in a user message."""
    out: list[dict[str, Any]] = []
    seen: list[ToolResult] = []
    for message, following in zip(messages, [*messages[1:], None], strict=False):
        out.append(to_openai(message))
        if isinstance(message, ToolResult) and message.images:
            seen.append(message)
        if seen and not isinstance(following, ToolResult):
            out.append(encode_pictures(seen))
            seen = []
    return out


def to_openai(message: Message) -> dict[str, Any]:
    """Return one message in OpenAI's form, without the images of a tool result."""
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage():
            return encode_message(message, pictures="inside")
        case ToolResult(call_id=id, content=content):
            return {"role": "tool", "tool_call_id": id, "content": content}
        case AssistantMessage(text=text, calls=calls, reasoning=reasoning):
            out: dict[str, Any] = {"role": "assistant", "content": text or None}
            thought = "".join(block.text for block in reasoning)
            if thought:
                out["reasoning_content"] = thought
            if calls:
                out["tool_calls"] = [
                    {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                    for call in calls
                ]
            return out
