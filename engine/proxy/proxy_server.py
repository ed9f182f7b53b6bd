"""Server of `endstop proxy`: from the socket to the exit code, and the followers with their records."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from msgspec import Struct, field
from msgspec.structs import replace
from yarl import URL

from ..base.ids import new_session_id
from ..decision import Event, Policy, Price, WrongUse
from ..decision.events import AttemptFailed, RunFinished, RunStarted
from ..decision.finish_words import parse_finish_reason
from ..follow import Follower
from ..follow.agent_check import AgentCheck
from ..http.idle_connections import TimedRunner
from ..observers.logging import log_run_end
from ..process.daemon import DaemonProcess, LogFormat, log_to_stderr
from ..process.listening import is_loopback, listen_at, raise_file_limit, resolve_address, url_of
from ..process.shutdown import ShutdownSignals
from ..process.streams import StdStreams
from ..process.tokens import TOKEN_VARIABLE, Tokens
from ..providers.clock import Clock, SystemClock
from ..providers.endpoint_url import public_url
from ..providers.prices import Prices
from ..records.format import Redact
from ..records.known_secrets import KnownSecrets, environment_secrets
from ..records.retention import day_folder
from ..until import Until
from .day_budgets import DayBudgets
from .headers import TOKEN
from .proxy import OWN_PAGES, Proxy, ProxyOptions
from .recording import RecordLosses, delete_daily
from .statistics_page import Statistics
from .upstream_connections import LARGEST_HEADER

if TYPE_CHECKING:
    from .proxy_tracer import ProxyTracer

BREAK_OFF_SECONDS = 2.0
"""Maximum seconds for responses to be aborted after the grace period."""


class UpstreamPrices(Prices):
    """Prices of the models of one provider, by its URL: your own server has no list price."""

    def __init__(self, upstream: str) -> None:
        super().__init__()
        self._upstream = upstream

    def price(self, model: str, endpoint: str = "") -> Price | None:
        """Return the price of a model; None if it is not known."""
        return super().price(model, endpoint or self._upstream)


class RunFollowers(Struct, frozen=True, kw_only=True):
    """Factory of the follower of each new run.

    completion: names of the tools that complete a task. folder: where records are written, those of each day
    in a folder of its own; None for no records.
    """

    policy: Policy
    prices: Prices
    completion: tuple[str, ...] = ()
    folder: Path | None = None
    redact: Redact | None = None
    on_event: Callable[[Event], None] | None = None
    until: Until | None = None
    """The check that says when the work of an agent is done."""
    workspace: str = "."
    """The folder of the work."""
    losses: RecordLosses = field(default_factory=RecordLosses)
    """Is told of runs whose records cannot be written; they are followed without."""
    clock: Clock = field(default_factory=SystemClock)

    def open_check(self, follower: Follower) -> AgentCheck:
        """Return the check of the work of a run."""
        assert self.until is not None
        return AgentCheck(self.until, self.workspace, follower)

    def open(self, agent: str) -> Follower:
        """Return the follower of a run of this agent."""
        session_id = new_session_id()
        today = self.clock.wall().date()
        follower = Follower(
            self.policy,
            completion=self.completion,
            speaks=False,
            closes=True,
            record=None if self.folder is None else day_folder(self.folder, today) / f"{session_id}.jsonl",
            redact=self.redact,
            session_id=session_id,
            agent=agent or "agent",
            prices=self.prices,
            clock=self.clock,
            on_event=RunEndLog(agent, self.on_event),
            on_record_loss=self.losses.lost,
        )
        if follower.record is not None:
            self.losses.written()
        return follower

    def rehearse(self) -> None:
        """Follow a run that nobody sees, so that no response waits for what is built when the first one is judged."""
        follower = Follower(self.policy, completion=self.completion, speaks=False, closes=True, prices=self.prices)
        with suppress(Exception):  # what fails here fails in each run, and is logged there
            follower.prompt("Count the files.")
            follower.response("I have counted 3 of 4 files.", finish=parse_finish_reason("stop"))
            follower.decide()
        follower.close()


class RunEndLog:
    """Function for the events of one agent's runs: logs the end of each, and passes events on to `then`."""

    def __init__(self, agent: str, then: Callable[[Event], None] | None) -> None:
        self._agent = agent
        self._then = then
        self._error_kind: str | None = None
        """The kind of the run's last failed attempt."""

    def __call__(self, event: Event) -> None:
        """Take the next event."""
        match event:
            case RunStarted():
                self._error_kind = None
            case AttemptFailed(kind=kind):
                self._error_kind = kind
            case RunFinished(outcome=outcome):
                log_run_end(outcome, self._error_kind, agent=self._agent)
            case _:
                pass
        if self._then is not None:
            self._then(event)


