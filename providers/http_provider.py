"""Base class of the providers that implement a vendor's wire format themselves, over aiohttp.

It has what all of them need: connections, redirects, proxies, timeouts that count content, a limit on the size of a
response, errors that never show a key. A provider adds three things: the headers with its key, the body of a
request, and the parser of a response (`EventStream`).
"""

from __future__ import annotations

import asyncio
import base64
import io
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict
from urllib.parse import urljoin, urlsplit

import anyio

from ..decision import AnyChunk, FinishReason, UsageReport, WrongUse
from ..decision.finish_words import check_finish_words
from .endpoint_hints import EndpointAddress
from .endpoint_url import mask_url, public_url, split_credentials, url_origin
from .error_replies import build_error, parse_error_body
from .errors import Interrupted, NotFound, ProtocolError, ProviderError, TimedOut, Unreachable, hide_secrets
from .event_stream import EventStream, is_json
from .provider import Request, check_model, check_settings
from .timeouts import BETWEEN_SECONDS, FIRST_SECONDS, Watchdog

if TYPE_CHECKING:
    import aiohttp

    from .http_connections import Connections


LARGEST_RESPONSE = 32 * 1024 * 1024
"""Default limit on a response, in bytes after decompression: about a hundred times the longest real response."""
LARGE_BODY = 1024 * 1024
"""Size of a request in bytes above which aiohttp needs a file object, to send it in pieces."""
MOST_REDIRECTS = 5
PART = 32 * 1024
"""Bytes of a block after which other tasks of the event loop have their turn: a fast server's blocks are large."""
MOST_AT_ONCE = 500
"""Number of chunks of one block after which other tasks of the event loop get a turn: an event may hold very many."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LARGEST_REFUSAL = 64 * 1024
"""Maximum number of bytes that are read of an error reply's body."""


def most_received(largest: int) -> int:
    """Return the maximum number of bytes received for one response, headers and framing included.

    largest: maximum size of the body after decompression, in bytes.
    """
    return 2 * largest + 1024 * 1024


class HTTPOptions(TypedDict, total=False):
    """Keyword arguments that all HTTP providers take. The docstring of `HTTPProvider` explains each."""

    connect_timeout: float
    read_timeout: float | None
    first_timeout: float | None
    largest_response: int
    redirects_to_other_hosts: bool
    settings: Mapping[str, Any] | None
    finish_words: Mapping[str, FinishReason] | None


@dataclass(slots=True)
class _OpenSession:
    """Open connections of one event loop, shared by all that hold them there."""

    session: aiohttp.ClientSession
    connections: Connections
    holders: int = 0


