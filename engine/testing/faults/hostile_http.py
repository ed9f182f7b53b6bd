"""Endpoints that misuse HTTP: statuses, redirects, headers, lengths, encodings, connections that stall or break."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

from .hostile_server import Answer, HostileAnswer

Acceptable = Literal["completed", "failed", "either"]
"""How a run may end: with the answer; in any way except as completed; or in any way. It must always end."""
SLOW = 50.0
"""Simulated seconds between two bytes of dripping data."""
PING = 15.0
"""Simulated seconds between two keep-alives without content."""


@dataclass(frozen=True, slots=True)
class HostileEndpoint:
    """One wrong way to respond."""

    name: str
    what: str
    """Description of its behaviour, in a sentence."""
    acceptable: Acceptable
    answer: Answer
    runs_calls: bool = True
    """Whether a call in its first response may be executed."""

    def __str__(self) -> str:
        return self.name


def hostile(
    acceptable: Acceptable, table: list[HostileEndpoint], runs_calls: bool = True
) -> Callable[[Answer], Answer]:
    """Return a decorator that puts a function into a table under its name, with the first line of its docstring."""

    def add(answer: Answer) -> Answer:
        name, what = answer.__name__, (answer.__doc__ or "").partition("\n")[0]
        table.append(HostileEndpoint(name, what, acceptable, answer, runs_calls))
        return answer

    return add


HTTP_ENDPOINTS: list[HostileEndpoint] = []
failing = hostile("failed", HTTP_ENDPOINTS)
answering = hostile("completed", HTTP_ENDPOINTS)
either = hostile("either", HTTP_ENDPOINTS)

# ---- statuses

_HTML = b"<!doctype html><html><body><h1>It works!</h1></body></html>"
_JSON = b"content-type: application/json\r\n"
_DEEP = b"[" * 100_000
_STATUSES: tuple[tuple[str, str, bytes, bytes], ...] = (
    ("status_204", "204 No Content", b"", b""),
    ("status_304", "304 Not Modified", b"", b""),
    ("status_401_html", "401 Unauthorized", b"content-type: text/html\r\n", _HTML),
    ("status_403_empty", "403 Forbidden", b"", b""),
    ("status_418_deep_json", "418 Teapot", _JSON, _DEEP),
    ("status_429_after_years", "429 Slow", b"retry-after: 3153600000\r\n", b"{}"),
    ("status_429_after_negative", "429 Slow", b"retry-after: -5\r\n", b"{}"),
    ("status_429_after_garbage", "429 Slow", b"retry-after: \xff soon, 1e999\r\n", b'{"error": 5}'),
    ("status_429_after_nan", "429 Slow", b"retry-after: nan\r\nretry-after-ms: inf\r\n", b"[]"),
    ("status_500_html", "500 Oops", b"content-type: text/html\r\n", _HTML),
    ("status_502_invalid_utf8", "502 Bad", b"content-type: text/plain\r\n", b"\xff\xfe\x00\xc3" * 100),
    ("status_503_stream", "503 Busy", b"content-type: text/event-stream\r\n", b'data: {"error": "busy"}\n\n'),
    ("status_999", "999 Unknown", _JSON, b'{"error": {"message": ["a"], "code": {}}}'),
)


async def _status(exchange: HostileAnswer, status: str, headers: bytes, body: bytes) -> None:
    await exchange.body(body, headers, status)


for _name, _line, _headers, _body in _STATUSES:
    _what = f"Status {_line}, {len(_body)} bytes of body."
    _act = partial(_status, status=_line, headers=_headers, body=_body)
    HTTP_ENDPOINTS.append(HostileEndpoint(_name, _what, "failed", _act))


@failing
async def status_500_endless(exchange: HostileAnswer) -> None:
    """Status 500 whose body never ends."""
    await exchange.send(b"HTTP/1.1 500 Oops\r\ntransfer-encoding: chunked\r\n\r\n")
    await exchange.flood(b"error " * 100)


@failing
async def status_500_stalls(exchange: HostileAnswer) -> None:
    """Status 500 whose body stalls."""
    await exchange.send(b"HTTP/1.1 500 Oops\r\ncontent-length: 100\r\n\r\n{")
    await exchange.pause()


@failing
async def error_quotes_key(exchange: HostileAnswer) -> None:
    """Status 400 that repeats the key of the request, in its reason, a header and its body."""
    keys = " ".join(exchange.keys) or "none"
    body = json.dumps({"error": {"message": f"the key {keys} may not do this", "key": exchange.keys}}).encode()
    await exchange.body(body, _JSON + b"x-you-sent: %s\r\n" % keys.encode("latin-1"), f"400 {keys}")


# ---- redirects


async def _redirect(exchange: HostileAnswer, status: str, location: str) -> None:
    headers = f"location: {location}\r\n" if location else ""
    await exchange.body(b"moved", headers.encode(), status)


@failing
async def redirect_loop(exchange: HostileAnswer) -> None:
    """A redirect (307) to itself, with a body."""
    await _redirect(exchange, "307 Moved", exchange.path)


@failing
async def redirect_elsewhere(exchange: HostileAnswer) -> None:
    """A redirect (307) to another host, which must not get the conversation."""
    await _redirect(exchange, "307 Moved", f"{exchange.elsewhere}{exchange.path}")


@failing
async def redirect_permanent_elsewhere(exchange: HostileAnswer) -> None:
    """A redirect (308) to another host, by an address without a scheme."""
    await _redirect(exchange, "308 Moved", f"{exchange.elsewhere.removeprefix('http:')}{exchange.path}")


@failing
async def redirect_as_get(exchange: HostileAnswer) -> None:
    """A redirect (302) that would lose the request."""
    await _redirect(exchange, "302 Found", exchange.path)


@failing
async def redirect_nowhere(exchange: HostileAnswer) -> None:
    """A redirect (307) without an address."""
    await _redirect(exchange, "307 Moved", "")


@failing
async def redirect_garbage(exchange: HostileAnswer) -> None:
    """A redirect (307) to an invalid address."""
    await _redirect(exchange, "307 Moved", "http://[::1:99999999/\x7f")


@failing
async def redirect_endless(exchange: HostileAnswer) -> None:
    """A redirect (302) whose body never ends."""
    await exchange.send(b"HTTP/1.1 302 Found\r\nlocation: /\r\ntransfer-encoding: chunked\r\n\r\n")
    await exchange.flood(b"moved " * 100)


# ---- headers and versions


@failing
async def headers_endless(exchange: HostileAnswer) -> None:
    """Headers that never end."""
    await exchange.send(b"HTTP/1.1 200 OK\r\n")
    await exchange.flood(b"x-more: and more\r\n", chunked=False)


@failing
async def header_huge(exchange: HostileAnswer) -> None:
    """One header that never ends."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nx-more: ")
    await exchange.flood(b"and more ", chunked=False)


