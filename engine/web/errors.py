"""Error responses of the server, made from the raised errors.

One table maps the refusals of the service to statuses. The response to an unexpected error holds only its id in the
log: its text may hold secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from math import ceil
from uuid import uuid4

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from .. import user_errors
from ..decision import WrongUse
from ..http.problems import MEDIA_TYPE, HttpError, encode_problem
from ..service.errors import Conflict, Forbidden, Refusal, ServiceUnavailable, TooMany, Unknown
from ..store.base import StoreError

STATUS_OF: dict[type[Refusal], int] = {
    Forbidden: 403,
    Unknown: 404,
    Conflict: 409,
    TooMany: 429,
    ServiceUnavailable: 503,
}
"""Status of each kind of refusal."""
RETRY_SECONDS = 1.0
"""Seconds in `Retry-After` where `TooMany.after` is None."""
AWAY_SECONDS = 5
"""Seconds in `Retry-After` while the store or the queue is away, or the server stops."""
_RETRY_LATER = {"Retry-After": str(AWAY_SECONDS)}


def problem_response(status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response for a problem."""
    return Response(encode_problem(status, code, detail), status, dict(headers or {}), MEDIA_TYPE)


def error_response(error: Exception) -> Response:
    """Return the response to an error. The text of an unexpected one is logged, and not sent."""
    match error:
        case HttpError():
            return problem_response(error.status, error.code, error.detail, error.headers)
        case Refusal():
            return _refusal(error)
        case StoreError():
            detail = "the session store failed: the log of the server says why"
            return problem_response(503, "store", detail, _RETRY_LATER)
        case WrongUse():
            return problem_response(422, "invalid", str(error))
        case HTTPException():
            return _of_starlette(error)
        case ClientDisconnect():
            return problem_response(400, "disconnected", "the client disconnected before its request was complete")
        case _:
            return problem_response(500, "internal", f"an unexpected error: {_logged(error)}")


def _refusal(error: Refusal) -> Response:
    status = next(status for kind, status in STATUS_OF.items() if isinstance(error, kind))
    headers = {}
    if isinstance(error, TooMany):
        headers["Retry-After"] = str(max(1, ceil(RETRY_SECONDS if error.after is None else error.after)))
    elif error.code == "stopping":
        headers = _RETRY_LATER
    return problem_response(status, error.code, error.detail, headers)


def unready(parts: Sequence[str]) -> HttpError:
    """Return the error of a server that cannot work now. parts: what it waits for."""
    return HttpError(503, "not_ready", f"not ready: {' and '.join(parts)}", _RETRY_LATER)


def unanswered(parts: Sequence[str]) -> HttpError:
    """Return the error for a request that took too long. parts: those of the service that do not answer; may be empty.

    It is logged by the outage that keeps them silent, and not for each request.
    """
    if parts:
        detail = f"no answer in time from the {' and the '.join(parts)}: try again later"
    else:
        detail = "the request took too long: look whether it was done before you repeat it"
    return HttpError(503, "timeout", detail, _RETRY_LATER)


def _of_starlette(error: HTTPException) -> Response:
    match error.status_code:
        case 404:
            return problem_response(404, "not_found", "there is nothing at this path; see openapi.json", error.headers)
        case 405:
            return problem_response(
                405, "method_not_allowed", "this path does not support this method; see Allow", error.headers
            )
        case status:
            return problem_response(status, "refused", str(error.detail), error.headers)


def _logged(error: Exception) -> str:
    """Log the error; returns a hint how to find it in the log."""
    number = uuid4().hex[:12]
    log_failure("request failed", error, error_id=number)
    return f"the log of the server has it under error_id {number}"


def log_failure(event: str, error: Exception, **more: str) -> None:
    """Log an error with its traceback, which shows no local variables: they hold keys and prompts."""
    user_errors.log_failure(event, error, logging.ERROR, **more)
