"""Keys are in headers and queries, and come out nowhere: records, logs (at every level), metrics, page, and errors."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from endstop.decision import POLICIES
from endstop.process.tokens import Tokens
from endstop.providers.prices import Prices
from endstop.proxy.day_budgets import DayBudgets
from endstop.proxy.proxy_server import RunFollowers
from endstop.proxy.statistics_page import Statistics
from msgspec import json

from .agents import proxy_before
from .raw_http import CHUNK, CHUNKED, STREAM, chunked, listening_raw, raw_request, read_request, request_for

SECRET = "sk-SECRETKEY0123456789"
COOKIE = "COOKIE0123456789"
OWN = "OWNTOKEN0123456789"
KEYS = {
    "OpenAI's": f"Authorization: Bearer {SECRET}",
    "Anthropic's": f"x-api-key: {SECRET}",
    "Azure's": f"api-key: {SECRET}",
    "in the query": "X-A: 1",
}
QUOTED = json.encode({"error": {"message": f"Incorrect API key provided: {SECRET}", "code": "invalid_api_key"}})
WHOLE = b'{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}'
REPLIES = {
    "a response": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
    % (len(WHOLE), WHOLE),
    "the key in a refusal": b"HTTP/1.1 401 %s\r\nContent-Length: %d\r\n\r\n%s" % (SECRET.encode(), len(QUOTED), QUOTED),
    "the key in a stream": STREAM + CHUNKED + chunked(CHUNK, b"data: " + QUOTED + b"\n\n"),
    "no HTTP": b"SSH-2.0-OpenSSH\r\n",
    "half a head": f"HTTP/1.1 200 OK\r\nSet-Cookie: {COOKIE}\r\nContent-".encode(),
    "half a stream": STREAM + CHUNKED + b"99\r\ndata: ",
    "nothing": b"",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 500 + b"\r\n",
}
UNREADABLE = [
    f"Authorization: Bearer {SECRET}\x00",
    f"Auth orization: Bearer {SECRET}",
    f"Authorization: Bearer {SECRET}{'a' * 70_000}",
]


@pytest.mark.parametrize("kind", KEYS)
async def test_a_key_is_written_nowhere(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.get_running_loop().set_debug(True)
    statistics = Statistics()
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices(), folder=tmp_path, on_event=statistics.take)
    budgets = DayBudgets({}, {"output_tokens": 1e6}, Prices())
    path = "/v1/chat/completions" + (f"?key={SECRET}" if kind == "in the query" else "")
    headers = f"{KEYS[kind]}\r\nCookie: session={COOKIE}\r\nx-endstop-token: {OWN}\r\nConnection: close\r\n".encode()
    replies, passed, shown = list(REPLIES.values()), 0, b""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal passed
        head, _ = await read_request(reader)
        passed += SECRET.encode() in head
        assert OWN.encode() not in head
        writer.write(replies[0])
        await writer.drain()

    tokens = Tokens({"me": OWN})
    async with (
        listening_raw(talk) as upstream,
        proxy_before(upstream, followers, tokens=tokens, statistics=statistics, budgets=budgets) as (url, proxy),
    ):
        while replies:
            for where in (path, path.replace("chat/completions", "other")):
                said = await raw_request(url, request_for(where, headers=headers))
                assert said.startswith(b"HTTP/1.1 ")
                if b"x-endstop: error" in said:
                    assert SECRET.encode() not in said
                    assert COOKIE.encode() not in said
            replies.pop(0)
        for line in UNREADABLE:
            assert (
                b" 400 " in (await raw_request(url, request_for(path, headers=line.encode() + b"\r\n"))).splitlines()[0]
            )
        for own in ("/endstop/", "/endstop/metrics"):
            asked = f"GET {own} HTTP/1.1\r\nHost: localhost\r\nx-endstop-token: {OWN}\r\nConnection: close\r\n\r\n"
            shown += await raw_request(url, asked.encode())
        assert len(proxy.runs) > 0
    async with proxy_before("http://127.0.0.1:9", followers) as (url, _):
        shown += await raw_request(url, request_for(path, headers=headers))
    assert passed == 2 * len(REPLIES)  # the provider got it
    records = [record.read_text(encoding="utf-8") for record in tmp_path.rglob("*.jsonl")]
    assert any("Incorrect API key provided: " in record for record in records)
    out, err = capsys.readouterr()
    written = "\n".join([*records, caplog.text, out, err, shown.decode()])
    assert "endstop_proxy_requests_total" in written
    for secret in (SECRET, COOKIE, OWN):
        assert secret not in written, written[max(0, written.index(secret) - 300) :][:400]
