"""The direct path: any endpoint that speaks OpenAI's chat completions, over aiohttp and msgspec.

A request body is joined from messages that were encoded once, and a chunk is decoded straight into the few fields
that matter, because this is what a step costs. Servers differ, so every field may be missing, null or of another
type than the reference says; what is left is a stream of chunks, or a ProviderError.
"""

from __future__ import annotations

import base64
import io
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

import anyio
import msgspec

from ..decision import AnyChunk, FinishReason, Message, ToolResult, ToolSpec, UsageReport, WrongUse
from ..decision.finish_words import check_finish_words
from .chat_stream import ChatStream, parse_whole_reply
from .endpoint_url import mask_url, public_url, split_credentials, url_origin
from .error_replies import build_error, parse_error_body
from .errors import Interrupted, NotFound, ProtocolError, ProviderError, TimedOut, Unreachable, redact
from .openai_format import EncodedSession, ReasoningFormat, encode_message, encode_pictures, encode_tools
from .provider import Request, check_model, check_settings
from .timeouts import BETWEEN_SECONDS, FIRST_SECONDS, Watchdog

if TYPE_CHECKING:
    import aiohttp


OPENROUTER = "openrouter.ai"
"""The host that names what a response cost if asked to (OpenRouter documentation, "Usage Accounting")."""
LARGEST_RESPONSE = 32 * 1024 * 1024
"""Bytes that a response may have, unpacked: some hundred times what the longest ones have."""
LARGE_BODY = 1024 * 1024
"""Bytes of a request from which on aiohttp wants it as a file, to send it in pieces."""
MOST_REDIRECTS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
LARGEST_REFUSAL = 64 * 1024
"""Bytes of an error's body that are read."""
SHORTEST_SECRET = 6
"""Keys shorter than this are placeholders (`x`, `none`, `EMPTY`), and no secret."""
TELLING_PART = 12
"""Characters from which on the beginning of a key is a secret, too: a clipped message may end inside the key."""


