"""The messages and tools in the attributes of a span of a request, in any of four forms.

`gen_ai.input.messages` of OpenTelemetry's conventions of today, events such as `gen_ai.user.message` of older ones,
`gen_ai.prompt.0.role` of older OpenLLMetry, and `llm.input_messages.0.message.role` of OpenInference.
Sources: OpenTelemetry, "Semantic conventions for generative AI"; OpenLLMetry; OpenInference, "Semantic conventions".
"""

from __future__ import annotations

from typing import Any

from ..decision import ToolSpec
from .openai import parse_tools
from .otlp_values import Span
from .parsing import as_dict, as_json, as_list, as_text, decode_if_json

ORIGIN = "endstop.origin"
"""In a message of the user's role that the loop wrote itself, as our own exports mark it: `nudge`, say."""
_LONGEST_NUMBER = 9
"""Digits of the longest number of a message that is read: no span has so many messages."""
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


def read_messages(span: Span) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What a request was given, and what came back, in OpenAI's form: the first of the four forms that the span has."""
    attributes = span.attributes
    if "gen_ai.input.messages" in attributes:
        told = _instructions(attributes)
        parts = [part if isinstance(part, dict) else {"type": "text", "content": part} for part in told]
        first = [{"role": "system", "parts": parts}] if parts else []
        input = [*first, *as_list(decode_if_json(attributes["gen_ai.input.messages"]))]
        return _from_parts(input), _from_parts(as_list(decode_if_json(attributes.get("gen_ai.output.messages"))))
    if "llm.input_messages.0.message.role" in attributes:
        output = _from_openinference(attributes, "llm.output_messages")
        return _from_openinference(attributes, "llm.input_messages"), output
    if "gen_ai.prompt.0.role" in attributes:
        return _from_openllmetry(attributes, "gen_ai.prompt"), _from_openllmetry(attributes, "gen_ai.completion")
    return _from_events(span.events)


def _instructions(attributes: dict[str, Any]) -> list[Any]:
    found = decode_if_json(attributes.get("gen_ai.system_instructions"))
    return found if isinstance(found, list) else [found] if found else []


def _from_parts(messages: list[Any]) -> list[dict[str, Any]]:
    """Messages of today's conventions. Each response to a call is a message of its own."""
    found: list[dict[str, Any]] = []
    for message in map(as_dict, messages):
        parts = message.get("parts")
        found += [message] if not isinstance(parts, list) else _from_message(message, [as_dict(part) for part in parts])
    return found


def _from_message(message: dict[str, Any], parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    content: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    results: list[dict[str, Any]] = []
    for part in parts:
        match part.get("type"):
            case "text":
                content.append({"type": "text", "text": as_text(part.get("content"))})
            case "reasoning":
                thoughts.append(as_text(part.get("content")))
            case "tool_call":
                calls.append(_call(part.get("id"), part.get("name"), part.get("arguments")))
            case "tool_call_response":
                answer = part.get("response", part.get("result"))
                results.append({"role": "tool", "tool_call_id": part.get("id"), "content": as_json(answer)})
            case _:
                content.append(part)
    whole: dict[str, Any] = {"role": message.get("role"), "content": content, "tool_calls": calls}
    whole |= {"reasoning_content": "\n".join(thoughts), "finish_reason": message.get("finish_reason")}
    whole |= {name: message[name] for name in (ORIGIN,) if name in message}
    return [*([whole] if content or calls or thoughts or not results else []), *results]


def _call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": as_text(id), "function": {"name": as_text(name), "arguments": as_json(arguments)}}


def _numbered(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The groups of attributes `prefix.0.…`, `prefix.1.…`, each by the rest of its names, in their order."""
    groups: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        number, dot, rest = name.removeprefix(f"{prefix}.").partition(".")
        if name.startswith(f"{prefix}.") and dot and number.isdecimal() and len(number) <= _LONGEST_NUMBER:
            groups.setdefault(int(number), {})[rest] = value
    return [groups[number] for number in sorted(groups)]


def _from_openinference(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in _numbered(attributes, prefix):
        parts = [part.get("message_content.text") for part in _numbered(group, "message.contents")]
        text = as_text(group.get("message.content")) or "\n".join(map(as_text, parts))
        calls = [
            _call(*(call.get(f"tool_call.{name}") for name in ("id", "function.name", "function.arguments")))
            for call in _numbered(group, "message.tool_calls")
        ]
        id = group.get("message.tool_call_id")
        found.append({"role": group.get("message.role"), "content": text, "tool_calls": calls, "tool_call_id": id})
    return found


def _from_openllmetry(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in _numbered(attributes, prefix):
        named = _numbered(group, "tool_calls")
        calls = [_call(call.get("id"), call.get("name"), call.get("arguments")) for call in named]
        role = as_text(group.get("role")) or "assistant"
        message: dict[str, Any] = {"role": role, "content": _text_of(group.get("content")), "tool_calls": calls}
        found.append(message | {name: group.get(name) for name in ("finish_reason", "tool_call_id")})
    return found


def _text_of(content: Any) -> Any:
    """Content, which may be blocks in JSON."""
    blocks = decode_if_json(content) if isinstance(content, str) and content.startswith("[{") else None
    return blocks if isinstance(blocks, list) else content


def _from_events(events: list[tuple[str, dict[str, Any]]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages of older conventions: an event for each."""
    input: list[dict[str, Any]] = []
    output: list[dict[str, Any]] = []
    for name, told in events:
        body = told | as_dict(decode_if_json(told.get("gen_ai.event.content")))
        if name == "gen_ai.choice":
            inside = as_dict(decode_if_json(body.get("message"))) or body
            output.append(_from_event("assistant", inside) | {"finish_reason": body.get("finish_reason")})
        elif name in _EVENT_ROLES:
            input.append(_from_event(_EVENT_ROLES[name], body))
    return input, output


def _from_event(role: str, body: dict[str, Any]) -> dict[str, Any]:
    calls = as_list(decode_if_json(body.get("tool_calls")))
    return {"role": role, "content": body.get("content"), "tool_calls": calls, "tool_call_id": body.get("id")}


def read_tools(attributes: dict[str, Any]) -> tuple[ToolSpec, ...]:
    """The tools that were offered, in any of the forms that say so."""
    defined = decode_if_json(attributes.get("gen_ai.tool.definitions"))
    listed = [decode_if_json(tool.get("tool.json_schema")) for tool in _numbered(attributes, "llm.tools")]
    functions = [
        {**function, "parameters": decode_if_json(function.get("parameters"))}
        for function in _numbered(attributes, "llm.request.functions")
    ]
    return parse_tools(as_list(defined) or listed or functions)
