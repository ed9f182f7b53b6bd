"""A chat-completions endpoint that plays scenarios (`task.py`) and keeps account of what it sent.

    python mock_provider.py            prints its port, then serves until it is killed

`POST .../chat/completions` streams; `GET /sessions/NAME` tells what became of each response of that session;
`GET /cpu` is the CPU seconds it has used. It knows no sessions while it answers: the step is the number of tool
turns in the request. Each event is an HTTP chunk of its own; with a delay, a write of its own.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, cast

import orjson
import uvloop
from task import Scenario, scenario_in

MORE_CALLS, PIECES = 20, 9
"""What chatty mode sends after the completion call: so many calls, each a head and so many pieces of arguments."""
HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"
)
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


@dataclass(slots=True)
class Account:
    """What became of one response. `call_whole` is the chunk with which the completion call was whole, or 0."""

    planned: int
    call_whole: int
    sent: int = 0
    call_whole_ns: int = 0
    hung_up: bool = False
    over: bool = False


ACCOUNTS: dict[str, list[Account]] = {}


@dataclass(frozen=True, slots=True)
class Plan:
    """A response as bytes on the wire, one entry a write. The last one holds finish reason, usage and [DONE]."""

    writes: tuple[bytes, ...]
    call_whole: int
    dated: range
    """Which of the writes say when they are sent."""


# ---- what is said


@lru_cache(maxsize=2048)
def planned(scenario: Scenario, turns: int) -> Plan:
    """The response to a request that has so many tool turns behind it."""
    last = turns >= scenario.steps - 1
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += ({"content": f" word{number % 89}"} for number in range(scenario.chunks))
    if last:
        summary = {"summary": "All numbers were added and nothing is left to do."}
        deltas += call_deltas(0, f"call_{turns}_0", "finish_task", summary, 4)
    else:
        deltas += call_deltas(0, f"call_{turns}_0", "add", {"a": turns, "b": 1}, 3)
    call_whole = len(deltas) if last else 0
    dated = range(1, 1 + scenario.chunks) if scenario.mode == "dated" else range(0)
    if last and scenario.mode == "chatty":
        for number in range(1, MORE_CALLS + 1):
            arguments = {"a": 1_000_000 + number, "b": 1_000_000 - number}
            deltas += call_deltas(number, f"call_{turns}_{number}", "add", arguments, PIECES)
    tail = event(choice({}, "tool_calls")) + event({"choices": [], "usage": USAGE}) + frame(b"data: [DONE]\n\n")
    return Plan((*(event(choice(delta)) for delta in deltas), tail + b"0\r\n\r\n"), call_whole, dated)


def call_deltas(index: int, id: str, name: str, arguments: dict[str, Any], pieces: int) -> Iterator[dict[str, Any]]:
    """A call as it is streamed: its head, then its arguments in so many pieces."""
    text = json.dumps(arguments)
    yield {"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}]}
    edges = [len(text) * number // pieces for number in range(pieces + 1)]
    for begin, end in pairwise(edges):
        yield {"tool_calls": [{"index": index, "function": {"arguments": text[begin:end]}}]}


def choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}], "usage": None}


def event(fields: dict[str, Any]) -> bytes:
    common = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "bench"}
    return frame(b"data: " + orjson.dumps({**common, **fields}) + b"\n\n")


def frame(data: bytes) -> bytes:
    """One chunk of HTTP's chunked transfer coding (RFC 9112, section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


# ---- how it is sent


class Connection(asyncio.Protocol):
    """One client connection: reads requests, writes one response at a time."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.unread = b""
        self.timer: asyncio.TimerHandle | None = None
        self.account: Account | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.timer is not None:
            self.timer.cancel()
        if self.account is not None and not self.account.over:
            self.account.hung_up = self.account.over = True

    def data_received(self, data: bytes) -> None:
        self.unread += data
        head, found, rest = self.unread.partition(b"\r\n\r\n")
        if not found:
            return
        lines = head.split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), 0)
        if len(rest) < length:
            return
        self.unread = rest[length:]
        self.answer(lines[0].split()[1].decode(), rest[:length])

    def answer(self, path: str, body: bytes) -> None:
        if path.endswith("/chat/completions"):
            self.complete(orjson.loads(body))
        elif path.startswith("/sessions/"):
            accounts = ACCOUNTS.get(path.removeprefix("/sessions/"), [])
            self.reply([asdict(account) for account in accounts])
        elif path == "/cpu":
            self.reply(time.process_time())
        else:
            self.reply({"error": f"nothing is at {path}"}, b"404 Not Found")

    def reply(self, value: Any, status: bytes = b"200 OK") -> None:
        body = orjson.dumps(value)
        head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, len(body))
        self.transport.write(head + body)

    def complete(self, request: dict[str, Any]) -> None:
        messages = request["messages"]
        prompt = next((message["content"] for message in messages if message["role"] == "user"), "")
        scenario = scenario_in(prompt)
        if scenario is None:
            return self.reply({"error": "the prompt names no scenario"}, b"400 Bad Request")
        plan = planned(scenario.nameless, sum("tool_calls" in message for message in messages))
        account = self.account = Account(planned=len(plan.writes), call_whole=plan.call_whole)
        ACCOUNTS.setdefault(scenario.session, []).append(account)
        if scenario.delay == 0:
            account.call_whole_ns = time.monotonic_ns()  # before the write: the client may be faster than our next line
            self.transport.write(HEAD + b"".join(plan.writes))
            account.sent, account.over = len(plan.writes), True
        else:
            self.transport.write(HEAD)
            self.next_write(plan, scenario.delay / 1000, asyncio.get_running_loop().time())

    def next_write(self, plan: Plan, delay: float, due: float) -> None:
        """Wait until the next chunk is due, counted from the last due time, so that lateness does not add up."""
        due += delay
        self.timer = asyncio.get_running_loop().call_at(due, self.write_one, plan, delay, due)

    def write_one(self, plan: Plan, delay: float, due: float) -> None:
        account = self.account
        assert account is not None
        if account.sent + 1 == plan.call_whole:
            account.call_whole_ns = time.monotonic_ns()
        if account.sent in plan.dated:
            self.transport.write(event(choice({"content": f" {time.monotonic_ns()}"})))
        else:
            self.transport.write(plan.writes[account.sent])
        account.sent += 1
        if account.sent == account.planned:
            account.over = True
        else:
            self.next_write(plan, delay, due)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
