"""The four wires that coding agents speak, from the provider's side: what a request asks, and how a response is sent.

A wire reads a request into a `Question` and writes a `Reply` as one body or as a stream, with every field that a strict
client needs. None of it comes from endstop, so that a mistake there is not made here, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .schemas import lower_types

Body = Mapping[str, Any]


class Text(NamedTuple):
    """Words of the model."""

    text: str


class Call(NamedTuple):
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


Part = Text | Call


class Tool(NamedTuple):
    """A tool that a request offers."""

    name: str
    schema: dict[str, Any]


class Tokens(NamedTuple):
    """What a response cost, by the provider's count."""

    input: int
    output: int


@dataclass(frozen=True)
class Question:
    """What a request asks of the model."""

    tools: tuple[Tool, ...]
    steps: int
    """Responses with calls that the conversation holds."""
    streamed: bool
    schema: dict[str, Any] | None = None
    """The JSON schema that the answer must have."""
    usage_wanted: bool = True
    """Whether a stream of chat completions says its tokens."""
    as_events: bool = True
    """Whether a stream is one of events: Google's may be an array."""


@dataclass(frozen=True)
class Reply:
    """A response of the model."""

    id: str
    model: str
    parts: tuple[Part, ...]
    tokens: Tokens

    @property
    def texts(self) -> list[str]:
        """The texts."""
        return [part.text for part in self.parts if isinstance(part, Text)]

    @property
    def calls(self) -> list[tuple[str, Call]]:
        """The calls, each with its id."""
        return [(f"{self.id}_{n}", part) for n, part in enumerate(self.parts) if isinstance(part, Call)]