@either
async def header_without_colon(exchange: HostileAnswer) -> None:
    """A header without a colon, before a good answer."""
    await exchange.send(b"HTTP/1.1 200 OK\r\nno colon here\r\ntransfer-encoding: chunked\r\n\r\n")
    await exchange.chunks(exchange.good())
    await exchange.end()


@either
async def header_with_control_characters(exchange: HostileAnswer) -> None:
    """NUL and escape sequences in headers, before a good answer."""
    await exchange.begin(b"x-odd: a\x00b\x1b[2J\r\n")
    await exchange.chunks(exchange.good())
    await exchange.end()


@failing
async def status_line_garbage(exchange: HostileAnswer) -> None:
    """A greeting of another protocol instead of HTTP."""
    await exchange.send(b"220 mail.example ESMTP ready\r\n\r\n")
    exchange.close()


@either
async def http_0_9(exchange: HostileAnswer) -> None:
    """A body without status and headers, as in HTTP 0.9."""
    await exchange.send(b"".join(exchange.good()))
    exchange.close()


@answering
async def http_1_0(exchange: HostileAnswer) -> None:
    """HTTP 1.0: the end of the connection is the end of the body."""
    await exchange.send(b"HTTP/1.0 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", *exchange.good())
    exchange.close()


@answering
async def informational_one(exchange: HostileAnswer) -> None:
    """Status 103 before a good answer."""
    await exchange.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n")
    await exchange.stream(exchange.good())


