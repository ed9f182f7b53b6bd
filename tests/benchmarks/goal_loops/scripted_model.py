"""A model on 127.0.0.1 that does what the script of a scene says, with OpenAI's chat completions, streamed or whole.

It calls only tools that a request offers, so a claim is a call where a framework has a tool for completion and a text
where it has none. The model named `grader` is the judge of a goal that only a model can judge: it calls the tool
`run_check` and repeats what that says.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any, NamedTuple

from scenes import Scene

CHUNKS = 300
"""Chunks of `talk`."""
CHUNK_SECONDS = 0.01
RESPONSE_SECONDS = 0.2
"""How long a response takes before it comes; models take longer."""
CLAIMS = {"finish_task": "summary", "submit": "answer"}
"""Tools for completion, and the parameter that takes a text."""
TEXTS = {
    "claim": "It is done.",
    "text": "All of it is done.",
    "question": "The first half is done. Shall I go on with the second?",
    "blocked": "I cannot do it: there is no key.",
}
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Reply(NamedTuple):
    """What the model says: a text in pieces, or one call."""

    pieces: tuple[str, ...] = ()
    name: str = ""
    arguments: dict[str, Any] = {}


class ScriptedModel:
    """Replies to one scene. most: requests that are answered; later ones are never answered."""

    def __init__(self, scene: Scene, most: int) -> None:
        self._scene = scene
        self._most = most
        self._lock = Lock()
        self.url = ""
        self.requests = 0
        """Requests of the agent."""
        self.first_request = math.nan
        """When the first one came, on the monotonic clock."""
        self.grader_requests = 0
        self.chunks = 0
        """Chunks of `talk` that were sent."""
        self.too_many = Event()
        """Set at the first request that is not answered."""
        self.closed = Event()

    def reply(self, body: dict[str, Any]) -> Reply | None:
        """Return the reply to a request; None if it is one too many."""
        tools = {tool["function"]["name"] for tool in body.get("tools") or ()}
        with self._lock:
            if body["model"] == "grader":
                self.grader_requests += 1
                return _grade(body, tools)
            number = self.requests
            if number == self._most:
                self.too_many.set()
                return None
            if not number:
                self.first_request = time.monotonic()
            self.requests += 1
        word = self._scene.script[number] if number < len(self._scene.script) else self._scene.then
        return _say(word, number, tools)

    def pause(self) -> None:
        """Count a chunk of `talk`, and wait until the next one comes."""
        self.chunks += 1
        self.closed.wait(CHUNK_SECONDS)


def _say(word: str, number: int, tools: set[str]) -> Reply:
    called = {"edit": "add_line", "look": "look", "weaken": "weaken_check"}
    if word in called:
        return Reply(name=called[word], arguments={"n": number})
    if word == "talk":
        return Reply(tuple(f"word {one} " for one in range(CHUNKS)))
    if word == "blocked" and "report_blocked" in tools:
        return Reply(name="report_blocked", arguments={"reason": TEXTS[word], "tried": ["I looked for one."]})
    for name, parameter in CLAIMS.items():
        if word == "claim" and name in tools:
            return Reply(name=name, arguments={parameter: TEXTS[word]})
    return Reply((TEXTS[word],))


def _grade(body: dict[str, Any], tools: set[str]) -> Reply:
    """Judge as the tool `run_check` does."""
    last = body["messages"][-1]
    if last["role"] != "tool" or "run_check" not in tools:
        return Reply(name="run_check")
    said, _, output = _text(last["content"]).partition(": ")
    result = {"met": "satisfied", "impossible": "failed"}.get(said, "needs_revision")
    criterion = {"name": "The check passes.", "passed": said == "met"} | ({} if said == "met" else {"gap": output})
    graded = {"result": result, "explanation": output, "criteria": [criterion]}
    if "GraderResponse" in tools:
        return Reply(name="GraderResponse", arguments=graded)
    return Reply((json.dumps(graded),))


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


def _chunks(reply: Reply, number: int) -> Iterator[dict[str, Any]]:
    """The deltas of a streamed reply."""
    if reply.name:
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        yield {"tool_calls": [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]}
    for piece in reply.pieces:
        yield {"content": piece}


def _whole(reply: Reply, number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(reply.pieces) or None}
    if reply.name:
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        message["tool_calls"] = [{"id": f"call_{number}", "type": "function", "function": function}]
    return message


class _Handler(BaseHTTPRequestHandler):
    model: ScriptedModel
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        reply = self.model.reply(body)
        if reply is None:
            self.model.closed.wait()
            return
        self.model.closed.wait(RESPONSE_SECONDS)
        number = self.model.requests + self.model.grader_requests
        with suppress(ConnectionError):
            (self._stream if body.get("stream") else self._send)(reply, number, body)

    def _send(self, reply: Reply, number: int, body: dict[str, Any]) -> None:
        for _ in reply.pieces[1:]:
            self.model.pause()
        choice = {"index": 0, "message": _whole(reply, number), "finish_reason": _finish(reply)}
        data = json.dumps(_head("chat.completion", number) | {"choices": [choice], "usage": USAGE}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: Reply, number: int, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        head = _head("chat.completion.chunk", number)
        for delta in _chunks(reply, number):
            choice = {"index": 0, "delta": {"role": "assistant"} | delta, "finish_reason": None}
            self._event(head | {"choices": [choice]})
            if len(reply.pieces) > 1:
                self.model.pause()
        self._event(head | {"choices": [{"index": 0, "delta": {}, "finish_reason": _finish(reply)}]})
        if body.get("stream_options"):
            self._event(head | {"choices": [], "usage": USAGE})
        self.wfile.write(b"data: [DONE]\n\n")

    def _event(self, event: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())


def _head(kind: str, number: int) -> dict[str, Any]:
    return {"id": f"reply-{number}", "object": kind, "created": 1, "model": "m"}


def _finish(reply: Reply) -> str:
    return "tool_calls" if reply.name else "stop"


@contextmanager
def serving(scene: Scene, most: int) -> Iterator[ScriptedModel]:
    """Serve the model on a free port of 127.0.0.1, in threads."""
    model = ScriptedModel(scene, most)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"model": model}))
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield model
    finally:
        model.closed.set()
        server.shutdown()
        server.server_close()
        thread.join()
