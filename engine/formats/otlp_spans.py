"""Spans of requests to models in OTLP/JSON: a session for each conversation, else for each trace.

Messages stand in a span's attributes, in four forms: `gen_ai.input.messages` of OpenTelemetry's conventions of today,
events such as `gen_ai.user.message` of older ones, `gen_ai.prompt.0.role` of OpenLLMetry, and
`llm.input_messages.0.message.role` of OpenInference. Each request repeats the conversation before it: what it adds is
read, then its response. A request that continues none of the conversation is left out and counted.
Sources: OpenTelemetry, "Semantic conventions for generative AI"; OpenLLMetry; OpenInference, "Semantic conventions".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage
from .imported_session import ImportedSession, SessionBuilder, Unreadable
from .openai import add_message, parse_tools
from .parsing import as_dict, as_json, as_list, as_number, as_text, first_text

_CONVERSATIONS = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_MODELS = ("gen_ai.response.model", "gen_ai.request.model", "llm.model_name")
_INPUT_TOKENS = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.token_count.prompt")
_OUTPUT_TOKENS = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.token_count.completion")
_CACHED_TOKENS = (
    "gen_ai.usage.cache_read.input_tokens",
    "gen_ai.usage.cache_read_input_tokens",
    "llm.token_count.prompt_details.cache_read",
)
_REASONING_TOKENS = ("gen_ai.usage.reasoning_tokens", "llm.token_count.completion_details.reasoning")
_MARKS = (
    "gen_ai.operation.name",
    "gen_ai.system",
    "gen_ai.provider.name",
    "openinference.span.kind",
    "llm.request.type",
)
"""Attributes by which spans of generative AI are known."""
_READ = frozenset(
    {*_CONVERSATIONS, *_MODELS, *_INPUT_TOKENS, *_OUTPUT_TOKENS, *_CACHED_TOKENS, *_REASONING_TOKENS, *_MARKS,
     "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.tool.definitions",
     "gen_ai.response.finish_reasons", "gen_ai.response.id", "llm.cost.total", "llm.token_count.total",
     "llm.usage.total_tokens", "gen_ai.usage.total_tokens", "llm.provider", "llm.system",
     "llm.finish_reason", "input.value", "input.mime_type", "output.value", "output.mime_type"}
)  # fmt: skip
_READ_PREFIXES = (
    "gen_ai.prompt.",
    "gen_ai.completion.",
    "llm.input_messages.",
    "llm.output_messages.",
    "llm.tools.",
    "llm.request.functions.",
)
_EVENT_ROLES = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}


class _Request(Struct):
    """A span of a request, with its messages in OpenAI's form."""

    attributes: dict[str, Any]
    trace: str
    start: float
    conversation: str
    input: list[dict[str, Any]]
    output: list[dict[str, Any]]
    error: str


def is_line(data: Any) -> bool:
    """Whether this is one of the lines of a file of spans."""
    return isinstance(as_dict(data).get("resourceSpans"), list)


def matches(data: Any) -> bool:
    """Whether these are spans, or lines of them."""
    return is_line(data[0] if isinstance(data, list) and data else data)


def sessions(data: Any) -> Iterator[ImportedSession]:
    """The sessions of all spans of requests, in the order in which they began."""
    others: Counter[str] = Counter()
    requests = sorted(_find_requests(data if isinstance(data, list) else [data], others), key=lambda one: one.start)
    if not requests:
        raise Unreadable("spans among which no request to a model has messages")
    silent: list[str] = []
    conversations: dict[str, list[_Request]] = {}
    for request in requests:
        conversations.setdefault(request.conversation, []).append(request)
    for id, own in conversations.items():
        session = _session(id, own)
        session.count_loss("other span", sum(others.pop(request.trace, 0) for request in own))
        if any(isinstance(one.message, AssistantMessage) for one in session.messages):
            yield session
        else:
            silent.append(id)
    if silent:
        raise Unreadable(f"no response in {len(silent):,} conversations ({', '.join(silent[:4])})")


