"""What comes in for a request of ours over litellm is bounded, and other users of litellm see nothing of that."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx
import pytest
from endstop import Run
from endstop.providers import LiteLLM
from endstop.providers.litellm import _import
from endstop.providers.litellm_stream import ReceivedBytes
from endstop.testing.faults import HOSTILE_ENDPOINTS, FaultReport, check_hostile_endpoints

from ..engine.testing.test_fault_endpoints import KEY, LARGEST, SIZE, asking, assert_stands, broken
from .endpoint import delta, sse
from .test_bounds import FINISHED, failed, heard, packed, server

LONG = pytest.mark.long
pytestmark = pytest.mark.filterwarnings("ignore")  # litellm and what it imports warn of themselves

FLOODS = ("informational_flood", "chunk_size_endless", "gzip_bomb", "comments_flood", "status_500_endless")
DANGEROUS = (*FLOODS, "redirect_endless", "headers_endless", "trailers_endless", "line_endless", "switches_protocol")
MEMORY = 100_000_000
"""Bytes by which the process may grow; the kit's bomb unpacks to 64 million."""
MODELS: dict[str, Callable[[str], LiteLLM]] = {
    "openai": lambda url: LiteLLM("openai/m", api_base=url, api_key=KEY, largest_response=LARGEST),
    "anthropic": lambda url: LiteLLM(  # litellm takes 0.14 ms of CPU for each comment or blank line there
        "anthropic/claude-m", api_base=url.removesuffix("/v1"), api_key=KEY, largest_response=LARGEST // 10
    ),
}
MISREAD = {
    "openai": {"unknown_fields_and_events", "usage_texts", "usage_lists"},
    "anthropic": {"usage_texts", "usage_lists"},
}
"""Good answers that litellm or OpenAI's client cannot read: the run fails."""
REDIRECTS = 22
"""Requests that an endpoint may get: httpx follows twenty redirects."""
TRANSPORTS = ["aiohttp", "httpx"]


async def close_idle(clients: Any) -> None:
    """Close the connections that litellm keeps for the next request, and only those."""
    for client in clients:
        http = getattr(client, "_client", getattr(client, "client", None))  # of OpenAI's client, of litellm's own
        transport = getattr(http, "_transport", None)
        session = getattr(transport, "client", None)
        if isinstance(session, aiohttp.ClientSession) and isinstance(session.connector, aiohttp.TCPConnector):
            for kept in session.connector._conns.values():
                for connection, _ in kept:
                    connection.close()
            session.connector._conns.clear()
        for connection in getattr(getattr(transport, "_pool", None), "connections", ()):
            if connection.is_idle():
                await connection.aclose()


def stand(model: str, only: Any, size: int = SIZE) -> FaultReport:
    litellm = _import()
    cache = litellm.in_memory_llm_clients_cache
    begin = asking(MODELS[model])

    @asynccontextmanager
    async def make_run(record: Path, url: str) -> AsyncIterator[Run]:
        cache.flush_cache()  # clients of the loop before
        async with begin(record, url) as run:
            yield run
        await close_idle([*cache.cache_dict.values(), litellm.module_level_aclient])

    return check_hostile_endpoints(make_run, only=only, size=size, memory=MEMORY, requests=REDIRECTS)


@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
def test_B6_litellm_stands_the_endpoints_that_send_without_an_end(transport: None) -> None:
    report = stand("openai", DANGEROUS)
    print(report)
    assert report.ok, report


@LONG
@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
@pytest.mark.parametrize("model", MODELS)
def test_litellm_stands_every_endpoint(transport: None, model: str) -> None:
    readable = [name for name in HOSTILE_ENDPOINTS if name not in MISREAD[model]]
    assert_stands(stand(model, readable), len(readable))
    report = stand(model, sorted(MISREAD[model]))
    assert {violation.fault for violation in report.violations} == MISREAD[model]
    assert broken(report) == {"acceptable"}


