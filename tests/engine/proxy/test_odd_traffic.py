"""Odd HTTP, and agents and providers that misbehave: what comes through is what would come without a proxy."""

from __future__ import annotations

import asyncio
import gzip
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import POLICIES
from endstop.providers.prices import Prices
from endstop.proxy import bodies, exchange
from endstop.proxy.exchange import EventSplitter
from endstop.proxy.proxy_server import RunFollowers
from msgspec import json

from .agents import Provider, proxied, proxy_before
from .raw_http import (
    CHUNK,
    CHUNKED,
    LAST,
    PATIENCE,
    STREAM,
    STREAMS,
    RawProvider,
    chunked,
    connected_to,
    listening_raw,
    raw_request,
    read_reply,
    read_request,
    request_for,
)

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices(), completion=("finish_task",))
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
MESSAGE = {"role": "assistant", "content": "hi"}
WHOLE = json.encode({"id": "x", "choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]})
PACKED = gzip.compress(WHOLE, mtime=0)
WORK = {"type": "function", "function": {"name": "work", "parameters": {"type": "object"}}}


def sized(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


REPLIES = {
    "a byte a chunk": STREAM + CHUNKED + chunked(*(bytes([byte]) for byte in CHUNK + LAST)),
    "extensions and trailers": STREAM
    + b"Trailer: X-T\r\n"
    + CHUNKED
    + chunked(CHUNK, LAST, extension=b";a=b", trailer=b"X-T: 1\r\n"),
    "until the connection closes": STREAM + b"Connection: close\r\n\r\n" + CHUNK + LAST,
    "with a length": STREAM + sized(CHUNK + LAST),
    "lines that end with CRLF": STREAM + CHUNKED + chunked((CHUNK + LAST).replace(b"\n", b"\r\n")),
    "blank lines of mixed ends": STREAM + CHUNKED + chunked(CHUNK[:-1] + b"\r\n", LAST),
    "comments between": STREAM + CHUNKED + chunked(b": WAIT\n\n" * 3, CHUNK, b":\n\n", LAST),
    "a byte order mark": STREAM + CHUNKED + chunked(b"\xef\xbb\xbf" + CHUNK, LAST),
    "no blank line at the end": STREAM + CHUNKED + chunked(CHUNK, LAST[:-1]),
    "nothing": STREAM + CHUNKED + chunked(),
    "no events at all": STREAM + CHUNKED + chunked(b"\x00\xff\n\n\n", b"data: {]\n\n"),
    "another type's case": STREAM.replace(b"text/event", b"Text/Event") + CHUNKED + chunked(CHUNK, LAST),
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + STREAM + CHUNKED + chunked(CHUNK, LAST),
    "HTTP/1.0": STREAM.replace(b"1.1", b"1.0") + b"\r\n" + CHUNK + LAST,
    "broken off between chunks": STREAM + CHUNKED + chunked(CHUNK)[:-5],
    "broken off in a chunk": STREAM + CHUNKED + chunked(CHUNK, LAST)[:-30],
    "shorter than its length": STREAM + b"Content-Length: 9999\r\n\r\n" + CHUNK + LAST,
    "whole": JSON + sized(WHOLE),
    "headers twice": JSON + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-A: 1\r\nx-a: 2\r\n" + sized(WHOLE),
    "gzip": JSON + b"Content-Encoding: gzip\r\n" + sized(PACKED),
    "br": JSON + b"Content-Encoding: br\r\n" + sized(b"not unpacked here"),
    "zstd": STREAM + b"Content-Encoding: zstd\r\n" + CHUNKED + chunked(b"not unpacked", b" either"),
    "a large header": JSON + b"X-Large: " + b"a" * 30_000 + b"\r\n" + sized(WHOLE),
    "a header of UTF-8": JSON + "X-Name: café\r\n".encode() + sized(WHOLE),
    "null": JSON + sized(b"null"),
    "a page": b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n" + sized(b"<p>"),
    "204": b"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
    "a redirect": b"HTTP/1.1 307 Moved\r\nLocation: /other\r\nContent-Type: a/b\r\n" + sized(b""),
    "429": b"HTTP/1.1 429 Slow\r\nRetry-After: 3\r\nContent-Type: application/json\r\n" + sized(b"{}"),
    "599": b"HTTP/1.1 599 Odd\r\nContent-Type: text/plain\r\n" + sized(b"abc"),
}


@pytest.mark.parametrize("offers", [True, False])
@pytest.mark.parametrize("name", REPLIES)
async def test_a_reply_comes_through_as_it_is(name: str, offers: bool) -> None:
    provider = RawProvider(REPLIES[name])
    body = {"model": "m", "messages": [{"role": "user", "content": "go"}], "stream": True, "tools": [WORK]}
    async with (
        listening_raw(provider.talk) as upstream,
        proxy_before(upstream, FOLLOWERS, offer_completion=offers) as (url, _),
    ):
        for path in ("/v1/chat/completions", "/v1/other"):
            request = request_for(path, json.encode(body))
            direct = read_reply(await raw_request(upstream, request))
            through = read_reply(await raw_request(url, request))
            assert (through.headers, through.whole) == (direct.headers, direct.whole), path
            assert through.body == direct.body or (not direct.whole and direct.body.startswith(through.body)), path
            assert through.status.split()[0] == direct.status.split()[0] or name in ("429", "a redirect"), path


REQUESTS = {
    "in chunks": b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    + CHUNKED
    + chunked(STREAMS[:9], STREAMS[9:], trailer=b"X-T: 1\r\n"),
    "no body": b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "waits for 100": request_for("/chat/completions", headers=b"Expect: 100-continue\r\nConnection: close\r\n"),
    "offers HTTP/2": request_for(
        "/v1/messages",
        headers=b"Connection: close, Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
    ),
    "HTTP/1.0": b"GET /v1/models HTTP/1.0\r\n\r\n",
    "options": b"OPTIONS /v1/models HTTP/1.1\r\nHost: localhost\r\nAllow: POST\r\nConnection: close\r\n\r\n",
    "an unknown path": b"DELETE /v1//a/../%2e%2E/%C3%A9?x=%20+&y&z= HTTP/1.1\r\nHost: localhost\r\n"
    b"Connection: close\r\n\r\n",
    "another host's": b"GET //elsewhere.example/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    "get with a body": b"GET /v1/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + sized(b"abc"),
    "headers twice": request_for("/v1/x", headers=b"X-A: 1\r\nX-A: 2\r\nanthropic-BETA: c\r\nConnection: close\r\n"),
    "no JSON": request_for("/v1/chat/completions", b"hello"),
    "UTF-16": request_for("/v1/responses", STREAMS.decode().encode("utf-16")),
    "half a surrogate": request_for("/v1/messages", b'{"messages":[{"role":"user","content":"\\ud800"}]}'),
    "no number": request_for("/v1/messages", b'{"top_p":NaN,"messages":[{"role":"user","content":"x"}]}'),
    "large numbers": request_for("/v1/messages", b'{"messages":[{"role":"user","content":"x","n":%s}]}' % (b"9" * 40)),
    "nested deeply": request_for(
        "/v1/chat/completions", b'{"messages":[{"role":"user","content":%s%s}]}' % (b"[" * 9000, b"]" * 9000)
    ),
    "other types": request_for(
        "/v1/chat/completions",
        b'{"model":5,"stream":"yes","tools":{"a":1},"messages":[5,null,{"role":7,"content":{"x":1}},"x"]}',
    ),
    "other items": request_for(
        "/v1/responses", b'{"input":[5,{"type":"function_call_output"}],"conversation":{"id":7}}'
    ),
}


def passed_on(request: tuple[bytes, bytes]) -> tuple[bytes, list[bytes], bytes]:
    """What a provider sees of a request, without what belongs to the connection or comes from the proxy."""
    head, body = request
    line, *headers = head.strip().split(b"\r\n")
    own = (b"connection", b"host", b"transfer-encoding", b"content-length", b"expect", b"upgrade", b"http2-settings")
    own += (b"accept-encoding", b"x-endstop-via")
    kept = [one for one in headers if one.lower().partition(b":")[0] not in own]
    return line.rpartition(b" ")[0], sorted(kept), body


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_comes_through_as_it_is(name: str) -> None:
    provider = RawProvider(JSON + b"Connection: close\r\n" + sized(b"{}"))
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        await raw_request(upstream, REQUESTS[name])
        answer = read_reply(await raw_request(url, REQUESTS[name]))
    assert answer.body == b"{}"
    direct, through = map(passed_on, provider.requests)
    assert through == direct


async def test_who_takes_it_for_an_http_proxy_is_told(tmp_path: Path) -> None:
    async with proxied(Provider(), tmp_path) as (url, _, _):
        for line in (b"CONNECT api.openai.com:443 HTTP/1.1", b"OPTIONS * HTTP/1.1"):
            answer = read_reply(await raw_request(url, line + b"\r\nHost: localhost\r\nConnection: close\r\n\r\n"))
            assert b"set this proxy as the base URL, not as an HTTP proxy" in answer.body


async def test_a_provider_that_had_closed_its_connection_is_asked_on_another() -> None:
    connections: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(0)
        number = len(connections) - 1
        while connections[number] < 1 or number % 2:  # each second one keeps its promise
            await read_request(reader)
            connections[number] += 1
            writer.write(JSON + sized(WHOLE))
            await writer.drain()
        await read_request(reader)  # it said nothing of closing

    async with listening_raw(talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        for _ in range(3):
            answer = read_reply(await raw_request(url, request_for("/v1/chat/completions")))
            assert (answer.status, answer.body) == (b"200 OK", WHOLE)
    assert connections == [1, 2]


async def test_the_connection_of_an_agent_goes_on_after_a_cut_and_an_answer(tmp_path: Path) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    tools = [WORK, {"type": "function", "function": {"name": "finish_task", "parameters": {"type": "object"}}}]
    async with proxied(Provider(), tmp_path) as (url, _, _):
        reader, writer = await connected_to(url)
        replies = []
        for number in range(4):
            body = {"model": "m", "messages": messages, "stream": True, "tools": tools}
            writer.write(request_for("/v1/chat/completions", json.encode(body), headers=b""))
            raw = await reader.readuntil(b"\r\n\r\n")
            raw += (
                await reader.readuntil(b"0\r\n\r\n")
                if b"chunked" in raw
                else await reader.readuntil(b"data: [DONE]\n\n")
            )
            replies.append(read_reply(raw).body)
            name, arguments = (
                ("finish_task", '{"summary": "x"}') if number == 2 else ("work", json.encode({"n": number}))
            )
            function = {"name": name, "arguments": arguments if isinstance(arguments, str) else arguments.decode()}
            call = {"id": f"c{number + 1}", "type": "function", "function": function}
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        writer.close()
    assert b"endstop cut this response" in replies[2]
    assert b"port is 8080" in replies[3]


# ---- agents that leave, or read slowly


@pytest.mark.parametrize("begun", [b"", JSON + CHUNKED + b"5\r\n{    \r\n", STREAM + CHUNKED + chunked(CHUNK)[:-5]])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/other"])
async def test_a_provider_is_left_as_soon_as_its_agent_has_left(path: str, begun: bytes) -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(begun)
        await writer.drain()
        asked.set()
        try:
            while await reader.read(1000):
                pass
        finally:
            left.set()

    async with listening_raw(talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, running):
        _, writer = await connected_to(url)
        writer.write(request_for(path))
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
            writer.close()
            await left.wait()
            await running.idle()


@pytest.mark.parametrize("offers", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/other"])
async def test_a_provider_waits_for_an_agent_that_reads_slowly(path: str, offers: bool) -> None:
    events = 150
    event = b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant"}}],"filler":"%s"}\n\n' % (
        b"a" * 200_000
    )
    sent = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await read_request(reader)
        writer.write(STREAM + CHUNKED)
        for _ in range(events):
            writer.write(b"%x\r\n%s\r\n" % (len(event), event))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    body = json.encode({**json.decode(STREAMS), "tools": [WORK]})
    async with (
        listening_raw(talk) as upstream,
        proxy_before(upstream, FOLLOWERS, offer_completion=offers) as (url, running),
    ):
        reader, writer = await connected_to(url)
        writer.write(request_for(path, body))
        await reader.readexactly(100)
        before, unchanged = -1, 0
        while unchanged < 300:  # turns of the loop in which the provider could not send more
            before, unchanged = sent, unchanged + 1 if sent == before else 0
            await asyncio.sleep(0)
        assert 0 < sent < events * 0.7  # the rest is what the connections' buffers do not hold
        blocks = []
        async with asyncio.timeout(PATIENCE):
            while block := await reader.read(2**20):
                blocks.append(block)
        writer.close()
        whole = b"".join(blocks)
        assert whole.count(b'"filler"') >= events - 1
        assert whole.endswith(b"0\r\n\r\n")
        await running.idle()


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("offers", [True, False])
async def test_a_response_too_large_to_follow_is_passed_on_whole(
    streams: bool, offers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (exchange, bodies):
        monkeypatch.setattr(module, "LARGEST_FOLLOWED", 4000)
    large = (CHUNK * 200 + LAST) if streams else json.encode({**json.decode(WHOLE), "filler": "a" * 9000})
    reply = (
        (STREAM if streams else JSON) + CHUNKED + chunked(*(large[at : at + 999] for at in range(0, len(large), 999)))
    )
    provider = RawProvider(reply)
    async with (
        listening_raw(provider.talk) as upstream,
        proxy_before(upstream, FOLLOWERS, offer_completion=offers) as (url, running),
    ):
        body = json.encode({**json.decode(STREAMS), "tools": [WORK]})
        answer = read_reply(await raw_request(url, request_for("/v1/chat/completions", body)))
        assert (answer.body, answer.whole) == (large, True)
        (run,) = running.runs._runs.values()
        assert run.broken


def test_a_blank_line_of_mixed_ends_ends_an_event() -> None:
    first, second = b"data: 1\n\r\n", b"data: 2\r\n\n"
    assert EventSplitter().feed(first + second) == [(first, len(first)), (second, len(first) + len(second))]


async def test_a_request_whose_head_does_not_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("endstop.http.idle_connections.HEAD_SECONDS", 0.2)
    async with proxied(Provider(), tmp_path) as (url, _, _), asyncio.timeout(PATIENCE):
        reader, writer = await connected_to(url)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept:")
        assert await reader.read() == b""
        writer.close()


async def test_a_request_whose_body_stops_coming_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 0.2)
    provider = Provider()
    async with proxied(provider, tmp_path) as (url, _, _), asyncio.timeout(PATIENCE):
        reader, writer = await connected_to(url)
        writer.write(request_for("/v1/chat/completions", STREAMS)[:-5])
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
        writer.close()
    assert not provider.requests


async def test_an_upload_may_take_longer_than_a_pause_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_SECONDS", 2.0)
    monkeypatch.setattr("endstop.http.idle_connections.HEAD_SECONDS", 1.0)
    loop, provider = asyncio.get_running_loop(), Provider()
    async with proxied(provider, tmp_path) as (url, _, _), asyncio.timeout(PATIENCE):
        reader, writer = await connected_to(url)
        request, began = request_for("/v1/chat/completions", STREAMS), loop.time()
        head = request.index(b"\r\n\r\n") + 4
        writer.write(request[:head])
        for at in range(head, len(request)):
            writer.write(request[at : at + 1])
            passed = asyncio.Event()
            loop.call_later(3.0 / (len(request) - head), passed.set)
            await passed.wait()
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
        assert loop.time() - began > 2.5
        writer.close()


async def test_a_connection_that_has_made_a_request_stays_open_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("endstop.http.idle_connections.HEAD_SECONDS", 0.2)
    loop = asyncio.get_running_loop()
    async with proxied(Provider(), tmp_path) as (url, _, _), asyncio.timeout(PATIENCE):
        reader, writer = await connected_to(url)
        for _ in range(2):
            writer.write(b"GET /endstop/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            passed = asyncio.Event()
            loop.call_later(0.5, passed.set)
            await passed.wait()
        assert not reader.at_eof()
        writer.close()


def test_what_was_held_back_is_passed_on_once_where_a_run_cannot_be_followed_any_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    splitter = EventSplitter()
    assert splitter.feed(b"data: 1\n\ndata: ") == [(b"data: 1\n\n", 9)]
    assert (splitter.end(), splitter.latest) == (b"data: ", b"data: 1\n\ndata: ")
    monkeypatch.setattr(exchange, "LARGEST_FOLLOWED", 16)
    with pytest.raises(ValueError, match="more than"):
        splitter.feed(b"2\n\n")
    assert splitter.latest == b"data: 2\n\n"