def _session(id: str, requests: list[_Request]) -> ImportedSession:
    session = ImportedSession(id=id)
    builder = SessionBuilder(session)
    told: list[tuple[str, str]] = []
    """Role of each message so far, with the text of those that are not the model's."""
    for request in requests:
        session.model = session.model or first_text(request.attributes, *_MODELS)
        session.tools = session.tools or _tools(request.attributes)
        unread = {name: value for name, value in request.attributes.items() if not name.startswith(_READ_PREFIXES)}
        session.count_unread_fields("field", unread, _READ, "span.")
        heard = [_mark(message) for message in request.input]
        if heard[: len(told)] != told:
            session.count_dropped("other request", request.output)
            continue
        for message in request.input[len(told) :]:
            add_message(builder, message)
        _add_output(builder, request)
        told = heard + [_mark(message) for message in request.output[:1]]
    return session


def _mark(message: dict[str, Any]) -> tuple[str, str]:
    role = as_text(message.get("role"))
    return role, "" if role == "assistant" else as_json(message.get("content"))


def _add_output(builder: SessionBuilder, request: _Request) -> None:
    attributes = request.attributes
    for other in request.output[1:]:
        builder.session.count_dropped("choice", other)
    if not request.output and request.error:
        builder.add_failure(request.error, model=first_text(attributes, *_MODELS), t=request.start)
    for message in request.output[:1]:
        words = [*as_list(attributes.get("gen_ai.response.finish_reasons")), attributes.get("llm.finish_reason")]
        finish = next(filter(None, map(as_text, words)), "")
        known = {"model": first_text(attributes, *_MODELS), "created": request.start, "finish_reason": finish}
        add_message(builder, {**known, "usage": _usage(attributes), **_without_nulls(message)})


def _without_nulls(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if value is not None}


def _usage(attributes: dict[str, Any]) -> dict[str, Any]:
    def count(names: tuple[str, ...]) -> float | None:
        return next((found for name in names if (found := as_number(attributes.get(name))) is not None), None)

    return {
        "prompt_tokens": count(_INPUT_TOKENS),
        "completion_tokens": count(_OUTPUT_TOKENS),
        "prompt_tokens_details": {"cached_tokens": count(_CACHED_TOKENS)},
        "completion_tokens_details": {"reasoning_tokens": count(_REASONING_TOKENS)},
        "cost": as_number(attributes.get("llm.cost.total")),
    }


# ---- spans


def _find_requests(lines: list[Any], others: Counter[str]) -> Iterator[_Request]:
    """The requests among the spans. `others`: how many spans of each trace are none, counted here."""
    for line in lines:
        for resource in as_list(as_dict(line).get("resourceSpans")):
            for scope in as_list(as_dict(resource).get("scopeSpans")):
                for span in map(as_dict, as_list(as_dict(scope).get("spans"))):
                    request = _read_span(span)
                    if request is not None:
                        yield request
                    else:
                        others[as_text(span.get("traceId"))] += 1


