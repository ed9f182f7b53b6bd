"""Measures for how long a response that streams keeps the event loop from everything else.

    python -m tests.growth.gaps                     # from the root of the repository
    python -m tests.growth.gaps --megabytes 8 --path "proxy, chat" --redact

Each body comes over HTTP in blocks of 500 bytes, to an engine's run with a record, or through the proxy to an agent,
which streams it or gets it whole (marked * in the table). A task on the same event loop sleeps for a millisecond again
and again. The table has the longest time between two of its wakings, in milliseconds of the processor time of the
loop's thread, so that other load on the machine does not count. Garbage collections count.

Exits with 1 if one is above the bound.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import thread_time
from typing import Any, NamedTuple

import aiohttp
from endstop import Engine, RecordOptions, Redaction
from endstop.decision import (
    POLICIES,
    AnyChunk,
    FinishReport,
    Limits,
    Policy,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
    UsageReport,
)
from endstop.providers import Anthropic, Gemini, OpenAICompatible, OpenAIResponses
from endstop.providers.prices import Prices
from endstop.proxy import Proxy, ProxyOptions
from endstop.proxy.proxy_server import RunFollowers, proxy_runner
from endstop.proxy.statistics_page import Statistics
from endstop.testing.wires import WIRES, WireFormat

BLOCK = 500
"""Bytes of a block of a stream."""
BOUND = 100.0
"""Milliseconds for which the loop may be kept."""
LONGEST = 180.0
"""Seconds after which a body is given up."""
KEY = "sk-gaps-0123456789abcdefghij"


# ---- bodies


def _words(length: int) -> str:
    """A text of about this length that does not repeat itself."""
    draw = random.Random(length)
    return " ".join(f"{draw.getrandbits(40):x}" for _ in range(length // 11))


def _pieces(text: str, count: int) -> Iterator[str]:
    size = max(1, len(text) // count)
    return (text[at : at + size] for at in range(0, len(text), size))


def _texts(text: str, count: int = 20_000) -> list[AnyChunk]:
    return [TextDelta(piece) for piece in _pieces(text, count)]


def _call(pieces: Iterable[str], name: str = "look") -> list[AnyChunk]:
    return [ToolCallDelta(0, "c", name), *(ToolCallDelta(0, "", "", piece) for piece in pieces)]


def _spread(piece: str, length: int) -> str:
    """A piece again and again among words, so that the text does not repeat itself."""
    words = _words(length // 2).split(" ")
    every = max(1, len(words) * len(piece) * 2 // length)
    return " ".join(word + piece if number % every == 0 else word for number, word in enumerate(words))


CHUNKS: dict[str, Callable[[int], list[AnyChunk]]] = {
    "one giant text": lambda size: [TextDelta(_words(size))],
    "50,000 tiny deltas": lambda size: _texts(_words(200_000), 50_000),
    "text in deltas": lambda size: _texts(_words(size)),
    "reasoning in deltas": lambda size: [ReasoningDelta(piece) for piece in _pieces(_words(size), 20_000)],
    "arguments of white space": lambda size: _call([*_pieces(" " * size, 20_000), "{}"]),
    "arguments of escaped quotes": lambda size: _call(['{"a":"', *_pieces('\\"' * (size // 2), 20_000), '"}']),
    "arguments of one string": lambda size: _call(['{"a":"', *_pieces(_words(size), 20_000), '"}']),
    "arguments of many members": lambda size: _call(["{", *(f'"a{n}":{n},' for n in range(size // 16)), '"b":1}']),
    "giant unfinished string": lambda size: _call(['{"a":"', *_pieces(_words(size), 20_000)]),
    "arguments in one piece": lambda size: _call([json.dumps({"a": _words(size)})]),
    "a name in pieces": lambda size: [
        ToolCallDelta(0, "c", "look"),
        *(ToolCallDelta(0, "", piece) for piece in _pieces(_words(size // 4).replace(" ", "_"), 20_000)),
        ToolCallDelta(0, "", "", "{}"),
    ],
    "5,000 calls": lambda size: [ToolCallDelta(n, f"c{n}", "look", f'{{"a": {n}}}') for n in range(5_000)],
    "text of <think>": lambda size: _texts(_spread("<think>", size)),
    "text of fences": lambda size: _texts(_spread("\n```\n", size)),
    "text of marks of done": lambda size: _texts(_spread(" TASK COMPLETE. I have finished. ", size)),
    "text of passwords": lambda size: _texts(_spread(" password=hunter2x9Q ", size)),
    "text of tokens": lambda size: _texts(_spread(" password=eyJ_ ", size)),
    "text of JSON": lambda size: _texts(_spread(' {"api_key": "a1b2c3d4e5f6g7h8", ', size)),
    "text of lines": lambda size: _texts(_words(size).replace(" ", "\n")),
    "text of one letter": lambda size: _texts("a" * size),
    "a text again and again": lambda size: _texts("I will look at the file now. " * (size // 30)),
    "emoji": lambda size: _texts("".join(chr(0x1F600 + ord(sign) % 64) for sign in _words(size // 4))),
}
"""Responses, by what they consist of; from a length in characters."""

FINISH: list[AnyChunk] = [UsageReport(Usage(input_tokens=10, output_tokens=10))]


def _finish(wire: WireFormat, calls: bool) -> FinishReport:
    return FinishReport(
        "tool_calls" if calls else "stop",
        {"chat": "tool_calls" if calls else "stop", "anthropic": "tool_use" if calls else "end_turn"}.get(
            wire.name, "completed" if wire.name == "responses" else "STOP"
        ),
    )


def _body(wire: WireFormat, chunks: list[AnyChunk]) -> bytes:
    calls = any(type(chunk) is ToolCallDelta for chunk in chunks)
    return b"".join(wire.stream([*chunks, *FINISH, _finish(wire, calls)]))


def _ends(wire: WireFormat) -> bytes:
    return _body(wire, [TextDelta("It is done.")])


def _escaped(wire: WireFormat, text: bytes, count: int = 1) -> bytes:
    """A response with this text in its deltas, which are written as they are."""
    return _body(wire, [TextDelta("QQ")] * count).replace(b"QQ", text)


RAW: dict[str, Callable[[WireFormat, int], bytes]] = {
    "comment lines": lambda wire, size: b": a comment\n" * (size // 12) + b"\n" + _ends(wire),
    "comment lines, no end": lambda wire, size: b": a comment\n" * (size // 12),
    "lines of data": lambda wire, size: b"data:\n" * (size // 6) + b"\n" + _ends(wire),
    "empty events": lambda wire, size: b"data: {}\n\n" * (size // 10) + _ends(wire),
    "an unfinished string": lambda wire, size: b'data: {"a":"' + b'\\"' * (size // 2),
    "JSON nested deep": lambda wire, size: b"data: " + b"[" * size + b"\n\n" + _ends(wire),
    "an event of white space": lambda wire, size: b"data: " + b" " * size + b"\n\n" + _ends(wire),
    "surrogate halves": lambda wire, size: _escaped(wire, b"\\ud83d", size // 200),
    "surrogate halves, one delta": lambda wire, size: _escaped(wire, b"\\ud83d" * (size // 6)),
    "escaped quotes, one delta": lambda wire, size: _escaped(wire, b'\\"' * (size // 2)),
    "a huge unknown member": lambda wire, size: _ends(wire).replace(b"{", b'{"x":"' + _words(size).encode() + b'",', 1),
    "a huge finish": lambda wire, size: _huge_finish(wire, size),
}
"""Bodies that no model says, from the wire and a length in bytes."""


def _huge_finish(wire: WireFormat, size: int) -> bytes:
    """A response whose last event is huge, as that of the Responses API is, which has all of the response again."""
    if wire.name == "responses":
        return _body(wire, [TextDelta(_words(size))])
    events = wire.stream([TextDelta("a"), *FINISH, _finish(wire, False)])
    at = next(number for number in reversed(range(len(events))) if b"{" in events[number])
    list_of_objects = json.dumps([{"a": n} for n in range(size // 12)]).encode()
    events[at] = events[at].replace(b"{", b'{"x": ' + list_of_objects + b",", 1)
    return b"".join(events)


def bodies(wire: WireFormat) -> dict[str, Callable[[int], bytes]]:
    """The bodies of a wire by name, each from its length."""
    found: dict[str, Callable[[int], bytes]] = {}
    for name, made in CHUNKS.items():
        if wire.name != "gemini" or name not in ("a name in pieces", "giant unfinished string"):
            found[name] = lambda size, made=made: _body(wire, made(size))  # type: ignore[misc]
    return found | {name: partial(made, wire) for name, made in RAW.items()}


# ---- the provider, in a thread of its own


class Upstream:
    """Answers the first request with a body in small blocks, and each later one with a short text."""

    def __init__(self) -> None:
        self.body = b""
        self.ends = b""
        self.asked = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, one request."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
            )
            await reader.readexactly(length)
            self.asked += 1
            body = self.body if self.asked == 1 else self.ends
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
            for at in range(0, len(body), BLOCK):
                writer.write(body[at : at + BLOCK])
                await writer.drain()
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()


@contextmanager
def upstream() -> Iterator[tuple[Upstream, str]]:
    """A provider and its address."""
    server, loop, ready = Upstream(), asyncio.new_event_loop(), threading.Event()
    port: list[int] = []
    stopped = asyncio.Event()

    async def serve() -> None:
        listening = await asyncio.start_server(server.handle, "127.0.0.1", 0, limit=2**26)
        port.append(listening.sockets[0].getsockname()[1])
        ready.set()
        await stopped.wait()
        listening.close()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield server, f"http://127.0.0.1:{port[0]}"
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(10)


# ---- the two paths


class Ticker:
    """Wakes each millisecond, and notes the longest time between two wakings, in ms of this thread's time."""

    def __init__(self) -> None:
        self.worst = 0.0

    async def run(self) -> None:
        """Run until it is cancelled."""
        latest = thread_time()
        while True:
            await asyncio.sleep(0.001)
            now = thread_time()
            self.worst = max(self.worst, (now - latest) * 1000)
            latest = now