class ProxyServer(Struct, frozen=True, kw_only=True):
    """Settings of `endstop proxy`; `serve` runs it."""

    options: ProxyOptions
    followers: RunFollowers
    host: str
    port: int
    tokens: Tokens | None
    budgets: DayBudgets | None
    tracer: ProxyTracer | None = None
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    """Environment variables, whose keys and tokens are hidden like those of requests."""
    grace: float
    """Maximum seconds for responses in progress to end once the proxy stops."""
    keep_days: int | None = None
    """Days after their last event when records are deleted; None for never."""
    log_format: LogFormat = "text"

    async def serve(self) -> int:
        """Serve until a signal, and return the exit code. Raises WrongUse for settings that cannot work."""
        place = resolve_address(self.host, self.port)
        if self.tokens is None and not is_loopback(place.address[0]):
            raise WrongUse(
                f"--host {self.host} is open to other machines, so requests need a token of the proxy's own: give "
                f"--tokens FILE with a line OWNER:TOKEN for each user, or set {TOKEN_VARIABLE}"
            )
        secrets = KnownSecrets(environment_secrets(self.environment))
        with listen_at(place, self.host, self.port) as listening, log_to_stderr(secrets, self.log_format):
            check_upstream(self.options.upstream, listening)
            proxy = self.new_proxy(secrets)
            raise_file_limit()
            std_streams, daemon = StdStreams(), DaemonProcess(proxy, "requests")
            runner = proxy_runner(proxy)
            await proxy.open()
            deleting = self._begin_deleting()
            try:
                await runner.setup()
                site = web.SockSite(runner, listening)
                await site.start()
                std_streams.write_answer(self._ready_text(url_of(listening)))
                with ShutdownSignals(daemon) as interrupts:
                    interrupts.attach(daemon)
                    await daemon.stop_requested.wait()
                    await site.stop()
                    await self._wait_for_responses(proxy)
                    with suppress(TimeoutError):
                        async with asyncio.timeout(BREAK_OFF_SECONDS):
                            await proxy.break_off()
            finally:
                if deleting is not None:
                    deleting.cancel()
                await runner.cleanup()
                await proxy.close()
        return daemon.exit_code

    def _begin_deleting(self) -> asyncio.Task[NoReturn] | None:
        """Begin to delete old records; None if all are kept."""
        folder = self.followers.folder
        if folder is None or self.keep_days is None:
            return None
        return asyncio.create_task(
            delete_daily(folder, self.keep_days, self.followers.clock), name="endstop proxy retention"
        )

    def new_proxy(self, secrets: KnownSecrets | None = None) -> Proxy:
        """Return a proxy with these settings, for whoever serves it. secrets: hidden in what is logged."""
        self.followers.rehearse()
        statistics = Statistics()
        losses = RecordLosses(statistics.count_unrecorded_run)
        followers = replace(self.followers, on_event=statistics.take, losses=losses)
        return Proxy(
            self.options,
            followers.open,
            tokens=self.tokens,
            statistics=statistics,
            budgets=self.budgets,
            tracer=self.tracer,
            secrets=secrets,
            open_check=None if followers.until is None else followers.open_check,
        )

    async def _wait_for_responses(self, proxy: Proxy) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self.grace):
                await proxy.idle()

    def _ready_text(self, url: str) -> str:
        lines = [
            f"endstop proxy listens at {url}, in front of {public_url(self.options.upstream)}",
            f"  OpenAI's clients:    base_url = {url}/v1   (OPENAI_BASE_URL)",
            f"  Anthropic's clients: base_url = {url}      (ANTHROPIC_BASE_URL)",
            f"  Google's clients:    base_url = {url}      (GOOGLE_GEMINI_BASE_URL)",
        ]
        lines.append(f"  what it sees and saves: {url}{OWN_PAGES}/")
        if self.tokens is not None:
            lines.append(
                f"  with a token of the proxy's own in the header {TOKEN}; the provider's key stays where it is"
            )
        if self.options.dry_run:
            lines.append("  dry run: nothing is cut or stopped")
        if self.followers.folder is not None:
            lines.append(f"  records: {self.followers.folder}")
        return "\n".join([*lines, ""])


def _is_no_bad_request(entry: logging.LogRecord) -> bool:
    """Return whether a log entry of aiohttp is not about an unreadable request, of which it would show a header."""
    return not (entry.exc_info and isinstance(entry.exc_info[1], HttpProcessingError))


def _server_logger() -> logging.Logger:
    """Return the logger of errors in handling requests, to stderr."""
    logger = logging.Logger("endstop.proxy", logging.WARNING)
    logger.addFilter(_is_no_bad_request)
    return logger


def proxy_runner(proxy: Proxy) -> web.AppRunner:
    """Return the aiohttp runner of a proxy. It cancels a handler when its agent leaves, and decompresses no body."""

    @web.middleware
    async def handle(request: web.Request, handler: object) -> web.StreamResponse:
        return await proxy.handle(request)  # whatever its path is, even if it is not a path

    return TimedRunner(
        web.Application(middlewares=[handle]),
        handler_cancellation=True,
        auto_decompress=False,
        access_log=None,
        logger=_server_logger(),
        shutdown_timeout=BREAK_OFF_SECONDS,
        max_line_size=LARGEST_HEADER,
        max_field_size=LARGEST_HEADER,
    )


def parse_upstream(text: str) -> str:
    """Return the URL of a provider. Raises WrongUse if it is not one."""
    try:
        url = URL(text)
        valid = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
    except ValueError:
        valid = False
    if not valid:
        raise WrongUse(f"--upstream {text!r} is not a URL: write it like https://api.openai.com/v1")
    if url.user or url.password or url.query_string or url.fragment:
        raise WrongUse(
            "--upstream has a user, a query or a fragment: the agent sends its key itself, give the URL alone"
        )
    return text


def check_upstream(upstream: str, listening: socket.socket) -> None:
    """Raise WrongUse if the upstream is the address at which the proxy listens."""
    url, (address, port) = URL(upstream), listening.getsockname()[:2]
    if url.port != port:
        return
    try:
        found = socket.getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
    except OSError:
        return  # the name may be resolvable later
    addresses = {str(one[4][0]) for one in found}
    everywhere = address in ("0.0.0.0", "::") and any(is_loopback(one) for one in addresses)
    if everywhere or address in addresses:
        raise WrongUse(f"--upstream {upstream} is the proxy itself: give the URL of the provider, or another --port")
