"""Authentication of requests: by bearer tokens (RFC 6750), or by a function that the user gives."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from starlette.requests import Request

from ..decision.wrong_calls import checked
from ..http.problems import HttpError
from ..process.tokens import ANONYMOUS, Tokens

Auth = Callable[[Request], Awaitable[str | None] | str | None]
"""Gives the owner of a request, or None to refuse it. Sessions belong to their owner."""
QUERY_TOKEN = "endstop.query_token"
"""Key in an ASGI scope of the token that the query of its request had; see `QueryTokenMiddleware`."""


@checked
class BearerTokens(Tokens):
    """Owners by their bearer tokens, for `web(service, auth=...)`.

    tokens: token of each owner. Raises WrongUse if a token is blank, not printable ASCII, or belongs to two owners.
    """

    def __call__(self, request: Request) -> str | None:
        """Return the owner of the token in `Authorization`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        owner = self.owner_of(token)
        return owner if scheme.lower() == "bearer" else None


async def authenticate(request: Request, auth: Auth | None, *, is_stream: bool = False) -> str:
    """Return the owner of the request. Raises HttpError (401).

    is_stream: a token in the query counts, too, if there is no `Authorization`: `EventSource` cannot send a header.
    """
    if auth is None:
        return ANONYMOUS
    shown = "authorization" in request.headers
    token: str | None = request.scope.get(QUERY_TOKEN) if is_stream and not shown else None
    if token is not None and isinstance(auth, BearerTokens):
        shown, owner = True, auth.owner_of(token)
    else:
        said = auth(request)
        owner = await said if inspect.isawaitable(said) else said
    if owner is None:
        challenge = 'Bearer realm="endstop"' + (', error="invalid_token"' if shown else "")
        what = "is not valid" if shown else "is missing: send `Authorization: Bearer TOKEN`"
        raise HttpError(401, "unauthorized", f"the token {what}", {"WWW-Authenticate": challenge})
    return owner
