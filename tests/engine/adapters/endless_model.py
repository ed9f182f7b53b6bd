"""A model behind a server on loopback that never stops by itself.

OpenAI's chat completions and responses and Gemini's wire, streamed and not, and Anthropic's messages, streamed. What it
says follows from the request: the name of the model and the results that the conversation holds. After its completion
it sends more and more text, and counts what was sent.

    finisher    works twice, then calls `finish_task` and goes on talking; asked again, it calls `work` for ever
    circle      the same call for ever
    talker      answers with text
    forgetful   announces a call in text after its first result, and then makes it
    announcer   announces a call in text after its first result, for ever
    worker      another call for ever, unless the request allows none
    several     three calls in its first response, and then text
    structured  works twice, then calls the tool for structured output of Google's ADK
    to_first    hands over to the agent `first`, with the tool of Google's ADK; to_second: to `second`
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import SO_SNDBUF, SOL_SOCKET
from threading import Event as ThreadEvent
from threading import Lock, Thread
from typing import Any

from . import gemini_wire, messages_wire

AFTER = 2000
"""Chunks that it sends after a completion call: more than the buffers of a connection hold."""
MORE = "and now I check again " * 40
SEND_BUFFER = 8192
ANNOUNCED = "I will now run the tests."
CLOSED = "I worked, and the port is not set."
USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}


class EndlessModel:
    """What was asked of the server, and what it has sent."""

    def __init__(self, pause: float = 0.0) -> None:
        self.pause = pause
        """Seconds between two chunks after a completion."""
        self.requests: list[dict[str, Any]] = []
        self.chunks_after = 0
        """Chunks after a completion call that were handed to the network."""
        self.url = ""
        self.to_close: list[Callable[[], Awaitable[Any]]] = []
        """What closes the clients that a test made for it, in the order in which they were made."""
        self._lock, self._paused = Lock(), ThreadEvent()

    def reply(self, body: dict[str, Any]) -> tuple[int, str, list[tuple[str, str, str]], bool]:
        """The number, text and calls (id, name, arguments) of a response, and whether chunks follow without end."""
        with self._lock:
            self.requests.append(body)
            number = len(self.requests)
        results = sum(_is_result(one) for one in self.items(body))
        call = [(f"call_{number}_{results}", "work", json.dumps({"n": results}))]
        match body["model"]:
            case "circle":
                return number, "", [(f"call_{number}_{results}", "work", '{"n": 1}')], False
            case "forgetful" if results == 1 and not _last_is_nudge(self.items(body)):
                return number, ANNOUNCED, [], False
            case "announcer" if results:
                return number, ANNOUNCED, [], False
            case "worker" if _allows_no_call(body):
                return number, CLOSED, [], False
            case "worker":
                return number, "", call, False
            case "several" if not results:
                calls = [(f"call_{number}_{place}", "work", json.dumps({"n": place})) for place in range(3)]
                return number, "", calls, False
            case "talker" | "several":
                return number, "The port is 8080.", [], False
            case "to_first" | "to_second":
                name = json.dumps({"agent_name": body["model"].removeprefix("to_")})
                return number, "", [(f"call_{number}", "transfer_to_agent", name)], False
            case "structured" if results == 2:
                return number, "", [(f"call_{number}", "set_model_response", '{"summary": "port is 8080"}')], False
            case _ if results == 2:
                return number, "", [(f"call_{number}_{results}", "finish_task", '{"summary": "port is 8080"}')], True
        return number, "", call, False

    @staticmethod
    def items(body: dict[str, Any]) -> list[Any]:
        """The conversation of a request."""
        given = body.get("messages", body.get("input", []))
        return messages_wire.items(given) if isinstance(given, list) else [{"role": "user", "content": given}]

    def said(self, number: int) -> list[str]:
        """What the user's role says in a request."""
        return [_text(one.get("content")) for one in self.items(self.requests[number]) if one.get("role") == "user"]

    def nudges(self, number: int = -1) -> list[str]:
        """What the user's role says in a request beside the prompt `go`."""
        return [text for text in self.said(number) if text != "go"]

    def sent_after(self) -> None:
        """One more chunk after a completion was sent."""
        with self._lock:
            self.chunks_after += 1
        if self.pause:
            self._paused.wait(self.pause)


