"""Proxy between an agent and its provider, which knows when the agent should stop.

It passes requests and responses on unchanged, follows each run (`agent_runs.py`), cuts a stream at a completion call,
and answers the next request itself once the run has ended. It fails open: whatever goes wrong in following a run, the
agent gets what the provider sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import aclosing, suppress
from functools import partial
from io import BytesIO
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import aiohttp
import msgspec
from aiohttp import web
from msgspec import Struct
from multidict import CIMultiDict

from ..budget import FIRST
from ..decision import Usage
from ..decision.errors import error_text
from ..follow import Follower
from ..follow.agent_check import AgentCheck
from ..follow.end_text import end_text, stopped_text
from ..formats.parsing import as_dict, as_text
from ..http.problems import HttpError
from ..http.request_checks import check_host, check_origin
from ..process.tokens import Tokens
from ..providers._logging import log_warning
from ..providers.endpoint_url import public_url
from ..providers.error_replies import build_error, parse_error_body, parse_error_value
from ..providers.errors import Cancelled, Interrupted, ProviderError, Unreachable
from ..providers.surrogate_pairs import encodable
from ..records.compression import CorruptData, decompress
from ..records.known_secrets import KnownSecrets
from .agent_runs import AgentRuns, digests_of
from .anthropic_wire import ANTHROPIC
from .chat_wire import CHAT
from .day_budgets import DayBudgets, Reservation
from .exchange import BUDGET, FOLLOWING, LARGEST_FOLLOWED, MARK, SESSION, EventSplitter, FollowedExchange
from .headers import TOKEN, agent_of, key_of, passed_on, passed_proxies, reason_of, request_headers, secrets_of
from .offered_completion import lacks_completion
from .responses_wire import RESPONSES
from .statistics_page import Statistics, metrics, page, request_tokens
from .upstream_connections import Body, UpstreamConnections, blocks_of, failure_text
from .upstream_streaming import UpstreamStreaming, refuses_stream, status_of, streamed_request
from .wire import EVENT_STREAM, JSON, OwnReply, ProxyWire, ReportedError, UnfinishedCall, WireRequest

if TYPE_CHECKING:
    from .proxy_tracer import ProxyTracer

WIRES: tuple[ProxyWire, ...] = (CHAT, ANTHROPIC, RESPONSES)
FOREIGN_HOST = (
    "without tokens requests are served only by a name of this machine: use localhost, --allow-host or --tokens"
)
FOREIGN_ORIGIN = "pages of other origins may not use this proxy: allow their origin with --cors"
OWN_PAGES = "/endstop"
"""Path of the proxy's own page. Paths below it also belong to the proxy, and are never passed on."""
IDLE_SECONDS = 3600.0
"""Seconds after which an idle run is forgotten."""
BODY_SECONDS = 60.0
"""Seconds without a byte of a request's body after which the request is aborted. A slow upload is not."""
_PRIVATE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of the proxy's own pages."""

NOTHING: Mapping[str, str] = {}
REQUEST_TIMEOUT, CLIENT_CLOSED = 408, 499
"""Statuses of requests that took too long, or whose sender left: the provider may have worked on them. 499 is
nginx's."""


_COUNTS = re.compile(r"/(?:count|input)_tokens/?\Z")
"""Paths below those of Anthropic and OpenAI that only count tokens, which costs nothing."""
_MODEL_IN_PATH = re.compile(r"/models?/([^/:]+)(?::(?:streamG|g)enerateContent|/(?:invoke|converse))")
"""Paths of Gemini and Amazon Bedrock, which contain the model's name."""


def _ignore(sent: bool) -> None:
    """Ignore whether a request was sent, because nobody counts it."""


class ProxyOptions(Struct, frozen=True, kw_only=True):
    """Settings of the proxy's behaviour."""

    upstream: str
    """URL of the provider, to which the path of a request is added."""
    on_stop: Literal["error", "text"] = "error"
    """How an incomplete run is stopped: with the wire's own error that clients do not retry, or with a marked text."""
    dry_run: bool = False
    """Whether to report only what would have been done."""
    completion: tuple[str, ...] = ()
    """Names of the tools that complete a task; if empty, the usual ones."""
    offer_completion: bool = False
    """Whether agents without such a tool are offered one, whose calls only the proxy sees."""
    stream_upstream: bool = True
    """Whether the provider is asked for a stream if an agent does not ask for one, so that the response can be cut."""
    idle_seconds: float = IDLE_SECONDS
    hosts: Collection[str] = ()
    """Names that are served without tokens, in addition to those of this machine."""
    origins: Collection[str] = ()
    """Origins whose pages may send requests."""


