"""Gemini's generateContent for the proxy. Source: Gemini API reference, "Generating content", and Vertex AI's page.

The path of a request names the model and whether the response streams, as events (`alt=sse`) or as an array that grows.
Calls may have no ids: a result belongs to the next call of its tool. Google's clients take a comment in a stream for an
error, so a cut is told in the field `finishMessage`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

import msgspec

from ..decision import AssistantMessage, ToolCall, ToolResult, ToolSpec, Usage
from ..formats.gemini_content import camel_case, join_parts, parse_parts, parts_of
from ..formats.imported_session import ImportedSession
from ..formats.openai import parse_tools
from ..formats.parsing import as_dict, as_list, as_text
from ..providers.gemini_format import UNSIGNED, MessageEncoder, generation
from ..providers.gemini_schema import adapt_schema
from ..providers.gemini_stream import GeminiStream
from ..providers.loose_json import decode_loosely
from ..providers.openai_format import encode_arguments
from ..providers.surrogate_pairs import encodable
from .wire import EVENT_STREAM, JSON, OwnReply, ProxyWire, ReplyEnd, ResponseAssembler, WireRequest, is_from_model

_METHOD = re.compile(r"/([^/:]+):(streamGenerateContent|generateContent)/?\Z")
"""Model and method at the end of a path."""
_OWN_ID = re.compile(r"\d+\.\d+\+*")
"""Form of the id that a call has in the record if the response gave it none."""
_SETTINGS = {
    "frequencyPenalty": "frequency_penalty",
    "maxOutputTokens": "max_tokens",
    "presencePenalty": "presence_penalty",
    "seed": "seed",
    "stopSequences": "stop",
    "temperature": "temperature",
    "topK": "top_k",
    "topP": "top_p",
}
"""Names of chat completions for the settings of Gemini."""
_STATUS_WORDS = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND"}
_decode_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


# ---- responses


class GeminiEnd(ReplyEnd):
    """Ending of a stream of responses, each with the parts that are new."""

    def __init__(self, request: WireRequest) -> None:
        self._in_array = request.in_array
        self._model = request.model
        self._head: dict[str, Any] = {"modelVersion": request.model}
        self._begun = False
        self._is_whole = False
        """Whether there is one response in place of an array of them, so that nothing can be added."""
        self._why = ""

    def pieces(self, event: bytes) -> list[bytes]:
        """Return an event with a call beside other parts as one event for each part; the finish reason comes last."""
        data = self._data(event)
        if b'"functionCall"' not in data and b'"finishReason"' not in data:
            return [event]
        try:
            parts = _split(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return [event]
        if len(parts) < 2:
            return [event]
        first, *others = parts
        if not self._in_array:
            return list(map(_event, parts))
        return [event[: event.index(b"{")] + first, *(b",\r\n" + part for part in others)]

    def see(self, event: bytes) -> None:
        """Take id, model and time from the first event."""
        if self._begun:
            return
        first = as_dict(decode_loosely(encodable(self._data(event))))
        self._begun = bool(first)
        self._is_whole = self._in_array and event.lstrip().startswith(b"{")
        self._head |= {name: first[name] for name in ("modelVersion", "responseId", "createTime") if name in first}

    def as_event(self, event: bytes) -> bytes:
        """Return an element of an array as a server-sent event."""
        if not self._in_array:
            return event
        data = self._data(event)
        return _event(data.replace(b"\n", b" ").replace(b"\r", b" ")) if data else b""

    def ends(self, event: bytes) -> bool:
        """Return whether an event has the finish reason, or closes the array."""
        data = self._data(event)
        if not data:
            return event.strip() == b"]"
        if b'"finishReason"' not in data and b'"blockReason"' not in data:
            return False
        whole = as_dict(decode_loosely(encodable(data)))
        candidate = as_dict(next(iter(as_list(whole.get("candidates"))), None))
        return "finishReason" in candidate or "blockReason" in as_dict(whole.get("promptFeedback"))

    def add(self, text: str) -> bytes:
        """Return an event with the text."""
        return self._send(_response(self._head, [{"text": text}]))

    def add_calls(self, calls: Sequence[ToolCall], first: int) -> bytes:
        """Return an event with the calls. Gemini 3 takes no first call back without a signature."""
        parts = [_call(call) for call in calls]
        if first == 0 and parts and generation(self._model) >= 3:
            parts[0]["thoughtSignature"] = UNSIGNED
        return self._send(_response(self._head, parts))

    def go_on(self, event: bytes) -> bytes:
        """Return the event; in an array, as an element that is not the first one."""
        return b"," + event.lstrip()[1:] if self._in_array and event.lstrip().startswith(b"[") else event

    def comment(self, text: str) -> bytes:
        """Keep the reason for the last event."""
        self._why = text
        return b""

    def fail(self, reason: str, detail: str) -> bytes:
        """Return the error as the API sends it in a stream: JSON that is no event."""
        error = msgspec.json.encode(_error(reason, detail, 400))
        return self._element(error) + self._close() if self._in_array else error + b"\n\n"

    def cut(self, usage: Usage) -> bytes:
        """Return an event with the finish reason and the usage."""
        return self.finish("", usage)

    def finish(self, text: str, usage: Usage) -> bytes:
        """Return an event with the text, the finish reason and the usage."""
        last = _response(self._head, [{"text": text}], usage)
        if self._why:
            last["candidates"][0]["finishMessage"] = self._why
        return self._send(last) + self._close()

    def _data(self, event: bytes) -> bytes:
        """Return the JSON of an event; empty if it is something else."""
        data = event.strip(b"[], \t\r\n") if self._in_array else event.partition(b"data:")[2].strip()
        return data if data.startswith(b"{") else b""

    def _send(self, response: dict[str, Any]) -> bytes:
        data = msgspec.json.encode(response)
        return self._element(data) if self._in_array else _event(data)

    def _element(self, data: bytes) -> bytes:
        begins, self._begun = not self._begun, True
        return b"" if self._is_whole else (b"[" if begins else b",\r\n") + data

    def _close(self) -> bytes:
        return b"]" if self._in_array and not self._is_whole else b""


def _event(data: bytes) -> bytes:
    return b"data: " + data + b"\n\n"


def _split(data: bytes) -> list[bytes]:
    """Return a response as one for each of its parts, and one with the finish reason. Raises ValueError for others."""
    whole = _decode_fields(encodable(data))
    (only,) = _decode_list(whole["candidates"]) if "candidates" in whole else [msgspec.Raw()]
    candidate = _decode_fields(only)
    content = _decode_fields(candidate["content"]) if "content" in candidate else {}
    parts = _decode_list(content["parts"]) if "parts" in content else []
    ends = "finishReason" in candidate and any(as_dict(decode_loosely(bytes(part))) != {"text": ""} for part in parts)
    if len(parts) + ends < 2:
        return [data]

    def with_parts(fields: Mapping[str, Any], *parts: Any) -> bytes:
        return msgspec.json.encode({**whole, "candidates": [{**fields, "content": {**content, "parts": parts}}]})

    bare = {"index": candidate["index"]} if "index" in candidate else {}
    pieces = [with_parts(bare, part) for part in parts]
    return [*pieces, with_parts(candidate, {"text": ""})] if ends else [*pieces[:-1], with_parts(candidate, parts[-1])]


def usage_fields(usage: Usage) -> dict[str, Any]:
    """Return a usage as Gemini reports it: thoughts are counted beside the other output."""
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": max(0, usage.output_tokens - usage.reasoning_tokens),
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    if usage.cached_tokens:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    if usage.reasoning_tokens:
        counts["thoughtsTokenCount"] = usage.reasoning_tokens
    return counts


def _response(head: Mapping[str, Any], parts: list[Any], usage: Usage | None = None) -> dict[str, Any]:
    """Return a response with these parts, which ends if it has a usage."""
    candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if usage is None:
        return {"candidates": [candidate], **head}
    return {"candidates": [{**candidate, "finishReason": "STOP"}], "usageMetadata": usage_fields(usage), **head}


def _reply(request: WireRequest, text: str, id: str, usage: Usage) -> OwnReply:
    whole = _response({"modelVersion": request.model, "responseId": id}, [{"text": text}], usage)
    data = msgspec.json.encode(whole)
    if request.in_array:
        return OwnReply(body=b"[" + data + b"]")
    return OwnReply(content_type=EVENT_STREAM, body=_event(data)) if request.streams else OwnReply(body=data)


def _refusal(reason: str, detail: str, status: int = 400) -> OwnReply:
    return OwnReply(status=status, content_type=JSON, body=msgspec.json.encode(_error(reason, detail, status)))


def _error(reason: str, detail: str, status: int) -> dict[str, Any]:
    """Return an error of Google's APIs, with a code for programs in its details."""
    info = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": f"endstop_{reason}", "domain": "endstop"}
    return {"error": {"code": status, "message": detail, "status": _STATUS_WORDS[status], "details": [info]}}


