"""The port for operators of a process that serves nothing else: whether it lives and can work, and what it counts."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web

from ..base.metrics_registry import MEDIA_TYPE as PROMETHEUS
from ..process.listening import is_loopback
from .idle_connections import TimedRunner
from .problems import MEDIA_TYPE, HttpError, encode_problem
from .request_checks import SECURITY_HEADERS, check_host

RETRY_SECONDS = 5
"""Seconds in `Retry-After` of a process that cannot work now."""
_HEADERS = {**SECURITY_HEADERS, "Cache-Control": "no-store"}
_FOREIGN_HOST = "this port is for this machine: use localhost"


def operator_app(
    *,
    health: Callable[[], Mapping[str, object]],
    unready_parts: Callable[[], Awaitable[Sequence[str]]],
    metrics: Callable[[], Awaitable[str]],
    any_host: bool = False,
) -> web.Application:
    """Return the app of an operator's port.

    `/health` answers with what `health` returns as long as the process lives. `/ready` answers 200, or 503 with the
    names that `unready_parts` returns. `/metrics` has the text that `metrics` returns, in Prometheus' format. any_host:
    whether `Host` may be any name; otherwise only names of this machine are served.
    """

    async def read_health(request: web.Request) -> web.Response:
        return web.json_response(dict(health()), headers=_HEADERS)

    async def read_readiness(request: web.Request) -> web.Response:
        parts = await unready_parts()
        if not parts:
            return web.json_response({"status": "ok"}, headers=_HEADERS)
        return _problem(HttpError(503, "not_ready", f"not ready: {' and '.join(parts)}"), retry=True)

    async def read_metrics(request: web.Request) -> web.Response:
        return web.Response(body=(await metrics()).encode(), headers={**_HEADERS, "Content-Type": PROMETHEUS})

    @web.middleware
    async def check(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        if not any_host:
            try:
                check_host(lambda name: request.headers.getall(name, []), (), _FOREIGN_HOST)
            except HttpError as error:
                return _problem(error)
        return await handler(request)

    app = web.Application(middlewares=[check])
    app.router.add_get("/health", read_health)
    app.router.add_get("/ready", read_readiness)
    app.router.add_get("/metrics", read_metrics)
    return app


def _problem(error: HttpError, *, retry: bool = False) -> web.Response:
    headers = {**_HEADERS, "Content-Type": MEDIA_TYPE, **({"Retry-After": str(RETRY_SECONDS)} if retry else {})}
    return web.Response(
        body=encode_problem(error.status, error.code, error.detail), status=error.status, headers=headers
    )


@asynccontextmanager
async def operator_port(
    listening: socket.socket | None,
    *,
    health: Callable[[], Mapping[str, object]],
    unready_parts: Callable[[], Awaitable[Sequence[str]]],
    metrics: Callable[[], Awaitable[str]],
) -> AsyncIterator[None]:
    """Serve an operator's port while entered; see `operator_app`. listening: its socket; None: there is no port."""
    if listening is None:
        yield
        return
    wide = not is_loopback(listening.getsockname()[0])
    app = operator_app(health=health, unready_parts=unready_parts, metrics=metrics, any_host=wide)
    runner = TimedRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()