@asynccontextmanager
async def ticking() -> AsyncIterator[Ticker]:
    """Measure the gaps while the block runs."""
    ticker = Ticker()
    task = asyncio.create_task(ticker.run())
    await asyncio.sleep(0.01)
    ticker.worst = 0.0
    try:
        yield ticker
    finally:
        await asyncio.sleep(0.005)
        task.cancel()


PROVIDERS: dict[str, Callable[[str], Any]] = {
    "chat": lambda url: OpenAICompatible("m", f"{url}/v1", api_key=KEY),
    "responses": lambda url: OpenAIResponses("m", api_key=KEY, base_url=f"{url}/v1"),
    "anthropic": lambda url: Anthropic("m", api_key=KEY, base_url=f"{url}/v1"),
    "gemini": lambda url: Gemini("m", api_key=KEY, base_url=f"{url}/v1beta"),
}


async def engine(wire: WireFormat, url: str, folder: Path, *, redact: Redaction | None) -> None:
    """A run of the engine, with a redacted record."""
    policy = Policy(response_tokens=None, limits=Limits(steps=3))
    options = RecordOptions(redact=redact)
    made: Engine[Any, Any] = Engine(PROVIDERS[wire.name](url), policy=policy, record_options=options)
    async with made:
        await made.session(record=folder / "run.jsonl").run("Do it.")


REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Do it."}]}),
    "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": [{"role": "user", "content": "Do it."}]}),
    "responses": ("/v1/responses", {"input": "Do it."}),
}


async def proxy(wire: WireFormat, url: str, folder: Path, *, redact: Redaction | None, streams: bool) -> None:
    """A request through the proxy, from an agent in another thread."""
    statistics = Statistics()
    followers = RunFollowers(
        policy=POLICIES["agent"],
        prices=Prices(),
        completion=("finish_task",),
        folder=folder,
        redact=redact,
        on_event=statistics.take,
    )
    handler = Proxy(ProxyOptions(upstream=url, hosts=("127.0.0.1",)), followers.open, statistics=statistics)
    runner = proxy_runner(handler)
    await handler.open()
    try:
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        path, fields = REQUESTS[wire.name]
        address = f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        await asyncio.to_thread(asyncio.run, _ask(address, {"model": "m", **fields, "stream": streams}))
    finally:
        await runner.cleanup()
        await handler.close()


async def _ask(url: str, body: dict[str, Any]) -> None:
    headers = {"authorization": f"Bearer {KEY}"}
    with suppress(aiohttp.ClientError):
        async with aiohttp.ClientSession() as client, client.post(url, json=body, headers=headers) as reply:
            async for _ in reply.content.iter_any():
                pass


