"""Connections to the provider: where requests go, and what is reported if the provider cannot be reached."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ..decision.errors import error_text
from ..providers.endpoint_hints import EndpointAddress
from ..providers.error_replies import build_error, parse_error_body
from ..providers.errors import ProviderError
from ..providers.http_connections import Connections
from ..providers.http_provider import PART, is_proxied, next_block, parts_of

CONNECT_SECONDS = 30.0
LARGEST_HEADER = 64 * 1024
"""Maximum size of a header line that is passed on, in bytes."""
LOWEST_STATUS = 200
"""Lowest status of a reply. Lower ones precede a reply (RFC 9110, section 15.2)."""
_OTHERS_DEFAULTS = ("User-Agent", "Content-Type", "Accept", "Accept-Encoding")
"""Headers that aiohttp would add if an agent does not send them."""

Body = bytes | AsyncIterator[bytes]
"""Body of a request: whole, or in blocks if it is too large to be followed."""


class UpstreamConnections:
    """Connections to one provider. url: the URL to which the path of a request is added."""

    def __init__(self, url: str) -> None:
        self._url = URL(url)
        self._client: aiohttp.ClientSession | None = None
        self._connections: Connections | None = None

    async def open(self) -> None:
        """Begin to hold connections."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)  # the rest is left to the agent
        self._connections = Connections(ttl_dns_cache=300)
        self._client = aiohttp.ClientSession(
            timeout=timeout,
            connector=self._connections,
            cookie_jar=aiohttp.DummyCookieJar(),  # cookies of one agent are not sent with another's requests
            auto_decompress=False,
            max_line_size=LARGEST_HEADER,
            max_field_size=LARGEST_HEADER,
            trust_env=is_proxied(str(self._url)),
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()

    async def request(
        self, method: str, path: str, headers: CIMultiDict[str], body: Body | None
    ) -> aiohttp.ClientResponse:
        """Send a request. path: with its query, as the agent sent it. Raises aiohttp.ClientError.

        A reply that would switch the protocol, which no request asks for, counts as no reply.

        The request is sent again if it met a kept connection that the provider had just closed (llama.cpp announces
        keep-alive and closes); never on a new connection, nor if its body is gone.
        """
        assert self._client is not None, "open() comes first"
        assert self._connections is not None
        while True:
            new = self._connections.note_new()
            try:
                reply = await self._client.request(
                    method,
                    self._place(path),
                    headers=headers,
                    data=body,
                    allow_redirects=False,
                    skip_auto_headers=_OTHERS_DEFAULTS,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not self._connections.reused(new) or not isinstance(body, bytes):
                    raise
            else:
                if reply.status >= LOWEST_STATUS:
                    return reply
                reply.close()
                raise aiohttp.ClientPayloadError(f"the provider's reply has the status {reply.status}")

    def failure_text(self, error: aiohttp.ClientError) -> str:
        """Return what went wrong with the provider, and what to change. A URL that may contain a key is left out."""
        return _failure_text(error) + EndpointAddress(str(self._url), option="--upstream").after_error(error)

    def refusal(self, reply: aiohttp.ClientResponse, body: str | bytes) -> ProviderError:
        """Return the error for an error reply, with what to change. body: its beginning, as far as it is there."""
        said = parse_error_body(body)
        below = reply.url.raw_path.removeprefix(self._url.raw_path.rstrip("/"))
        asked = EndpointAddress(str(self._url), below, option="--upstream")
        hint = asked.after_reply(reply.status, said.message, reply.content_type)
        return build_error(said._replace(message=said.message + hint), status=reply.status)

    def _place(self, path: str) -> URL:
        """Return the URL of a request. The upstream's path is used once, even if the agent's address includes it."""
        below = self._url.raw_path.rstrip("/")
        joined = path if below and path.startswith(f"{below}/") else below + path
        return URL(f"{self._url.origin()}{joined}", encoded=True)


async def blocks_of(content: aiohttp.StreamReader) -> AsyncGenerator[bytes, None]:
    """The blocks of a body as they come; large ones in parts, between which other requests have their turn."""
    while block := await next_block(content):
        if len(block) <= PART:
            yield block
            continue
        for part in parts_of(block):
            yield part
            await asyncio.sleep(0)


def _failure_text(error: aiohttp.ClientError) -> str:
    """Return what went wrong with the provider, without headers and without the URL, which may contain a key."""
    match error:
        case aiohttp.ServerDisconnectedError():
            return "ServerDisconnectedError: the provider closed the connection before its response was complete"
        case aiohttp.InvalidURL():
            return "InvalidURL: the provider has no such address"
        case aiohttp.ClientResponseError(status=status, message=message):
            return f"{type(error).__name__}: {status}, {message.partition(chr(10))[0].rstrip(':')}"
        case _:
            return error_text(error)
