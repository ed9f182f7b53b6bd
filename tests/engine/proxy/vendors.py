"""A provider that speaks all wires as the vendors describe them, and agents on the vendors' own clients.

Gemini's client here reads a stream as strictly as Google's for JavaScript does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, ClassVar, NamedTuple

import anthropic
import openai
from aiohttp import web

from .gemini_client import TRUSTS_NOBODY, GeminiClient

AFTER = 200
"""Events that the provider sends after a completion call."""
TEXT = "The port is 8080."
NAMES = ("work", "finish_task")
Events = Iterator[dict[str, Any]]


class Vendors:
    """Calls `work` twice, and then: "ordinary" answers, "finisher" calls `finish_task` and goes on.

    "circle" makes the same call for ever, "worker" another one each time, unless the request allows no call, and
    "stubborn" even then; "babbler" says the same for ever. Responses follow from the request alone.
    requests: bodies that came. sent_after: events sent after a completion call.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.requests: list[dict[str, Any]] = []
        self.sent_after = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        wire = wire_of(request)
        whole = self._response(wire, body)
        if not wire.streams(request, body):
            return web.json_response(whole)
        reply = wire.reply()
        await reply.prepare(request)
        with suppress(ConnectionError):
            await self._stream(wire, whole, reply)
        return reply

    def _response(self, wire: Wire, body: dict[str, Any]) -> dict[str, Any]:
        """What the model says to this request."""
        results = wire.results(body)
        call: tuple[str, str, str] | None = (f"call_{results}", "work", json.dumps({"n": results}))
        if self.kind == "circle":
            call = (f"call_{results}", "work", '{"n": 1}')
        elif self.kind in ("worker", "stubborn"):
            call = None if self.kind == "worker" and wire.allows_no_call(body) else call
        elif self.kind == "babbler":
            call = None
        elif results >= 2:
            call = None if self.kind == "ordinary" else ("call_end", "finish_task", json.dumps({"summary": TEXT}))
        return wire.whole(str(results), "" if call else TEXT, call)

    async def _stream(self, wire: Wire, whole: dict[str, Any], reply: web.StreamResponse) -> None:
        *begin, end = wire.events(whole)
        for group in begin:
            for event in group:
                await reply.write(sse(event))
        ends = self.kind == "finisher" and "finish_task" in json.dumps(whole)
        endless = self.kind == "babbler"
        while endless or (ends and self.sent_after < AFTER):
            self.sent_after += 1
            await reply.write(sse(wire.more(whole)))
            await asyncio.sleep(0)
        for event in end:
            await reply.write(sse(event))
        if wire is CHAT:
            await reply.write(b"data: [DONE]\n\n")


def wire_of(request: web.Request) -> Wire:
    return next(one for one in WIRES if one.takes(request))


def sse(event: dict[str, Any]) -> bytes:
    named = f"event: {event['type']}\n" if "type" in event else ""
    return f"{named}data: {json.dumps(event)}\n\n".encode()


class Answered(NamedTuple):
    """What an agent has of one response. seen: every object of the client's, as data."""

    seen: list[Any]
    text: str
    calls: list[tuple[str, str]]
    items: list[Any]
    """The response as it goes into the next request."""