class Wire(Protocol):
    """One vendor's form of requests and responses."""

    @property
    def name(self) -> str:
        """What it is called in the tables."""

    def serves(self, path: str) -> bool:
        """Return whether requests to this path ask for a response of a model."""

    def read(self, path: str, body: Body) -> Question:
        """Return what a request asks."""

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Return the response in one body."""

    def events(self, reply: Reply, question: Question) -> Iterator[bytes]:
        """Yield the pieces of a streamed response."""

    def content_type(self, question: Question) -> str:
        """Return the type of a streamed response."""

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""


def wire_of(path: str) -> Wire | None:
    """Return the wire that a path belongs to, if it asks for a response."""
    return next((wire for wire in WIRES if wire.serves(path)), None)


def _bare(path: str) -> str:
    return path.partition("?")[0]


def _pieces(text: str, size: int = 12) -> Iterator[str]:
    yield from (text[at : at + size] for at in range(0, len(text), size))


def _sse(data: Any, event: str = "") -> bytes:
    named = f"event: {event}\n" if event else ""
    return f"{named}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


class ChatCompletions:
    """OpenAI's `chat/completions`, and that of compatible servers."""

    name = "chat"

    def serves(self, path: str) -> bool:
        """Return whether it is the path of chat completions."""
        return _bare(path).endswith("/chat/completions")

    def read(self, path: str, body: Body) -> Question:
        """Return what a request asks."""
        functions = [tool.get("function") or {} for tool in body.get("tools") or []]
        output = body.get("response_format") or {}
        return Question(
            tuple(Tool(one.get("name", ""), one.get("parameters") or {}) for one in functions),
            sum(map(self._has_calls, body.get("messages", []))),
            bool(body.get("stream")),
            (output.get("json_schema") or {}).get("schema"),
            bool((body.get("stream_options") or {}).get("include_usage")),
        )

    def _has_calls(self, message: Body) -> bool:
        """smolagents keeps its calls as a text of the assistant."""
        if message.get("role") not in ("assistant", "tool-call"):
            return False
        return bool(message.get("tool_calls")) or "Calling tools:" in json.dumps(message.get("content"))

    def _usage(self, reply: Reply) -> dict[str, Any]:
        tokens = reply.tokens
        return {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
        }

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Return the response in one body."""
        message: dict[str, Any] = {"role": "assistant", "content": "".join(reply.texts) or None, "refusal": None}
        if reply.calls:
            message["tool_calls"] = [
                {"id": id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
                for id, one in reply.calls
            ]
        finish = "tool_calls" if reply.calls else "stop"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        head = {"id": f"chatcmpl-{reply.id}", "object": "chat.completion", "created": 1_700_000_000}
        return {**head, "model": reply.model, "choices": [choice], "usage": self._usage(reply)}

    def events(self, reply: Reply, question: Question) -> Iterator[bytes]:
        """Yield the chunks, the usage if it was asked for, and the end."""
        head = {"id": f"chatcmpl-{reply.id}", "object": "chat.completion.chunk", "created": 1_700_000_000}
        head["model"] = reply.model

        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
            return _sse({**head, "choices": [choice]})

        yield chunk({"role": "assistant", "content": ""})
        calls = enumerate(reply.calls)
        for part in reply.parts:
            if isinstance(part, Text):
                for piece in _pieces(part.text):
                    yield chunk({"content": piece})
                continue
            index, (id, one) = next(calls)
            function = {"name": one.name, "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]})
            for piece in _pieces(json.dumps(one.arguments)):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls" if reply.calls else "stop")
        if question.usage_wanted:
            yield _sse({**head, "choices": [], "usage": self._usage(reply)})
        yield b"data: [DONE]\n\n"

    def content_type(self, question: Question) -> str:
        """Return the type of a streamed response."""
        return "text/event-stream; charset=utf-8"

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""
        kind = "rate_limit_error" if status == 429 else "invalid_request_error"
        return {"error": {"message": message, "type": kind, "param": None, "code": None}}


class Responses:
    """OpenAI's `responses`."""

    name = "Responses"

    def serves(self, path: str) -> bool:
        """Return whether it is the path of responses."""
        return _bare(path).endswith("/responses")

    def read(self, path: str, body: Body) -> Question:
        """Return what a request asks."""
        tools = [Tool(one["name"], one.get("parameters") or {}) for one in body.get("tools") or [] if "name" in one]
        output = (body.get("text") or {}).get("format") or {}
        return Question(tuple(tools), self._steps(body.get("input")), bool(body.get("stream")), output.get("schema"))

    def _steps(self, items: Any) -> int:
        """Return how many groups of calls stand between results and messages of the user."""
        steps, within = 0, False
        for item in items if isinstance(items, list) else ():
            kind = item.get("type", "message")
            if kind.endswith("_call"):
                steps += not within
                within = True
            elif kind != "reasoning" and item.get("role") != "assistant":
                within = False
        return steps

    def _items(self, reply: Reply) -> Iterator[dict[str, Any]]:
        ids = iter(reply.calls)
        for number, part in enumerate(reply.parts):
            if isinstance(part, Text):
                content = [{"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}]
                item = {"type": "message", "id": f"msg_{reply.id}_{number}", "status": "completed", "role": "assistant"}
                yield {**item, "content": content}
            else:
                id, one = next(ids)
                item = {"type": "function_call", "id": f"fc_{id}", "status": "completed", "call_id": f"call_{id}"}
                yield {**item, "name": one.name, "arguments": json.dumps(one.arguments)}

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Return the response in one body."""
        tokens = reply.tokens
        usage = {
            "input_tokens": tokens.input,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens.input + tokens.output,
        }
        return {**self._head(reply), "status": "completed", "output": list(self._items(reply)), "usage": usage}

    def _head(self, reply: Reply) -> dict[str, Any]:
        return {
            "id": f"resp_{reply.id}",
            "object": "response",
            "created_at": 1_700_000_000,
            "status": "in_progress",
            "model": reply.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
        }

    def events(self, reply: Reply, question: Question) -> Iterator[bytes]:
        """Yield the events, numbered."""
        for number, (kind, fields) in enumerate(self._events(reply)):
            yield _sse({"type": kind, "sequence_number": number, **fields}, kind)

    def _events(self, reply: Reply) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "response.created", {"response": self._head(reply)}
        yield "response.in_progress", {"response": self._head(reply)}
        for index, item in enumerate(self._items(reply)):
            where = {"item_id": item["id"], "output_index": index}
            empty = {**item, "status": "in_progress", **({"content": []} if "content" in item else {"arguments": ""})}
            yield "response.output_item.added", {"output_index": index, "item": empty}
            if "content" in item:
                yield from self._text_events(item["content"][0], {**where, "content_index": 0})
            else:
                for piece in _pieces(item["arguments"]):
                    yield "response.function_call_arguments.delta", {**where, "delta": piece}
                yield "response.function_call_arguments.done", {**where, "arguments": item["arguments"]}
            yield "response.output_item.done", {"output_index": index, "item": item}
        yield "response.completed", {"response": self.whole(reply)}

    def _text_events(self, part: dict[str, Any], where: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "response.content_part.added", {**where, "part": {**part, "text": ""}}
        for piece in _pieces(part["text"]):
            yield "response.output_text.delta", {**where, "delta": piece, "logprobs": []}
        yield "response.output_text.done", {**where, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**where, "part": part}

    def content_type(self, question: Question) -> str:
        """Return the type of a streamed response."""
        return "text/event-stream; charset=utf-8"

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""
        return CHAT.error(status, message)


class Messages:
    """Anthropic's `messages`."""

    name = "Messages"

    def serves(self, path: str) -> bool:
        """Return whether it is the path of messages."""
        return _bare(path).endswith("/messages")

    def read(self, path: str, body: Body) -> Question:
        """Return what a request asks."""
        tools = [Tool(one.get("name", ""), one.get("input_schema") or {}) for one in body.get("tools") or []]
        output = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
        steps = sum(map(self._has_calls, body.get("messages", [])))
        return Question(tuple(tools), steps, bool(body.get("stream")), output.get("schema"))

    def _has_calls(self, message: Body) -> bool:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        return message.get("role") == "assistant" and any(block.get("type") == "tool_use" for block in blocks)

    def _blocks(self, reply: Reply) -> Iterator[dict[str, Any]]:
        ids = iter(reply.calls)
        for part in reply.parts:
            if isinstance(part, Text):
                yield {"type": "text", "text": part.text}
            else:
                id, one = next(ids)
                yield {"type": "tool_use", "id": f"toolu_{id}", "name": one.name, "input": one.arguments}

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Return the response in one body."""
        return {
            **self._head(reply),
            "content": list(self._blocks(reply)),
            "stop_reason": "tool_use" if reply.calls else "end_turn",
            "usage": self._usage(reply, reply.tokens.output),
        }

    def _head(self, reply: Reply) -> dict[str, Any]:
        head = {"id": f"msg_{reply.id}", "type": "message", "role": "assistant", "model": reply.model}
        return {**head, "content": [], "stop_reason": None, "stop_sequence": None}

    def _usage(self, reply: Reply, output: int) -> dict[str, Any]:
        cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        return {"input_tokens": reply.tokens.input, **cache, "output_tokens": output}

    def events(self, reply: Reply, question: Question) -> Iterator[bytes]:
        """Yield the events; the tokens of the output come with the last but one."""

        def event(kind: str, **fields: Any) -> bytes:
            return _sse({"type": kind, **fields}, kind)

        yield event("message_start", message={**self._head(reply), "usage": self._usage(reply, 1)})
        yield event("ping")
        for index, block in enumerate(self._blocks(reply)):
            empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
            yield event("content_block_start", index=index, content_block=empty)
            if block["type"] == "text":
                deltas = ({"type": "text_delta", "text": piece} for piece in _pieces(block["text"]))
            else:
                json_ = json.dumps(block["input"])
                deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in _pieces(json_))
            for delta in deltas:
                yield event("content_block_delta", index=index, delta=delta)
            yield event("content_block_stop", index=index)
        end = {"stop_reason": "tool_use" if reply.calls else "end_turn", "stop_sequence": None}
        yield event("message_delta", delta=end, usage={"output_tokens": reply.tokens.output})
        yield event("message_stop")

    def content_type(self, question: Question) -> str:
        """Return the type of a streamed response."""
        return "text/event-stream; charset=utf-8"

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""
        kind = "rate_limit_error" if status == 429 else "invalid_request_error"
        return {"type": "error", "error": {"type": kind, "message": message}}


class GenerateContent:
    """Google's `generateContent` and `streamGenerateContent`: events with `alt=sse`, else an array that grows."""

    name = "generateContent"

    def serves(self, path: str) -> bool:
        """Return whether it is one of the two paths."""
        return _bare(path).endswith((":generateContent", ":streamGenerateContent"))

    def read(self, path: str, body: Body) -> Question:
        """Return what a request asks."""
        tools = [
            Tool(one["name"], lower_types(one.get("parametersJsonSchema") or one.get("parameters") or {}))
            for group in body.get("tools") or []
            for one in group.get("functionDeclarations") or []
        ]
        output = body.get("generationConfig") or {}
        schema = output.get("responseJsonSchema") or output.get("responseSchema")
        return Question(
            tuple(tools),
            sum(map(self._has_calls, body.get("contents", []))),
            ":streamGenerateContent" in path,
            lower_types(schema) if schema else None,
            as_events="alt=sse" in path,
        )

    def _has_calls(self, content: Body) -> bool:
        return content.get("role") == "model" and any("functionCall" in part for part in content.get("parts", []))

    def whole(self, reply: Reply) -> dict[str, Any]:
        """Return the response in one body."""
        return self._chunk(reply, [self._part(part) for part in reply.parts], last=True)

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, Text):
            return {"text": part.text}
        return {"functionCall": {"name": part.name, "args": part.arguments}}

    def _chunk(self, reply: Reply, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if last:
            candidate["finishReason"] = "STOP"
        tokens = reply.tokens
        output = tokens.output if last else 1
        usage = {"promptTokenCount": tokens.input, "candidatesTokenCount": output}
        usage["totalTokenCount"] = tokens.input + output
        said = {"modelVersion": reply.model, "responseId": reply.id}
        return {"candidates": [candidate], "usageMetadata": usage, **said}

    def events(self, reply: Reply, question: Question) -> Iterator[bytes]:
        """Yield a part of the response in each piece."""
        parts = [
            self._part(piece)
            for part in reply.parts
            for piece in (map(Text, _pieces(part.text, 40)) if isinstance(part, Text) else (part,))
        ]
        for number, part in enumerate(parts, 1):
            chunk = json.dumps(self._chunk(reply, [part], last=number == len(parts)))
            if question.as_events:
                yield f"data: {chunk}\r\n\r\n".encode()
            else:
                yield f"{'[' if number == 1 else ','}{chunk}{']' if number == len(parts) else ''}\r\n".encode()

    def content_type(self, question: Question) -> str:
        """Return the type of a streamed response."""
        return "text/event-stream" if question.as_events else "application/json; charset=UTF-8"

    def error(self, status: int, message: str) -> dict[str, Any]:
        """Return the body of a refusal."""
        kind = "RESOURCE_EXHAUSTED" if status == 429 else "INVALID_ARGUMENT"
        return {"error": {"code": status, "message": message, "status": kind}}


CHAT = ChatCompletions()
WIRES: tuple[Wire, ...] = (CHAT, Responses(), Messages(), GenerateContent())
