"""B4, B5, B6, C7: how long, where to and how much: a response has bounds, whatever a server does."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from endstop import Engine, read_record
from endstop.decision import TextDelta, UsageReport, UserMessage, WrongUse
from endstop.providers import LiteLLM, OpenAICompatible, Request, Scripted, Timeouts
from endstop.providers.errors import ProviderError
from endstop.providers.timeouts import BETWEEN_SECONDS, FIRST_SECONDS

from .endpoint import Endpoint, Reply, body, delta, sse, stream

FINISHED = delta(finish="stop")
Serve = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve) -> Any:
    """A server that answers each request by itself; gives its URL and what it was sent."""
    asked: list[bytes] = []
    serving: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(accept(reader, writer)))

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked.append(head + await reader.readexactly(length))
            await serve(head, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    listening = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", asked
    finally:
        listening.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def heard(provider: Any) -> str | ProviderError:
    """The text of one response, or why there is none."""
    text = ""
    if isinstance(provider, LiteLLM):
        async with provider:
            """It has imported litellm, which may take a busy machine half a minute."""
    try:
        with anyio.fail_after(30):
            async with provider.stream(Request(messages=[UserMessage("the prompt")])) as chunks:
                async for chunk in chunks:
                    text += chunk.text if isinstance(chunk, TextDelta) else ""
    except ProviderError as error:
        return error
    return text


def failed(result: str | ProviderError) -> ProviderError:
    assert isinstance(result, ProviderError), result
    return result


def direct(url: str, **more: Any) -> OpenAICompatible:
    return OpenAICompatible("m", url, api_key="sk-CANARY-123456", **more)


def lite(url: str, **more: Any) -> LiteLLM:
    return LiteLLM("openai/m", api_base=url, api_key="sk-CANARY-123456", **more)


BOTH = [pytest.param(direct, id="direct"), pytest.param(lite, id="litellm", marks=pytest.mark.filterwarnings("ignore"))]

# ---- B4


async def ping(writer: asyncio.StreamWriter, what: bytes) -> None:
    while True:
        writer.write(what)
        await writer.drain()
        await asyncio.sleep(0.05)


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
NOTHING = [b": ping\n\n", b"".join(sse(delta(content=""), done=False)), b"event: ping\ndata: {}\n\n"]


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("what", NOTHING)
@pytest.mark.parametrize("begun", [False, True])
async def test_B4_what_is_no_content_keeps_no_response_alive(make: Any, what: bytes, begun: bool) -> None:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + (b"".join(sse(delta(content="a"), done=False)) if begun else b""))
        await ping(writer, what)

    async with server(serve) as (url, _):
        times = {"first_timeout": 60.0} if begun else {"first_timeout": 0.4}
        name = "read_timeout" if make is direct else "timeout"
        error = failed(await heard(make(url, **times, **{name: 0.4 if begun else 60.0})))
    assert error.kind == "timeout"


def test_B4_the_bounds_are_the_same_wherever_they_stand() -> None:
    assert (FIRST_SECONDS, BETWEEN_SECONDS) == (600.0, 120.0)
    assert direct("http://h/v1")._timeouts[1:] == lite("http://h/v1")._timeouts == (600.0, 120.0)
    bounds = Timeouts(Scripted("a"))
    assert (bounds._first, bounds._between) == (600.0, 120.0)


def test_B4_the_command_line_has_the_same_bounds_and_both_settings() -> None:
    from endstop.cli.factory import build_provider

    provider: Any = build_provider("m", "http://h/v1", None)
    assert provider._timeouts[1:] == (600.0, 120.0)
    provider = build_provider("m", "http://h/v1", None, first=5, between=7)
    assert provider._timeouts[1:] == (5, 7)
    with pytest.raises(WrongUse, match="--first-timeout is 0"):
        build_provider("m", "http://h/v1", None, first=0)


async def test_B4_a_report_of_usage_is_no_content_for_timeouts() -> None:
    class Counting:
        model = "counting"

        @asynccontextmanager
        async def stream(self, request: Request) -> Any:
            from endstop.decision import Usage

            async def chunks() -> Any:
                yield TextDelta("a")
                while True:
                    await asyncio.sleep(0.02)
                    yield UsageReport(Usage(output_tokens=1))

            yield chunks()

    error = failed(await heard(Timeouts(Counting(), first=60, between=0.3)))
    assert "no further content" in error.message


# ---- B5


def redirect(status: int, to: str) -> Serve:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} X\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n".encode())

    return serve


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_B5_the_conversation_never_goes_to_another_host(make: Any, status: int) -> None:
    async def other(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(sse(delta(content="evil"), FINISHED)))

    async with server(other) as (evil, got), server(redirect(status, f"{evil}/chat/completions")) as (url, asked):
        error = failed(await heard(make(url)))
    assert error.kind == "not_found"
    assert got == []
    assert len(asked) == 1


@pytest.mark.parametrize("make", BOTH)
async def test_B5_redirects_on_the_same_host_are_bounded_also_where_each_closes_its_connection(make: Any) -> None:
    async with server(redirect(307, "/v1/other")) as (url, asked):
        failed(await heard(make(url)))
    assert len(asked) <= 25


async def test_B5_one_redirect_on_the_same_host_is_followed_with_body_and_key() -> None:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        if b"/moved" in head.split(b"\r\n")[0]:
            writer.write(HEAD + b"".join(sse(delta(content="here"), FINISHED)))
        else:
            writer.write(b"HTTP/1.1 308 X\r\nlocation: /moved\r\ncontent-length: 0\r\n\r\n")

    async with server(serve) as (url, asked):
        assert await heard(direct(url)) == "here"
    assert [(b"the prompt" in one, b"sk-CANARY" in one) for one in asked] == [(True, True)] * 2


async def test_B5_where_other_hosts_are_allowed_they_get_the_conversation_and_no_key() -> None:
    async def other(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(sse(delta(content="there"), FINISHED)))

    async with server(other) as (there, got), server(redirect(307, f"{there}/chat/completions")) as (url, _):
        assert await heard(direct(url, redirects_to_other_hosts=True)) == "there"
    assert b"the prompt" in got[0]
    assert b"sk-CANARY" not in got[0]


# ---- B6

BIG = b"".join(sse(*[delta(content="B" * 100_000)] * 40, FINISHED))


def packed(content: bytes, kind: str = "text/event-stream", status: int = 200) -> Serve:
    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        packing = "content-encoding: gzip\r\nconnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{packing}".encode() + gzip.compress(content, 9))

    return serve


WHOLE = json.dumps({"choices": [{"message": {"content": "A" * 4_000_000}, "finish_reason": "stop"}]}).encode()


@pytest.mark.parametrize("make", BOTH)
@pytest.mark.parametrize("content", [BIG, b"data: " + b"A" * 4_000_000])
async def test_B6_a_packed_response_is_bounded_by_what_it_unpacks_to(make: Any, content: bytes) -> None:
    async with server(packed(content)) as (url, _):
        error = failed(await heard(make(url, largest_response=1_000_000)))
    assert error.kind in ("protocol", "interrupted")


async def test_B6_a_whole_reply_and_an_error_are_bounded_too() -> None:
    async with server(packed(WHOLE, "application/json")) as (url, _):
        assert "larger than 1000000 bytes" in failed(await heard(direct(url, largest_response=1_000_000))).message
    async with server(packed(b"x" * 50_000_000, "text/plain", 500)) as (url, _):
        error = failed(await heard(direct(url)))
    assert error.kind == "server"
    assert len(error.message) < 3000


async def test_B6_what_is_within_the_bound_is_read_and_its_record_too(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    text = "".join(Random(1).choices('\\"\u0001é ', k=60_000))  # what grows most where it is written as JSON
    async with server(packed(b"".join(sse(delta(content=text), FINISHED)))) as (url, _):
        outcome = await Engine(direct(url)).run("go", record=path)
    assert outcome.answer == text.strip(), outcome.detail
    assert read_record(path).runs[-1].finished is not None


def test_B6_a_line_of_the_largest_response_is_one_that_is_read() -> None:
    from endstop.providers.http_provider import LARGEST_RESPONSE
    from endstop.records.files import MAX_LINE_BYTES

    assert 4 * LARGEST_RESPONSE < MAX_LINE_BYTES


# ---- C7


async def test_C7_an_api_base_with_a_query_keeps_it_behind_the_path() -> None:
    async with server(packed(b"".join(sse(delta(content="ok"), FINISHED)))) as (url, asked):
        provider = direct(f"{url}/openai/deployments/d?api-version=2025-01-01")
        assert await heard(provider) == "ok"
    line = asked[0].split(b"\r\n")[0]
    assert line == b"POST /v1/openai/deployments/d/chat/completions?api-version=2025-01-01 HTTP/1.1"
    assert provider.endpoint.endswith("/v1/openai/deployments/d")


@pytest.mark.parametrize("label", ["application/json", "text/event-stream", "text/plain", "application/octet-stream"])
async def test_C7_a_stream_and_a_whole_reply_are_told_apart_by_what_they_are(label: str) -> None:
    whole = {"choices": [{"message": {"content": "whole"}, "finish_reason": "stop"}]}
    async with Endpoint(body(whole, content_type=label)) as at:
        assert await heard(direct(at.url)) == "whole"
    async with Endpoint(Reply(content_type=label, pieces=sse(delta(content="streamed"), FINISHED))) as at:
        assert await heard(direct(at.url)) == "streamed"
    async with Endpoint(stream(delta(content="a"), FINISHED)) as at:
        assert await heard(direct(at.url)) == "a"
