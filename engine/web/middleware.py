"""ASGI middleware around all routes: checks of `Host` and `Origin`, security headers, tokens in queries, access log."""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import perf_counter
from urllib.parse import unquote_plus

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..base.sanitize import one_line
from ..http.problems import HttpError
from ..http.request_checks import SECURITY_HEADERS, check_host, check_origin, host_name
from ..providers._logging import log
from .auth import QUERY_TOKEN, BearerTokens
from .errors import error_response

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


class AccessLogMiddleware:
    """Middleware that logs each request: method, path without query, status, milliseconds, owner."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request and log it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = perf_counter(), 0

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        finally:
            fields = {
                "method": scope["method"],
                "path": one_line(scope["path"], 200),
                "status": status or None,
                "ms": round((perf_counter() - began) * 1000, 1),
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