class ScriptedModel(EndlessModel):
    """Replies as a script says: for each name of a model its responses in order, and then a text for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: dict[str, list[tuple[str, list[tuple[str, str, str]]]]] = {}

    def reply(self, body: dict[str, Any]) -> tuple[int, str, list[tuple[str, str, str]], bool]:
        """The next response of the script."""
        with self._lock:
            self.requests.append(body)
            script = self.scripts[body["model"]]
            text, calls = script.pop(0) if script else (LAST_TEXT, [])
            return len(self.requests), text, calls, False


LAST_TEXT = "The recorded session ends here."


def _allows_no_call(body: dict[str, Any]) -> bool:
    return body.get("tool_choice") in ("none", {"type": "none"})


def _is_result(item: dict[str, Any]) -> bool:
    return item.get("role") == "tool" or item.get("type") == "function_call_output"


def _last_is_nudge(items: list[Any]) -> bool:
    return items[-1].get("role") == "user"


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


class _Handler(BaseHTTPRequestHandler):
    model: EndlessModel
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        self.request.setsockopt(SOL_SOCKET, SO_SNDBUF, SEND_BUFFER)
        super().setup()

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        gemini, chat = "enerateContent" in self.path, self.path.endswith("/chat/completions")
        body = gemini_wire.as_chat(self.path, body) if gemini else body
        number, text, calls, endless = self.model.reply(body)
        messages = self.path.startswith("/v1/messages")
        after = AFTER if endless else 0
        with suppress(ConnectionError):
            if messages:
                self._stream(messages_wire.events(body, number, text, calls, [MORE] * after))
            elif body.get("stream"):
                if gemini:
                    events = gemini_wire.events(text, calls, [MORE] * after)
                elif chat:
                    events = _chat_events(body, text, calls, after)
                else:
                    events = _response_events(number, text, calls, after)
                self._stream(events)
            else:
                text += MORE * after
                for _ in range(after):
                    self.model.sent_after()
                if gemini:
                    self._whole(gemini_wire.reply(text, calls))
                else:
                    self._whole(_chat_reply(text, calls) if chat else _response(number, text, calls))

    def _whole(self, reply: dict[str, Any]) -> None:
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[tuple[dict[str, Any], bool]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        for event, after in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            if after:
                self.model.sent_after()
        if self.path.endswith("/chat/completions"):
            self.wfile.write(b"data: [DONE]\n\n")


def _chat_events(
    body: dict[str, Any], text: str, calls: list[tuple[str, str, str]], after: int
) -> Iterator[tuple[dict[str, Any], bool]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    yield chunk({"role": "assistant", "content": text}), False
    for index, (id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        yield chunk({"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}), False
        for piece in (arguments[:5], arguments[5:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), False
    for _ in range(after):
        yield chunk({"content": MORE}), True
    yield chunk({}, "tool_calls" if calls else "stop"), False
    if body.get("stream_options"):
        yield {**chunk({}), "choices": [], "usage": USAGE}, False


def _chat_reply(text: str, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    tool_calls = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": tool_calls} if calls else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}
    head = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    return {**head, "choices": [choice], "usage": USAGE}


def _response(number: int, text: str, calls: list[tuple[str, str, str]]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    message = {"type": "message", "id": f"m{number}", "role": "assistant", "status": "completed", "content": content}
    output: list[dict[str, Any]] = [message] if text else []
    output += [
        {"type": "function_call", "id": f"f{id}", "call_id": id, "name": n, "arguments": a, "status": "completed"}
        for id, n, a in calls
    ]
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110, **details}
    head = {"id": f"r{number}", "object": "response", "created_at": 1, "model": "m", "status": "completed", "tools": []}
    return {**head, "output": output, "usage": usage, "parallel_tool_calls": True, "tool_choice": "auto"}


def _response_events(
    response: int, text: str, calls: list[tuple[str, str, str]], after: int
) -> Iterator[tuple[dict[str, Any], bool]]:
    number = iter(range(10**6))

    def event(type: str, **fields: Any) -> dict[str, Any]:
        return {"type": type, "sequence_number": next(number), **fields}

    whole = _response(response, text + MORE * after, calls)
    items = sorted(whole["output"], key=lambda item: item["type"])  # calls first: what follows the completion is text
    yield event("response.created", response={**whole, "status": "in_progress", "output": []}), False
    for index, item in enumerate(items):
        if item["type"] == "function_call":
            empty = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=index, item=empty), False
            for piece in (item["arguments"][:5], item["arguments"][5:]):
                fields = {"output_index": index, "item_id": item["id"], "delta": piece}
                yield event("response.function_call_arguments.delta", **fields), False
            fields = {
                "output_index": index,
                "item_id": item["id"],
                "arguments": item["arguments"],
                "name": item["name"],
            }
            yield event("response.function_call_arguments.done", **fields), False
        else:
            yield from ((one, bool(after)) for one in _text_events(event, index, item, text, after))
        yield event("response.output_item.done", output_index=index, item=item), bool(after) and item is items[-1]
    yield event("response.completed", response={**whole, "output": items}), False


def _text_events(event: Any, index: int, item: dict[str, Any], text: str, after: int) -> Iterator[dict[str, Any]]:
    place = {"output_index": index, "item_id": item["id"], "content_index": 0}
    yield event("response.output_item.added", output_index=index, item={**item, "content": []})
    part = {"type": "output_text", "text": "", "annotations": []}
    yield event("response.content_part.added", **place, part=part)
    for piece in [*([text] if text else []), *[MORE] * after]:
        yield event("response.output_text.delta", **place, delta=piece, logprobs=[])
    whole = item["content"][0]["text"]
    yield event("response.output_text.done", **place, text=whole, logprobs=[])
    yield event("response.content_part.done", **place, part={**part, "text": whole})


@contextmanager
def serving(model: EndlessModel | None = None) -> Iterator[EndlessModel]:
    """The server on a free port of 127.0.0.1, in threads."""
    model = model or EndlessModel()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@asynccontextmanager
async def serving_clients() -> AsyncIterator[EndlessModel]:
    """The server, and at the end its asynchronous clients are closed."""
    with serving() as model:
        yield model
        while model.to_close:
            await model.to_close.pop()()
