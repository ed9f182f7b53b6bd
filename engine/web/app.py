"""The ASGI app around a service, to serve alone or to mount into another app.

    service = Service(engine)
    app = FastAPI(lifespan=service.lifespan)
    app.mount("/agent", web(service))

All paths sent to clients are relative, so the app can be mounted anywhere.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..decision import WrongUse
from ..decision.wrong_calls import explained
from ..http.page_files import INDEX, page_files
from ..http.request_checks import is_origin
from ..providers.clock import Clock, SystemClock
from ..service.errors import ServiceUnavailable
from ..service.service import Service
from ..store.base import StoreError
from ..tools.function_roles import check_functions
from .answer_limit import answer_in_time
from .auth import Auth, BearerTokens, authenticate
from .errors import error_response
from .middleware import QueryTokenMiddleware, RequestMiddleware, SecurityMiddleware
from .openapi import openapi_document
from .otlp_route import otlp_route
from .request_context import AppState, RequestContext
from .routes import OPERATIONS, Operation
from .schemas import check_media_type, decode_body, decode_query, read_body
from .server_limits import Readers, RequestRates, WebLimits

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@explained
def web(
    service: Service,
    *,
    auth: Auth | None = None,
    limits: WebLimits = WebLimits(),  # noqa: B008  frozen
    cors: Collection[str] = (),
    hosts: Collection[str] = (),
    page: bool = True,
    access_log: bool = False,
    signals: bool = True,
    clock: Clock | None = None,
) -> Starlette:
    """Return the ASGI app around a service.

    auth: `BearerTokens`, or a function that returns the owner of a request (None refuses it). Without it all sessions
        have the same owner, and only requests for names of this machine are served, so that no web page can reach the
        app through its own host name. With `BearerTokens` an event stream also accepts its token as `?token=`.
    hosts: names that are also served without `auth`; `*`: any, if a proxy in front authenticates. cors: origins whose
    web pages may send requests, such as `https://app.example`; `*` (any) needs `BearerTokens`. page: whether the web
    page is served at `/`. access_log: whether each request is logged, as INFO. signals: whether SIGTERM and SIGINT
    make the service begin to stop immediately (`stop_on_signals`).

    Served by itself the app opens the service; mounted, the outer app has to (`lifespan=service.lifespan`).
    Raises WrongUse if `cors` is `*` without tokens, or has an entry that is not an origin.
    """
    if not isinstance(service, Service):
        raise WrongUse(f"web: {service!r} is not a Service: write web(Service(engine))")
    check_functions(auth=auth)
    if "*" in cors and not isinstance(auth, BearerTokens):
        raise WrongUse("cors=['*'] lets any web page use this server: protect it with tokens (auth=BearerTokens(...))")
    for origin in cors:
        if origin != "*" and not is_origin(origin):
            raise WrongUse(
                f"cors: {origin!r} is not an origin, and no page would match it: write scheme and host, without a path "
                "or a trailing slash, as in https://app.example or http://localhost:3000"
            )
    clock = clock or SystemClock()
    if signals:
        service.add_context(partial(stop_on_signals, service))
    rates = RequestRates(limits.requests_per_second, clock)
    state = AppState(service, auth, limits, Readers(limits), rates, clock)
    security = Middleware(SecurityMiddleware, auth=auth, hosts=hosts, origins=cors)
    routes = [*_routes(OPERATIONS, state), _openapi_route(state)]
    if service.receiver is not None:
        routes.append(otlp_route(state, partial(_owner, state=state), _check_open))
    if page:
        routes += [Route("/", _serve_page, methods=["GET"]), Route("/page/{name:path}", _serve_page, methods=["GET"])]
    paths: dict[object, str] = {route.endpoint: route.path for route in reversed(routes)}  # files of the page: `/`
    counting = Middleware(RequestMiddleware, metrics=service.metrics, paths=paths, logs=access_log)
    middleware = [counting, security, *_cors(cors)]
    if isinstance(auth, BearerTokens):
        middleware.insert(0, Middleware(QueryTokenMiddleware))
    app = Starlette(
        routes=routes,
        middleware=middleware,
        exception_handlers={HTTPException: _handle_http_exception},
        lifespan=service.lifespan,
    )
    app.router.redirect_slashes = False
    return app


def _routes(operations: Collection[Operation], state: AppState) -> list[Route]:
    """Return one route per path, so that `Allow` lists all methods of a path when another method is refused (405)."""
    paths: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _endpoint(methods, state), methods=list(methods)) for path, methods in paths.items()]


_READS, _WRITES = "requests fail that read from the store", "requests fail that write to the store"


def _endpoint(methods: Mapping[str, Operation], state: AppState) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        operation = methods["GET" if request.method == "HEAD" else request.method]
        outage = state.store_outages[_READS if operation.method == "GET" else _WRITES]
        try:
            response = await _handle(operation, request, state)
        except StoreError as error:
            outage.failed(error=str(error))
            return error_response(error)
        except Exception as error:
            return error_response(error)
        if operation.needs_token:
            outage.over()
        return response

    return endpoint


async def _handle(operation: Operation, request: Request, state: AppState) -> Response:
    """Handle one request. Errors become responses in `error_response`."""
    owner = ""
    if operation.needs_token:
        owner = await _owner(request, state, is_stream=operation.resumable)
    _check_open(state.service)
    query = None if operation.query is None else decode_query(request, operation.query)
    body = None if operation.body is None else await _body(operation, request, state)
    if request.method == "HEAD" and operation.resumable:
        return Response(media_type=operation.media_type)
    seconds = state.limits.answer_seconds + getattr(query, "wait", 0.0)
    answer = operation.handler(RequestContext(request, state, owner, query, body))
    return await answer_in_time(answer, seconds, state.service.silent_parts)


async def _owner(request: Request, state: AppState, *, is_stream: bool = False) -> str:
    """Authenticate the request and count it for its owner; a refused one is counted for its address."""
    address = request.client.host if request.client is not None else ""
    if state.auth is None:
        state.rates.count(f"from {address}")
        return await authenticate(request, None)
    try:
        owner = await authenticate(request, state.auth, is_stream=is_stream)
    except Exception:
        state.rates.count(f"from {address}")
        raise
    state.rates.count(f"of {owner}")
    request.scope["endstop.owner"] = owner
    return owner


async def _body(operation: Operation, request: Request, state: AppState) -> Any:
    body = await read_body(request, state.limits.body, state.limits.body_seconds, state.clock)
    if not body and operation.body_optional:
        return None
    check_media_type(request.headers.get("content-type", ""))
    assert operation.body is not None
    return body if operation.raw_body else decode_body(body, operation.body)


def _check_open(service: Service) -> None:
    """Raise ServiceUnavailable if the service is not open."""
    if service.is_open:
        return
    if service.stopping:
        raise ServiceUnavailable("stopping", "the server has stopped")
    raise ServiceUnavailable(
        "not_open",
        "the service is not open: give its lifespan to the app that this one is mounted in, as in "
        "FastAPI(lifespan=service.lifespan), or use `async with service`",
    )


def _openapi_route(state: AppState) -> Route:
    outputs = {name: agent.config.output for name, agent in state.service.agents.items() if agent.config.output}
    document = openapi_document(OPERATIONS, state.limits, protected=state.auth is not None, outputs=outputs)

    async def openapi(request: Request) -> Response:
        servers = [{"url": request.scope.get("root_path") or "/"}]
        return Response(msgspec.json.encode({**document, "servers": servers}), media_type="application/json")

    return Route("/openapi.json", openapi, methods=["GET"])


def _cors(origins: Collection[str]) -> list[Middleware]:
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "Last-Event-ID"],
            expose_headers=["Location", "Retry-After"],
        )
    ]


async def _serve_page(request: Request) -> Response:
    """Serve a file of the page; at `/` the page itself."""
    file = page_files().get(request.path_params.get("name", INDEX))
    if file is None:
        raise HTTPException(404)
    headers = {"ETag": file.etag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.zipped, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)


async def _handle_http_exception(request: Request, error: Exception) -> Response:
    return error_response(error)


@contextmanager
def stop_on_signals(service: Service) -> Iterator[None]:
    """Make SIGTERM and SIGINT begin to stop the service while entered, in the event loop of the main thread.

    A server such as uvicorn waits for open responses before it ends the lifespan. Streams of running sessions would
    keep it waiting, as only the end of the lifespan stops the sessions. So the service begins to stop at the signal;
    the previous handler is called after that. A signal without a Python handler is not changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def on_signal(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(service.begin_stopping)
        before[signal.Signals(number)](number, frame)

    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler):
            before[number] = handler
            signal.signal(number, on_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is on_signal:  # otherwise someone replaced it since
                signal.signal(number, handler)
