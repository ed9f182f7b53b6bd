"""Runs to be ended at any point by somebody else, over a real connection or without one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from endstop import Engine, Run, Tool
from endstop.providers import Provider


def tools(turns: int = 8) -> list[Tool]:
    """Tools that take a few turns of the loop."""

    async def look(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"seen {n}"

    async def put(n: int) -> str:
        for _ in range(turns):
            await asyncio.sleep(0)
        return f"put {n}"

    return [Tool(look, description="Look.", reads=True), Tool(put, description="Put.")]


SCRIPT: list[list[tuple[str, dict[str, Any]]]] = [
    [("look", {"n": 1}), ("look", {"n": 2})],
    [("put", {"n": 1}), ("look", {"n": 3}), ("put", {"n": 2})],
    [("look", {"n": 4}), ("finish_task", {"summary": "done"})],
]


def _event(delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
            asked = json.loads(await reader.readexactly(size))
            step = sum(message["role"] == "assistant" for message in asked["messages"])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            pieces = []
            for index, (name, arguments) in enumerate(SCRIPT[min(step, 2)]):
                said = {"name": name, "arguments": json.dumps(arguments)}
                calls = [{"index": index, "id": f"c{step}{index}", "type": "function", "function": said}]
                pieces.append(_event({"role": "assistant", "tool_calls": calls}))
            pieces += [_event({}, "tool_calls"), b"data: [DONE]\n\n"]
            for piece in pieces:
                writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0)
            writer.write(b"0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    except asyncio.CancelledError:  # asyncio's streams say so loudly, on 3.11, if it goes through
        pass
    finally:
        writer.close()


@asynccontextmanager
async def endpoint() -> AsyncIterator[str]:
    """A chat-completions endpoint on loopback that plays `SCRIPT`, chunk by chunk; gives its URL."""
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        await _serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    finally:
        server.close()
        for writer in writers:  # litellm keeps its connections, and their other ends would be tasks that are left
            writer.close()


def over_http(make_provider: Callable[[str], Provider], turns: int = 8) -> Callable[[Path], Any]:
    """Makes runs of `SCRIPT` over an endpoint of their own. make_provider: called with its URL."""

    @asynccontextmanager
    async def make_run(record: Path) -> AsyncIterator[Run]:
        async with endpoint() as url, Engine(make_provider(url), tools=tools(turns)).start("go", record=record) as run:
            yield run

    return make_run
