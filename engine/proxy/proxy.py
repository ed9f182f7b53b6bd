"""Proxy between an agent and its provider, which knows when the agent should stop.

It passes requests and responses on unchanged, follows each run (`agent_runs.py`), cuts a stream at a completion call,
and answers the next request itself once the run has ended. It fails open: whatever goes wrong in following a run, the
agent gets what the provider sent.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import aiohttp
from aiohttp import web

from ..budget import FIRST
from ..decision import Usage, text_kinds
from ..decision.errors import error_text
from ..decision.wrong_calls import CheckedStruct, checked
from ..follow import Follower
from ..follow.agent_check import ACCEPTED, AgentCheck
from ..follow.end_text import end_text, stopped_text
from ..http.document_page import report_html
from ..http.problems import HttpError
from ..http.request_checks import check_host, check_origin
from ..process.tokens import Tokens
from ..providers._logging import log_warning
from ..providers.clock import Clock, SystemClock
from ..providers.endpoint_url import public_url
from ..providers.errors import Cancelled, ProviderError, Unreachable
from ..records.known_secrets import KnownSecrets
from .agent_replies import abort, can_be_followed, error_reply, is_stream, own_reply, unread_text
from .agent_runs import AgentRun, AgentRuns
from .anthropic_wire import ANTHROPIC
from .bodies import UnfinishedBody, arriving, model_of, read_body, read_request, unpacked
from .chat_wire import CHAT
from .day_budgets import DayBudgets, Reservation
from .exchange import FOLLOWING, LARGEST_FOLLOWED, MARK, SESSION, FollowedExchange
from .forwarding import Forwarder
from .gemini_wire import GEMINI
from .headers import TOKEN, agent_of, key_of, passed_proxies, secrets_of
from .late_usage import wait_for_rest
from .offered_completion import lacks_completion
from .own_answers import STATUSES, OwnAnswers
from .responses_wire import RESPONSES
from .statistics_page import Statistics, metrics, statistics_page
from .until_exchange import UntilExchanges
from .upstream_connections import Body, blocks_of
from .upstream_requests import UpstreamRequests, ignore
from .upstream_streaming import UpstreamStreaming
from .wire import ProxyWire, WireRequest

if TYPE_CHECKING:
    from .proxy_tracer import ProxyTracer

WIRES: tuple[ProxyWire, ...] = (CHAT, ANTHROPIC, RESPONSES, GEMINI)
FOREIGN_HOST = (
    "without tokens requests are served only by a name of this machine: use localhost, --allow-host or --tokens"
)
FOREIGN_ORIGIN = "pages of other origins may not use this proxy: allow their origin with --cors"
OWN_PAGES = "/endstop"
"""Path of the proxy's own page. Paths below it also belong to the proxy, and are never passed on."""
HEALTH = f"{OWN_PAGES}/health"
"""Path that says that the proxy lives, whether it acts and whether it has a check, and nothing else: without token,
and whatever the `Host` is. By it `endstop hook` knows that the proxy speaks."""
IDLE_SECONDS = 3600.0
"""Seconds after which an idle run is forgotten."""
_PRIVATE = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}
"""Headers of the proxy's own pages."""

NOTHING: Mapping[str, str] = {}
_COUNTS = re.compile(r"/(?:count|input)_tokens/?\Z|:(?:count|compute)Tokens/?\Z")
"""Paths of Anthropic, OpenAI and Gemini that only count tokens, which costs nothing."""


class ProxyOptions(CheckedStruct, frozen=True, kw_only=True):
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