class OpenAICompatible:
    """A model behind an endpoint that speaks OpenAI's chat completions.

    `api_base` is the URL up to and without `/chat/completions`. `api_key` defaults to `OPENAI_API_KEY` if that is
    set; without one no key is sent. A user and password in the URL are sent in the place of a key.
    `connect_timeout` is seconds to a connection, `first_timeout` to the first content of a response (default 600) and
    `read_timeout` from one piece of content to the next (default 120); given alone, `read_timeout` bounds the first,
    too. Comments and empty chunks that keep a connection open are no content. `largest_response` is bytes of a
    response, unpacked; a larger one is `protocol`. A redirect is followed only where it keeps the request as it is
    (307, 308) and stays on the same scheme, host and port; `redirects_to_other_hosts` allows others, which get the
    conversation but not the key. `settings` go into every request (`temperature`, `max_tokens`, ...).
    `send_reasoning`: whether reasoning goes back with the calls that it
    led to; by default only to models of DeepSeek and Moonshot, which insist on it. `images`: whether the model can
    see; the pictures of tools' results then follow them in a message of their own. `finish_words`: what finish words
    of this server mean that the table does not know, or knows otherwise, as `{"done": "stop"}`. `reports_cost`:
    whether the usage of its responses names their cost, so that a limit on cost needs no known price; by default
    OpenRouter's does, which is asked for it.

    Use it as an async context manager to keep its connections from one run to the next.
    """

    def __init__(
        self,
        model: str,
        api_base: str,
        *,
        api_key: str | None = None,
        connect_timeout: float = 10.0,
        read_timeout: float | None = None,
        first_timeout: float | None = None,
        largest_response: int = LARGEST_RESPONSE,
        redirects_to_other_hosts: bool = False,
        settings: Mapping[str, Any] | None = None,
        send_reasoning: bool | None = None,
        images: bool = True,
        finish_words: Mapping[str, FinishReason] | None = None,
        reports_cost: bool | None = None,
    ) -> None:
        if not _is_url(api_base):
            raise WrongUse(f"api_base {mask_url(api_base)!r} is no URL: write it as http://host:port/v1")
        if urlsplit(api_base).path.rstrip("/").endswith("/chat/completions"):
            raise WrongUse(f"api_base {mask_url(api_base)!r}: leave out /chat/completions, which is added")
        self.model = check_model(model, "OpenAICompatible('NAME', 'http://host:port/v1')")
        place, login = split_credentials(api_base)
        self._place = urlsplit(place)
        self.url = self._place._replace(path=self._place.path.rstrip("/") + "/chat/completions", fragment="").geturl()
        if login and api_key:
            raise WrongUse("there is an api_key, and a user in api_base: only one of them can be sent, leave one out")
        key = api_key if api_key is not None or login else os.environ.get("OPENAI_API_KEY")
        self._key = (key or "").strip()  # keys are often read from a file that ends in a line feed
        self._login = base64.b64encode(login.encode()).decode()
        self._secrets = (self._key, self._login, login.partition(":")[2])
        between = BETWEEN_SECONDS if read_timeout is None else read_timeout
        first = first_timeout if first_timeout is not None else read_timeout or FIRST_SECONDS
        self._timeouts = (connect_timeout, first, between)
        for name, given in (("connect_timeout", connect_timeout), ("first_timeout", first), ("read_timeout", between)):
            if not given > 0:
                raise WrongUse(f"{name} is {given}: use seconds above 0")
        if largest_response < 1:
            raise WrongUse(f"largest_response is {largest_response}: use a number of bytes above 0")
        self._largest = largest_response
        self._leaves_host = redirects_to_other_hosts
        self._settings = check_settings(settings)
        insists = any(name in model.lower() for name in ("deepseek", "kimi"))
        self._thinking: ReasoningFormat = "text" if (insists if send_reasoning is None else send_reasoning) else "none"
        self._images = images
        self._finish_words = check_finish_words(finish_words)
        self._asks_cost = self._place.hostname == OPENROUTER
        self.reports_cost = self._asks_cost if reports_cost is None else reports_cost
        self._session: aiohttp.ClientSession | None = None
        self._holders = 0

    def __repr__(self) -> str:
        return f"OpenAICompatible({self.model!r}, {self.endpoint!r})"

    @property
    def endpoint(self) -> str:
        """The `api_base`, as records show it."""
        return public_url(self._place.geturl())

    async def __aenter__(self) -> OpenAICompatible:
        self._holders += 1
        if self._session is None:
            self._session = self._open_session()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._holders -= 1
        if self._holders == 0 and self._session is not None:
            session, self._session = self._session, None
            await session.close()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncIterator[AnyChunk]]:
        """Open one response. Raises ProviderError."""
        async with self:
            watchdog = Watchdog(*self._timeouts[1:])
            response: aiohttp.ClientResponse | None = None
            chunks: AsyncGenerator[AnyChunk] | None = None
            try:
                response = await self._post(self._body(request), watchdog)
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
                    response.close()  # at once and without waiting: this may be a cancellation

    # ---- the request

    def _open_session(self) -> aiohttp.ClientSession:
        import aiohttp

        headers = {"content-type": "application/json", "accept": "text/event-stream"}
        noting = aiohttp.TraceConfig()
        noting.on_connection_reuseconn.append(_note_reuse)
        return aiohttp.ClientSession(
            trace_configs=[noting],
            connector=aiohttp.TCPConnector(limit=0),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._timeouts[0]),
            trust_env=_is_proxied(self.url),
        )

    def _body(self, request: Request) -> bytes:
        encoded = request.memo.get(self)
        if encoded is None:
            encoded = request.memo[self] = EncodedSession(
                partial(_encode, self._thinking), _encode_tools, _encode_pictures if self._images else None
            )
        head: dict[str, Any] = {"model": self.model, "stream": True, "stream_options": {"include_usage": True}}
        if self._asks_cost:
            head["usage"] = {"include": True}
        if request.tools:
            head["tools"] = encoded.tools(request)
            if request.tool_choice != "auto":
                head["tool_choice"] = request.tool_choice
        fields = msgspec.json.encode({**head, **self._settings, **request.settings})
        return b'%s,"messages":[%s]}' % (fields[:-1], b",".join(encoded.messages(request)))

    async def _post(self, body: bytes, watchdog: Watchdog) -> aiohttp.ClientResponse:
        import aiohttp

        where = _place(self.url)
        try:
            return await watchdog.wait_for(self._send(body))
        except aiohttp.ConnectionTimeoutError as error:
            raise TimedOut(f"no connection to {where} within {self._timeouts[0]:g} s") from error
        except TimeoutError as error:
            raise TimedOut(f"no answer from {where} within {watchdog.seconds:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise Unreachable(f"cannot connect to {where}: {error.os_error.strerror or error}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unreachable(self._hide(f"{where} closed the connection before an answer: {error}")) from error

    async def _send(self, body: bytes) -> aiohttp.ClientResponse:
        """Send the request, and again where a redirect sends it elsewhere on the same host."""
        url = self.url
        for _ in range(MOST_REDIRECTS + 1):
            response = await self._send_once(url, body)
            if response.status not in REDIRECTS:
                return response
            response.close()
            url = self._redirected(url, response)
        raise NotFound(f"{_place(self.url)} redirects without an end ({MOST_REDIRECTS} times): check api_base")

    def _redirected(self, url: str, response: aiohttp.ClientResponse) -> str:
        """Where a redirect leads. Raises NotFound if it would not keep the request, or leaves the host."""
        status = response.status
        try:
            to = urljoin(url, response.headers.get("location", ""))
            ours, theirs = url_origin(url), url_origin(to)
        except ValueError:
            to, ours, theirs = "", ("", "", 0), ("", "", 0)
        answered = f"{_place(url)} answered {status}"
        if status not in (307, 308) or not _is_url(to):
            raise NotFound(f"{answered}, a redirect that would lose the request: check api_base", status=status)
        if ours != theirs and not self._leaves_host:
            raise NotFound(
                f"{answered}, to {mask_url(public_url(to))}: the conversation is not sent to another host; "
                "give that one as api_base, or allow it with redirects_to_other_hosts=True",
                status=status,
            )
        return to

    async def _send_once(self, url: str, body: bytes) -> aiohttp.ClientResponse:
        """Send the request; once more where it went into a kept connection that the server had just closed.

        llama.cpp announces keep-alive and closes all the same, so the next request of a run meets a dead connection.
        Each that is met is gone for good, and on a fresh one nothing is repeated.
        """
        import aiohttp

        assert self._session is not None
        headers: dict[str, str] = {}
        if url_origin(url) == url_origin(self.url) and (self._key or self._login):
            headers["authorization"] = f"Bearer {self._key}" if self._key else f"Basic {self._login}"
        while True:
            kept: list[bool] = []
            data = body if len(body) < LARGE_BODY else io.BytesIO(body)
            try:
                return await self._session.post(
                    url, data=data, headers=headers, trace_request_ctx=kept, allow_redirects=False
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not kept:
                    raise

    # ---- the response

    async def _refusal(self, response: aiohttp.ClientResponse) -> ProviderError:
        import aiohttp

        body = b""
        with anyio.move_on_after(self._timeouts[0]), suppress(aiohttp.ClientError, TimeoutError, ValueError):
            while len(body) < LARGEST_REFUSAL and (block := await response.content.readany()):
                body += block
        said = parse_error_body(body[:LARGEST_REFUSAL], response.headers)
        where = f"{self.model} at {_place(self.url)} answered {response.status}: "
        said = said._replace(message=self._hide(said.message))
        return build_error(said, status=response.status, headers=response.headers, where=where)

    async def _chunks(self, response: aiohttp.ClientResponse, watchdog: Watchdog) -> AsyncGenerator[AnyChunk]:
        import aiohttp

        reader = ChatStream(self._finish_words)
        where = _place(self.url)
        try:
            taken = 0
            while block := await self._block(response, watchdog, taken):
                taken += len(block)
                if not reader.begun and _is_json(block):
                    for chunk in parse_whole_reply(await self._rest(response, watchdog, block), self._finish_words):
                        yield chunk
                    return
                for chunk in reader.feed(block):
                    if type(chunk) is not UsageReport:
                        watchdog.content_received()
                    yield chunk
                if reader.done:
                    break
            for chunk in reader.end():
                yield chunk
            if not response.content.at_eof():  # the end of the body often follows as a packet of its own:
                with anyio.move_on_after(0.05):  # with it read, the connection can be used again
                    await response.content.readany()
        except ProviderError as error:
            message = self._hide(f"{self.model} at {where}: {error.message}")
            raise type(error)(message, status=error.status, retry_after=error.retry_after) from error.__cause__
        except TimeoutError as error:
            if not reader.finished:
                raise TimedOut(f"{where} sent no content for {watchdog.seconds:g} s") from error
        except aiohttp.ClientError as error:
            if not reader.finished:
                raise Interrupted(self._hide(f"the stream from {where} broke off: {error}")) from error
        except (ValueError, OSError, RecursionError, ArithmeticError) as error:
            if not reader.finished:
                raise ProtocolError(self._hide(f"the stream from {where} cannot be read: {error}")) from error

    async def _rest(self, response: aiohttp.ClientResponse, watchdog: Watchdog, begun: bytes) -> bytes:
        """The whole body, whose first block has come."""
        body = bytearray(begun)
        while block := await self._block(response, watchdog, len(body)):
            body += block
        return bytes(body)

    async def _block(self, response: aiohttp.ClientResponse, watchdog: Watchdog, taken: int) -> bytes:
        """The next block of the body, unpacked; empty at its end. Raises Broken if the body is too large."""
        block = await watchdog.wait_for(response.content.readany())
        if taken + len(block) > self._largest:
            raise ProtocolError(
                f"the response is larger than {self._largest} bytes: if it is meant to be, allow more with "
                "largest_response"
            )
        return block

    def _hide(self, text: str) -> str:
        """`text` without the key, and without the larger part of it; the same for the URL's password."""
        for secret in self._secrets:
            whole = len(secret)
            if whole >= SHORTEST_SECRET:
                for length in range(whole, min(whole, TELLING_PART) - 1, -1):
                    text = redact(text, secret[:length])
        return text


def _is_json(block: bytes) -> bool:
    """Whether a body that begins so is one JSON value, whatever its label says: no event of a stream begins so."""
    return block.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or too large
        return False


async def _note_reuse(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    context.trace_request_ctx.append(True)


def _is_proxied(url: str) -> bool:
    """Whether the environment names a proxy for this URL.

    Only then is aiohttp to look there: it does so before every request, in two threads, which takes longer than all
    else that a step does, and it takes a line of ~/.netrc for a second authorization, which fails.
    """
    from urllib.request import getproxies, proxy_bypass

    parts = urlsplit(url)
    return parts.scheme in getproxies() and not proxy_bypass(parts.hostname or "")


def _place(url: str) -> str:
    """The host and port of a URL: what people need to find the culprit, without credentials in it."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port}" if parts.port else str(parts.hostname)


def _encode(thinking: ReasoningFormat, message: Message) -> bytes:
    return msgspec.json.encode(encode_message(message, thinking))


def _encode_pictures(results: Sequence[ToolResult]) -> bytes:
    return msgspec.json.encode(encode_pictures(results))


def _encode_tools(tools: Sequence[ToolSpec]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(encode_tools(tools)))