class Wire:
    """One wire: what the provider says in it, and how an agent asks in it."""

    path: str
    field: str = "messages"
    """The field of a request that holds the conversation."""
    no_calls: Any = "none"
    """The `tool_choice` of a request that allows no call."""
    content_type = "text/event-stream"
    """That of a stream."""
    stream_fields: ClassVar[dict[str, Any]] = {"stream": True}
    """The fields of a request that ask for a stream."""
    says_end = True
    """Whether a stream says that nothing follows."""
    finish: bytes
    """What only the event with the finish reason holds, if the response makes a call."""
    error_kind = "type"
    """The field of an error that says of which kind it is."""
    error_kinds = ("invalid_request_error", "invalid_request_error")
    """The kinds of the errors with the statuses 400 and 404."""

    def takes(self, request: web.Request) -> bool:
        return request.path.endswith(self.path)

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        return bool(body.get("stream"))

    def reply(self) -> web.StreamResponse:
        """A reply that streams, whose events are written as server-sent events."""
        return web.StreamResponse(headers={"content-type": self.content_type})

    def where(self, *, streams: bool) -> str:
        """The path of a request, with its query."""
        return self.path

    def asked(self, items: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
        """The fields of a request with this conversation, which offers these tools."""
        raise NotImplementedError

    def frames(self, events: list[dict[str, Any]]) -> list[bytes]:
        """The events of a stream as they are sent, and what ends it."""
        return list(map(sse, events))

    def ends_late(self, whole: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The events of a response whose usage comes after the finish reason: up to that, and those after it."""
        raise NotImplementedError

    def calls(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        """Id and name of each call of a whole response."""
        raise NotImplementedError

    def allows_no_call(self, body: dict[str, Any]) -> bool:
        return bool(body.get("tool_choice") == self.no_calls)

    def prompt(self, text: str) -> dict[str, Any]:
        """What the user says, as an item."""
        return {"role": "user", "content": text}

    def results(self, body: dict[str, Any]) -> int:
        raise NotImplementedError

    def whole(self, id: str, text: str, call: tuple[str, str, str] | None) -> dict[str, Any]:
        raise NotImplementedError

    def events(self, whole: dict[str, Any]) -> list[list[dict[str, Any]]]:
        """The events of a response, in groups; the last group ends it."""
        raise NotImplementedError

    def more(self, whole: dict[str, Any]) -> dict[str, Any]:
        """An event that adds a text."""
        raise NotImplementedError

    def client(self, url: str, *, blocks: bool) -> Any:
        raise NotImplementedError

    def open(self, client: Any, items: list[Any], names: tuple[str, ...], *, streams: bool) -> Any:
        """A call of the client: what it returns, or a context manager of a stream."""
        raise NotImplementedError

    def read(self, response: Any) -> tuple[str, list[tuple[str, str]], list[Any]]:
        """Text, calls and items of a whole response."""
        raise NotImplementedError

    def final(self, stream: Any) -> Any:
        raise NotImplementedError

    def at_last(self, stream: Any, event: Any) -> Any:
        """The response as far as the client has it, if this event is the last one; None otherwise."""
        raise NotImplementedError

    def items(self, whole: dict[str, Any]) -> list[Any]:
        """A whole response as items of the conversation that goes on from it."""
        raise NotImplementedError

    def result(self, calls: list[tuple[str, str]]) -> list[Any]:
        """The results of calls, as items."""
        raise NotImplementedError


class Chat(Wire):
    path = "/chat/completions"
    stream_fields: ClassVar[dict[str, Any]] = {"stream": True, "stream_options": {"include_usage": True}}
    finish = b'"finish_reason": "tool_calls"'

    def results(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "tool" for message in body["messages"])

    def whole(self, id: str, text: str, call: tuple[str, str, str] | None) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": text or None, "refusal": None}
        if call:
            function = {"name": call[1], "arguments": call[2]}
            message["tool_calls"] = [{"id": call[0], "type": "function", "function": function}]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if call else "stop"}
        usage = {"prompt_tokens": 20, "completion_tokens": 5, "total_tokens": 25}
        head = {"id": f"chatcmpl-{id}", "object": "chat.completion", "created": 1, "model": "m"}
        return {**head, "system_fingerprint": "fp_1", "choices": [choice], "usage": usage}

    def _chunk(self, whole: dict[str, Any], delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**whole, "object": "chat.completion.chunk", "choices": [choice], "usage": None}

    def events(self, whole: dict[str, Any]) -> list[list[dict[str, Any]]]:
        choice = whole["choices"][0]
        message = choice["message"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": message["content"] and "", "refusal": None}]
        for call in message.get("tool_calls", []):
            text = call["function"]["arguments"]
            named = {"index": 0, **call, "function": {**call["function"], "arguments": ""}}
            deltas.append({"tool_calls": [named]})
            deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in (text[:5], text[5:])]
        deltas += [{"content": part} for part in (TEXT[:6], TEXT[6:]) if message["content"]]
        last = {**whole, "object": "chat.completion.chunk", "choices": []}
        return [[self._chunk(whole, one) for one in deltas], [self._chunk(whole, {}, choice["finish_reason"]), last]]

    def more(self, whole: dict[str, Any]) -> dict[str, Any]:
        return self._chunk(whole, {"content": "and now I check again "})

    def client(self, url: str, *, blocks: bool) -> Any:
        kind, http = (
            (openai.OpenAI, openai.DefaultHttpxClient)
            if blocks
            else (openai.AsyncOpenAI, openai.DefaultAsyncHttpxClient)
        )
        return kind(base_url=f"{url}/v1", api_key="sk-1", max_retries=2, http_client=http(verify=TRUSTS_NOBODY))

    def open(self, client: Any, items: list[Any], names: tuple[str, ...], *, streams: bool) -> Any:
        asked = self.asked(items, names)
        if streams:
            return client.chat.completions.stream(**asked, stream_options=self.stream_fields["stream_options"])
        return client.chat.completions.create(**asked)

    def asked(self, items: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
        empty = {"type": "object", "properties": {}, "additionalProperties": False}
        tools = [{"type": "function", "function": {"name": one, "parameters": empty, "strict": True}} for one in names]
        return {"model": "m", "messages": items, "tools": tools}

    def frames(self, events: list[dict[str, Any]]) -> list[bytes]:
        return [*map(sse, events), b"data: [DONE]\n\n"]

    def ends_late(self, whole: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        *events, usage = (event for group in self.events(whole) for event in group)
        return events, [usage]

    def calls(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        return [(call["id"], call["function"]["name"]) for call in whole["choices"][0]["message"].get("tool_calls", [])]

    def final(self, stream: Any) -> Any:
        return stream.get_final_completion()

    def at_last(self, stream: Any, event: Any) -> Any:
        ends = event.type == "chunk" and event.chunk.usage is not None
        return stream.current_completion_snapshot if ends else None

    def read(self, response: Any) -> tuple[str, list[tuple[str, str]], list[Any]]:
        message = response.choices[0].message
        calls = [(call.id, call.function.name) for call in message.tool_calls or []]
        item = message.model_dump(exclude_none=True, exclude={"parsed"}, warnings=False)
        for call in item.get("tool_calls", []):
            call["function"].pop("parsed_arguments", None)
        return message.content or "", calls, [item]

    def items(self, whole: dict[str, Any]) -> list[Any]:
        return [choice["message"] for choice in whole["choices"]]

    def result(self, calls: list[tuple[str, str]]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": id, "content": "ok"} for id, _ in calls]


class Messages(Wire):
    path = "/messages"
    no_calls = {"type": "none"}
    finish = b"message_delta"
    error_kinds = ("invalid_request_error", "not_found_error")

    def results(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "user" for message in body["messages"]) - 1

    def whole(self, id: str, text: str, call: tuple[str, str, str] | None) -> dict[str, Any]:
        block: dict[str, Any] = {"type": "text", "text": text}
        if call:
            block = {"type": "tool_use", "id": call[0], "name": call[1], "input": json.loads(call[2])}
        head = {"id": f"msg_{id}", "type": "message", "role": "assistant", "model": "m", "content": [block]}
        usage = {"input_tokens": 20, "output_tokens": 5}
        return {**head, "stop_reason": "tool_use" if call else "end_turn", "stop_sequence": None, "usage": usage}

    def events(self, whole: dict[str, Any]) -> list[list[dict[str, Any]]]:
        block = whole["content"][0]
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        text = json.dumps(block["input"]) if "input" in block else block["text"]
        kind, field = ("input_json_delta", "partial_json") if "input" in block else ("text_delta", "text")
        empty = {**block, "input": {}} if "input" in block else {**block, "text": ""}
        deltas = [{"type": kind, field: part} for part in (text[:5], text[5:])]
        at = {"type": "content_block_delta", "index": 0}
        return [
            [
                {"type": "message_start", "message": begun},
                {"type": "content_block_start", "index": 0, "content_block": empty},
                {"type": "ping"},
                *({**at, "delta": delta} for delta in deltas),
            ],
            [] if kind == "text_delta" else [{"type": "content_block_stop", "index": 0}, *self._opens(whole)],
            [
                {"type": "content_block_stop", "index": int(bool(self._opens(whole)))},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
                    "usage": {"output_tokens": 5},
                },
                {"type": "message_stop"},
            ][0 if kind == "text_delta" or self._opens(whole) else 1 :],
        ]

    def _opens(self, whole: dict[str, Any]) -> list[dict[str, Any]]:
        """A text that begins after a completion call."""
        block = {"type": "text", "text": ""}
        ends = whole["content"][0].get("name") == "finish_task"
        return [{"type": "content_block_start", "index": 1, "content_block": block}] if ends else []

    def more(self, whole: dict[str, Any]) -> dict[str, Any]:
        delta = {"type": "text_delta", "text": "and now I check again "}
        return {"type": "content_block_delta", "index": len(self._opens(whole)), "delta": delta}

    def client(self, url: str, *, blocks: bool) -> Any:
        kind, http = (
            (anthropic.Anthropic, anthropic.DefaultHttpxClient)
            if blocks
            else (anthropic.AsyncAnthropic, anthropic.DefaultAsyncHttpxClient)
        )
        return kind(base_url=url, api_key="sk-2", max_retries=2, http_client=http(verify=TRUSTS_NOBODY))

    def open(self, client: Any, items: list[Any], names: tuple[str, ...], *, streams: bool) -> Any:
        asked = self.asked(items, names)
        return client.messages.stream(**asked) if streams else client.messages.create(**asked)

    def asked(self, items: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
        tools = [{"name": one, "input_schema": {"type": "object"}} for one in names]
        return {"model": "m", "max_tokens": 99, "messages": items, "tools": tools}

    def calls(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        return [(block["id"], block["name"]) for block in whole["content"] if block["type"] == "tool_use"]

    def final(self, stream: Any) -> Any:
        return stream.get_final_message()

    def at_last(self, stream: Any, event: Any) -> Any:
        return stream.current_message_snapshot if event.type == "message_stop" else None

    def read(self, response: Any) -> tuple[str, list[tuple[str, str]], list[Any]]:
        calls = [(block.id, block.name) for block in response.content if block.type == "tool_use"]
        texts = [block.text for block in response.content if block.type == "text"]
        kept = ("type", "text", "id", "name", "input")
        content = [
            {name: value for name, value in block.model_dump(warnings=False).items() if name in kept}
            for block in response.content
        ]
        return "".join(texts), calls, [{"role": "assistant", "content": content}]

    def items(self, whole: dict[str, Any]) -> list[Any]:
        return [{"role": "assistant", "content": whole["content"]}]

    def result(self, calls: list[tuple[str, str]]) -> list[Any]:
        results = [{"type": "tool_result", "tool_use_id": id, "content": "ok"} for id, _ in calls]
        return [{"role": "user", "content": results}]


class Responses(Wire):
    path = "/responses"
    field = "input"
    finish = b"response.completed"

    def results(self, body: dict[str, Any]) -> int:
        return sum(item.get("type") == "function_call_output" for item in body["input"])

    def whole(self, id: str, text: str, call: tuple[str, str, str] | None) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item: dict[str, Any] = {"type": "message", "id": f"msg_{id}", "status": "completed", "role": "assistant"}
        item["content"] = [part]
        if call:
            item = {"type": "function_call", "id": f"fc_{call[0]}", "status": "completed", "call_id": call[0]}
            item |= {"name": call[1], "arguments": call[2]}
        details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        usage = {"input_tokens": 20, "output_tokens": 5, "total_tokens": 25, **details}
        head = {"id": f"resp_{id}", "object": "response", "created_at": 1, "model": "m", "status": "completed"}
        rest = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "error": None, "metadata": {}}
        return {**head, **rest, "output": [item], "usage": usage}

    def events(self, whole: dict[str, Any]) -> list[list[dict[str, Any]]]:
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        begin: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        (item,) = whole["output"]
        at = {"output_index": 0, "item_id": item["id"]}
        added = {"type": "response.output_item.added", "output_index": 0}
        if item["type"] == "function_call":
            begin.append({**added, "item": {**item, "status": "in_progress", "arguments": ""}})
            kind, text = "response.function_call_arguments", item["arguments"]
            begin += [{"type": f"{kind}.delta", **at, "delta": part} for part in (text[:5], text[5:])]
            last = [{"type": f"{kind}.done", **at, "arguments": text, "name": item["name"]}]
        else:
            (part,) = item["content"]
            at = {**at, "content_index": 0}
            begin.append({**added, "item": {**item, "status": "in_progress", "content": []}})
            begin.append({"type": "response.content_part.added", **at, "part": {**part, "text": ""}})
            text = {"type": "response.output_text.delta", **at, "logprobs": []}
            begin += [{**text, "delta": piece} for piece in (TEXT[:6], TEXT[6:])]
            last = [
                {"type": "response.output_text.done", **at, "text": TEXT, "logprobs": []},
                {"type": "response.content_part.done", **at, "part": part},
            ]
        last.append({"type": "response.output_item.done", "output_index": 0, "item": item})
        groups = [begin, [*last, {"type": "response.completed", "response": whole}]]
        numbered = enumerate(event for group in groups for event in group)
        for number, event in numbered:
            event["sequence_number"] = number
        return groups

    def more(self, whole: dict[str, Any]) -> dict[str, Any]:
        (item,) = whole["output"]
        if item["type"] == "message":
            at = {"output_index": 0, "item_id": item["id"], "content_index": 0, "logprobs": [], "sequence_number": 9}
            return {"type": "response.output_text.delta", **at, "delta": "and now I check again "}
        at = {"output_index": 1, "item_id": "rs_1", "content_index": 0, "sequence_number": 9}
        return {"type": "response.reasoning_text.delta", **at, "delta": "and now I check again "}

    def client(self, url: str, *, blocks: bool) -> Any:
        return CHAT.client(url, blocks=blocks)

    def open(self, client: Any, items: list[Any], names: tuple[str, ...], *, streams: bool) -> Any:
        asked = self.asked(items, names)
        return client.responses.stream(**asked) if streams else client.responses.create(**asked)

    def asked(self, items: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
        tools = [{"type": "function", "name": one, "parameters": {"type": "object"}, "strict": False} for one in names]
        return {"model": "m", "input": items, "tools": tools}

    def calls(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        return [(item["call_id"], item["name"]) for item in whole["output"] if item["type"] == "function_call"]

    def final(self, stream: Any) -> Any:
        return stream.get_final_response()

    def at_last(self, stream: Any, event: Any) -> Any:
        return event.response if event.type == "response.completed" else None

    def read(self, response: Any) -> tuple[str, list[tuple[str, str]], list[Any]]:
        calls = [(item.call_id, item.name) for item in response.output if item.type == "function_call"]
        unknown = {"parsed_arguments": True, "content": {"__all__": {"parsed"}}}
        items = [item.model_dump(exclude_none=True, exclude=unknown, warnings=False) for item in response.output]
        return response.output_text, calls, items

    def items(self, whole: dict[str, Any]) -> list[Any]:
        return [*whole["output"]]

    def result(self, calls: list[tuple[str, str]]) -> list[Any]:
        return [{"type": "function_call_output", "call_id": id, "output": "ok"} for id, _ in calls]


class GenerateContent(Wire):
    """Gemini's, streamed as events. Its calls have no ids."""

    path = "/models/gemini-3-m:generateContent"
    query = "?alt=sse"
    field = "contents"
    signature = "c2lnbmF0dXJl"
    stream_fields: ClassVar[dict[str, Any]] = {}
    says_end = False
    finish = b'"finishReason"'
    error_kind = "status"
    error_kinds = ("INVALID_ARGUMENT", "NOT_FOUND")

    def takes(self, request: web.Request) -> bool:
        return request.path.endswith("enerateContent") and ("alt" in request.query or not self.streams(request, {}))

    def streams(self, request: web.Request, body: dict[str, Any]) -> bool:
        return request.path.endswith(":streamGenerateContent")

    def allows_no_call(self, body: dict[str, Any]) -> bool:
        return bool(body.get("toolConfig") == {"functionCallingConfig": {"mode": "NONE"}})

    def prompt(self, text: str) -> dict[str, Any]:
        return {"role": "user", "parts": [{"text": text}]}

    def results(self, body: dict[str, Any]) -> int:
        return sum("functionResponse" in part for content in body["contents"] for part in content["parts"])

    def whole(self, id: str, text: str, call: tuple[str, str, str] | None) -> dict[str, Any]:
        part: dict[str, Any] = {"text": text}
        if call:
            part = {"functionCall": {"name": call[1], "args": json.loads(call[2])}, "thoughtSignature": self.signature}
        candidate = {"content": {"parts": [part], "role": "model"}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 20, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "totalTokenCount": 25}
        head = {"usageMetadata": {**usage, "cachedContentTokenCount": 4}, "modelVersion": "gemini-3-m"}
        return {"candidates": [candidate], **head, "responseId": f"response-{id}"}

    def _event(self, whole: dict[str, Any], *parts: dict[str, Any], ends: bool = False) -> dict[str, Any]:
        candidate = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
        return {**whole, "candidates": [{**candidate, "finishReason": "STOP"} if ends else candidate]}

    def events(self, whole: dict[str, Any]) -> list[list[dict[str, Any]]]:
        parts = whole["candidates"][0]["content"]["parts"]
        begin = [self._event(whole, *parts)]
        if "text" in parts[0]:
            text = parts[0]["text"]
            begin = [self._event(whole, {"text": piece}) for piece in (text[:6], text[6:])]
        return [begin, [self._event(whole, {"text": ""}, ends=True)]]

    def more(self, whole: dict[str, Any]) -> dict[str, Any]:
        return self._event(whole, {"text": "and now I check again "})

    def client(self, url: str, *, blocks: bool) -> Any:
        return GeminiClient(f"{url}/v1beta", blocks=blocks)

    def open(self, client: Any, items: list[Any], names: tuple[str, ...], *, streams: bool) -> Any:
        path, body = self.where(streams=streams), self.asked(items, names)
        return client.stream(path, body) if streams else client.whole(path, body)

    def where(self, *, streams: bool) -> str:
        return self.path.replace(":g", ":streamG") + self.query if streams else self.path

    def asked(self, items: list[Any], names: tuple[str, ...]) -> dict[str, Any]:
        declared = [{"name": one, "parametersJsonSchema": {"type": "object"}} for one in names]
        return {"contents": items, "tools": [{"functionDeclarations": declared}]}

    def ends_late(self, whole: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        counted = {name: value for name, value in whole.items() if name != "candidates"}
        events = [event for group in self.events(whole) for event in group]
        return [{name: one[name] for name in one if name != "usageMetadata"} for one in events], [counted]

    def calls(self, whole: dict[str, Any]) -> list[tuple[str, str]]:
        parts = whole["candidates"][0]["content"]["parts"]
        return [("", part["functionCall"]["name"]) for part in parts if "functionCall" in part]

    def items(self, whole: dict[str, Any]) -> list[Any]:
        return [candidate["content"] for candidate in whole["candidates"]]

    def final(self, stream: Any) -> Any:
        return stream.final()

    def at_last(self, stream: Any, event: Any) -> Any:
        return stream.so_far() if "finishReason" in event.data["candidates"][0] else None

    def read(self, response: Any) -> tuple[str, list[tuple[str, str]], list[Any]]:
        content = response.data["candidates"][0]["content"]
        return "".join(part.get("text", "") for part in content["parts"]), self.calls(response.data), [content]

    def result(self, calls: list[tuple[str, str]]) -> list[Any]:
        answers = [{"functionResponse": {"name": name, "response": {"output": "ok"}}} for _, name in calls]
        return [{"role": "user", "parts": answers}]


class GenerateArray(GenerateContent):
    """Gemini's, streamed as an array that grows."""

    query = ""
    content_type = "application/json; charset=UTF-8"

    def takes(self, request: web.Request) -> bool:
        return request.path.endswith(":streamGenerateContent")

    def reply(self) -> web.StreamResponse:
        return ArrayReply(headers={"content-type": self.content_type})

    def frames(self, events: list[dict[str, Any]]) -> list[bytes]:
        return [*(element(event, first=number == 0) for number, event in enumerate(events)), b"]"]


def element(event: dict[str, Any], *, first: bool) -> bytes:
    """An element of an array that grows, over several lines as Google sends it, with what stands before it."""
    return (b"[" if first else b",\r\n") + json.dumps(event, indent=2).encode()


class ArrayReply(web.StreamResponse):
    """A stream whose events become the elements of an array."""

    begun = False

    async def write(self, data: Any) -> None:
        for event in filter(None, bytes(data).split(b"\n\n")):
            await super().write(element(json.loads(event.removeprefix(b"data: ")), first=not self.begun))
            self.begun = True

    async def write_eof(self, data: bytes = b"") -> None:
        if not self.prepared or self._eof_sent:
            return
        with suppress(ConnectionError):
            await super().write(b"]" if self.begun else b"[]")
        await super().write_eof(data)


CHAT, MESSAGES, RESPONSES = Chat(), Messages(), Responses()
GEMINI, GEMINI_ARRAY = GenerateContent(), GenerateArray()
WIRES = (CHAT, MESSAGES, RESPONSES, GEMINI, GEMINI_ARRAY)


class Run(NamedTuple):
    """What became of an agent. seen: all objects that its client gave it."""

    requests: int
    text: str
    seen: list[Any]


MOST = 12
"""Requests of an agent that nothing stops."""


async def run_agent(
    wire: Wire,
    url: str,
    *,
    streams: bool,
    blocks: bool,
    names: tuple[str, ...] = NAMES,
    seen: list[Any] | None = None,
    leaves: bool = False,
) -> Run:
    """An agent on the vendor's client whose rule is "no calls: end".

    blocks: whether the client is the blocking one. seen: gets the client's objects as they come. leaves: whether it
    leaves each stream at its last event.
    """
    loop = _Loop(wire, [] if seen is None else seen, leaves=leaves)
    if blocks:
        return await asyncio.to_thread(_run_blocking, loop, url, streams, names)
    async with wire.client(url, blocks=False) as client:
        while not loop.ended:
            opened = wire.open(client, loop.items, names, streams=streams)
            if streams:
                async with opened as stream:
                    async for event in stream:
                        if (response := loop.see_event(stream, event)) is not None:
                            break
                    else:
                        response = await wire.final(stream)
            else:
                response = await opened
            loop.take(response)
    return loop.run


def _run_blocking(loop: _Loop, url: str, streams: bool, names: tuple[str, ...]) -> Run:
    with loop.wire.client(url, blocks=True) as client:
        while not loop.ended:
            opened = loop.wire.open(client, loop.items, names, streams=streams)
            if streams:
                with opened as stream:
                    for event in stream:
                        if (response := loop.see_event(stream, event)) is not None:
                            break
                    else:
                        response = loop.wire.final(stream)
            else:
                response = opened
            loop.take(response)
    return loop.run


class _Loop:
    """What an agent's loop keeps between its requests, with either client. It ends at a response without calls."""

    def __init__(self, wire: Wire, seen: list[Any], *, leaves: bool) -> None:
        self.wire = wire
        self._leaves = leaves
        self.items: list[Any] = [wire.prompt("go")]
        self.run = Run(0, "went on", seen)
        self.ended = False

    def see(self, given: Any) -> None:
        """Keep an object of the client as a dictionary."""
        self.run.seen.append(given.model_dump(warnings=False))

    def see_event(self, stream: Any, event: Any) -> Any:
        """Keep an event of a stream. Return the response if the stream is left here."""
        self.see(event)
        return self.wire.at_last(stream, event) if self._leaves else None

    def take(self, response: Any) -> None:
        """Answer the calls of a response, or end."""
        self.see(response)
        text, calls, more = self.wire.read(response)
        requests = self.run.requests + 1
        self.ended = not calls or requests == MOST
        self.run = self.run._replace(requests=requests, text=self.run.text if calls else text)
        self.items += [*more, *self.wire.result(calls)]