@checked
class Proxy:
    """Handler of the requests of agents.

    open_follower: creates the follower of a new run; see `AgentRuns`. tokens: who may use the proxy; None for everybody
    on this machine. secrets: values to hide in everything that the proxy writes, in addition to those in requests.
    open_check: creates the check of the work of a run; None for no check. clock: the system's if None.
    """

    def __init__(
        self,
        options: ProxyOptions,
        open_follower: Callable[[str], Follower],
        clock: Clock | None = None,
        tokens: Tokens | None = None,
        statistics: Statistics | None = None,
        budgets: DayBudgets | None = None,
        tracer: ProxyTracer | None = None,
        secrets: KnownSecrets | None = None,
        open_check: Callable[[Follower], AgentCheck] | None = None,
    ) -> None:
        self.options = options
        self._open_check = open_check
        self._clock = clock or SystemClock()
        self._secrets = KnownSecrets() if secrets is None else secrets
        forgotten = tracer.end_run if tracer is not None else lambda run: None
        self.runs = AgentRuns(partial(self._open_follower, open_follower), self._clock.now, forgotten)
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
        limits = None if options.dry_run else budgets
        now = self._clock.now
        self._requests = UpstreamRequests(options.upstream, limits, self.statistics, self._secrets, now)
        self._streaming = UpstreamStreaming(enabled=options.stream_upstream, completion=options.completion)
        until = UntilExchanges(self._requests, self.statistics, self._secrets, self._who_left, self._clock)
        self._forwarder = Forwarder(self._requests, self._streaming, until, self._who_left, self._clock)

    @property
    def running(self) -> int:
        """Number of requests in progress."""
        return len(self._handlers)

    async def open(self) -> None:
        """Open the connections to the provider, and load what texts are judged by, so that no response waits for it."""
        await self._requests.open()
        text_kinds.load()

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
        await self._requests.close()

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        """Answer a request of an agent."""
        if incoming.path == HEALTH and incoming.method in ("GET", "HEAD"):
            does = {"acts": not self.options.dry_run, "checks": self._open_check is not None}
            return web.json_response({"status": "ok", "proxy": "endstop", **does}, headers=_PRIVATE)
        handler = asyncio.current_task()
        self._handlers.add(handler)
        try:
            refusal = self._refusal(incoming)
            if refusal is not None:
                self.statistics.count_request("refused")
                return refusal
            for secret in secrets_of(incoming):
                self._secrets.add(secret)
            own = await self._own_page(incoming)
            return await self._handle(incoming) if own is None else own
        except UnfinishedBody as error:
            return error_reply(408, str(error), {"Connection": "close"})
        except Exception as error:
            log_warning("a request failed", error=self._secrets(error_text(error)))
            if incoming.writer.output_size:
                abort(incoming)
            return error_reply(500, "an unexpected error: the proxy printed it to its stderr")
        finally:
            self._handlers.discard(handler)
            if self._ended is not None and not self._ended.done():
                self._ended.set_result(None)

    def _refusal(self, incoming: web.Request) -> web.Response | None:
        """Return the response to a request that is refused regardless of what it requests; None for any other."""
        try:
            self._check_sender(incoming)
        except HttpError as error:
            return error_reply(error.status, error.detail)
        if self._stopping:
            return error_reply(503, "the proxy is stopping", {"Retry-After": "1", "Connection": "close"})
        if self._requests.id in passed_proxies(incoming):
            return error_reply(508, "the upstream of this proxy is the proxy itself: set another --upstream")
        if not incoming.raw_path.startswith("/"):
            return error_reply(400, "the request has no path: set this proxy as the base URL, not as an HTTP proxy")
        if incoming.headers.get("upgrade", "").lower() == "websocket":
            return error_reply(501, "WebSockets are not passed on: use HTTP")
        if self._tokens is not None and self._tokens.owner_of(incoming.headers.get(TOKEN, "")) is None:
            return error_reply(401, f"the proxy's token is missing or not valid: send it as the header {TOKEN}")
        return None

    def _check_sender(self, incoming: web.Request) -> None:
        """Raise HttpError unless the request is meant for this proxy and is not from a page of another origin."""
        values, version = partial(incoming.headers.getall, default=()), incoming.version
        if self._tokens is None:
            check_host(values, self.options.hosts, FOREIGN_HOST, f"{version.major}.{version.minor}")
        check_origin(values, self.options.origins, FOREIGN_ORIGIN)

    async def _own_page(self, incoming: web.Request) -> web.Response | None:
        """Return the proxy's own page, its metrics, or an error for another path below them.

        Returns None for the provider's paths.
        """
        if not f"{incoming.path}/".startswith(f"{OWN_PAGES}/"):
            return None
        if incoming.path.rstrip("/") not in (OWN_PAGES, f"{OWN_PAGES}/metrics", HEALTH):
            return error_reply(404, f"the proxy has no such page: see {OWN_PAGES}/ and {OWN_PAGES}/metrics")
        if incoming.method not in ("GET", "HEAD"):
            return error_reply(405, "this page can only be read", {"Allow": "GET, HEAD"})
        problem = "" if self._budgets is None else self._budgets.problem
        if incoming.path.rstrip("/").endswith("/metrics"):
            if self._budgets is not None:
                self.statistics.set_budgets(self._budgets.limits, await self._budgets.left())
            shown = metrics(self.statistics, self.running, len(self.runs), open_budgets=bool(problem))
            return web.Response(text=self._secrets(shown), headers=_PRIVATE)
        upstream, problem = self._secrets(public_url(self.options.upstream)), self._secrets(problem)
        page = report_html(
            statistics_page(self.statistics, self.running, upstream, dry_run=self.options.dry_run, problem=problem)
        )
        headers = {**_PRIVATE, "Content-Security-Policy": f"{page.policy}; frame-ancestors 'none'"}
        return web.Response(text=page.html, content_type="text/html", headers=headers)

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        self.runs.forget_idle(self.options.idle_seconds)
        path = incoming.path.rstrip("/")
        wire = next((one for one in WIRES if incoming.method == "POST" and one.path.search(path)), None)
        if wire is None and not self._may_count(incoming):
            return await self._pass_through(incoming, arriving(incoming.content))
        body = await read_body(arriving(incoming.content))
        if wire is None and not model_of(incoming, body):
            return await self._pass_through(incoming, body)
        if wire is None or "content-encoding" in incoming.headers or not isinstance(body, bytes):
            return await self._pass_counted(wire or CHAT, incoming, body)
        request = read_request(wire, incoming.raw_path, body)
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
        run.response = exchange  # before anything waits: another agent's request that begins alike is of another run
        try:
            return await self._pass_on(incoming, body, exchange)
        finally:
            self._release(exchange)
            run.follower.rest()

    def _release(self, exchange: FollowedExchange, held: Reservation | None = None) -> None:
        """Count what a request used, and let its run have the next one. Does nothing the second time."""
        run, used = exchange.run, exchange.usage
        if run.response is not exchange:
            return
        run.response = None
        if held is not None:
            held.settle(used)
        if used is not None:
            self.statistics.count_usage(used)
        self.runs.note_response(run, exchange.request)

    async def _pass_on(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> web.StreamResponse:
        """Pass a request of a run on, once the budgets have room for it."""
        run = exchange.run
        run.answered = False
        held = await self._requests.reserve(incoming, len(body), exchange.request.model, exchange.said)
        if held is not None and held.refused is not None:
            exchange.action = "stopped"
            return self._refuse(exchange.wire, held, len(body), exchange.headers, run.own.next_status())
        run.own = OwnAnswers()
        exchange.action = "passed" if run.broken else "followed"
        self.statistics.count_request(exchange.action)
        run.follower.rest()  # what is known is in the record, whatever happens to this process
        exchange.guard(exchange.add_own)
        exchange.on_whole = partial(self._release, exchange, held)
        if self._streaming.wanted(exchange):
            exchange.assemble()
        try:
            return await self._forwarder.forward(incoming, body, exchange)
        finally:
            exchange.on_whole()
            if exchange.cut is not None:
                self.statistics.count_cut(exchange.cut.reason)
            if run.broken:
                self.statistics.count_unfollowed_run()

    def _refuse(
        self, wire: ProxyWire, held: Reservation, size: int, said: Mapping[str, str], status: int = STATUSES[0]
    ) -> web.Response:
        """Answer a request of this many bytes for which the budgets have no room. said: further headers."""
        self.statistics.count_request("stopped", size)
        refusal = wire.refusal("budget", f"endstop made no request: {held.detail}", status)
        return own_reply(refusal, {**said, MARK: "stopped"})

    def _may_count(self, incoming: web.Request) -> bool:
        """Return whether a request to an unknown path may be for a model, so that a budget must count it."""
        is_file = incoming.content_type.startswith("multipart/")
        counts = self._budgets is not None and incoming.method == "POST" and not is_file
        return counts and _COUNTS.search(incoming.path) is None

    async def _begin(
        self, wire: ProxyWire, incoming: web.Request, request: WireRequest, size: int
    ) -> FollowedExchange | None:
        """Find the run of a request, and report what is new to it. Return None if the run cannot be followed."""
        try:
            session = incoming.headers.get(SESSION, "")
            while (before := self.runs.at_end(request, session)) is not None:
                await wait_for_rest(before, self._clock)
            run, place = self.runs.find(request, session, agent_of(incoming))
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
            exchange.guard(lambda: exchange.begin(place))
            return exchange
        exchange.holds_end = True
        run.response = exchange  # another request that begins alike does not belong to this run
        try:
            await self._look_at_check(run, run.check)
            exchange.guard(lambda: exchange.begin(place))
            await run.check.begin()
        finally:
            run.response = None
        return exchange

    async def _look_at_check(self, run: AgentRun, check: AgentCheck) -> None:
        """Look at the check of a run before its next request is decided on. If it fails, it says nothing."""
        try:
            if run.withheld and not run.withheld[-1].result:
                withheld = run.withheld[-1]
                withheld.result = ACCEPTED  # if the check fails
                withheld.result = await check.answer_withheld(withheld.calls)
            else:
                await check.before_request()
        except Exception as error:
            log_warning("a check failed, and counts as no answer", error=self._secrets(error_text(error)))

    def _has_check(self, request: WireRequest) -> bool:
        """Return whether the work of a new conversation is checked.

        That of an agent without tools is not, nor that of a sub-agent: one that begins while another runs its calls;
        nor that of a conversation of which Anthropic lets each response be continued only once.
        """
        can_go_on = request.body.get("thread") is None
        return bool(request.tools) and can_go_on and not self.options.dry_run and not self.runs.waiting_for_results

    # ---- answers

    async def _close(self, incoming: web.Request, body: bytes, exchange: FollowedExchange) -> None:
        """Ask the provider for the model's closing words, because a limit has ended the run.

        Does not ask if the budgets have no room for them.
        """
        run = exchange.run
        run.response = exchange
        held = None
        try:
            held = await self._requests.reserve(incoming, len(body), exchange.request.model, exchange.said)
            if not self.options.dry_run and (held is None or held.refused is None):
                await self._hear_closing_words(incoming, exchange)
        finally:
            exchange.guard(run.end)
            run.follower.rest()
            self._release(exchange, held)

    async def _hear_closing_words(self, incoming: web.Request, exchange: FollowedExchange) -> None:
        policy = exchange.run.follower.policy
        try:
            async with asyncio.timeout(policy.deadlines.closing):
                reply = await self._requests.send_changed(incoming, exchange.closing_request(), exchange.note_sent)
                try:
                    if not can_be_followed(reply):
                        raise self._requests.refusal(reply, unread_text(reply))
                    whole = await read_body(blocks_of(reply.content))
                    streams = is_stream(reply, in_array=exchange.request.in_array)
                    exchange.guard(exchange.take_closing_words, whole, streams=streams)
                finally:
                    reply.release()
        except TimeoutError:
            late = Unreachable(f"no closing words arrived within {policy.deadlines.closing:g} s")
            exchange.guard(exchange.failed, late)
        except aiohttp.ClientError as error:
            exchange.guard(exchange.failed, self._requests.failure(error))
        except ProviderError as error:
            exchange.guard(exchange.failed, error)
        except asyncio.CancelledError:
            exchange.guard(exchange.failed, Cancelled(f"{self._who_left()} before the response was whole"))
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
        run = exchange.run
        id = f"endstop-{uuid4().hex[:12]}"
        completed = stop.final_status == "completed"
        if completed and exchange.request.after and not exchange.may_be_answered:
            return []  # the provider would not know the response after which the conversation continues
        closing, usage = run.closing, exchange.usage or Usage()
        has_text = closing is not None or completed or self.options.on_stop == "text"
        may_repeat = stop.reason == "completed" and not run.offers_completion
        if not (has_text and run.own.may_be_text()) and not may_repeat:
            reply = exchange.wire.refusal(stop.reason, stopped_text(stop, run.follower), run.own.next_status())
            return [own_reply(reply, {**exchange.headers, MARK: "stopped"})]
        if closing is not None:
            reply = exchange.wire.reply(exchange.request, closing.text, closing.id or id, usage)
            return [own_reply(reply, {**exchange.headers, MARK: "closing"})]
        text = end_text(stop, run.follower)
        reply = exchange.wire.reply(exchange.request, text, id, usage)
        if completed:
            exchange.keep_unstored(id, text)
            self.runs.note_response(run, exchange.request)
        return [own_reply(reply, {**exchange.headers, MARK: "answered" if completed else "stopped"})]

    async def _pass_through(
        self,
        incoming: web.Request,
        body: Body,
        said: Mapping[str, str] = NOTHING,
        sent: Callable[[bool], None] = ignore,
    ) -> web.StreamResponse:
        """Pass on a request that is not followed, and its response unchanged. said: headers that are added.

        sent: told whether the provider got the request and did not refuse it.
        """
        self.statistics.count_request("passed")
        return await self._requests.pass_on(incoming, body, said, sent)

    async def _pass_counted(
        self, wire: ProxyWire, incoming: web.Request, body: Body, said: Mapping[str, str] = NOTHING
    ) -> web.StreamResponse:
        """Pass on a request for a response that is not followed. It counts for the budgets by its decompressed size."""
        size, headers = max(incoming.content_length or 0, LARGEST_FOLLOWED), dict(said)
        if isinstance(body, bytes):
            plain = unpacked(incoming, body)
            if plain is None and self._budgets is not None and not self.options.dry_run:
                problem = "a budget cannot count a request with this content-encoding: use gzip, zstd or none"
                return error_reply(415, problem)
            size = len(plain or body)
        like = Usage() if "embed" in incoming.path.lower() else FIRST
        held = await self._requests.reserve(incoming, size, model_of(incoming, body), headers, like)
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