@pytest.mark.parametrize("transport", ["aiohttp"], indirect=True)
@pytest.mark.parametrize(
    ("endpoint", "without", "invariant"),
    [
        pytest.param("informational_flood", ["count"], "bounded", marks=LONG),
        ("chunk_size_endless", ["count"], "bounded"),
        ("gzip_bomb", ["count_unpacked"], "acceptable"),
        pytest.param("comments_flood", ["count", "count_unpacked"], "bounded", marks=LONG),
        ("status_500_endless", ["count", "refusal"], "bounded"),
    ],
)
def test_without_a_bound_the_check_finds_what_it_bounds(
    transport: None, endpoint: str, without: list[str], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bound in without:
        if bound == "refusal":
            monkeypatch.setattr("endstop.providers.litellm_http.LARGEST_REFUSAL", 10**9)
        else:
            monkeypatch.setattr(ReceivedBytes, bound, lambda self, size: None)
    size = LARGEST if endpoint == "gzip_bomb" else SIZE  # of which the bomb unpacks to four times as much
    assert invariant in broken(stand("openai", [endpoint], size))


# ---- which error it is


def lite(url: str, **more: Any) -> LiteLLM:
    return LiteLLM("openai/m", api_base=url, api_key=KEY, **more)


ANSWER = b"".join(sse(delta(content="here"), FINISHED))


async def test_B6_an_answer_that_unpacks_to_too_much_is_an_error_that_says_so() -> None:
    big = b": " + b"a" * 4_000_000 + b"\n\n" + ANSWER
    async with server(packed(big)) as (url, _):
        error = failed(await heard(lite(url, largest_response=1_000_000)))
        assert (error.kind, "larger than 1000000 bytes" in error.message) == ("protocol", True)
        assert await heard(lite(url, largest_response=5_000_000)) == "here"


async def test_status_1xx_without_an_end_is_an_error_that_says_so_and_the_connection_is_closed() -> None:
    left = asyncio.Event()

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        try:
            for _ in range(1000):
                writer.write(b"HTTP/1.1 102 Processing\r\n\r\n" * 1000)
                await writer.drain()
        except ConnectionError:
            left.set()

    async with server(serve) as (url, _):
        error = failed(await heard(lite(url, largest_response=100_000)))
        assert (error.kind, "headers and framing included" in error.message) == ("protocol", True)
        await asyncio.wait_for(left.wait(), 30)


async def test_an_error_reply_of_any_size_is_what_its_status_says() -> None:
    async with server(packed(b"x" * 50_000_000, "text/plain", 500)) as (url, _):
        error = failed(await heard(lite(url, largest_response=100_000)))
    assert (error.kind, len(error.message) < 3000) == ("server", True)


def as_sent(body: bytes, encoding: str) -> Any:
    """A server that sends this body in small pieces."""

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n")
        writer.write(f"content-encoding: {encoding}\r\n\r\n".encode())
        for at in range(0, len(body), 7):
            writer.write(b"%x\r\n%s\r\n" % (len(body[at : at + 7]), body[at : at + 7]))
        writer.write(b"0\r\n\r\n")

    return serve


LONG_ANSWER = b"".join(sse(*[delta(content="A" * 100)] * 200, FINISHED))


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (LONG_ANSWER, "identity"),
        (LONG_ANSWER, "x-unknown"),
        (gzip.compress(LONG_ANSWER), "GZip"),
        (zlib.compress(LONG_ANSWER), "deflate"),
        (raw_deflate(LONG_ANSWER), "deflate"),
    ],
    ids=["plain", "unknown", "gzip", "deflate", "deflate without a header"],
)
async def test_an_answer_is_unpacked_as_before(body: bytes, encoding: str) -> None:
    async with server(as_sent(body, encoding)) as (url, _):
        assert await heard(lite(url)) == "A" * 20_000


@pytest.mark.parametrize(
    ("body", "encoding", "kind"),
    [
        (gzip.compress(gzip.compress(ANSWER)), "gzip, gzip", "protocol"),  # a thousand times a thousand
        (ANSWER, "br", "protocol"),
        (ANSWER, "zstd", "protocol"),
        (b"\x1f\x8bno gzip at all", "gzip", "interrupted"),
        (gzip.compress(LONG_ANSWER)[:80], "gzip", "interrupted"),
    ],
    ids=["twice", "br", "zstd", "no gzip", "cut"],  # gzip has the time in it, and tests need the same names each time
)
async def test_what_is_packed_otherwise_than_asked_for_is_an_error(body: bytes, encoding: str, kind: str) -> None:
    async with server(as_sent(body, encoding)) as (url, asked):
        error = failed(await heard(lite(url)))
    assert error.kind == kind, error
    assert b"accept-encoding: gzip, deflate\r\n" in asked[0].lower()


# ---- nobody else


@pytest.mark.parametrize("transport", TRANSPORTS, indirect=True)
async def test_other_users_of_litellm_and_httpx_see_no_change(transport: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.providers.litellm_stream.most_received", lambda largest: 10_000)
    flood = b"HTTP/1.1 102 Processing\r\n\r\n" * 500

    async def serve(head: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(flood)
        await packed(LONG_ANSWER)(head, writer)

    async with server(serve) as (url, _):
        assert failed(await heard(lite(url, largest_response=10))).kind == "protocol", "ours, over the same clients"
        litellm = _import()
        messages = [{"role": "user", "content": "go"}]
        given = await litellm.acompletion("openai/m", messages, api_base=url, api_key=KEY, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in given])
        assert text == "A" * 20_000
        async with httpx.AsyncClient() as client:
            response = await client.post(url, content=json.dumps({}))
        assert (response.content, response.headers["content-encoding"]) == (LONG_ANSWER, "gzip")
