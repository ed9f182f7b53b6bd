"""Responses to the requests of followed runs: requested, followed, cut and passed on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import aiohttp
import msgspec
from aiohttp import web

from ..decision.errors import error_text
from ..providers.clock import Clock
from ..providers.error_replies import build_error, parse_error_value
from ..providers.errors import Cancelled, Interrupted, ProviderError
from .agent_replies import abort, can_be_followed, copy_reply, is_stream, own_reply, unread_text
from .bodies import read_body
from .exchange import MARK, FollowedExchange
from .headers import passed_on, request_headers
from .late_usage import read_rest
from .own_answers import STATUSES
from .until_exchange import UntilExchanges
from .upstream_connections import blocks_of
from .upstream_requests import UpstreamRequests
from .upstream_streaming import UpstreamStreaming, refuses_stream, status_of, streamed_request
from .wire import JSON, ReportedError, UnfinishedCall


class Forwarder:
    """Forwarder of the requests of followed runs to the provider, and of the responses to the agents.

    streaming: chooses the responses that are streamed here only. until: lets them go on. who_left: says who left a
    response that breaks off. clock: limits the wait for the rest of a response that was left at its end.
    """

    def __init__(
        self,
        requests: UpstreamRequests,
        streaming: UpstreamStreaming,
        until: UntilExchanges,
        who_left: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._streaming = streaming
        self._until = until
        self._who_left = who_left
        self._clock = clock

    async def forward(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> web.StreamResponse:
        """Pass a request on, and follow its response."""
        try:
            reply = await self._ask(incoming, body, exchange)
        except aiohttp.ClientError as error:
            exchange.guard(exchange.failed, self._requests.failure(error))
            return self._requests.unreachable(error)
        except asyncio.CancelledError:
            exchange.guard(exchange.failed, Cancelled(f"{self._who_left()} before the response began"))
            raise
        try:
            if not can_be_followed(reply):
                failure = self._requests.refusal(reply, unread_text(reply))
                exchange.guard(exchange.failed, failure)
                return await copy_reply(incoming, reply, exchange.said)
            if not is_stream(reply, in_array=exchange.request.in_array):
                if exchange.assembles:
                    self._streaming.note_failure(exchange, "it sent a response that is not a stream")
                return await self._whole(incoming, reply, exchange)
            if not exchange.assembles:
                return await self._stream(incoming, reply, exchange)
            try:
                return await self._assembled(incoming, reply, exchange)
            except UnfinishedCall:
                exchange.leave()  # the provider itself says what such a response is without a stream
            except (ValueError, ProviderError) as error:
                self._streaming.note_failure(exchange, error_text(error))
                exchange.leave()
        finally:
            if exchange.cut is not None:
                reply.close()  # data after the cut is not read
            reply.release()
        return await self._requests.pass_on(incoming, body, exchange.said, exchange.note_sent)

    async def _ask(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> aiohttp.ClientResponse:
        """Send a request to the provider. To assemble the response, ask for a stream unless that is refused."""
        headers = request_headers(incoming, self._requests.id)
        headers["Accept-Encoding"] = "identity"
        if exchange.changed_body and not exchange.run.broken:
            body = exchange.changed_body
            headers.pop("Content-Length", None)
        if not exchange.assembles:
            return await self._requests.send(incoming, headers, body, exchange.note_sent)
        streamed = headers.copy()
        streamed.pop("Content-Length", None)
        body_of_stream = streamed_request(exchange.wire, exchange.request.body, body)
        path = exchange.path(incoming.raw_path)
        reply = await self._requests.send(incoming, streamed, body_of_stream, exchange.note_sent, path)
        if not await refuses_stream(reply):
            return reply
        exchange.assembles = False
        said = f"HTTP {reply.status}"
        reply.release()
        reply = await self._requests.send(incoming, headers, body, exchange.note_sent)
        if reply.status == 200:  # otherwise something else was wrong with it
            self._streaming.note_failure(exchange, said)
        return reply

    async def _assembled(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> web.Response:
        """Read a stream up to its cut, and answer with the response assembled from it.

        Raises ValueError or ProviderError if that is not possible.
        """
        assembler = exchange.wire.open_assembler()
        headers = passed_on(reply.headers)
        headers.update({**exchange.headers, "content-type": JSON})
        try:
            async with aclosing(self._until.stream(incoming, reply, exchange)) as blocks:
                async for block in blocks:
                    assembler.feed(block)
            response = assembler.response()
        except aiohttp.ClientError as error:
            if not assembler.complete:
                exchange.guard(exchange.failed, self._requests.failure(error))
                return self._requests.unreachable(error)
            exchange.guard(exchange.broke_off, self._requests.failure(error))
            response = assembler.response()
        except asyncio.CancelledError:
            await self._note_left(reply, exchange, "before the response was whole")
            raise
        except ReportedError as error:
            if exchange.cut is not None:
                said = f"endstop cut this response: {exchange.cut.detail}"
                stop = exchange.wire.refusal(exchange.cut.reason, said, STATUSES[0])
                return own_reply(stop, {**exchange.headers, MARK: "stopped"})
            exchange.guard(exchange.failed, build_error(parse_error_value(error.said)))
            return web.Response(status=status_of(error), body=msgspec.json.encode(error.said), headers=headers)
        if response is None:
            broken = Interrupted("the provider's response ended before it was whole")
            exchange.guard(exchange.failed, broken)
            return self._requests.unreachable(broken)
        headers[MARK] = "assembled" if exchange.cut is None else "cut"
        return web.Response(body=msgspec.json.encode(response), headers=headers)

    async def _whole(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> web.StreamResponse:
        """Pass on a response that is not streamed."""
        try:
            whole = await read_body(blocks_of(reply.content))
        except aiohttp.ClientError as error:
            exchange.guard(exchange.failed, self._requests.failure(error))
            return self._requests.unreachable(error)
        except asyncio.CancelledError:
            exchange.guard(exchange.failed, Cancelled(f"{self._who_left()} before the response was whole"))
            raise
        if not isinstance(whole, bytes):
            exchange.guard(exchange.refuse_large)
            return await copy_reply(incoming, reply, exchange.headers, whole)
        passed = [whole]
        exchange.guard(lambda: passed.append(exchange.take_whole(whole)))
        if exchange.claims_end:
            passed.append(await self._until.whole(incoming, exchange, passed[-1]))
        headers = passed_on(reply.headers)
        headers.update(exchange.headers)
        return web.Response(status=200, body=passed[-1], headers=headers)

    async def _stream(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> web.StreamResponse:
        """Pass on a stream as it arrives, up to its cut."""
        headers = passed_on(reply.headers)
        headers.update(exchange.headers)
        outgoing = web.StreamResponse(headers=headers)
        try:
            await outgoing.prepare(incoming)
            async with aclosing(self._until.stream(incoming, reply, exchange)) as blocks:
                async for block in blocks:
                    await outgoing.write(block)
            await outgoing.write_eof()
        except (ConnectionError, asyncio.CancelledError) as error:
            await self._note_left(reply, exchange, "in the middle of the response")
            if isinstance(error, asyncio.CancelledError):
                raise
        except aiohttp.ClientError as error:  # of the provider: the agent must not take this for complete
            exchange.guard(exchange.broke_off, self._requests.failure(error))
            abort(incoming)
        return outgoing

    async def _note_left(self, reply: aiohttp.ClientResponse, exchange: FollowedExchange, where: str) -> None:
        """Note that nobody reads a streamed response any more, and leave it. where: if that is not its end."""
        try:
            await read_rest(reply, exchange, self._clock)
        finally:
            reply.close()
            exchange.guard(exchange.broke_off, Cancelled(f"{self._who_left()} {where}"))
