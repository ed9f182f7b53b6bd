"""Responses to an agent whose work is checked (`follow/agent_check.py`).

They go on until the check lets the agent end.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing, suppress
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from ..decision import Stop
from ..decision.errors import error_text
from ..follow.agent_check import AgentCheck
from ..formats.parsing import as_dict
from ..providers._logging import log_warning
from ..providers.clock import Clock
from ..providers.errors import Cancelled
from ..providers.surrogate_pairs import encodable
from ..records.known_secrets import KnownSecrets
from .agent_replies import can_be_followed, is_stream, unread_text
from .bodies import read_body
from .exchange import FollowedExchange, splitter_of
from .late_usage import MOMENT, read_rest
from .statistics_page import Statistics
from .upstream_connections import blocks_of
from .upstream_requests import UpstreamRequests


class UntilExchanges:
    """Responses as agents get them: each up to its cut, with those that continue it.

    who_left: says who left a response that breaks off. clock: limits the wait for the rest of one that was left at its
    end.
    """

    def __init__(
        self,
        requests: UpstreamRequests,
        statistics: Statistics,
        secrets: KnownSecrets,
        who_left: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._requests = requests
        self._statistics = statistics
        self._secrets = secrets
        self._who_left = who_left
        self._clock = clock

    async def stream(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the agent gets of a streamed response, up to its cut, and of the responses that continue it."""
        async with aclosing(self._up_to_cut(reply, exchange)) as blocks:
            async for block in blocks:
                yield block
        if not exchange.claims_end:
            return
        text = await self._handed_back(exchange)
        further = None if text is None else await self._ask_again(incoming, exchange, text)
        if text is None or further is None:
            yield exchange.release()
            return
        again, second = further
        end, events = exchange.end_of_stream, splitter_of(exchange.request)
        yield end.add(f"\n\n{text}\n\n")
        try:
            async with aclosing(self.stream(incoming, second, again)) as blocks:
                async for block in blocks:
                    for event, _ in events.feed(block):
                        yield end.go_on(event)
        except (asyncio.CancelledError, GeneratorExit):
            try:
                await read_rest(second, again, self._clock)
            finally:
                second.close()
                again.guard(again.broke_off, Cancelled(f"{self._who_left()} in the middle of the response"))
            raise
        except aiohttp.ClientError as error:
            again.guard(again.broke_off, self._requests.failure(error))
            raise
        finally:
            if again.usage is not None:
                self._statistics.count_usage(again.usage)
            second.release()

    async def _up_to_cut(
        self, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the agent gets of a response: up to its end, its cut, or the moment at which the check is met."""
        blocks, check = blocks_of(reply.content), exchange.run.check
        if check is not None and exchange.may_be_met:
            async with aclosing(self._beside_check(check, blocks, exchange)) as passed:
                async for block in passed:
                    yield block
        latest: float | None = None
        while exchange.cut is None:
            if exchange.at_completion:
                latest = self._clock.now() + MOMENT if latest is None else latest
                block = await self._next(blocks, latest)
            else:
                block = await anext(blocks, b"")
            if not block:
                break
            yield exchange.take_block(block)
        if check is None or exchange.cut is None or exchange.cut.reason != "check":
            yield exchange.end()
        else:
            yield exchange.end_as_met(await self._end_of_run(check))

    async def _next(self, blocks: AsyncGenerator[bytes, None], latest: float) -> bytes:
        """Return the next block behind a completion; empty at the end of the response, and if it breaks off or is late.

        latest: time on the clock until which the response may end by itself.
        """
        with suppress(aiohttp.ClientError), self._clock.deadline(max(0, latest - self._clock.now())):
            return await anext(blocks, b"")
        return b""

    async def _beside_check(
        self, check: AgentCheck, blocks: AsyncGenerator[bytes, None], exchange: FollowedExchange
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the agent gets of a response while the check runs beside it, which cuts it if it is met."""
        exchange.holds_calls = True
        met = asyncio.create_task(self._said(check.wait_for_newest()), name="endstop proxy check")
        arriving = asyncio.ensure_future(anext(blocks, b""))
        try:
            while exchange.cut is None:
                await asyncio.wait([arriving, *([] if met.done() else [met])], return_when=asyncio.FIRST_COMPLETED)
                if met.done() and not met.result():
                    yield exchange.let_calls_pass()
                    yield exchange.take_block(await arriving)
                    return
                if met.done() and exchange.can_end_here:
                    exchange.cut_as_met()
                elif arriving.done():
                    if not (block := arriving.result()):
                        break
                    yield exchange.take_block(block)
                    arriving = asyncio.ensure_future(anext(blocks, b""))
            calls = exchange.cut is None and exchange.held_calls
            if calls and await self._said(check.is_met()) and exchange.can_end_here:
                exchange.cut_as_met()
        finally:
            met.cancel()
            arriving.cancel()

    async def _said(self, asked: Coroutine[Any, Any, bool]) -> bool:
        """Return what a check says; False if it fails."""
        try:
            return await asked
        except Exception as error:
            self._log_failure(error)
            return False

    async def _end_of_run(self, check: AgentCheck) -> Stop | None:
        """Return the decision that ends a run whose response was cut, because its check is met."""
        try:
            return await check.end_response()
        except Exception as error:
            self._log_failure(error)
            return None

    def _log_failure(self, error: Exception) -> None:
        log_warning("a check failed, and counts as no answer", error=self._secrets(error_text(error)))

    async def _handed_back(self, exchange: FollowedExchange) -> str | None:
        """Return what the model is told because its final text or completion does not end the run; None if it does."""
        check, run = exchange.run.check, exchange.run
        if check is None or run.broken:
            return None
        try:
            return await check.hand_back(exchange.claim, decides=exchange.claim is None or exchange.withholds)
        except Exception as error:
            self._log_failure(error)
            exchange.guard(exchange.decide)
            return None

    async def _ask_again(
        self, incoming: web.Request, exchange: FollowedExchange, text: str
    ) -> tuple[FollowedExchange, aiohttp.ClientResponse] | None:
        """Let the model go on after its final text was handed back with this text.

        Return the request and its response; None if there is none, so that the agent ends with the text that it has.
        """
        again = exchange.again(text)
        held = await self._requests.reserve(incoming, len(again.body), again.request.model, again.said)
        if held is not None and held.refused is not None:
            return None
        reply = None
        try:
            path = again.path(incoming.raw_path)
            reply = await self._requests.send_changed(incoming, again.body, again.note_sent, path)
        except aiohttp.ClientError as error:
            again.guard(again.failed, self._requests.failure(error))
        finally:
            if held is not None:
                held.settle(again.usage)
        if reply is None:
            return None
        expected = exchange.request.streams or exchange.assembles
        if not can_be_followed(reply) or is_stream(reply, in_array=again.request.in_array) != expected:
            again.guard(again.failed, self._requests.refusal(reply, unread_text(reply)))
            reply.release()
            return None
        return again, reply

    async def whole(self, incoming: web.Request, exchange: FollowedExchange, whole: bytes) -> bytes:
        """Return a whole response, with those that continue it while the agent's check is not met."""
        text = await self._handed_back(exchange)
        further = None if text is None else await self._ask_again(incoming, exchange, text)
        if text is None or further is None or exchange.response is None:
            return whole
        again, reply = further
        try:
            second = await read_body(blocks_of(reply.content))
        except aiohttp.ClientError as error:
            again.guard(again.failed, self._requests.failure(error))
            return whole
        finally:
            reply.release()
        if not isinstance(second, bytes):
            again.guard(again.refuse_large)
            return whole
        passed = [second]
        again.guard(lambda: passed.append(again.take_whole(second)))
        if again.usage is not None:
            self._statistics.count_usage(again.usage)
        latest = await self.whole(incoming, again, passed[-1]) if again.claims_end else passed[-1]
        joined = as_dict(msgspec.json.decode(encodable(latest)))
        exchange.wire.add_text_before(joined, f"{exchange.response.message.text}\n\n{text}")
        return msgspec.json.encode(joined)
