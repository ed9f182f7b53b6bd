"""ASGI middleware around all routes: checks of `Host` and `Origin`, headers, tokens in queries, counts, log."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from time import perf_counter
from urllib.parse import unquote_plus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..base.metrics_registry import OTHER, Metrics, known
from ..base.sanitize import one_line
from ..http.problems import HttpError
from ..http.request_checks import SECURITY_HEADERS, check_host, check_origin, host_name
from ..providers._logging import log
from ..service.service_metrics import READERS_DROPPED, REQUESTS, RESPONSE_SECONDS
from .auth import QUERY_TOKEN, BearerTokens
from .errors import error_response

DROPPED = "endstop.dropped"
"""Key in the scope of a request whose event stream was closed because its reader took nothing for too long."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
FOREIGN_HOST = "without tokens only names of this machine are served: use localhost, allow the name, or use tokens"
FOREIGN_ORIGIN = "pages of other origins may not use this server: allow their origin with --cors"


class SecurityMiddleware:
    """Middleware that refuses requests for other hosts or from other origins, and adds security headers to responses.

    hosts: names that are served without `auth` in addition to those of this machine; `*` for any. origins: origins
    whose pages may send requests in addition to the pages of this server.
    """

    def __init__(self, app: ASGIApp, *, auth: object, hosts: Collection[str], origins: Collection[str]) -> None:
        self._app = app
        self._hosts = None if auth is not None or "*" in hosts else frozenset(map(host_name, hosts))
        self._origins = frozenset(origins)
        self._any_origin = "*" in origins or (isinstance(auth, BearerTokens) and not origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check(scope)
        except HttpError as error:
            return await error_response(error)(scope, receive, with_headers)
        await self._app(scope, receive, with_headers)

    def _check(self, scope: Scope) -> None:
        values = Headers(scope=scope).getlist
        if self._hosts is not None:
            check_host(values, self._hosts, FOREIGN_HOST, scope.get("http_version", "1.1"))
        if not self._any_origin:
            check_origin(values, self._origins, FOREIGN_ORIGIN, opens=scope["method"] in ("GET", "HEAD"))


class RequestMiddleware:
    """Middleware that counts each request, and logs it: method, path without query, status, milliseconds, owner.

    paths: the path of each route, by its endpoint. logs: whether requests are logged, as INFO.
    """

    def __init__(self, app: ASGIApp, *, metrics: Metrics, paths: Mapping[object, str], logs: bool) -> None:
        self._app = app
        self._metrics = metrics
        self._paths = paths
        self._logs = logs

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, count and log it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status, responded = perf_counter(), 0, 0.0

        async def send_noting_status(message: Message) -> None:
            nonlocal status, responded
            if message["type"] == "http.response.start":
                status, responded = message["status"], perf_counter()
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            ended = perf_counter()
            self._count(scope, status, (responded or ended) - began)
            if self._logs:
                _log(scope, status, ended - began)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = self._paths.get(scope.get("endpoint"), OTHER)
        self._metrics.add(REQUESTS, known(scope["method"], _METHODS), route, str(status or "none"))
        self._metrics.observe(RESPONSE_SECONDS, seconds, route)
        if DROPPED in scope:
            self._metrics.add(READERS_DROPPED)


def _log(scope: Scope, status: int, seconds: float) -> None:
    fields = {
        "method": scope["method"],
        "path": one_line(scope["path"], 200),
        "status": status or None,
        "ms": round(seconds * 1000, 1),
        "owner": scope.get("endstop.owner"),
    }
    log(logging.INFO, "request", fields)


class QueryTokenMiddleware:
    """Middleware that moves `token` from a request's query to the scope, for `authenticate`.

    It changes the scope and not a copy of it, so that the access log of an outer server does not show the token.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        query: bytes = scope.get("query_string", b"")
        if b"=" in query:
            kept = []
            for part in query.split(b"&"):
                name, _, value = part.decode("latin-1").partition("=")
                if unquote_plus(name) == "token":
                    scope[QUERY_TOKEN] = unquote_plus(value)
                else:
                    kept.append(part)
            scope["query_string"] = b"&".join(kept)
        await self._app(scope, receive, send)
