"""Items of OpenAI's Responses API: reports and keeps those of responses, and encodes those of requests.

An item that must be sent back (reasoning, calls of the provider's tools) is kept whole in a `Reasoning` block, as the
received JSON text. For a message or a call, a block keeps only the fields that our own messages do not have.
Source: OpenAI API reference, "Responses" (create, and the types of items).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ..decision import (
    AnyChunk,
    AssistantMessage,
    Image,
    Message,
    ProviderToolReport,
    Reasoning,
    ReasoningDelta,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from ..decision.messages import message_parts
from .event_stream import titled
from .openai_format import NO_OUTPUT, encode_arguments, image_url

VENDOR = "openai-responses"
"""Name of this wire format in opaque items (`Reasoning.vendor`)."""
BREAK = "\n\n"
"""Separator of the messages of one response, and of its parts of reasoning."""
CUSTOM_INPUT = "input"
"""Name of the only parameter of a custom tool of the engine. Its argument is the free text that the model wrote."""
LONGEST_RESULT = 20_000
"""Maximum length of a tool's result in a report, in characters. The item that is sent back is not shortened."""
Item = Mapping[str, Any]

# ---- items of a response

_ARGUMENTS = ("arguments", "input", "code", "action", "queries", "operation")
"""Fields that may hold a tool's arguments, in order of preference."""
_RESULTS = ("output", "results", "outputs", "result", "tools", "error")
"""Fields that may hold a tool's result, in order of preference."""
_NO_TOOLS = frozenset({"compaction", "additional_tools", "configuration_update"})
"""Items that are not about a tool."""
_RUN_BY_PROVIDER = frozenset(
    "web_search_call file_search_call code_interpreter_call image_generation_call mcp_call mcp_list_tools".split()
)
"""Items of tools that only the provider runs, with or without a result."""
_PLAIN_CALL = frozenset({"id", "type", "status", "call_id", "name", "arguments"})
_PLAIN_MESSAGE = frozenset({"id", "type", "status", "role", "content"})
"""Fields of a call and of a message that our own messages have or that the vendor does not need back."""


def text_of(item: Item, name: str) -> str:
    """Return a field of an item as text: empty if it is missing or null, and JSON if it is not a string."""
    value = item.get(name)
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parts_of(item: Item, name: str) -> list[Item]:
    """Return the parts listed in a field of an item; empty if there are none."""
    parts = item.get(name)
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def report_item(item: Item) -> list[AnyChunk]:
    """Report an item about a tool that is not ours: one that the provider ran, or that it wants the client to run."""
    kind = text_of(item, "type")
    if kind in _NO_TOOLS:
        return []
    name = ".".join(filter(None, (text_of(item, "server_label"), text_of(item, "name"))))
    shown = name if name and kind in ("mcp_call", "custom_tool_call") else kind.removesuffix("_call")
    return [
        ProviderToolReport(
            text_of(item, "call_id") or text_of(item, "id"),
            shown,
            next(filter(None, (text_of(item, field) for field in _ARGUMENTS)), ""),
            _result_of(item, kind),
        )
    ]


def waits_for_client(item: Item) -> bool:
    """Return whether a client must act on an item before the model goes on.

    It may have to run a command, apply a patch or approve a call.
    The API's reference has no mark for this. A client answers an item by its `call_id`, which items of the provider's
    own tools do not have. An item of an unknown type counts as the provider's only if it holds a result.
    """
    kind = text_of(item, "type")
    if kind in _NO_TOOLS or kind in _RUN_BY_PROVIDER or kind.endswith("_output") or item.get("execution") == "server":
        return False
    return not any(item.get(field) for field in _RESULTS)


def title_of(item: Item) -> str:
    """Return the type of an item, followed by its name if it has one, for messages."""
    return titled(text_of(item, "type"), text_of(item, "name"))


def _result_of(item: Item, kind: str) -> str:
    result = next(filter(None, (text_of(item, field) for field in _RESULTS)), "")
    if kind == "image_generation_call" and len(result) > LONGEST_RESULT:
        return f"(an image: {len(result)} characters of base64)"
    return result[:LONGEST_RESULT]


def report_citations(id: str, annotations: Sequence[Any]) -> list[AnyChunk]:
    """Report the citations of the message with this id."""
    return [ProviderToolReport(id, "citations", result=json.dumps(list(annotations), ensure_ascii=False))]


def keep_item(item: Item, raw: bytes) -> list[AnyChunk]:
    """Return the item as an opaque block if it must be sent back; empty otherwise. `raw`: the item's JSON.

    Reasoning without encrypted or readable content is dropped: it only refers to something stored by the vendor, which
    stores nothing for a request with `store: false`.
    """
    match item.get("type"):
        case "reasoning":
            wanted = item.get("encrypted_content") or item.get("content")
            return [ReasoningDelta(signature=raw.decode(), vendor=VENDOR)] if wanted else []
        case "message":
            return _keep_fields(item, _PLAIN_MESSAGE, without="content")
        case "function_call":
            return _keep_fields(item, _PLAIN_CALL, without="arguments")
        case _:
            return [ReasoningDelta(signature=raw.decode(), redacted=True, vendor=VENDOR)]


