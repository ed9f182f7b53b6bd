"""Bodies of requests and responses: read up to the size that is followed, unpacked, and decoded."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from io import BytesIO

import aiohttp
import msgspec
from aiohttp import web

from ..formats.parsing import as_dict, as_text
from ..providers.surrogate_pairs import encodable
from ..records.compression import CorruptData, decompress
from .exchange import LARGEST_FOLLOWED
from .upstream_connections import Body
from .wire import ProxyWire, WireRequest

BODY_SECONDS = 60.0
"""Seconds without a byte of a request's body after which the request is aborted. A slow upload is not."""
_MODEL_IN_PATH = re.compile(r"/(?:models?|tunedModels)/([^/:]+)(?::(?!(?:count|compute)Tokens)\w|/(?:invoke|converse))")
"""Paths of Gemini and Amazon Bedrock, which contain the model's name."""


def read_request(wire: ProxyWire, path: str, body: bytes) -> WireRequest | None:
    """Read a request. Return None if it is not followed; if something is wrong with it, the provider says so."""
    try:
        decoded = msgspec.json.decode(encodable(body))
        return wire.read(decoded, path) if isinstance(decoded, dict) else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def model_of(incoming: web.Request, body: Body) -> str:
    """Return the model named in the path or JSON of a request that is not followed; empty if unknown."""
    if (named := _MODEL_IN_PATH.search(incoming.path)) is not None:
        return named[1]
    try:
        plain = unpacked(incoming, body) if isinstance(body, bytes) else None
        return as_text(as_dict(msgspec.json.decode(plain or b"")).get("model"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


def unpacked(incoming: web.Request, body: bytes) -> bytes | None:
    """Return a body without its content-encoding, up to the followed size; None if that is wrong or unknown."""
    encoding = incoming.headers.get("content-encoding", "identity").strip().lower()
    if encoding == "identity":
        return body
    if encoding not in ("gzip", "x-gzip", "zstd"):
        return None
    parts, size = [], 0
    try:
        for part in decompress(body, BytesIO()):
            parts.append(part)
            size += len(part)
            if size > LARGEST_FOLLOWED:
                break
    except CorruptData:
        return None
    return b"".join(parts)


class UnfinishedBody(Exception):
    """The body of a request has stopped arriving."""


async def arriving(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the blocks of a request's body. Raises UnfinishedBody if none comes for `BODY_SECONDS`."""
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                block = await content.readany()
        except TimeoutError:
            raise UnfinishedBody(f"no data of the request's body arrived for {BODY_SECONDS:g} s") from None
        if not block:
            return
        yield block


async def read_body(blocks: AsyncIterator[bytes]) -> Body:
    """Return a body up to the followed size; beyond that, the data already read and the rest, in blocks."""
    held, size = [], 0
    async for block in blocks:
        held.append(block)
        size += len(block)
        if size > LARGEST_FOLLOWED:
            return _blocks(held, blocks)
    return b"".join(held)


async def _blocks(held: list[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    while held:
        yield held.pop(0)
    async for block in rest:
        yield block
