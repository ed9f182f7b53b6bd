"""`POST /v1/traces`: spans of agents that run elsewhere, as OTLP/HTTP (JSON and protobuf, plain or gzip).

Errors follow the protocol: a `Status` in the encoding of the request, and an HTTP status that makes exporters repeat
the request (429, 503) only if repeating may help. Source: OpenTelemetry Protocol 1.x, "OTLP/HTTP".
"""

from __future__ import annotations

import zlib
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..formats.otlp_protobuf import MalformedMessage, protobuf_spans, write_partial_success, write_status
from ..formats.otlp_spans import is_line
from ..formats.otlp_values import Span, json_spans
from ..http.problems import HttpError
from ..service.service import Service
from .answer_limit import answer_in_time
from .errors import error_response
from .request_context import AppState
from .schemas import read_body

PATH = "/v1/traces"
"""The protocol's path for spans."""
JSON, PROTOBUF = "application/json", "application/x-protobuf"
CODES = {400: 3, 401: 16, 403: 7, 408: 4, 413: 3, 415: 3, 422: 3, 429: 8, 500: 13, 503: 14}
"""The code of gRPC for a status of HTTP."""
_IDS = {"trace": 32, "id": 16}
"""Digits of the ids of a span."""


def otlp_route(
    state: AppState, find_owner: Callable[[Request], Awaitable[str]], check_open: Callable[[Service], None]
) -> Route:
    """Return the route. find_owner: authenticates a request. check_open: raises unless the service is open."""

    async def traces(request: Request) -> Response:
        as_protobuf = _media_type(request) == PROTOBUF
        try:
            owner = await find_owner(request)
            check_open(state.service)
            if _media_type(request) not in (JSON, PROTOBUF):
                raise HttpError(415, "media_type", f"send spans as {PROTOBUF} or {JSON}")
            spans = await _read_spans(request, state, as_protobuf=as_protobuf)
            valid = [span for span in spans if _has_ids(span)]
            assert state.service.receiver is not None
            storing = state.service.receiver.receive(owner, valid)
            await answer_in_time(storing, state.limits.answer_seconds, state.service.silent_parts)
        except Exception as error:
            return _status_response(error, as_protobuf=as_protobuf)
        return _success(len(spans) - len(valid), as_protobuf=as_protobuf)

    return Route(PATH, traces, methods=["POST"])


def _media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _read_spans(request: Request, state: AppState, *, as_protobuf: bool) -> Sequence[Span]:
    """Return the spans of a request. Raises HttpError: 400, 408, 413 or 415."""
    most = state.limits.spans
    packing = request.headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip", ""):
        raise HttpError(415, "encoding", f"the content encoding {packing[:40]!r} is not supported: use gzip or none")
    body = await read_body(request, most, state.limits.body_seconds, state.clock)
    if packing == "gzip":
        body = await to_thread.run_sync(_unzip, body, most)
    return await to_thread.run_sync(_decode, body, as_protobuf)


def _unzip(body: bytes, most: int) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        data = unpacker.decompress(body, most + 1)
    except zlib.error as error:
        raise HttpError(400, "malformed", f"the body is not gzip: {error}") from None
    if len(data) > most:
        raise HttpError(413, "too_large", f"the body has more than {most:,} bytes once it is unpacked")
    if not unpacker.eof:
        raise HttpError(400, "malformed", "the body is not gzip: it is cut off")
    return data


def _decode(body: bytes, as_protobuf: bool) -> list[Span]:
    if as_protobuf:
        try:
            return list(protobuf_spans(body))
        except MalformedMessage as error:
            raise HttpError(400, "malformed", f"the body is not an ExportTraceServiceRequest: {error}") from None
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HttpError(400, "malformed", f"the body is not JSON: {error}") from None
    if data != {} and not is_line(data):
        raise HttpError(
            400, "malformed", "the body is not an ExportTraceServiceRequest: it has no list `resourceSpans`"
        )
    return list(json_spans(data))


def _has_ids(span: Span) -> bool:
    """Return whether the span's ids are valid. Makes them lower case."""
    for name, digits in _IDS.items():
        id = getattr(span, name).lower()
        setattr(span, name, id)
        if len(id) != digits or not id.strip("0") or id.strip("0123456789abcdef"):
            return False
    return True


def _success(rejected: int, *, as_protobuf: bool) -> Response:
    why = f"{rejected} spans have no valid trace id and span id" if rejected else ""
    if as_protobuf:
        return Response(write_partial_success(rejected, why), media_type=PROTOBUF)
    told = {"partialSuccess": {"rejectedSpans": str(rejected), "errorMessage": why}} if rejected else {}
    return Response(msgspec.json.encode(told), media_type=JSON)


def _status_response(error: Exception, *, as_protobuf: bool) -> Response:
    """Return the response to an error: as on other routes, but with the protocol's body."""
    problem = error_response(error)
    detail = msgspec.json.decode(bytes(problem.body))["detail"]
    code = CODES.get(problem.status_code, 2)
    headers = {name: value for name, value in problem.headers.items() if name in ("retry-after", "www-authenticate")}
    if as_protobuf:
        return Response(write_status(code, detail), problem.status_code, headers, PROTOBUF)
    return Response(msgspec.json.encode({"code": code, "message": detail}), problem.status_code, headers, JSON)