def _without_call(response: dict[str, Any], name: str, text: str) -> None:
    content = response["candidates"][0]["content"]
    parts = content["parts"]
    kept = [part for part in parts if as_dict(part.get("functionCall")).get("name") != name]
    first, left = _first_call(parts), _first_call(kept)
    if "thoughtSignature" in first and "functionCall" in left:
        left.setdefault("thoughtSignature", UNSIGNED)
    content["parts"] = [*kept, *([{"text": text}] if text else [])] or [{"text": ""}]


def _first_call(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return next((part for part in parts if "functionCall" in part), {})


def _add_text_before(response: dict[str, Any], text: str) -> None:
    content = response["candidates"][0]["content"]
    content["parts"] = [{"text": f"{text}\n\n"}, *content["parts"]]


class GeminiAssembler(ResponseAssembler):
    """Assembler of the parts of a stream into one response. What later events say again replaces the earlier."""

    def __init__(self) -> None:
        super().__init__()
        self._response: dict[str, Any] = {}
        self._candidate: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._parts: list[dict[str, Any]] = []

    def is_error(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event reports that the response has failed."""
        return bool(event.get("error"))

    def add(self, event: dict[str, Any]) -> None:
        """Add an event. Raises ValueError for another format, and for a call whose arguments come in pieces."""
        if not (self._response or event.keys() & {"candidates", "promptFeedback", "usageMetadata"}):
            raise ValueError("the stream is not in Gemini's format")
        self._response |= event
        for candidate in map(as_dict, as_list(event.get("candidates"))):
            if not candidate.get("index"):  # only the first candidate was requested
                self._add_candidate(candidate)
        blocked = as_dict(self._response.get("promptFeedback")).get("blockReason")
        self.complete = self.complete or bool(self._candidate.get("finishReason") or blocked)

    def _add_candidate(self, candidate: dict[str, Any]) -> None:
        self._candidate |= candidate
        content = as_dict(candidate.get("content"))
        self._content |= content
        for part in map(as_dict, as_list(content.get("parts"))):
            if as_dict(part.get("functionCall")).keys() & {"partialArgs", "willContinue"}:
                raise ValueError("the arguments of a call come in pieces")
            self._parts.append(part)

    def build(self) -> dict[str, Any]:
        """Return the response."""
        if not self._candidate:
            return self._response
        parts = join_parts(self._parts)
        told = [part for part in parts if part != {"text": ""}] or parts[:1]
        content = {**self._content, "parts": told} if told else self._content
        return {**self._response, "candidates": [{**self._candidate, **({"content": content} if content else {})}]}


# ---- requests


def _field(fields: Mapping[str, Any], name: str) -> Any:
    """Return a field of a request, whose name is in camel case or has underscores."""
    return next((value for key, value in fields.items() if camel_case(key) == name), None)


def _tool(spec: ToolSpec) -> dict[str, Any]:
    schema = adapt_schema(spec.parameters)
    return {"name": spec.name, "description": spec.description, "parametersJsonSchema": schema}


def _declared(tools: Any) -> list[dict[str, Any]]:
    """Return the functions that a request declares, with their parameters as JSON schemas."""
    declared = [_field(as_dict(tool), "functionDeclarations") for tool in as_list(tools)]
    functions = [as_dict(one) for some in declared for one in (as_list(some) or [some])]
    return [{**one, "parameters": _field(one, "parametersJsonSchema") or one.get("parameters")} for one in functions]


def _content(role: str, parts: list[Any]) -> dict[str, Any]:
    return {"role": role, "parts": parts}


def _add_user_text(items: Sequence[Any], text: str) -> list[Any]:
    return [*items, _content("user", [{"text": text}])]


def _encoder(model: str) -> MessageEncoder:
    return MessageEncoder(signs_calls=generation(model) >= 3, pictures_inside=False, images=False)


def _encoded(encoder: MessageEncoder, message: AssistantMessage | ToolResult) -> list[Any]:
    """Return the parts of a message, as they are sent."""
    parts: list[Any] = msgspec.json.decode(b"[" + encoder.encode(message)[1] + b"]")
    return parts or [{"text": ""}]


def _said(model: str, message: AssistantMessage) -> dict[str, Any]:
    return _content("model", _encoded(_encoder(model), message))


def _claim_items(model: str, message: AssistantMessage, call: ToolCall, result: str) -> list[Any]:
    encoder = _encoder(model)
    said = _encoded(encoder, message)
    returned = ToolResult(call.id, call.name, result)
    return [_content("model", said), _content("user", _encoded(encoder, returned))]


def _add_calls(items: Sequence[Any], at: int, calls: Sequence[ToolCall], result: str) -> list[Any]:
    said = list(takewhile(is_from_model, items[at:]))
    calling = next((place for place in reversed(range(len(said))) if _first_call(parts_of(said[place]))), None)
    after = at + len(said)
    if calling is None or after == len(items):
        return [*items]
    parts = parts_of(items[after])
    number = sum("functionResponse" in part for part in parts)
    made = _content("model", [*parts_of(said[calling]), *map(_call, calls)])
    returned = [*parts[:number], *(_result(call, result) for call in calls), *parts[number:]]
    said[calling] = {**said[calling], **made}
    return [*items[:at], *said, {**items[after], "parts": returned}, *items[after + 1 :]]


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = msgspec.Raw(encode_arguments(call.arguments).encode())
    return {"functionCall": {**_id(call), "name": call.name, "args": arguments}}


def _result(call: ToolCall, result: str) -> dict[str, Any]:
    return {"functionResponse": {**_id(call), "name": call.name, "response": {"output": result}}}


def _id(call: ToolCall) -> dict[str, str]:
    """Return the id that the response gave to a call; nothing if it gave none."""
    return {} if _OWN_ID.fullmatch(call.id) else {"id": call.id}


class GeminiWire(ProxyWire, frozen=True, kw_only=True):
    """The wire whose path says what the body says on the others."""

    def read(self, body: Mapping[str, Any], path: str = "") -> WireRequest:
        """Read a request. Raises ValueError if it holds no conversation that can be followed."""
        place, _, query = path.partition("?")
        asked = _METHOD.search(unquote(place))
        if _field(as_dict(_field(body, "generationConfig")), "candidateCount") not in (None, 1):
            raise ValueError("the request asks for several responses")
        given = body.get(self.items)
        items = [given] if isinstance(given, dict) else given
        if asked is None or not isinstance(items, list) or not items:
            raise ValueError(f"the request has no {self.items}")
        streams = asked[2] == "streamGenerateContent"
        system = _field(body, self.system)
        return WireRequest(
            model=asked[1],
            streams=streams,
            system=system if isinstance(system, str) else parse_parts(parts_of(system), ImportedSession()).text,
            items=items,
            tools=parse_tools(_declared(body.get("tools"))),
            body=body,
            in_array=streams and not _streams_events(query),
        )

    def stream_path(self, path: str) -> str:
        """Return the path of a request that asks for a stream of events."""
        place, _, query = path.partition("?")
        stream = re.sub(r"(:|%3[Aa])generateContent(/?)\Z", r"\1streamGenerateContent\2", place)
        kept = [pair for pair in query.split("&") if pair and pair.partition("=")[0] not in ("alt", "$alt", "%24alt")]
        return f"{stream}?{'&'.join([*kept, urlencode({'alt': 'sse'})])}"

    def with_tool(self, tools: Sequence[Any], spec: ToolSpec) -> list[Any]:
        """Return the tools of a request with one more function beside those that it declares."""
        named = [next(filter(_declares, as_dict(tool)), "") for tool in tools]
        place = next((place for place, name in enumerate(named) if name), None)
        if place is None:
            return [*tools, {"functionDeclarations": [self.tool(spec)]}]
        declared = tools[place][named[place]]
        functions = [declared] if isinstance(declared, dict) else as_list(declared)
        changed = {**tools[place], named[place]: [*functions, self.tool(spec)]}
        return [*tools[:place], changed, *tools[place + 1 :]]

    def without_calls(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the field by which a request says that no tool is called, under the name that it has there."""
        name = next((name for name in body if camel_case(name) == "toolConfig"), "toolConfig")
        given = as_dict(body.get(name))
        kept = {key: value for key, value in given.items() if camel_case(key) != "functionCallingConfig"}
        return {name: {**kept, "functionCallingConfig": {"mode": "NONE"}}}

    def may_call(self, body: Mapping[str, Any], names: Collection[str]) -> bool:
        """Return whether a request leaves the model free to call one of these tools."""
        calling = as_dict(_field(as_dict(_field(body, "toolConfig")), "functionCallingConfig"))
        allowed = as_list(_field(calling, "allowedFunctionNames"))
        if as_text(calling.get("mode")).upper() == "NONE":
            return False
        return any(name in allowed for name in names) if allowed else bool(names)

    def settings(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the settings of a request under the names of chat completions."""
        config = as_dict(_field(body, "generationConfig"))
        named = {_SETTINGS.get(camel_case(name)): value for name, value in config.items()}
        return {name: value for name, value in named.items() if name is not None}


def _declares(name: str) -> bool:
    return camel_case(name) == "functionDeclarations"


def _streams_events(query: str) -> bool:
    return any(name in ("alt", "$alt") and value.lower() == "sse" for name, value in parse_qsl(query))


GEMINI = GeminiWire(
    name="gemini",
    path=_METHOD,
    items="contents",
    system="systemInstruction",
    open_parser=lambda request: GeminiStream(),
    open_end=GeminiEnd,
    reply=_reply,
    refusal=_refusal,
    tool=_tool,
    without_call=_without_call,
    said=_said,
    claim_items=_claim_items,
    add_calls=_add_calls,
    add_text_before=_add_text_before,
    add_user_text=_add_user_text,
    open_assembler=GeminiAssembler,
    stream_fields=lambda body: {},
    whole_events=True,
)