class Proxy:
    """Handler of the requests of agents.

    open_follower: creates the follower of a new run; see `AgentRuns`. tokens: who may use the proxy; None for everybody
    on this machine. secrets: values to hide in everything that the proxy writes, in addition to those in requests.
    open_check: creates the check of the work of a run; None for no check.
    """

    def __init__(
        self,
        options: ProxyOptions,
        open_follower: Callable[[str], Follower],
        now: Callable[[], float] = monotonic,
        tokens: Tokens | None = None,
        statistics: Statistics | None = None,
        budgets: DayBudgets | None = None,
        tracer: ProxyTracer | None = None,
        secrets: KnownSecrets | None = None,
        open_check: Callable[[Follower], AgentCheck] | None = None,
    ) -> None:
        self.options = options
        self._open_check = open_check
        self._secrets = KnownSecrets() if secrets is None else secrets
        forgotten = tracer.end_run if tracer is not None else lambda run: None
        self.runs = AgentRuns(partial(self._open_follower, open_follower), now, forgotten)
        self.statistics = statistics or Statistics()
        self._tokens = tokens
        self._budgets = budgets
        self._tracer = tracer
        self._stopping = False
        self._broken_off = False
        """Whether the proxy, not an agent, aborts the requests in progress."""
        self._handlers: set[asyncio.Task[Any] | None] = set()
        """Tasks that handle the requests in progress."""
        self._ended: asyncio.Future[None] | None = None
        """Set at the end of a request, for whoever waits for that."""
        self._upstream = UpstreamConnections(options.upstream)
        self._streaming = UpstreamStreaming(enabled=options.stream_upstream, completion=options.completion)
        self._id = uuid4().hex

    @property
    def running(self) -> int:
        """Number of requests in progress."""
        return len(self._handlers)

    async def open(self) -> None:
        """Open the connections to the provider."""
        await self._upstream.open()

    def _open_follower(self, open_follower: Callable[[str], Follower], agent: str) -> Follower:
        follower = open_follower(agent)
        follower.hide(self._secrets)
        return follower

    def begin_stopping(self) -> None:
        """Refuse new requests, while those in progress go on. Returns at once."""
        self._stopping = True

    async def idle(self) -> None:
        """Wait until no request is in progress."""
        while self.running:
            self._ended = asyncio.get_running_loop().create_future()
            await self._ended

    async def break_off(self) -> None:
        """Abort the requests in progress, and return when none is left."""
        self._broken_off = True
        for handler in self._handlers:
            if handler is not None:
                handler.cancel()
        await self.idle()

    def _who_left(self) -> str:
        return "the proxy stopped" if self._broken_off else "the agent left"

    async def close(self) -> None:
        """End all runs and close the connections."""
        await self.runs.end_checks()
        self.runs.close()
        if self._budgets is not None:
            await self._budgets.close()
        await self._upstream.close()

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        """Answer a request of an agent."""
        handler = asyncio.current_task()
        self._handlers.add(handler)
        try:
            refusal = self._refusal(incoming)
            if refusal is not None:
                self.statistics.count_request("refused")
                return refusal
            for secret in secrets_of(incoming):
                self._secrets.add(secret)
            own = self._own_page(incoming)
            return await self._handle(incoming) if own is None else own
        except _Unfinished as error:
            return _error(408, str(error), {"Connection": "close"})
        except Exception as error:
            log_warning("a request failed", error=self._secrets(error_text(error)))
            if incoming.writer.output_size:
                _abort(incoming)
            return _error(500, "an unexpected error: the proxy printed it to its stderr")
        finally:
            self._handlers.discard(handler)
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def _refusal(self, incoming: web.Request) -> web.Response | None:
        """Return the response to a request that is refused regardless of what it requests; None for any other."""
        try:
            self._check_sender(incoming)
        except HttpError as error:
            return _error(error.status, error.detail)
        if self._stopping:
            return _error(503, "the proxy is stopping", {"Retry-After": "1", "Connection": "close"})
        if self._id in passed_proxies(incoming):
            return _error(508, "the upstream of this proxy is the proxy itself: set another --upstream")
        if not incoming.raw_path.startswith("/"):
            return _error(400, "the request has no path: set this proxy as the base URL, not as an HTTP proxy")
        if incoming.headers.get("upgrade", "").lower() == "websocket":
            return _error(501, "WebSockets are not passed on: use HTTP")
        if self._tokens is not None and self._tokens.owner_of(incoming.headers.get(TOKEN, "")) is None:
            return _error(401, f"the proxy's token is missing or not valid: send it as the header {TOKEN}")
        return None

    def _check_sender(self, incoming: web.Request) -> None:
        """Raise HttpError unless the request is meant for this proxy and is not from a page of another origin."""
        values, version = partial(incoming.headers.getall, default=()), incoming.version
        if self._tokens is None:
            check_host(values, self.options.hosts, FOREIGN_HOST, f"{version.major}.{version.minor}")
        check_origin(values, self.options.origins, FOREIGN_ORIGIN)

    def _own_page(self, incoming: web.Request) -> web.Response | None:
        """Return the proxy's own page, its metrics, or an error for another path below them.

        Returns None for the provider's paths.
        """
        if not f"{incoming.path}/".startswith(f"{OWN_PAGES}/"):
            return None
        if incoming.path.rstrip("/") not in (OWN_PAGES, f"{OWN_PAGES}/metrics"):
            return _error(404, f"the proxy has no such page: see {OWN_PAGES}/ and {OWN_PAGES}/metrics")
        if incoming.method not in ("GET", "HEAD"):
            return _error(405, "this page can only be read", {"Allow": "GET, HEAD"})
        problem = "" if self._budgets is None else self._budgets.problem
        if incoming.path.rstrip("/").endswith("/metrics"):
            shown = metrics(self.statistics, self.running, len(self.runs), open_budgets=bool(problem))
            return web.Response(text=self._secrets(shown), headers=_PRIVATE)
        upstream = public_url(self.options.upstream)
        shown = page(self.statistics, self.running, upstream, dry_run=self.options.dry_run, problem=problem)
        return web.Response(text=self._secrets(shown), content_type="text/html", headers=_PRIVATE)

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        self.runs.forget_idle(self.options.idle_seconds)
        path = incoming.path.rstrip("/")
        wire = next((one for one in WIRES if incoming.method == "POST" and path.endswith(one.path)), None)
        if wire is None and not self._may_count(incoming):
            return await self._pass_through(incoming, _arriving(incoming.content))
        body = await _read_body(_arriving(incoming.content))
        if wire is None and not _model_of(incoming, body):
            return await self._pass_through(incoming, body)
        if wire is None or "content-encoding" in incoming.headers or not isinstance(body, bytes):
            return await self._pass_counted(wire or CHAT, incoming, body)
        request = _read(wire, body)
        if request is None:
            return await self._pass_counted(wire, incoming, body)
        exchange = await self._begin(wire, incoming, request, len(body))
        if exchange is None:
            self.statistics.count_unfollowed_run()
            return await self._pass_counted(wire, incoming, body, {FOLLOWING: "failed"})
        if self._tracer is None:
            return await self._handle_followed(incoming, body, exchange)
        with self._tracer.request(exchange, incoming.headers, agent_of(incoming)):
            return await self._handle_followed(incoming, body, exchange)

    async def _handle_followed(
        self, incoming: web.Request, body: bytes, exchange: FollowedExchange
    ) -> web.StreamResponse:
        """Answer a request of a run, or pass it on."""
        if exchange.stop is not None and self.options.dry_run:
            self.statistics.count_dry_stop(exchange.stop.reason)
        closes = exchange.run.follower.closing is not None
        if closes:
            await self._close(incoming, body, exchange)
        own = None if self.options.dry_run else self._answer(exchange)
        if own is not None:
            exchange.action = "answered" if own.headers[MARK] == "answered" else "stopped"
            self.statistics.count_request(exchange.action, 0 if closes else len(body))
            return own
        run = exchange.run
        run.busy = True  # before anything waits: another agent's request that begins alike does not belong to this run
        try:
            return await self._pass_on(incoming, body, exchange)
        finally:
            run.busy = False
            run.follower.rest()

    async def _pass_on(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> web.StreamResponse:
        """Pass a request of a run on, once the budgets have room for it."""
        held = await self._reserve(incoming, len(body), exchange.request.model, exchange.said)
        if held is not None and held.refused is not None:
            exchange.action = "stopped"
            return self._refuse(exchange.wire, held, len(body), exchange.headers)
        run = exchange.run
        exchange.action = "passed" if run.broken else "followed"
        self.statistics.count_request(exchange.action)
        run.answered = False
        run.follower.rest()  # what is known is in the record, whatever happens to this process
        if run.offers_completion:
            exchange.guard(exchange.offer)
        if self._streaming.wanted(exchange):
            exchange.assemble()
        try:
            return await self._forward(incoming, body, exchange)
        finally:
            if held is not None:
                held.settle(exchange.usage)
            if exchange.usage is not None:
                self.statistics.count_usage(exchange.usage)
            if exchange.cut is not None:
                self.statistics.count_cut(exchange.cut.reason)
            if run.broken:
                self.statistics.count_unfollowed_run()
            self.runs.note_response(run, exchange.request)

    def _refuse(self, wire: ProxyWire, held: Reservation, size: int, said: Mapping[str, str]) -> web.Response:
        """Answer a request of this many bytes for which the budgets have no room. said: further headers."""
        self.statistics.count_request("stopped", size)
        refusal = wire.refusal("budget", f"endstop made no request: {held.detail}")
        return _own(refusal, {**said, MARK: "stopped"})

    def _may_count(self, incoming: web.Request) -> bool:
        """Return whether a request to an unknown path may be for a model, so that a budget must count it."""
        is_file = incoming.content_type.startswith("multipart/")
        counts = self._budgets is not None and incoming.method == "POST" and not is_file
        return counts and _COUNTS.search(incoming.path) is None

    async def _reserve(
        self, incoming: web.Request, size: int, model: str, said: dict[str, str], like: Usage = FIRST
    ) -> Reservation | None:
        """Reserve a request of this size in the budgets; None without budgets. If they fail, they are open.

        said: gets the header that reports this. like: earlier usage by which the response is estimated.
        """
        if self._budgets is None or self.options.dry_run:
            return None
        try:
            price = self._budgets.prices.price(model)
            held = await self._budgets.reserve(key_of(incoming), request_tokens(size), price, like)
        except Exception as error:
            log_warning("the budgets failed, and limit nothing", error=error_text(error))
            held = Reservation(open=True)
        if held.open:
            said[BUDGET] = "open"
            self.statistics.count_open_budget()
        return held

    async def _begin(
        self, wire: ProxyWire, incoming: web.Request, request: WireRequest, size: int
    ) -> FollowedExchange | None:
        """Find the run of a request, and report what is new to it. Return None if the run cannot be followed."""
        try:
            digests = digests_of(request.items)
            run = self.runs.find(request, digests, incoming.headers.get(SESSION, ""), agent_of(incoming))
            if not run.known and self.options.offer_completion and not self.options.dry_run:
                run.offers_completion = lacks_completion(request, self.options.completion)
            if not run.known and self._open_check is not None and self._has_check(request):
                run.check = self._open_check(run.follower)
            cuts, key = not self.options.dry_run, key_of(incoming)
            exchange = FollowedExchange(wire, request, run, cuts=cuts, key=key, hide=self._secrets, size=size)
        except Exception as error:
            said = self._secrets(error_text(error))
            log_warning("a run cannot be followed: its requests are passed through", error=said)
            return None
        if run.check is None:
            exchange.guard(lambda: exchange.begin(digests))
            return exchange
        exchange.holds_end = True
        run.busy = True  # another request that begins alike does not belong to this run
        try:
            await run.check.before_request()
            exchange.guard(lambda: exchange.begin(digests))
            await run.check.begin()
        finally:
            run.busy = False
        return exchange

    def _has_check(self, request: WireRequest) -> bool:
        """Return whether the work of a new conversation is checked.

        That of an agent without tools is not, nor that of a sub-agent: one that begins while another runs its calls.
        """
        return bool(request.tools) and not self.options.dry_run and not self.runs.waiting_for_results

    # ---- answers

    async def _close(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> None:
        """Ask the provider for the model's closing words, because a limit has ended the run.

        Does not ask if the budgets have no room for them.
        """
        run = exchange.run
        run.busy = True
        held = None
        try:
            held = await self._reserve(incoming, len(body), exchange.request.model, exchange.said)
            if not self.options.dry_run and (held is None or held.refused is None):
                await self._hear_closing_words(incoming, exchange)
        finally:
            run.busy = False
            exchange.guard(run.end)
            run.follower.rest()
            if held is not None:
                held.settle(exchange.usage)
            if exchange.usage is not None:
                self.statistics.count_usage(exchange.usage)
            self.runs.note_response(run, exchange.request)

    async def _hear_closing_words(self, incoming: web.Request, exchange: FollowedExchange) -> None:
        policy = exchange.run.follower.policy
        headers = request_headers(incoming, self._id)
        headers["Accept-Encoding"] = "identity"
        headers.popall("Content-Length", None)
        try:
            async with asyncio.timeout(policy.deadlines.closing):
                reply = await self._send(incoming, headers, exchange.closing_request(), exchange.note_sent)
                try:
                    if reply.status != 200 or "content-encoding" in reply.headers:
                        raise build_error(parse_error_body(_unread(reply)), status=reply.status)
                    whole = await _read_body(blocks_of(reply.content))
                    streams = reply.headers.get("content-type", "").lower().startswith(EVENT_STREAM)
                    exchange.guard(partial(exchange.take_closing_words, whole, streams=streams))
                finally:
                    reply.release()
        except TimeoutError:
            late = Unreachable(f"no closing words arrived within {policy.deadlines.closing:g} s")
            exchange.guard(partial(exchange.failed, late))
        except aiohttp.ClientError as error:
            exchange.guard(partial(exchange.failed, Unreachable(failure_text(error))))
        except ProviderError as error:
            exchange.guard(partial(exchange.failed, error))
        except asyncio.CancelledError:
            exchange.guard(partial(exchange.failed, Cancelled(f"{self._who_left()} before the response was whole")))
            raise

    def _answer(self, exchange: FollowedExchange) -> web.StreamResponse | None:
        """Return the answer in place of the provider; None if the request is passed on."""
        own: list[web.Response] = []
        exchange.guard(lambda: own.extend(self._own_answer(exchange)))
        return own[0] if own else None

    def _own_answer(self, exchange: FollowedExchange) -> list[web.Response]:
        stop = exchange.stop
        if stop is None:
            return []
        outcome = exchange.run.follower.outcome
        id = f"endstop-{uuid4().hex[:12]}"
        completed = stop.final_status == "completed"
        if completed and exchange.request.after:
            return []  # the provider would not know the response after which the conversation continues
        closing, usage = exchange.run.closing, exchange.usage or Usage()
        if closing is not None and closing.take():
            reply = exchange.wire.reply(exchange.request, closing.text, closing.id or id, usage)
            return [_own(reply, {**exchange.headers, MARK: "closing"})]
        if completed or self.options.on_stop == "text":
            reply = exchange.wire.reply(exchange.request, end_text(stop, outcome), id, usage)
        else:
            reply = exchange.wire.refusal(stop.reason, stopped_text(stop))
        return [_own(reply, {**exchange.headers, MARK: "answered" if completed else "stopped"})]

    async def _forward(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> web.StreamResponse:
        """Pass a request on, and follow its response."""
        try:
            reply = await self._ask(incoming, body, exchange)
        except aiohttp.ClientError as error:
            exchange.guard(partial(exchange.failed, Unreachable(failure_text(error))))
            return self._unreachable(error)
        except asyncio.CancelledError:
            exchange.guard(partial(exchange.failed, Cancelled(f"{self._who_left()} before the response began")))
            raise
        try:
            if reply.status != 200 or "content-encoding" in reply.headers:
                failure = build_error(parse_error_body(_unread(reply)), status=reply.status)
                exchange.guard(partial(exchange.failed, failure))
                return await self._copy(incoming, reply, exchange.said)
            if not reply.headers.get("content-type", "").lower().startswith(EVENT_STREAM):
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
        return await self._pass(incoming, body, exchange.said, exchange.note_sent)

    async def _ask(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> aiohttp.ClientResponse:
        """Send a request to the provider. To assemble the response, ask for a stream unless that is refused."""
        headers = request_headers(incoming, self._id)
        headers["Accept-Encoding"] = "identity"
        if exchange.changed_body and not exchange.run.broken:
            body = exchange.changed_body
            headers.pop("Content-Length", None)
        if not exchange.assembles:
            return await self._send(incoming, headers, body, exchange.note_sent)
        streamed = headers.copy()
        streamed.pop("Content-Length", None)
        body_of_stream = streamed_request(exchange.wire, exchange.request.body, body)
        reply = await self._send(incoming, streamed, body_of_stream, exchange.note_sent)
        if not await refuses_stream(reply):
            return reply
        exchange.assembles = False
        said = f"HTTP {reply.status}"
        reply.release()
        reply = await self._send(incoming, headers, body, exchange.note_sent)
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
            async with aclosing(self._followed(incoming, reply, exchange)) as blocks:
                async for block in blocks:
                    assembler.feed(block)
            response = assembler.response()
        except aiohttp.ClientError as error:
            exchange.guard(partial(exchange.failed, Unreachable(failure_text(error))))
            return self._unreachable(error)
        except asyncio.CancelledError:
            reply.close()
            exchange.guard(partial(exchange.failed, Cancelled(f"{self._who_left()} before the response was whole")))
            raise
        except ReportedError as error:
            if exchange.cut is not None:
                stop = exchange.wire.refusal(exchange.cut.reason, f"endstop cut this response: {exchange.cut.detail}")
                return _own(stop, {**exchange.headers, MARK: "stopped"})
            exchange.guard(partial(exchange.failed, build_error(parse_error_value(error.said))))
            return web.Response(status=status_of(error), body=msgspec.json.encode(error.said), headers=headers)
        if response is None:
            broken = Interrupted("the provider's response ended before it was whole")
            exchange.guard(partial(exchange.failed, broken))
            return self._unreachable(broken)
        headers[MARK] = "assembled" if exchange.cut is None else "cut"
        return web.Response(body=msgspec.json.encode(response), headers=headers)

    async def _whole(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> web.StreamResponse:
        """Pass on a response that is not streamed."""
        try:
            whole = await _read_body(blocks_of(reply.content))
        except aiohttp.ClientError as error:
            exchange.guard(partial(exchange.failed, Unreachable(failure_text(error))))
            return self._unreachable(error)
        except asyncio.CancelledError:
            exchange.guard(partial(exchange.failed, Cancelled(f"{self._who_left()} before the response was whole")))
            raise
        if not isinstance(whole, bytes):
            exchange.guard(exchange.refuse_large)
            return await self._copy(incoming, reply, exchange.headers, whole)
        passed = [whole]
        exchange.guard(lambda: passed.append(exchange.take_whole(whole)))
        if exchange.claims_end:
            passed.append(await self._whole_again(incoming, exchange, passed[-1]))
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
            async with aclosing(self._followed(incoming, reply, exchange)) as blocks:
                async for block in blocks:
                    await outgoing.write(block)
            await outgoing.write_eof()
        except (ConnectionError, asyncio.CancelledError) as error:  # nobody reads it, so no more is read here
            reply.close()
            exchange.guard(partial(exchange.left, Cancelled(f"{self._who_left()} in the middle of the response")))
            if isinstance(error, asyncio.CancelledError):
                raise
        except aiohttp.ClientError as error:  # of the provider: the agent must not take this for complete
            exchange.guard(partial(exchange.failed, Unreachable(failure_text(error))))
            _abort(incoming)
        return outgoing

    async def _followed(
        self, incoming: web.Request, reply: aiohttp.ClientResponse, exchange: FollowedExchange
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the agent gets of a streamed response, up to its cut, and of the responses that continue it."""
        async for block in blocks_of(reply.content):
            yield exchange.take_block(block)
            if exchange.cut is not None:
                break
        yield exchange.end()
        if not exchange.claims_end:
            return
        text = await self._handed_back(exchange)
        further = None if text is None else await self._ask_again(incoming, exchange, text)
        if text is None or further is None:
            yield exchange.release()
            return
        again, second = further
        end, events = exchange.end_of_stream, EventSplitter()
        yield end.add(f"\n\n{text}\n\n")
        try:
            async with aclosing(self._followed(incoming, second, again)) as blocks:
                async for block in blocks:
                    for event, _ in events.feed(block):
                        yield end.go_on(event)
        except (asyncio.CancelledError, GeneratorExit):
            second.close()
            again.guard(partial(again.left, Cancelled(f"{self._who_left()} in the middle of the response")))
            raise
        except aiohttp.ClientError as error:
            again.guard(partial(again.failed, Unreachable(failure_text(error))))
            raise
        finally:
            if again.usage is not None:
                self.statistics.count_usage(again.usage)
            second.release()

    async def _handed_back(self, exchange: FollowedExchange) -> str | None:
        """Return what the model is told because its final text or completion does not end the run; None if it does."""
        check, run = exchange.run.check, exchange.run
        if check is None or run.broken:
            return None
        try:
            return await check.hand_back(exchange.claim, decides=exchange.claim is None or exchange.withholds)
        except Exception as error:
            log_warning("a check failed: the agent ends by its own rule", error=self._secrets(error_text(error)))
            exchange.guard(exchange.decide)
            return None

    async def _ask_again(
        self, incoming: web.Request, exchange: FollowedExchange, text: str
    ) -> tuple[FollowedExchange, aiohttp.ClientResponse] | None:
        """Let the model go on after its final text was handed back with this text.

        Return the request and its response; None if there is none, so that the agent ends with the text that it has.
        """
        again = exchange.again(text)
        held = await self._reserve(incoming, len(again.body), again.request.model, again.said)
        if held is not None and held.refused is not None:
            return None
        headers = request_headers(incoming, self._id)
        headers["Accept-Encoding"] = "identity"
        headers.popall("Content-Length", None)
        reply = None
        try:
            reply = await self._send(incoming, headers, again.body, again.note_sent)
        except aiohttp.ClientError as error:
            again.guard(partial(again.failed, Unreachable(failure_text(error))))
        finally:
            if held is not None:
                held.settle(again.usage)
        if reply is None:
            return None
        streams = reply.headers.get("content-type", "").lower().startswith(EVENT_STREAM)
        expected = exchange.request.streams or exchange.assembles
        if reply.status != 200 or "content-encoding" in reply.headers or streams != expected:
            again.guard(partial(again.failed, build_error(parse_error_body(_unread(reply)), status=reply.status)))
            reply.release()
            return None
        return again, reply

    async def _whole_again(self, incoming: web.Request, exchange: FollowedExchange, whole: bytes) -> bytes:
        """Return a whole response, with those that continue it while the agent's check is not met."""
        text = await self._handed_back(exchange)
        further = None if text is None else await self._ask_again(incoming, exchange, text)
        if text is None or further is None or exchange.response is None:
            return whole
        again, reply = further
        try:
            second = await _read_body(blocks_of(reply.content))
        except aiohttp.ClientError as error:
            again.guard(partial(again.failed, Unreachable(failure_text(error))))
            return whole
        finally:
            reply.release()
        if not isinstance(second, bytes):
            again.guard(again.refuse_large)
            return whole
        passed = [second]
        again.guard(lambda: passed.append(again.take_whole(second)))
        if again.usage is not None:
            self.statistics.count_usage(again.usage)
        latest = await self._whole_again(incoming, again, passed[-1]) if again.claims_end else passed[-1]
        joined = as_dict(msgspec.json.decode(encodable(latest)))
        exchange.wire.add_text_before(joined, f"{exchange.response.message.text}\n\n{text}")
        return msgspec.json.encode(joined)

    async def _pass_through(
        self,
        incoming: web.Request,
        body: Body,
        said: Mapping[str, str] = NOTHING,
        sent: Callable[[bool], None] = _ignore,
    ) -> web.StreamResponse:
        """Pass on a request that is not followed, and its response unchanged. said: headers that are added.

        sent: told whether the provider got the request and did not refuse it.
        """
        self.statistics.count_request("passed")
        return await self._pass(incoming, body, said, sent)

    async def _pass_counted(
        self, wire: ProxyWire, incoming: web.Request, body: Body, said: Mapping[str, str] = NOTHING
    ) -> web.StreamResponse:
        """Pass on a request for a response that is not followed. It counts for the budgets by its decompressed size."""
        size, headers = max(incoming.content_length or 0, LARGEST_FOLLOWED), dict(said)
        if isinstance(body, bytes):
            plain = _unpacked(incoming, body)
            if plain is None and self._budgets is not None and not self.options.dry_run:
                return _error(415, "a budget cannot count a request with this content-encoding: use gzip, zstd or none")
            size = len(plain or body)
        like = Usage() if "embed" in incoming.path.lower() else FIRST
        held = await self._reserve(incoming, size, _model_of(incoming, body), headers, like)
        if held is not None and held.refused is not None:
            return self._refuse(wire, held, size, headers)
        sent: list[bool] = []
        try:
            return await self._pass_through(incoming, body, headers, sent.append)
        finally:
            if held is not None:
                used = held.expected if any(sent) else None
                held.settle(used)
                if used is not None:
                    self.statistics.count_usage(used)

    async def _pass(
        self, incoming: web.Request, body: Body, said: Mapping[str, str], sent: Callable[[bool], None] = _ignore
    ) -> web.StreamResponse:
        try:
            reply = await self._send(incoming, request_headers(incoming, self._id), body, sent)
        except aiohttp.ClientError as error:
            return self._unreachable(error)
        try:
            return await self._copy(incoming, reply, said)
        finally:
            reply.release()

    async def _copy(
        self,
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
                _abort(incoming)
            await outgoing.write_eof()
        return outgoing

    def _unreachable(self, error: aiohttp.ClientError | ProviderError) -> web.Response:
        """Return the response to an agent if the provider cannot be reached: a gateway failure, which clients retry."""
        said = str(error) if isinstance(error, ProviderError) else failure_text(error)
        return _error(502, self._secrets(said))

    # ---- requests

    async def _send(
        self, incoming: web.Request, headers: CIMultiDict[str], body: Body, sent: Callable[[bool], None]
    ) -> aiohttp.ClientResponse:
        """Send a request. sent: told whether the provider got it and did not refuse it, also if it breaks off."""
        data = body if incoming.body_exists else None
        got = True
        try:
            reply = await self._upstream.request(incoming.method, incoming.raw_path, headers, data)
            got = not is_refusal(reply.status)
            return reply
        except aiohttp.ClientConnectorError:
            got = False
            raise
        finally:
            sent(got)


def _read(wire: ProxyWire, body: bytes) -> WireRequest | None:
    """Read a request. Return None if it is not followed; if something is wrong with it, the provider says so."""
    try:
        decoded = msgspec.json.decode(encodable(body))
        if not isinstance(decoded, dict) or decoded.get("n") not in (None, 1):
            return None
        return wire.read(decoded)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _model_of(incoming: web.Request, body: Body) -> str:
    """Return the model named in the path or JSON of a request that is not followed; empty if unknown."""
    if (named := _MODEL_IN_PATH.search(incoming.path)) is not None:
        return named[1]
    try:
        plain = _unpacked(incoming, body) if isinstance(body, bytes) else None
        return as_text(as_dict(msgspec.json.decode(plain or b"")).get("model"))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""


def _unpacked(incoming: web.Request, body: bytes) -> bytes | None:
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


def is_refusal(status: int) -> bool:
    """Return whether a reply with this HTTP status says that the provider did nothing (RFC 9110, section 15.5)."""
    return 400 <= status < 500 and status not in (REQUEST_TIMEOUT, CLIENT_CLOSED)


class _Unfinished(Exception):
    """The body of a request has stopped arriving."""


async def _arriving(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the blocks of a request's body. Raises _Unfinished if none comes for `BODY_SECONDS`."""
    while True:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                block = await content.readany()
        except TimeoutError:
            raise _Unfinished(f"no data of the request's body arrived for {BODY_SECONDS:g} s") from None
        if not block:
            return
        yield block


async def _read_body(blocks: AsyncIterator[bytes]) -> Body:
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


def _own(reply: OwnReply, headers: dict[str, str]) -> web.Response:
    return web.Response(status=reply.status, body=reply.body, headers={"content-type": reply.content_type, **headers})


def _error(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """Return an error of the proxy itself, in a form that clients of both OpenAI and Anthropic can read."""
    said = {"message": f"endstop proxy: {message}", "type": "api_error"}
    return web.json_response(
        {"type": "error", "error": said}, status=status, headers={MARK: "error", **(headers or {})}
    )


def _unread(reply: aiohttp.ClientResponse) -> str:
    """Return the message about a reply that cannot be followed, whose body belongs to the agent."""
    if reply.status == 200:
        return f"the response came with the encoding {reply.headers['content-encoding']}"
    return f"HTTP {reply.status} {reason_of(reply)}"


def _abort(incoming: web.Request) -> None:
    """Abort the connection to an agent, so that it does not take what it has for a complete response."""
    if incoming.transport is not None:
        incoming.transport.abort()
