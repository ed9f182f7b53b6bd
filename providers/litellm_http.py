"""Limits on litellm's HTTP: how much it may receive, and where redirects may lead.

litellm has settings for neither. It sends requests with httpx, by default over aiohttp, and shares the clients among
all its callers. So methods of these libraries are replaced, once, by others that differ only while litellm runs for
a `LiteLLM` stream (`CURRENT_STREAM`). Other requests of the process are sent and answered as before.

Received bytes are counted in two places: on the connection, with status, headers and framing (`ResponseHandler` of
aiohttp, `AnyIOStream` of httpcore, which httpx uses without aiohttp); and in the body, after decompression, which is
done here, because httpx decompresses a block of any size at once.
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
"""Content encodings that are requested and decompressed here, with zlib's parameter for each."""
OTHER_PACKINGS = frozenset({"br", "zstd"})
"""Content encodings that httpx decompresses if a library for them is installed, without a limit."""
PIECE = 64 * 1024
"""Maximum number of bytes that are decompressed at once."""


class RedirectToOtherHost(Exception):
    """A redirect that would send the conversation to another host, which is refused."""


def bound_requests() -> None:
    """Replace the methods of httpx, aiohttp and httpcore that this module's docstring describes, once.

    A method that a later version of a library does not have is skipped, together with its limit.
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
    """Return a replacement for `build` that refuses to redirect our requests to another scheme, host or port.

    httpx would send the conversation there, with any key headers that it does not recognise as such.
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
    """Return a replacement for `send` that gives each response to one of our requests a `BoundedBody`."""

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
    """Return a replacement for `set_params` that counts the bytes received for one of our requests.

    aiohttp calls this method of a connection before it sends a request on it.
    """

    def set_response_params(self: ResponseHandler, **params: Any) -> None:
        set_params(self, **params)
        stream = CURRENT_STREAM.get()
        if stream is not None and self._parser is not None:
            self._parser = _CountingParser(self, self._parser, stream.received)  # type: ignore[assignment]

    return set_response_params


class _CountingParser:
    """Wrapper of an aiohttp connection's parser that counts bytes and closes the connection at the limit."""

    def __init__(self, connection: ResponseHandler, parser: Any, received: ReceivedBytes) -> None:
        self._connection, self._parser, self._received = connection, parser, received

    def feed_data(self, data: bytes) -> Any:
        """Count these bytes and parse them. Raises ProtocolError at the limit."""
        try:
            self._received.count(len(data))
        except ProtocolError as error:
            break_off(self._connection, error)
            raise  # this fails the request if it has no response yet
        return self._parser.feed_data(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _count_over_httpcore(read: Callable[..., Awaitable[bytes]]) -> Callable[..., Awaitable[bytes]]:
    """Return a replacement for `read` that counts the bytes read for one of our requests."""

    async def read_some(self: Any, max_bytes: int, timeout: float | None = None) -> bytes:
        data = await read(self, max_bytes, timeout)
        if (stream := CURRENT_STREAM.get()) is not None:
            stream.received.count(len(data))
        return data

    return read_some


class BoundedBody(httpx.AsyncByteStream):
    """Body of a response after decompression.

    Reading it raises ProtocolError once it is larger than allowed. For an error reply, only the first 64 KB are read.
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
            packed = f"the response is encoded as {self._wrong[:3]}"
            self._received.break_off(ProtocolError(f"{packed}, which was not requested"))
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
        """Close the connection, unless the whole response was read. Reading after that raises ConnectionError."""
        self._closed = True
        await self._body.aclose()
        await end_generator(self._blocks)


def _as_it_is(block: bytes) -> Iterator[bytes]:
    return iter((block,))


class _Unpacking:
    """Decompressor of a body in pieces of at most `PIECE` bytes. packing: a key of `PACKINGS`."""

    def __init__(self, packing: str) -> None:
        self._inflate = zlib.decompressobj(PACKINGS[packing])
        self._may_be_raw = packing == "deflate"

    def feed(self, block: bytes) -> Iterator[bytes]:
        """Yield the decompressed content of a block, piece by piece. Raises httpx.DecodingError."""
        while not self._inflate.eof:
            try:
                piece = self._inflate.decompress(block, PIECE)
            except zlib.error as error:
                if not self._may_be_raw:
                    raise httpx.DecodingError(str(error)) from error
                self._inflate, piece = zlib.decompressobj(-zlib.MAX_WBITS), b""  # some servers send this as "deflate"
            else:
                block = self._inflate.unconsumed_tail
                if piece:
                    yield piece
                if not block and len(piece) < PIECE:
                    return
            self._may_be_raw = False
