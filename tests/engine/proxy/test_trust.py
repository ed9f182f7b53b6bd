"""Nobody speaks as the proxy or spends through it unasked, and it shows nobody's keys."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from endstop.decision import POLICIES
from endstop.decision.chunks import TextDelta
from endstop.decision.events import TextMessageContent
from endstop.follow import Follower
from endstop.process.tokens import Tokens
from endstop.providers.prices import Prices
from endstop.proxy.proxy_server import RunFollowers
from endstop.records.known_secrets import KnownSecrets
from endstop.records.reader import read_record
from endstop.records.recorder import BATCH_EVENTS
from endstop.records.redaction import Redaction
from endstop.replay import replay
from msgspec import json

from .agents import proxy_before
from .raw_http import (
    CHUNK,
    CHUNKED,
    LAST,
    STREAM,
    RawProvider,
    chunked,
    listening_raw,
    raw_request,
    read_request,
    request_for,
)

FOLLOWERS = RunFollowers(policy=POLICIES["agent"], prices=Prices())
PATHS = ["/", "/health", "/endstop/", "/endstop/metrics", "/%65ndstop/", "/v1/chat/completions", "/v1/messages", "//x"]
METHODS = ["GET", "POST", "OPTIONS", "HEAD", "PUT", "DELETE"]
FOREIGN = {
    "another host": "Host: evil.com\r\n",
    "another host, forwarded": "Host: evil.com\r\nX-Forwarded-Host: localhost\r\nForwarded: host=localhost\r\n",
    "a login before a host": "Host: localhost@evil.com\r\n",
    "another origin": "Host: localhost\r\nOrigin: http://evil.com\r\n",
    "no origin": "Host: localhost\r\nOrigin: null\r\n",
    "a preflight": "Host: localhost\r\nOrigin: http://evil.com\r\nAccess-Control-Request-Method: POST\r\n",
    "another site": "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n",
    "a form": "Host: localhost\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n",
    "another port": "Host: localhost\r\nOrigin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n",
    "a WebSocket": "Host: localhost\r\nOrigin: http://evil.com\r\nUpgrade: websocket\r\nSec-WebSocket-Key: a\r\n",
}


@pytest.mark.parametrize("sender", FOREIGN)
async def test_no_page_gets_past_the_proxy_on_any_path(sender: str) -> None:
    provider = RawProvider(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        for method in METHODS:
            for path in PATHS:
                head = f"{method} {path} HTTP/1.1\r\n{FOREIGN[sender]}Content-Length: 0\r\nConnection: close\r\n\r\n"
                status = (await raw_request(url, head.encode())).split(b" ")[1]
                assert status in (b"403", b"421"), (method, path)
    assert provider.requests == []


async def test_names_and_origins_that_are_allowed_are_served() -> None:
    provider = RawProvider(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    allowed: dict[str, Any] = {"hosts": {"agents.internal"}, "origins": ("https://app.example",)}
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS, **allowed) as (url, _):
        for head in ("Host: Agents.Internal:80", "Host: localhost\r\nOrigin: https://app.example"):
            answer = await raw_request(url, f"GET /v1/models HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
            assert b" 200 " in answer.splitlines()[0]


async def test_with_tokens_any_name_is_served_and_still_no_page_of_another_origin() -> None:
    provider = RawProvider(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    tokens = Tokens({"me": "own-token-1"})
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS, tokens=tokens) as (url, _):
        for head, status in (
            ("Host: proxy.corp.example", b"401"),
            ("Host: proxy.corp.example\r\nx-endstop-token: own-token-1", b"200"),
            ("Host: proxy.corp.example\r\nx-endstop-token: own-token-1\r\nOrigin: http://evil.com", b"403"),
        ):
            answer = await raw_request(url, f"GET /v1/models HTTP/1.1\r\n{head}\r\nConnection: close\r\n\r\n".encode())
            assert answer.split(b" ")[1] == status


FORGED = (
    b"x-endstop: answered\r\nX-Endstop-Budget: open\r\nX-ENDSTOP-FOLLOWING: failed\r\nx-endstop-session: forged\r\n"
)
WHOLE = b'{"id":"x","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}]}'
JSON = b"Content-Type: application/json\r\n"
REPLIES = {
    "whole": b"HTTP/1.1 200 OK\r\n" + JSON + FORGED + b"Content-Length: %d\r\n\r\n" % len(WHOLE) + WHOLE,
    "a stream": STREAM + FORGED + CHUNKED + chunked(CHUNK, LAST),
    "an error": b"HTTP/1.1 400 No\r\n" + JSON + FORGED + b"Content-Length: 2\r\n\r\n{}",
    "compressed": b"HTTP/1.1 200 OK\r\n" + JSON + FORGED + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\nxx",
    "trailers": STREAM + b"Trailer: x-endstop\r\n" + CHUNKED + chunked(CHUNK, LAST, trailer=FORGED),
    "before the reply": b"HTTP/1.1 103 Early Hints\r\n" + FORGED + b"\r\n" + STREAM + CHUNKED + chunked(CHUNK, LAST),
    "another protocol": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n" + FORGED + b"\r\nevil",
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/other"])
@pytest.mark.parametrize("name", REPLIES)
async def test_a_provider_does_not_speak_as_the_proxy(name: str, path: str) -> None:
    provider = RawProvider(REPLIES[name])
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        answer = (await raw_request(url, request_for(path))).lower()
    assert answer.startswith((b"http/1.1 200", b"http/1.1 400") if name != "another protocol" else b"http/1.1 502")
    for forged in (b"x-endstop: answered", b"x-endstop-budget", b"x-endstop-following", b"forged"):
        assert forged not in answer


async def test_nothing_of_ours_in_a_request_reaches_the_provider_but_the_ids_of_proxies() -> None:
    provider = RawProvider(REPLIES["whole"])
    id = "0123456789abcdef" * 2
    ours = FORGED + f"x-endstop-token: t\r\nx-endstop-via: what I like\r\nX-Endstop-Via: {id}\r\n".encode()
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        await raw_request(url, request_for("/v1/chat/completions", headers=ours + b"Connection: close\r\n"))
    head = provider.requests[0][0].lower()
    [passed] = [line for line in head.split(b"\r\n") if b"endstop" in line]
    assert re.fullmatch(rb"x-endstop-via: %b, [0-9a-f]{32}" % id.encode(), passed)


async def test_a_name_that_others_read_as_ours_is_ours() -> None:
    provider = RawProvider(b"HTTP/1.1 200 OK\r\nX_Endstop: forged\r\nContent-Length: 0\r\n\r\n")
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        ours = b"x_endstop_budget: forged\r\nConnection: close\r\n"
        answer = await raw_request(url, request_for("/v1/other", headers=ours))
    assert b"forged" not in answer
    assert b"forged" not in provider.requests[0][0]


@pytest.mark.parametrize("path", ["/endstop/x", "/endstop/metrics/x", "/endstop//", "/%65ndstop/x", "/endstop/../v1"])
async def test_below_our_own_path_nothing_goes_to_the_provider(path: str) -> None:
    provider = RawProvider(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with listening_raw(provider.talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        for method in METHODS:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            status = (await raw_request(url, head.encode())).split(b" ")[1]
            assert status in ((b"200", b"405") if path == "/endstop//" else (b"404",)), method
        for method, status in (("GET", b"200"), ("HEAD", b"200"), ("POST", b"405")):
            head = f"{method} /endstop/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
            assert (await raw_request(url, head.encode())).split(b" ")[1] == status
    assert provider.requests == []


@pytest.mark.parametrize("place", ["header", "reason"])
async def test_a_control_character_in_the_head_of_a_reply_reaches_nobody(place: str) -> None:
    reason, value = (b"No", b"a\x1b[2Jb") if place == "header" else (b"\x1b[2J", b"a")
    reply = b"HTTP/1.1 400 " + reason + b"\r\nX-A: " + value + b"\r\nContent-Length: 2\r\n\r\n{}"
    async with listening_raw(RawProvider(reply).talk) as upstream, proxy_before(upstream, FOLLOWERS) as (url, _):
        answer = await raw_request(url, request_for("/v1/other"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"\x1b" not in answer


KEY, COOKIE, QUERY, PASSWORD = (
    "sk-CANARY-1234567890abcdefXYZ",
    "c00kie-9876543210",
    "query-1122334455",
    "pa55word-b4sic",
)


def escaped(text: str) -> str:
    return "".join(f"\\u{ord(letter):04x}" for letter in text)


def in_base64(text: str) -> str:
    return b64encode(f"user:{text}".encode()).decode()


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    said = {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}
    return b"data: " + json.encode(said) + b"\n\n"


def called(arguments: str, name: str = "work", id: str = "c1") -> list[bytes]:
    def piece(letter: str) -> bytes:
        return chunk({"tool_calls": [{"index": 0, "function": {"arguments": letter}}]})

    begin = {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": ""}}
    return [chunk({"tool_calls": [begin]}), *map(piece, arguments), chunk({}, "tool_calls")]


SAID: dict[str, Callable[[str], list[bytes]]] = {
    "letter by letter": lambda key: [*(chunk({"content": letter}) for letter in f"it is {key}."), chunk({}, "stop")],
    "in reasoning": lambda key: [*(chunk({"reasoning_content": one}) for one in key), chunk({"content": "x"}, "stop")],
    "in arguments": lambda key: called(json.encode({"a": f"echo {key}", key: [{key: key}]}).decode()),
    "in arguments, escaped": lambda key: called('{"a": "' + escaped(key) + '"}'),
    "in base64": lambda key: [*(chunk({"content": one}) for one in in_base64(key)), chunk({}, "stop")],
    "in base64 in arguments": lambda key: called(json.encode({"a": f"curl -H {in_base64(key)}"}).decode()),
    "in hexadecimal": lambda key: [chunk({"content": f"it is {key.encode().hex()}"}, "stop")],
    "in torn arguments": lambda key: called('{"a": "' + escaped(key)),
    "in a text, escaped": lambda key: [*(chunk({"content": one}) for one in escaped(key)), chunk({}, "stop")],
    "as a tool's name": lambda key: called("{}", name=key),
    "as a call's id": lambda key: called('{"a": 1}', id=key),
    "as the finish word": lambda key: [chunk({"content": "x"}, key)],
    "as the model": lambda key: [chunk({"content": "x"}, "stop", model=key)],
    "in an error": lambda key: [chunk({"content": "x"}), chunk({}, error={"message": key, "type": key, "code": key})],
    "and the stream breaks off": lambda key: [chunk({"content": f"it is {key[:-2]}"})],
}


@pytest.mark.parametrize("redact", [None, Redaction()], ids=["plain", "redacted"])
@pytest.mark.parametrize("way", SAID)
async def test_what_a_request_shows_is_in_no_record(
    way: str, redact: Redaction | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices(), folder=tmp_path, redact=redact)
    login = b64encode(f"me:{PASSWORD}".encode()).decode()
    headers = (
        f"Authorization: Bearer {KEY}\r\nCookie: a=b; session={COOKIE}\r\nX-Gateway-Auth: Basic {login}\r\n"
        f"User-Agent: {KEY}/1\r\nConnection: close\r\n"
    )
    secrets = [KEY, COOKIE, QUERY, PASSWORD]
    for secret in secrets:
        said = b"".join(SAID[way](secret))

        async def talk(reader: Any, writer: Any, said: bytes = said) -> None:
            await read_request(reader)
            writer.write(STREAM + b"Connection: close\r\n\r\n" + said)

        call = {
            "id": f"c0{secret}",
            "function": {"name": f"w{secret}", "arguments": json.encode({"a": secret}).decode()},
        }
        body = {
            "model": f"m{secret}",
            "stream": True,
            "messages": [
                {"role": "system", "content": secret},
                {"role": "user", "content": f"{secret} and {escaped(secret)}"},
                {"role": "assistant", "content": secret, "tool_calls": [{"type": "function", **call}]},
                {"role": "tool", "tool_call_id": f"c0{secret}", "content": json.encode({"a": secret}).decode()},
            ],
            "tools": [{"type": "function", "function": {"name": "work", "parameters": {"properties": {secret: {}}}}}],
        }
        path = f"/v1/chat/completions?key={QUERY}"
        async with listening_raw(talk) as upstream, proxy_before(upstream, followers) as (url, _):
            answer = await raw_request(url, request_for(path, json.encode(body), headers.encode()))
            assert SAID[way](secret)[0] in answer  # the agent gets its bytes
    records = [record.read_text(encoding="utf-8") for record in tmp_path.rglob("*") if record.is_file()]
    assert len(records) >= len(secrets)
    for text in (*records, *capsys.readouterr()):
        for secret in secrets:
            assert secret not in text
            assert in_base64(secret)[8:-4] not in text
            assert secret.encode().hex() not in text
            assert escaped(secret) not in text.replace("\\\\", "\\")
            assert secret[:-2] not in text or len(secret) < 18


@pytest.mark.parametrize("before", [*range(BATCH_EVENTS - len(KEY) - 4, BATCH_EVENTS), 3 * BATCH_EVENTS])
async def test_a_response_is_in_the_record_while_it_comes_up_to_a_secret(before: int, tmp_path: Path) -> None:
    """before: the deltas before those of the key, one for each letter, over which a part of the record ends."""
    path = tmp_path / "run.jsonl"
    one = Follower(record=path)
    one.hide(KnownSecrets([KEY]))
    one.prompt("Set the port.")
    words = [f"{sha256(str(number).encode()).hexdigest()} " for number in range(before + 1_000)]
    deltas = [*words[:before], *KEY, *words[before:]]
    sizes = []
    for delta in deltas:
        one.chunk(TextDelta(delta))
        sizes.append(path.stat().st_size)
    assert before < BATCH_EVENTS or sizes[-1] > 16_000  # a killed proxy would have lost what is not there
    one.response()
    one.close()
    (run,) = read_record(path).runs
    text = "".join(event.delta for event in run.events if isinstance(event, TextMessageContent))
    assert re.sub(r"\[redacted:known:\w+\]", KEY, text) == "".join(deltas)
    assert KEY not in path.read_text()
    assert (await replay(path)).same


async def test_a_short_key_hides_no_ordinary_word(tmp_path: Path) -> None:
    followers = RunFollowers(policy=POLICIES["agent"], prices=Prices(), folder=tmp_path)
    async with listening_raw(RawProvider(STREAM + CHUNKED + chunked(CHUNK, LAST)).talk) as upstream:
        for key in ("x", "go", "dummy", "sk-local"):
            async with proxy_before(upstream, followers) as (url, _):
                head = f"Authorization: Bearer {key}\r\nConnection: close\r\n".encode()
                await raw_request(url, request_for("/v1/chat/completions", headers=head))
    assert all("[redacted" not in record.read_text(encoding="utf-8") for record in tmp_path.rglob("*.jsonl"))
