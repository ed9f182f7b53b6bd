"""The server of `endstop serve`: uvicorn around the app, from the socket to the exit code.

uvicorn leaves some limits to a proxy in front of it. As there may be none here, `Connection` adds them.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import socket
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..decision import WrongUse
from ..decision.wrong_calls import checked
from ..durability import Queue
from ..engine import Engine
from ..process.daemon import DaemonProcess, LogFormat, log_to_stderr
from ..process.listening import is_loopback, listen_at, raise_file_limit, resolve_address, url_of
from ..process.shutdown import ShutdownSignals
from ..process.streams import StdStreams
from ..process.tokens import TOKEN_VARIABLE
from ..providers._outage import Outage
from ..providers.endpoint_url import mask_url
from ..records.known_secrets import KnownSecrets, environment_secrets
from ..service.admission import ClientUntil
from ..service.service import Service
from ..service.span_receiver import Receiving
from ..store.base import StoreError
from ..store.url import file_at
from .app import web
from .auth import Auth, BearerTokens
from .errors import problem_response
from .server_limits import WebLimits
from .streaming import ABORT

RESERVED_FILES = 128
"""Open files, of all that are allowed, that are reserved for other things than connections."""
CLOSE_SECONDS = 5.0
"""Seconds that responses may still take once all runs have ended."""

REQUEST_SECONDS = 30.0
"""Seconds in which the head of a request must arrive."""
HEAD_BYTES = 64 * 1024
"""The most bytes in the head of a request."""
LINGER_SECONDS = 5.0
"""If a body has not arrived this many seconds after `REQUEST_SECONDS`, the connection is aborted. The app refuses the
request before that (408), after `WebLimits.body_seconds`."""
SEND_BUFFER = 256 * 1024
"""Bytes that the system buffers for a reader. By default it can be megabytes for each."""


@dataclass(frozen=True, kw_only=True)
class HttpServer:
    """The settings of `endstop serve`; `serve` runs it."""

    agents: Mapping[str, Engine]
    host: str
    port: int
    store: str
    tokens: str | None
    cors: Sequence[str]
    hosts: Collection[str]
    """Names that are served without tokens, besides those of this machine."""
    grace: float
    keep_days: float | None
    keep_sessions: int | None
    archive: str | None
    """Where the record of a session is put before it is deleted; None: nowhere."""
    max_running: int
    max_running_each: int | None
    """Without a queue: how many sessions of one owner may run at once; None: any number."""
    rate: float | None
    page: bool
    quiet: bool
    log_format: LogFormat
    answer_seconds: float
    lease: float
    queue: Queue | None
    """Distributes runs to workers; None: they run in this process."""
    workers: Callable[[Callable[[], None]], AbstractAsyncContextManager[None]]
    """With a queue: keeps worker processes alive while entered. Its argument is called when one has died."""
    receiving: Receiving | None = None
    """How spans of other agents are received; None: they are not."""
    allow_until: bool | ClientUntil = False
    """Whether, or how, the check that a client sends becomes that of its session."""

    async def serve(self) -> int:
        """Serve until a signal; returns the exit code. Raises WrongUse for settings that cannot work."""
        auth = self._auth()
        place = resolve_address(self.host, self.port)
        if auth is None and not is_loopback(place.address[0]):
            raise WrongUse(
                f"--host {self.host} is open to other machines, so requests need a token: give --tokens FILE with a "
                f"line OWNER:TOKEN for each user, or set {TOKEN_VARIABLE}"
            )
        with (
            listen_at(place, self.host, self.port) as listening,
            lock_store(file_at(self.store)),
            log_to_stderr(KnownSecrets(environment_secrets(os.environ)), self.log_format),
        ):
            service = Service(
                self.agents,
                store=self.store,
                grace=self.grace,
                keep_days=self.keep_days,
                keep_sessions=self.keep_sessions,
                archive=self.archive,
                max_running=self.max_running,
                max_running_each=self.max_running_each,
                queue=self.queue,
                works=False,
                lease=self.lease,
                kind="serve",
                receiving=self.receiving,
                allow_until=self.allow_until,
            )
            return await self._serve(service, auth, listening)

    def _auth(self) -> Auth | None:
        if self.tokens is not None:
            return BearerTokens.from_file(self.tokens)
        return BearerTokens.from_environment()

    async def _serve(self, service: Service, auth: Auth | None, listening: socket.socket) -> int:
        app = web(
            service,
            auth=auth,
            limits=WebLimits(requests_per_second=self.rate, answer_seconds=self.answer_seconds),
            cors=self.cors,
            hosts=self.hosts,
            page=self.page,
            access_log=not self.quiet,
            signals=False,
        )
        config = Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=raise_file_limit() - RESERVED_FILES,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=int(CLOSE_SECONDS),
        )
        daemon = DaemonProcess(service)
        work = self._serve_app(config, service, daemon, listening)
        return await daemon.run(work, grace=self.grace, silent_parts=service.silent_parts)

    async def _serve_app(
        self, config: Config, service: Service, daemon: DaemonProcess, listening: socket.socket
    ) -> None:
        await _open(service)
        std_streams = StdStreams()
        try:
            server = GracefulServer(
                config, service, lambda: std_streams.write_answer(self._ready_line(listening) + "\n")
            )
            with ShutdownSignals(daemon) as interrupts:
                interrupts.attach(daemon)
                async with AsyncExitStack() as stack:
                    if self.queue is not None:
                        await stack.enter_async_context(self.workers(service.check_peers))
                    await server.serve([listening])
        finally:
            await service.__aexit__(None, None, None)

    def _ready_line(self, listening: socket.socket) -> str:
        return f"endstop serves at {url_of(listening)} and keeps its sessions in {_display_store(self.store)}"


class GracefulServer(Server):
    """A uvicorn server that closes connections only after all sessions have ended."""

    def __init__(self, config: Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._on_ready = ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `ShutdownSignals`."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start serving, and call `ready`."""
        await super().startup(sockets)
        self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Exit once the service is stopping and no session is running."""
        if self._service.stopping and not self._service.running:
            self.should_exit = True
        return await super().on_tick(counter)


@checked
class Connection(HttpToolsProtocol):
    """uvicorn's HTTP protocol with limits: time and size of request heads, connections, and buffered output.

    For `uvicorn.run(app, http=Connection)`, also with another app. Responses can abort their connection through the
    ASGI extension `endstop.abort`.
    """

    request_seconds = REQUEST_SECONDS
    head_bytes = HEAD_BYTES
    too_many = Outage("connections are refused: there are too many")

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._max_connections, self.limit_concurrency = self.limit_concurrency, None
        self._timer: asyncio.TimerHandle | None = None
        self._in_head = True
        self._head = 0
        """Bytes that arrived of a request head which is not complete yet."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request head. Beyond the maximum of connections the client only gets a 503."""
        super().connection_made(transport)
        self._start_timer(self.request_seconds)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        if self._max_connections is None:
            return
        if len(self.connections) > self._max_connections:
            self.app = _too_many_connections
            self.too_many.failed(most=self._max_connections)
        else:
            self.too_many.over()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Handle data that arrived, and refuse a head that is too large (431)."""
        self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > self.head_bytes and not self.transport.is_closing():
            self._refuse(431, "head_too_large", f"the head of a request may have at most {self.head_bytes:,} bytes")

    def on_message_begin(self) -> None:
        """Start the timer for the head of a request, and let the app abort the connection (`endstop.abort`)."""
        super().on_message_begin()
        self._in_head = True
        self._start_timer(self.request_seconds)
        self.scope["extensions"] = {ABORT: {"abort": self.transport.abort}}

    def on_headers_complete(self) -> None:
        """Start the timer for the body: when it ends, the connection is aborted.

        It ends `LINGER_SECONDS` later than `request_seconds`, so that the app can refuse a slow body first.
        """
        self._head = 0
        self._in_head = False
        self._take_host_of_target()
        self._start_timer(self.request_seconds + LINGER_SECONDS)
        super().on_headers_complete()

    def _take_host_of_target(self) -> None:
        """Use the host of an absolute target, which only proxies receive, in place of `Host` (RFC 9112, 3.2.2)."""
        _, slashes, rest = self.url.partition(b"://")
        if slashes and not self.url.startswith(b"/"):
            others = [header for header in self.headers if header[0] != b"host"]
            self.headers[:] = [(b"host", re.split(rb"[/?#]", rest, maxsplit=1)[0]), *others]

    def on_body(self, body: bytes) -> None:
        """Do not count these bytes: only those of a head are limited here."""
        self._head = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer: the request has arrived completely."""
        self._head = 0
        self._stop_timer()
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse data that is not HTTP (400)."""
        self._refuse(400, "malformed", msg)

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if not self._in_head:
            self.transport.abort()
        elif not self.transport.is_closing():
            self._refuse(408, "timeout", f"the request did not arrive within {self.request_seconds:g} s")

    def _refuse(self, status: int, code: str, detail: str) -> None:
        """Send an error without asking the app, and close the connection."""
        if self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
            return
        response = problem_response(status, code, detail, {"Connection": "close"})
        lines = [b"HTTP/1.1 %d \r\n" % status]
        lines += [b"%b: %b\r\n" % header for header in response.raw_headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(response.body)]))
        self.transport.close()


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"Connection": "close", "Retry-After": "1"}
    await problem_response(503, "connections", "the server has too many connections", headers)(scope, receive, send)


@contextmanager
def lock_store(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Lock the SQLite store at this path for this server. None: the store is not a file.

    Raises WrongUse if another server has it locked.

    A second server on the file would take the sessions of the first for dead and mark them interrupted. The lock is on
    a separate file, `NAME-lock`, because closing any handle of a file drops SQLite's locks on it (POSIX). The system
    releases it when the process ends, in whatever way. A process that embeds a `Service` does not take this lock.
    """
    held = None if path is None else _lock(os.fspath(path))
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _lock(path: str) -> int | None:
    """Open the lock file; None if it cannot be created, as in a missing folder: opening the store then says why."""
    with suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        held = os.open(f"{path}-lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise WrongUse(
            f"--store {path} is in use by another endstop serve: use that server, or give this one another --store"
        ) from None
    except OSError:  # the file system does not support locks
        os.close(held)
        return None
    return held


async def _open(service: Service) -> None:
    try:
        await service.__aenter__()
    except StoreError as error:
        raise WrongUse(f"--store cannot be used: {error}") from None
    except ConnectionError as error:
        raise WrongUse(f"--queue cannot be used: {error}") from None


def _display_store(store: str) -> str:
    """Return the path or URL of the store, without the password."""
    return mask_url(store) if "://" in store else os.path.abspath(store)