def _read_span(span: dict[str, Any]) -> _Request | None:
    """The request that a span stands for; None if it is none, or was recorded without its messages."""
    attributes = _attributes(span.get("attributes"))
    kind = as_text(attributes.get("openinference.span.kind"))
    if not any(name in attributes for name in _MARKS) or (kind and kind != "LLM"):
        return None
    if attributes.get("gen_ai.operation.name") in ("invoke_agent", "create_agent", "execute_tool", "embeddings"):
        return None
    input, output = _messages(attributes, span)
    if not input:
        return None
    status = as_dict(span.get("status"))
    failed = status.get("code") in (2, "STATUS_CODE_ERROR")
    return _Request(
        attributes=attributes,
        trace=as_text(span.get("traceId")),
        start=(as_number(_integer(span.get("startTimeUnixNano"))) or 0.0) / 1e9,
        conversation=first_text(attributes, *_CONVERSATIONS) or as_text(span.get("traceId")),
        input=input,
        output=output,
        error=(as_text(status.get("message")) or "the request failed") if failed else "",
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    """Attributes by name, from OTLP's list of keys and values."""
    return {as_text(as_dict(pair).get("key")): _value(as_dict(pair).get("value")) for pair in as_list(pairs)}


def _value(value: Any) -> Any:
    one = as_dict(value)
    if "arrayValue" in one:
        return [_value(part) for part in as_list(as_dict(one["arrayValue"]).get("values"))]
    if "kvlistValue" in one:
        return _attributes(as_dict(one["kvlistValue"]).get("values"))
    if "intValue" in one:
        return _integer(one["intValue"])
    return next(iter(one.values()), None)


def _integer(value: Any) -> Any:
    """The number, which OTLP/JSON writes as text."""
    return int(value) if isinstance(value, str) and value.lstrip("-").isdecimal() and value.isascii() else value


# ---- messages


def _messages(attributes: dict[str, Any], span: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What a request was given, and what came back, in the first of the four forms that the span has."""
    if "gen_ai.input.messages" in attributes:
        told = _instructions(attributes)
        parts = [part if isinstance(part, dict) else {"type": "text", "content": part} for part in told]
        first = [{"role": "system", "parts": parts}] if parts else []
        input = [*first, *as_list(_decode(attributes["gen_ai.input.messages"]))]
        return _from_parts(input), _from_parts(as_list(_decode(attributes.get("gen_ai.output.messages"))))
    if "llm.input_messages.0.message.role" in attributes:
        output = _from_openinference(attributes, "llm.output_messages")
        return _from_openinference(attributes, "llm.input_messages"), output
    if "gen_ai.prompt.0.role" in attributes:
        return _from_openllmetry(attributes, "gen_ai.prompt"), _from_openllmetry(attributes, "gen_ai.completion")
    return _from_events([as_dict(event) for event in as_list(span.get("events"))])


def _instructions(attributes: dict[str, Any]) -> list[Any]:
    found = _decode(attributes.get("gen_ai.system_instructions"))
    return found if isinstance(found, list) else [found] if found else []


def _decode(value: Any) -> Any:
    """The value, decoded if it is text that holds JSON."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


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
    return [*([whole] if content or calls or thoughts or not results else []), *results]


def _call(id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"id": as_text(id), "function": {"name": as_text(name), "arguments": as_json(arguments)}}


def _numbered(attributes: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The groups of attributes `prefix.0.…`, `prefix.1.…`, each by the rest of its names, in their order."""
    groups: dict[int, dict[str, Any]] = {}
    for name, value in attributes.items():
        number, dot, rest = name.removeprefix(f"{prefix}.").partition(".")
        if name.startswith(f"{prefix}.") and dot and number.isdecimal():
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
    blocks = _decode(content) if isinstance(content, str) and content.startswith("[{") else None
    return blocks if isinstance(blocks, list) else content


def _from_events(events: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Messages of older conventions: an event for each."""
    input: list[dict[str, Any]] = []
    output: list[dict[str, Any]] = []
    for event in events:
        name, told = as_text(event.get("name")), _attributes(event.get("attributes"))
        body = told | as_dict(_decode(told.get("gen_ai.event.content")))
        if name == "gen_ai.choice":
            inside = as_dict(_decode(body.get("message"))) or body
            output.append(_from_event("assistant", inside) | {"finish_reason": body.get("finish_reason")})
        elif name in _EVENT_ROLES:
            input.append(_from_event(_EVENT_ROLES[name], body))
    return input, output


def _from_event(role: str, body: dict[str, Any]) -> dict[str, Any]:
    calls = as_list(_decode(body.get("tool_calls")))
    return {"role": role, "content": body.get("content"), "tool_calls": calls, "tool_call_id": body.get("id")}


def _tools(attributes: dict[str, Any]) -> Any:
    """The tools that were offered, in any of the forms that say so."""
    defined = _decode(attributes.get("gen_ai.tool.definitions"))
    listed = [_decode(tool.get("tool.json_schema")) for tool in _numbered(attributes, "llm.tools")]
    functions = [
        {**function, "parameters": _decode(function.get("parameters"))}
        for function in _numbered(attributes, "llm.request.functions")
    ]
    return parse_tools(as_list(defined) or listed or functions)
