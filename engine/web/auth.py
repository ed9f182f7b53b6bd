"""Authentication of requests: by bearer tokens (RFC 6750), or by a function that the user gives."""

from __future__ import annotations

import hmac
import inspect
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request

from ..decision import WrongUse
from .errors import HttpError

Auth = Callable[[Request], Awaitable[str | None] | str | None]
"""Gives the owner of a request, or None to refuse it. Sessions belong to their owner."""
ANONYMOUS = ""
"""The owner of all sessions where there is no authentication."""
TOKEN_VARIABLE = "ENDSTOP_TOKEN"
"""Environment variable with the token of a server that has one user."""
QUERY_TOKEN = "endstop.query_token"
"""Where an ASGI scope has the token that stood in the query of its request; see `QueryTokenMiddleware`."""


class BearerTokens:
    """Owners by their bearer tokens, for `web(service, auth=...)`.

    tokens: token of each owner. Raises WrongUse if a token is blank, not printable ASCII, or belongs to two owners.

    Only digests are kept, so that no log or traceback can show a token.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._owners: list[tuple[bytes, str]] = []
        self._add(tokens.items())

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> BearerTokens:
        """Read tokens from a file with lines `owner:token`; blank lines and lines that start with `#` are skipped."""
        try:
            lines = Path(path).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
            raise WrongUse(f"the tokens in {path} cannot be read: {why}") from None
        pairs = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            owner, colon, token = (part.strip() for part in line.partition(":"))
            if not (owner and colon and token):
                raise WrongUse(f"{path}, line {number}: write owner:token, one per line")
            pairs.append((owner, token))
        if not pairs:
            raise WrongUse(f"{path} has no tokens: write owner:token, one per line")
        tokens = cls({})
        tokens._add(pairs)
        return tokens

    @classmethod
    def from_environment(cls) -> BearerTokens | None:
        """The token in `ENDSTOP_TOKEN`, for a single user; None if the variable is not set."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return cls({ANONYMOUS: token}) if token else None

    def _add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for owner, token in pairs:
            if not token.strip() or not token.isascii() or not token.isprintable():
                raise WrongUse(f"the token of {owner!r} is not valid: use printable ASCII characters")
            digest = _digest(token.strip())
            if any(digest == known and owner != whose for known, whose in self._owners):
                raise WrongUse(
                    f"the token of {owner!r} also belongs to another owner: give each owner a different token"
                )
            self._owners.append((digest, owner))

    def __call__(self, request: Request) -> str | None:
        """The owner of the token in `Authorization`."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        owner = self.owner_of(token)
        return owner if scheme.lower() == "bearer" else None

    def owner_of(self, token: str) -> str | None:
        """The owner of a token, compared in constant time; None if nobody has it."""
        shown = _digest(token.strip())
        found = None
        for known, owner in self._owners:
            if hmac.compare_digest(known, shown):
                found = owner
        return found


async def authenticate(request: Request, auth: Auth | None, *, is_stream: bool = False) -> str:
    """The owner of the request. Raises HttpError (401).

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


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
