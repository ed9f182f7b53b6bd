"""Error responses as data: `application/problem+json` (RFC 9457) with a short `code` for programs."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import msgspec
from msgspec import Struct

MEDIA_TYPE = "application/problem+json"


class Problem(Struct, frozen=True, kw_only=True):
    """What was wrong with a request, or why it was not done (RFC 9457)."""

    type: str = "about:blank"
    title: str
    """The status in words."""
    status: int
    detail: str
    """What is wrong, where, and what to do."""
    code: str
    """A short word for what is wrong, for programs."""


class HttpError(Exception):
    """A request is refused because of its token, headers, path, query or body."""

    def __init__(self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail, self.headers = status, code, detail, headers


def encode_problem(status: int, code: str, detail: str) -> bytes:
    """Encode the body of the response for a problem."""
    return msgspec.json.encode(Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, code=code))