class Way(NamedTuple):
    """One way of a response through the program."""

    name: str
    wire: WireFormat
    work: Callable[[str, Path], Any]


def paths(redact: Redaction | None) -> list[Way]:
    """All ways: four wires in the engine, three through the proxy, with an agent that streams and one that does not."""
    found = [Way(f"engine, {wire.name}", wire, partial(engine, wire, redact=redact)) for wire in WIRES]
    for streams in (True, False):
        found += [
            Way(
                f"proxy, {wire.name}, {'stream' if streams else 'whole'}",
                wire,
                partial(proxy, wire, redact=redact, streams=streams),
            )
            for wire in WIRES
            if wire.name in REQUESTS
        ]
    return found


async def gap(work: Callable[[str, Path], Any], url: str) -> float:
    """The longest gap of one response, in ms; infinite if it does not end."""
    with TemporaryDirectory() as folder:
        async with ticking() as ticker:
            try:
                async with asyncio.timeout(LONGEST):
                    await work(url, Path(folder))
            except TimeoutError:
                return float("inf")
            except Exception as error:  # a run that fails is no concern of this measurement, but shown
                print(f"# {type(error).__name__}: {error!s:.100}", file=sys.stderr)
    return ticker.worst


def short(name: str) -> str:
    """A path's name in a column."""
    return name.replace("engine, ", "e ").replace("proxy, ", "p ").replace(", stream", "").replace(", whole", "*")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the table and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.growth.gaps")
    parser.add_argument("--megabytes", type=float, default=2.0, metavar="N", help="the length of a body (default 2)")
    parser.add_argument("--bound", type=float, default=BOUND, metavar="MS", help="the longest gap (default 100)")
    parser.add_argument("--only", default="", metavar="NAME", help="only bodies with this in their name")
    parser.add_argument("--path", default="", metavar="NAME", help="only paths with this in their name")
    parser.add_argument("--redact", action="store_true", help="redact the records, which keeps the loop far longer")
    args = parser.parse_args(arguments)
    ways = [way for way in paths(Redaction() if args.redact else None) if args.path in way.name]
    names = list(dict.fromkeys(name for way in ways for name in bodies(way.wire) if args.only in name))
    print(f"{'ms':32}" + "".join(f"{short(way.name):>13}" for way in ways))
    over = 0
    size = int(args.megabytes * 1e6)
    with upstream() as (server, url):
        for way in ways:  # what is compiled when it is first used
            server.body = server.ends = _ends(way.wire)
            asyncio.run(gap(way.work, url))
        for name in names:
            row = []
            for way in ways:
                body = bodies(way.wire).get(name)
                if body is None:
                    row.append(f"{'-':>13}")
                    continue
                server.body, server.ends, server.asked = body(size), _ends(way.wire), 0
                worst = asyncio.run(gap(way.work, url))
                over += worst > args.bound
                row.append(f"{worst:>12.1f}{'!' if worst > args.bound else ' '}")
                server.body = b""
            print(f"{name:32}" + "".join(row), flush=True)
    print(f"{over} of them above {args.bound:g} ms")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