@failing
async def informational_flood(exchange: HostileAnswer) -> None:
    """Status 102 again and again, and never a response."""
    await exchange.flood(b"HTTP/1.1 102 Processing\r\n\r\n", chunked=False)


@failing
async def informational_pings(exchange: HostileAnswer) -> None:
    """Status 102 now and then, and never a response."""
    while True:
        await exchange.send(b"HTTP/1.1 102 Processing\r\n\r\n")
        await exchange.pause(PING)


@failing
async def switches_protocol(exchange: HostileAnswer) -> None:
    """Status 101, and then nothing more."""
    await exchange.send(b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n")
    await exchange.pause()


@either
async def two_responses(exchange: HostileAnswer) -> None:
    """Two whole responses to one request."""
    await exchange.stream(exchange.good())
    await exchange.stream(exchange.good())


@either
async def garbage_after_response(exchange: HostileAnswer) -> None:
    """Bytes after a whole response that belong to nothing."""
    await exchange.stream(exchange.good())
    await exchange.send(b"\x00\xff garbage \r\n\r\n")
    exchange.close()


# ---- the length of the body


@failing
async def chunk_truncated(exchange: HostileAnswer) -> None:
    """A chunk that breaks off, and the end of the connection."""
    await exchange.begin()
    await exchange.send(b"fff\r\n" + exchange.good()[0])
    exchange.close()


@failing
async def chunk_size_garbage(exchange: HostileAnswer) -> None:
    """A chunk whose size is not a number."""
    await exchange.begin()
    await exchange.send(b"many\r\n" + exchange.good()[0] + b"\r\n")
    exchange.close()


@failing
async def chunk_size_huge(exchange: HostileAnswer) -> None:
    """A chunk of 16 exabytes that stalls."""
    await exchange.begin()
    await exchange.send(b"ffffffffffffffff\r\n" + exchange.good()[0])
    await exchange.pause()


@failing
async def chunk_size_endless(exchange: HostileAnswer) -> None:
    """A chunk whose size has no last digit."""
    await exchange.begin()
    await exchange.flood(b"0" * 64, chunked=False)


@either
async def trailers_endless(exchange: HostileAnswer) -> None:
    """Headers without end after a whole body."""
    await exchange.begin()
    await exchange.chunks(exchange.good())
    await exchange.send(b"0\r\n")
    await exchange.flood(b"x-more: and more\r\n", chunked=False)


async def _length(exchange: HostileAnswer, length: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %s\r\n\r\n" % length
    await exchange.send(head, *exchange.good())
    exchange.close()


@either
async def length_too_long(exchange: HostileAnswer) -> None:
    """A Content-Length larger than the body before the connection closes."""
    await _length(exchange, b"100000")


@failing
async def length_too_short(exchange: HostileAnswer) -> None:
    """A Content-Length that ends in the middle of an event."""
    await _length(exchange, b"%d" % (len(exchange.good()[0]) + 20))


@failing
async def length_garbage(exchange: HostileAnswer) -> None:
    """A Content-Length that is not a number."""
    await _length(exchange, b"long")


@failing
async def length_negative(exchange: HostileAnswer) -> None:
    """A negative Content-Length."""
    await _length(exchange, b"-1")


@either
async def length_and_chunked(exchange: HostileAnswer) -> None:
    """A Content-Length and chunks, which contradict each other."""
    await exchange.begin(b"content-length: 5\r\n")
    await exchange.chunks(exchange.good())
    await exchange.end()


# ---- encodings


def _bomb(size: int, answer: bytes) -> bytes:
    """Return a response preceded by a comment of this many bytes, compressed to a thousandth."""
    packer, block = zlib.compressobj(9, wbits=31), b"a" * 1_000_000
    packed = [packer.compress(b": "), *(packer.compress(block) for _ in range(size // len(block) + 1))]
    return b"".join([*packed, packer.compress(b"\n\n" + answer), packer.flush()])


@failing
async def gzip_bomb(exchange: HostileAnswer) -> None:
    """A few hundred kilobytes of gzip that decompress to an answer of several times `size`."""
    await exchange.body(_bomb(4 * exchange.size, b"".join(exchange.good())), b"content-encoding: gzip\r\n")


@answering
async def gzip_whole(exchange: HostileAnswer) -> None:
    """A good answer in gzip, a byte at a time."""
    packed = gzip.compress(b"".join(exchange.good()))
    await exchange.begin(b"content-encoding: gzip\r\n")
    await exchange.chunks(packed[at : at + 1] for at in range(len(packed)))
    await exchange.end()


@failing
async def gzip_truncated(exchange: HostileAnswer) -> None:
    """Gzip that breaks off."""
    packed = gzip.compress(b"".join(exchange.good()))
    await exchange.body(packed[: len(packed) // 3], b"content-encoding: gzip\r\n")


@failing
async def gzip_garbage(exchange: HostileAnswer) -> None:
    """A body that is declared as gzip but is not."""
    await exchange.body(b"\x1f\x8bthis is no gzip" * 10, b"content-encoding: gzip\r\n")


@either
async def encoding_unknown(exchange: HostileAnswer) -> None:
    """An unknown encoding, around a good answer."""
    await exchange.body(b"".join(exchange.good()), b"content-encoding: x-rot13\r\n")


# ---- stalls


@failing
async def stall_before_headers(exchange: HostileAnswer) -> None:
    """Nothing is sent at all."""
    await exchange.pause()


@failing
async def stall_inside_headers(exchange: HostileAnswer) -> None:
    """Nothing more is sent in the middle of the headers."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    await exchange.pause()


@failing
async def stall_before_body(exchange: HostileAnswer) -> None:
    """Nothing is sent after the headers."""
    await exchange.begin()
    await exchange.pause()


@failing
async def stall_inside_body(exchange: HostileAnswer) -> None:
    """Nothing more is sent in the middle of the answer."""
    await exchange.begin()
    await exchange.chunks(exchange.good()[:2])
    await exchange.pause()


@either
async def stall_after_answer(exchange: HostileAnswer) -> None:
    """The whole answer is sent, but not the end of the body."""
    await exchange.begin()
    await exchange.chunks(exchange.good())
    await exchange.pause()


@failing
async def drip_headers(exchange: HostileAnswer) -> None:
    """Headers that are sent byte by byte, one a minute."""
    for byte in iter(b"HTTP/1.1 200 OK\r\nx: " + b"a" * 1000):
        await exchange.send(bytes([byte]))
        await exchange.pause(SLOW)


@failing
async def drip_body(exchange: HostileAnswer) -> None:
    """A body that is sent byte by byte, one a minute."""
    await exchange.begin()
    for byte in iter(b"".join(exchange.good())):
        await exchange.chunks([bytes([byte])])
        await exchange.pause(SLOW)


@answering
async def bytes_one_by_one(exchange: HostileAnswer) -> None:
    """A good answer, each byte in a separate chunk."""
    whole = b"".join(exchange.good())
    await exchange.stream(whole[at : at + 1] for at in range(len(whole)))


# ---- connections that break


@failing
async def reset_before_headers(exchange: HostileAnswer) -> None:
    """The connection is reset before a response."""
    exchange.reset()


@failing
async def reset_inside_headers(exchange: HostileAnswer) -> None:
    """The connection is reset in the middle of the headers."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-ty")
    exchange.reset()


@failing
async def reset_before_body(exchange: HostileAnswer) -> None:
    """The connection is reset after the headers."""
    await exchange.begin()
    exchange.reset()


@failing
async def reset_inside_body(exchange: HostileAnswer) -> None:
    """The connection is reset in the middle of an event."""
    await exchange.begin()
    await exchange.chunks([exchange.good()[0], exchange.good()[1][:20]])
    await exchange.pause(0.1)
    exchange.reset()


@failing
async def close_before_headers(exchange: HostileAnswer) -> None:
    """The connection is closed in the ordinary way before a response."""
    exchange.close()


@failing
async def close_inside_body(exchange: HostileAnswer) -> None:
    """The connection is closed in the ordinary way in the middle of the answer, whose length is not known."""
    await exchange.send(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n", *exchange.good()[:2])
    exchange.close()
