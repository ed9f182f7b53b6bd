"""Replies to an agent: the provider's, unchanged, and the proxy's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import aiohttp
from aiohttp import web

from .exchange import MARK
from .headers import passed_on, reason_of
from .upstream_connections import blocks_of
from .wire import EVENT_STREAM, JSON, OwnReply


async def copy_reply(
    incoming: web.Request,
    reply: aiohttp.ClientResponse,
    said: Mapping[str, str],
    blocks: AsyncIterator[bytes] | None = None,
) -> web.StreamResponse:
    """Pass on a reply unchanged. said: headers that are added. blocks: its body, if part of it was already read."""
    headers = passed_on(reply.headers)
    headers.update(said)
    outgoing = web.StreamResponse(status=reply.status, reason=reason_of(reply), headers=headers)
    if "content-length" in reply.headers:
        outgoing.content_length = int(reply.headers["content-length"])
    with suppress(ConnectionError):
        await outgoing.prepare(incoming)
        try:
            if blocks is None and reply.content.at_eof():
                await outgoing.write(await reply.read())  # it has already been read
            async for block in blocks or blocks_of(reply.content):
                await outgoing.write(block)
        except aiohttp.ClientError:  # the provider broke off
            abort(incoming)
        await outgoing.write_eof()
    return outgoing


def own_reply(reply: OwnReply, headers: dict[str, str]) -> web.Response:
    """Return a reply in the form of a wire. headers: further ones."""
    return web.Response(status=reply.status, body=reply.body, headers={"content-type": reply.content_type, **headers})


def error_reply(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return an error of the proxy itself, in a form that clients of both OpenAI and Anthropic can read."""
    said = {"message": f"endstop proxy: {message}", "type": "api_error"}
    return web.json_response(
        {"type": "error", "error": said}, status=status, headers={MARK: "error", **(headers or {})}
    )


def can_be_followed(reply: aiohttp.ClientResponse) -> bool:
    """Return whether a reply is a response of the model that can be read here: no error, and not compressed."""
    return reply.status == 200 and "content-encoding" not in reply.headers


def is_stream(reply: aiohttp.ClientResponse, *, in_array: bool = False) -> bool:
    """Return whether a reply is a stream of events. in_array: whether the request is for one that is a JSON array."""
    return reply.headers.get("content-type", "").lower().startswith(JSON if in_array else EVENT_STREAM)


def unread_text(reply: aiohttp.ClientResponse) -> str:
    """Return the message about a reply that cannot be followed, whose body belongs to the agent."""
    if reply.status == 200:
        return f"the response came with the encoding {reply.headers['content-encoding']}"
    return f"HTTP {reply.status} {reason_of(reply)}"


def abort(incoming: web.Request) -> None:
    """Abort the connection to an agent, so that it does not take what it has for a complete response."""
    if incoming.transport is not None:
        incoming.transport.abort()
