"""HTTP as litellm uses it for us: how much may come in, and where a redirect may lead.

litellm has settings for neither. It sends requests with httpx, by default over aiohttp, and keeps the clients for all
its callers. So methods of these libraries are replaced, once, by others that differ only while litellm runs for a
`LiteLLM` stream (`CURRENT_STREAM`). Other requests of the process are sent and answered as before.

What comes in is counted in two places: on the connection, with status, headers and framing (`ResponseHandler` of
aiohttp, `AnyIOStream` of httpcore, which httpx uses without aiohttp); and in the body, after decompression, which is
done here, since httpx unpacks a block of any size at once.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
from aiohttp.client_proto import ResponseHandler

from .endpoint_url import public_url, url_origin
from .errors import ProtocolError
from .http_connections import break_off
from .http_provider import LARGEST_REFUSAL
from .litellm_stream import CURRENT_STREAM, ReceivedBytes, end_generator

PACKINGS = {"gzip": zlib.MAX_WBITS | 16, "deflate": zlib.MAX_WBITS}
"""Content encodings that are asked for and unpacked, and how zlib calls them."""
OTHER_PACKINGS = frozenset({"br", "zstd"})
"""Content encodings that httpx unpacks where it finds a library for them, without a bound."""
PIECE = 64 * 1024
"""Most bytes that are unpacked at once."""


class RedirectToOtherHost(Exception):
    """A redirect would send the conversation to another host, which is refused."""


def bound_requests() -> None:
    """Replace the methods of httpx, aiohttp and httpcore that the docstring of this module speaks of, once.

    A method that a later version of a library no longer has is left out, and its bound with it.
    """
    methods: list[tuple[type, str, Callable[..., Any]]] = [
        (httpx.AsyncClient, "_build_redirect_request", _refuse_other_hosts),
        (httpx.AsyncClient, "_send_single_request", _bound_body),
        (ResponseHandler, "set_response_params", _count_over_aiohttp),
    ]
    with suppress(ImportError):  # a private module, like the methods above
        from httpcore._backends.anyio import AnyIOStream

        methods.append((AnyIOStream, "read", _count_over_httpcore))
    for owner, name, replace in methods:
        method: Any = getattr(owner, name, None)
        if method is not None and not hasattr(method, "endstop"):
            instead: Any = replace(method)
            instead.endstop = True
            setattr(owner, name, instead)


def _refuse_other_hosts(build: Callable[..., httpx.Request]) -> Callable[..., httpx.Request]:
    """Return a replacement of `build` that refuses to redirect requests of ours to another scheme, host or port.

    httpx would send the conversation there, and headers with keys that it does not know.
    """

    def build_redirect_request(self: httpx.AsyncClient, request: httpx.Request, response: httpx.Response) -> Any:
        following = build(self, request, response)
        if CURRENT_STREAM.get() is not None:
            ours, theirs = (url_origin(str(one.url)) for one in (request, following))
            if ours != theirs or following.method != request.method:
                raise RedirectToOtherHost(
                    f"it answered {response.status_code}, to {public_url(str(following.url))}: the conversation is "
                    "not sent to another host; give that one as api_base"
                )
        return following

    return build_redirect_request


def _bound_body(send: Callable[..., Awaitable[httpx.Response]]) -> Callable[..., Awaitable[httpx.Response]]:
    """Return a replacement of `send` that puts a `BoundedBody` into each response to a request of ours."""

    async def send_single_request(self: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
        stream = CURRENT_STREAM.get()
        if stream is None:
            return await send(self, request)
        request.headers["accept-encoding"] = ", ".join(PACKINGS)
        response = await send(self, request)
        response.stream = BoundedBody(response, stream.received)
        response.headers.pop("content-encoding", None)
        return response

    return send_single_request


def _count_over_aiohttp(set_params: Callable[..., None]) -> Callable[..., None]:
    """Return a replacement of `set_params` that has what comes in for a request of ours counted.

    aiohttp calls this method of a connection before it sends a request there.
    """

    def set_response_params(self: ResponseHandler, **params: Any) -> None:
        set_params(self, **params)
        stream = CURRENT_STREAM.get()
        if stream is not None and self._parser is not None:
            self._parser = _CountingParser(self, self._parser, stream.received)  # type: ignore[assignment]

    return set_response_params


class _CountingParser:
    """Wraps the parser of a connection of aiohttp: it counts the bytes, and breaks off the connection at the bound."""

    def __init__(self, connection: ResponseHandler, parser: Any, received: ReceivedBytes) -> None:
        self._connection, self._parser, self._received = connection, parser, received

    def feed_data(self, data: bytes) -> Any:
        """Count these bytes, and parse them. Raises ProtocolError at the bound."""
        try:
            self._received.count(len(data))
        except ProtocolError as error:
            break_off(self._connection, error)
            raise  # which fails the request if it has no answer yet
        return self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _count_over_httpcore(read: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """Return a replacement of `read` that counts what it has read for a request of ours."""

    async def read_some(self: Any, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await read(self, max_bytes, timeout)
        if (stream := CURRENT_STREAM.get()) is not None:
            stream.received.count(len(data))
        return data

    return read_some


class BoundedBody(httpx.AsyncByteStream):
    """The body of a response after decompression.

    Reading it raises ProtocolError once it is larger than is allowed. Of an error reply it gives the first 64 KB.
    """

    def __init__(self, response: httpx.Response, received: ReceivedBytes) -> None:
        assert isinstance(response.stream, httpx.AsyncByteStream)
        self._body = response.stream
        self._blocks = aiter(getattr(self._body, "_stream", self._body))  # below httpx's own generator
        self._received = received
        received.bodies.append(self)
        self._left = LARGEST_REFUSAL
        self._refused = not response.is_success
        named = [name.lower() for name in response.headers.get_list("content-encoding", split_commas=True)]
        packings = [name for name in named if name in PACKINGS or name in OTHER_PACKINGS]
        self._wrong = packings if len(packings) > 1 or OTHER_PACKINGS & {*packings} else []
        self._unpack = _Unpacking(packings[0]).feed if packings and not self._wrong else _as_it_is
        self._pieces: Iterator[bytes] = iter(())
        self._closed = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._closed:
            raise ConnectionError("the response has been closed")
        if self._refused and (self._left <= 0 or self._wrong):
            raise StopAsyncIteration
        if self._wrong:
            packed = f"the response is packed as {self._wrong[:3]}"
            self._received.break_off(ProtocolError(f"{packed}, which was not asked for"))
        piece = next(self._pieces, b"")
        if piece:
            await asyncio.sleep(0)  # one block can unpack to a thousand times its size
        while not piece:
            self._pieces = self._unpack(await anext(self._blocks))
            piece = next(self._pieces, b"")
        if self._refused:
            piece = piece[: self._left]
            self._left -= len(piece)
        else:
            self._received.count_unpacked(len(piece))
        return piece

    async def aclose(self) -> None:
        """Close the connection, unless all of the response has been read. Whoever reads on gets a ConnectionError."""
        self._closed = True
        await self._body.aclose()
        await end_generator(self._blocks)


def _as_it_is(block: bytes) -> Iterator[bytes]:
    return iter((block,))


class _Unpacking:
    """Decompresses a body in pieces of at most `PIECE` bytes. packing: a key of `PACKINGS`."""

    def __init__(self, packing: str) -> None:
        self._inflate = zlib.decompressobj(PACKINGS[packing])
        self._may_be_raw = packing == "deflate"

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield what a block decompresses to, piece by piece. Raises httpx.DecodingError."""
        while not self._inflate.eof:
            try:
                piece = self._inflate.decompress(block, PIECE)
            except zlib.error as error:
                if not self._may_be_raw:
                    raise httpx.DecodingError(str(error)) from error
                self._inflate, piece = zlib.decompressobj(-zlib.MAX_WBITS), b""  # as some servers understand "deflate"
            else:
                block = self._inflate.unconsumed_tail
                if piece:
                    yield piece
                if not block and len(piece) < PIECE:
                    return
            self._may_be_raw = False