def _keep_fields(item: Item, plain: frozenset[str], without: str) -> list[AnyChunk]:
    if all(name in plain or value is None for name, value in item.items()):
        return []
    fields = {name: value for name, value in item.items() if name != without}
    return [ReasoningDelta(signature=msgspec.json.encode(fields).decode(), redacted=True, vendor=VENDOR)]


# ---- messages of a request


def encode_message(message: Message, custom: frozenset[str], images: bool) -> list[Any]:
    """Encode one message as items. `custom`: names of custom tools. `images`: whether the model can see."""
    match message:
        case SystemMessage(text):
            return [{"role": "system", "content": text}]
        case UserMessage(text, pictures):
            return [{"role": "user", "content": _content(message.parts) if pictures and images else text}]
        case ToolResult():
            return [_encode_result(message, custom, images)]
        case AssistantMessage():
            return _encode_response(message, custom)


def _encode_result(result: ToolResult, custom: frozenset[str], images: bool) -> dict[str, Any]:
    kind = "custom_tool_call_output" if result.name in custom else "function_call_output"
    output: Any = result.content if result.content.strip() else NO_OUTPUT
    if result.images and images:
        output = _content((output, *result.images))
    return {"type": kind, "call_id": result.call_id, "output": output}


def _content(parts: Iterable[str | Image]) -> list[dict[str, Any]]:
    return [
        {"type": "input_text", "text": part}
        if isinstance(part, str)
        else {"type": "input_image", "image_url": image_url(part), "detail": "auto"}
        for part in parts
    ]


def _encode_response(message: AssistantMessage, custom: frozenset[str]) -> list[Any]:
    items: list[tuple[Item, Any]] = []  # each result with the version to send: unchanged, or the bytes as received
    for part in message_parts(message):
        if isinstance(part, str):
            text = part.removeprefix(BREAK) if items else part
            if text.strip():
                items.append(_same({"role": "assistant", "content": text}))
        elif isinstance(part, ToolCall):
            items.append(_same(_encode_call(part, custom)))
        elif part.vendor == VENDOR and part.signature:
            _add_kept(part, items)
    return _without_unpaired(items)


def _same(item: Item) -> tuple[Item, Any]:
    return item, item


def _add_kept(block: Reasoning, items: list[tuple[Item, Any]]) -> None:
    """Add an item that the parser kept: a whole one, or additional fields of the message or call before it."""
    item = msgspec.json.decode(block.signature)
    before = items[-1][0] if items else {}
    match item.get("type"):
        case "message":
            if "role" in before:
                content = [{"type": "output_text", "text": before["content"], "annotations": []}]
                items[-1] = _same({**item, "content": content})
        case "function_call":
            if before.get("type") == "function_call":
                items[-1] = _same({**item, **before})
        case _:
            items.append((item, msgspec.Raw(block.signature.encode())))


def _encode_call(call: ToolCall, custom: frozenset[str]) -> dict[str, Any]:
    arguments = encode_arguments(call.arguments)
    if call.name in custom:
        written = json.loads(arguments).get(CUSTOM_INPUT, arguments)
        return {"type": "custom_tool_call", "call_id": call.id, "name": call.name, "input": str(written)}
    return {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments}


def _without_unpaired(items: Sequence[tuple[Item, Any]]) -> list[Any]:
    """Return the encoded items without those that the API rejects because their counterpart is missing.

    These are calls without a result that a client has to run (a computer, a shell, an approval), and reasoning without
    the item that it led to.
    """
    answered = {item.get("call_id") for item, _ in items if str(item.get("type")).endswith("_output")}
    kept: list[Any] = []
    led_to_something = False
    for item, sent in reversed(items):
        is_open = sent is not item and _is_open(item, answered)
        led_to_something = led_to_something if item.get("type") == "reasoning" else not is_open
        if led_to_something:
            kept.append(sent)
    return kept[::-1]


def _is_open(item: Item, answered: set[Any]) -> bool:
    kind, id = str(item.get("type")), item.get("call_id")
    return kind == "mcp_approval_request" or (kind.endswith("_call") and id is not None and id not in answered)


# ---- tools of a request


def encode_tools(tools: Sequence[ToolSpec], custom: frozenset[str]) -> list[dict[str, Any]]:
    """Encode tools as functions, without those that are sent as custom tools.

    They are never strict: in strict mode, the API changes schemas and rejects those that it cannot express.
    """
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
            "strict": False,
        }
        for tool in tools
        if tool.name not in custom
    ]