class HTTPProvider(ABC):
    """A model behind a URL. A subclass adds `key_headers`, `encode_request` and `open_parser`.

    - `api_base`: the URL without the path of the request, `path`. A user and password in it are sent instead of a key.
    - `api_key`: by default the variable `key_variable` of the environment; without either, no key is sent.
    - `connect_timeout`: seconds to connect. `first_timeout`: seconds to the first content of a response (default 600).
      `read_timeout`: seconds from one piece of content to the next (default 120); given alone, it also applies to the
      first. Comments and empty chunks, which keep a connection open, are not content.
    - `largest_response`: bytes of a response after decompression; a larger one is an error of kind `protocol`.
    - `redirects_to_other_hosts`: a redirect is followed only if it keeps the request (307, 308) and stays on the same
      scheme, host and port. True allows other hosts, which get the conversation but not the key.
    - `settings`: sent in every request.
    - `finish_words`: finish words of this server that the table lacks or interprets differently: `{"done": "stop"}`.

    Use it as an async context manager to keep its connections between runs. Raises WrongUse for an argument that
    cannot work.
    """

    prefix: ClassVar[str] = ""
    """Prefix that a model's name may have, as in `anthropic/claude-sonnet-4-5`. It is kept in records, where it says
    how the model is reached, and not sent."""
    example: ClassVar[str] = "NAME"
    """Example of the constructor's arguments, for messages."""
    key_variable: ClassVar[str] = ""
    vendor_url: ClassVar[str] = ""
    """URL of the vendor's own server, which requires a key and is not named in records; empty if there is none."""
    key_from: ClassVar[str] = ""
    """Where a key may come from, for messages; if empty, `key_variable`."""
    version: ClassVar[str] = "/v1"
    """What the paths of this API begin with, for messages."""
    request_id_header: ClassVar[str] = ""
    """Response header with the vendor's request id, which errors quote for its support; empty if there is none."""

    def __init__(
        self,
        model: str,
        api_base: str,
        path: str,
        *,
        api_key: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float | None = None,
        first_timeout: float | None = None,
        largest_response: int = LARGEST_RESPONSE,
        redirects_to_other_hosts: bool = False,
        settings: Mapping[str, Any] | None = None,
        finish_words: Mapping[str, FinishReason] | None = None,
    ) -> None:
        _check_url(api_base, path)
        self.model = check_model(model, self.example)
        self.model_name = check_model(model.removeprefix(self.prefix), self.example)
        """The model's name as the vendor knows it."""
        place, login = split_credentials(api_base)
        self._place = urlsplit(place)
        self._is_vendor = bool(self.vendor_url) and self._place.hostname == urlsplit(self.vendor_url).hostname
        target = urlsplit(path)
        self.url = self._place._replace(
            path=self._place.path.rstrip("/") + target.path,
            query="&".join(filter(None, (self._place.query, target.query))),
            fragment="",
        ).geturl()
        if login and api_key:
            raise WrongUse("give api_key or a user in api_base, not both: only one of them can be sent")
        self._where = _place(self.url)
        """Host and port, for messages."""
        key = api_key if api_key is not None or login else os.environ.get(self.key_variable)
        self._key = (key or "").strip()  # a key read from a file often ends in a line feed
        self._login = base64.b64encode(login.encode()).decode()
        self._asked = EndpointAddress(
            self._place.geturl(),
            target.path,
            keys="" if login else self.key_from or self.key_variable,
            has_key=bool(self._key),
            version=self.version,
        )
        self._secrets = (self._key, self._login, login.partition(":")[2])
        self._timeouts = _timeouts(connect_timeout, first_timeout, read_timeout)
        if largest_response < 1:
            raise WrongUse(f"largest_response is {largest_response}: use a number of bytes above 0")
        self._largest = largest_response
        self._leaves_host = redirects_to_other_hosts
        self._settings = check_settings(settings)
        self._finish_words = check_finish_words(finish_words)
        self._open: dict[asyncio.AbstractEventLoop, _OpenSession] = {}
        """The open session of each event loop that holds one. Connections of one loop cannot be used in another."""

    def __repr__(self) -> str:
        place = "" if self._is_vendor else f", {self.endpoint!r}"
        return f"{type(self).__name__}({self.model!r}{place})"

    @property
    def endpoint(self) -> str:
        """The base URL without secrets, for records; empty for the vendor's own server."""
        return "" if self._is_vendor else public_url(self._place.geturl())

    @property
    def has_credentials(self) -> bool:
        """Whether a key, or a user and password, is sent."""
        return bool(self._key or self._login)

    # ---- what a subclass adds

    @abstractmethod
    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that carry this key. They are sent to no other host."""

    @abstractmethod
    def encode_request(self, request: Request) -> bytes:
        """Return the body of a request, as JSON."""

    @abstractmethod
    def open_parser(self) -> EventStream:
        """Return a new parser for the stream of one response."""

    def request_headers(self) -> dict[str, str]:
        """Return further headers for every request, none of them secret."""
        return {}

    # ---- the provider

    async def __aenter__(self) -> Self:
        if self._is_vendor and not self.has_credentials:
            keys = self.key_from or self.key_variable
            raise WrongUse(f"model {self.model!r} needs a key: set {keys}, or give api_key")
        loop = asyncio.get_running_loop()
        if loop not in self._open:
            self._open[loop] = self._open_session()
        self._open[loop].holders += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        opened = self._open[loop]
        opened.holders -= 1
        if opened.holders == 0:
            del self._open[loop]
            await opened.session.close()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open one response. Raises ProviderError."""
        async with self:
            watchdog = Watchdog(*self._timeouts[1:])
            response: aiohttp.ClientResponse | None = None
            chunks: AsyncGenerator[AnyChunk] | None = None
            try:
                response = await self._post(self.encode_request(request), watchdog)
                if response.status >= 400:
                    raise await self._refusal(response)
                chunks = self._chunks(response, watchdog)
                yield chunks
            finally:
                watchdog.close()
                if chunks is not None:
                    await chunks.aclose()
                if response is None:
                    pass
                elif response.content.at_eof():
                    response.release()
                else:
                    response.close()  # immediately and without waiting: this may be a cancellation

    # ---- the request

    def _open_session(self) -> _OpenSession:
        import aiohttp

        from .http_connections import Connections

        headers = {"content-type": "application/json", "accept": "text/event-stream", **self.request_headers()}
        connections = Connections(most_received(self._largest))
        session = aiohttp.ClientSession(
            connector=connections,
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts[0]),
            trust_env=is_proxied(self.url),
        )
        return _OpenSession(session, connections)

    async def _post(self, body: bytes, watchdog: Watchdog) -> aiohttp.ClientResponse:
        import aiohttp

        where = self._where
        try:
            return await watchdog.wait_for(self._send(body))
        except aiohttp.ConnectionTimeoutError as error:
            hint = "check host and port in api_base, or raise connect_timeout"
            raise TimedOut(f"no connection to {where} within {self._timeouts[0]:g} s ({hint})") from error
        except TimeoutError as error:
            raise TimedOut(f"no answer from {where} within {watchdog.seconds:g} s") from error
        except aiohttp.ClientConnectorError as error:
            hint = self._asked.after_error(error)
            raise Unreachable(f"cannot connect to {where}: {error.os_error.strerror or error}{hint}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            what = f"{where} closed the connection before an answer: {error}{self._asked.after_error(error)}"
            raise Unreachable(self._hide(what)) from error

    async def _send(self, body: bytes) -> aiohttp.ClientResponse:
        """Send the request, following redirects."""
        url = self.url
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._send_once(url, body)
            if response.status not in REDIRECTS:
                return response
            response.close()
            url = self._redirected(url, response)
        raise NotFound(f"{self._where} redirects more than {MOST_REDIRECTS} times: check api_base")

    def _redirected(self, url: str, response: aiohttp.ClientResponse) -> str:
        """Return the target of a redirect. Raises NotFound if it would lose the request or lead to another host."""
        status = response.status
        try:
            to = urljoin(url, response.headers.get("location", ""))
            ours, theirs = url_origin(url), url_origin(to)
        except ValueError:
            to, ours, theirs = "", ("", "", 0), ("", "", 0)
        answered = f"{_place(url)} answered {status}"
        if status not in (307, 308) or not _is_url(to):
            moved = mask_url(public_url(to))
            base = moved.removesuffix(self._asked.path)
            hint = f"give api_base={base!r}" if _is_url(to) and base != moved else "check api_base"
            raise NotFound(f"{answered}, a redirect that would lose the request: {hint}", status=status)
        if ours != theirs and not self._leaves_host:
            raise NotFound(
                f"{answered}, to {mask_url(public_url(to))}: the conversation is not sent to another host; "
                f"give that one as api_base, or allow it with redirects_to_other_hosts=True",
                status=status,
            )
        return to

    async def _send_once(self, url: str, body: bytes) -> aiohttp.ClientResponse:
        """Send the request, and again if it was sent on a reused connection that the server had just closed.

        llama.cpp announces keep-alive but closes the connection, so the next request finds it dead. Each dead
        connection is dropped, and a request on a new connection is never repeated.
        """
        import aiohttp

        opened = self._open[asyncio.get_running_loop()]
        headers: dict[str, str] = {}
        if self.has_credentials and (url == self.url or url_origin(url) == url_origin(self.url)):
            headers = self.key_headers(self._key) if self._key else {"authorization": f"Basic {self._login}"}
        while True:
            data = body if len(body) < LARGE_BODY else io.BytesIO(body)
            new = opened.connections.note_new()
            try:
                return await opened.session.post(url, data=data, headers=headers, allow_redirects=False)
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not opened.connections.reused(new):
                    raise

    # ---- the response

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        import aiohttp

        body = b""
        seconds = min(self._timeouts)  # only its message is missing: the status tells the kind of error
        with anyio.move_on_after(seconds), suppress(aiohttp.ClientError, TimeoutError, ValueError):
            while len(body) < LARGEST_REFUSAL and (block := await response.content.readany()):
                body += block
        said = parse_error_body(body[:LARGEST_REFUSAL], response.headers)
        where = f"{self.model} at {self._where} answered {response.status}: "
        hint = self._asked.after_reply(response.status, said.message, response.content_type)
        said = said._replace(message=self._hide(said.message) + self._request_id(response) + hint)
        return build_error(said, status=response.status, headers=response.headers, where=where)

    def _request_id(self, response: aiohttp.ClientResponse) -> str:
        """Return the vendor's id of the request, as the end of a message; empty if the reply has none."""
        found = response.headers.get(self.request_id_header, "") if self.request_id_header else ""
        return f" (request {self._hide(found[:200])})" if found else ""

    async def _chunks(self, response: aiohttp.ClientResponse, watchdog: Watchdog) -> AsyncGenerator[AnyChunk]:
        import aiohttp

        parser = self.open_parser()
        where = self._where
        try:
            taken = 0
            while block := await self._block(response, watchdog, taken):
                taken += len(block)
                if not parser.begun and is_json(block):
                    for chunk in parser.read_whole(await self._rest(response, watchdog, block)):
                        yield chunk
                    return
                is_large = len(block) > PART
                for part in parts_of(block) if is_large else (block,):
                    for number, chunk in enumerate(parser.feed(part), 1):
                        if type(chunk) is not UsageReport:
                            watchdog.content_received()
                        yield chunk
                        if number % MOST_AT_ONCE == 0:
                            await anyio.sleep(0)
                    if is_large:
                        await anyio.sleep(0)
                if parser.done:
                    break
            for chunk in parser.end():
                yield chunk
            if not response.content.at_eof():  # the end of the body is often a separate packet;
                with anyio.move_on_after(0.05):  # once it is read, the connection can be reused
                    await response.content.readany()
        except ProviderError as error:
            message = self._hide(f"{self.model} at {where}: {error.message}") + self._request_id(response)
            message += self._asked.after_reply(response.status, error.message, response.content_type)
            raise type(error)(message, status=error.status, retry_after=error.retry_after) from error.__cause__
        except TimeoutError as error:
            if not parser.finished:
                raise TimedOut(f"{where} sent no content for {watchdog.seconds:g} s") from error
        except aiohttp.ClientError as error:
            if not parser.finished:
                raise Interrupted(self._hide(f"the stream from {where} broke off: {error}")) from error
        except (ValueError, OSError, RecursionError, ArithmeticError) as error:
            if not parser.finished:
                raise ProtocolError(self._hide(f"the stream from {where} cannot be read: {error}")) from error

    async def _rest(self, response: aiohttp.ClientResponse, watchdog: Watchdog, begun: bytes) -> bytes:
        """Read the rest of a body that starts with `begun`, and return the whole body."""
        body = bytearray(begun)
        while block := await self._block(response, watchdog, len(body)):
            body += block
        return bytes(body)

    async def _block(self, response: aiohttp.ClientResponse, watchdog: Watchdog, taken: int) -> bytes:
        """Return the next decompressed block of the body, empty at its end. Raises ProtocolError above the limit."""
        block = await watchdog.wait_for(next_block(response.content))
        if taken + len(block) > self._largest:
            raise ProtocolError(
                f"the response is larger than {self._largest} bytes: if that is intended, raise largest_response"
            )
        return block

    def _hide(self, text: str) -> str:
        """Remove keys and passwords from a text."""
        return hide_secrets(text, self._secrets)


def parts_of(block: bytes) -> Sequence[bytes]:
    """Return a block in parts of at most `PART` bytes."""
    return [block[at : at + PART] for at in range(0, len(block), PART)]


async def next_block(content: aiohttp.StreamReader) -> bytes:
    """Return the bytes of a body that have arrived, waiting for some; empty at its end.

    Raises the error of a broken connection only when everything that came before it is read; aiohttp raises it at once.
    """
    try:
        return await content.readany()
    except Exception:
        if waiting := content._read_nowait(-1):
            return waiting
        raise


def _check_url(api_base: str, path: str) -> None:
    """Raise WrongUse unless this is a URL without the path of the request."""
    if not _is_url(api_base):
        raise WrongUse(f"api_base {mask_url(api_base)!r} is not a URL: use the form http://host:port/v1")
    end = path.partition("?")[0]
    if urlsplit(api_base).path.rstrip("/").endswith(end):
        raise WrongUse(f"api_base {mask_url(api_base)!r}: leave out {end}, which is added")


def _timeouts(connect: float, first: float | None, read: float | None) -> tuple[float, float, float]:
    """Return the timeouts in seconds: to connect, to the first content, and between two pieces of content.

    Raises WrongUse unless each is above 0.
    """
    between = BETWEEN_SECONDS if read is None else read
    first = first if first is not None else read or FIRST_SECONDS
    for name, given in (("connect_timeout", connect), ("first_timeout", first), ("read_timeout", between)):
        if not given > 0:
            raise WrongUse(f"{name} is {given}: use seconds above 0")
    return connect, first, between


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # an invalid port
        return False


def is_proxied(url: str) -> bool:
    """Return whether the environment sets a proxy for this URL.

    aiohttp may read the environment only in that case. It does so before every request, in two threads, which takes
    longer than the rest of a step, and it sends a matching line of ~/.netrc as a second authorization, which fails.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _place(url: str) -> str:
    """Return the host and port of a URL, without credentials, for messages."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)
