"""Which request may be sent again after its connection was lost, over real sockets and real aiohttp."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from endstop import Engine
from endstop.providers import OpenAICompatible, ProviderError, Request
from endstop.providers.http_connections import Connections

from .endpoint import OK, Endpoint, stream


class Hanging:
    """Answers the first `answers` requests, and closes the connection of every later one without an answer."""

    def __init__(self, answers: int) -> None:
        self.requests = 0
        self._answers = answers

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.partition(b":")[2]))
                self.requests += 1
                if self.requests > self._answers:
                    return
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def served(server: Hanging) -> AsyncIterator[str]:
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


async def test_a_request_is_reused_only_on_a_connection_that_had_one_before() -> None:
    async with served(Hanging(2)) as url, aiohttp.ClientSession(connector=(connections := Connections())) as client:
        seen = []
        for _ in range(2):
            new = connections.note_new()
            async with client.post(url, data=b"x") as response:
                await response.read()
            seen.append(connections.reused(new))
        assert seen == [False, True]


async def test_requests_at_once_are_told_apart() -> None:
    async with served(Hanging(4)) as url, aiohttp.ClientSession(connector=(connections := Connections())) as client:

        async def post() -> bool:
            new = connections.note_new()
            async with client.post(url, data=b"x") as response:
                await response.read()
            return connections.reused(new)

        assert await post() is False
        assert sorted(await asyncio.gather(post(), post())) == [False, True]  # one gets the open one, one makes another


async def test_a_request_that_cannot_connect_is_no_reuse() -> None:
    async with served(Hanging(1)) as url:
        pass
    async with aiohttp.ClientSession(connector=(connections := Connections())) as client:
        new = connections.note_new()
        with pytest.raises(aiohttp.ClientOSError):
            await client.post(url, data=b"x")
        assert not connections.reused(new)


async def test_nothing_counts_as_reused_if_connections_are_made_in_another_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a later aiohttp cannot make the provider repeat requests without end."""
    monkeypatch.delattr(Connections, "_create_connection")
    server = Hanging(0)
    async with served(server) as url, OpenAICompatible("m", f"{url}/v1", api_key="none") as provider:
        with pytest.raises(ProviderError):
            await provider.stream(Request(messages=())).__aenter__()
    assert server.requests == 1


async def test_runs_of_other_event_loops_have_connections_of_their_own() -> None:
    async with Endpoint(stream(OK)) as endpoint:
        engine = Engine(OpenAICompatible("m", endpoint.url))
        async with engine:
            here = await engine.run("a")
            ends = await asyncio.gather(*(asyncio.to_thread(engine.run_sync, "b") for _ in range(4)))
            again = await engine.run("c")
        after = await asyncio.to_thread(engine.run_sync, "d")
    assert [(end.answer, end.detail) for end in (here, *ends, again, after) if end.answer != "ok"] == []
