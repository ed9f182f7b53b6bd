"""Whose request it is: bearer tokens, or a function of the user's own."""

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
"""The owner of all sessions where nobody is asked who he is."""
TOKEN_VARIABLE = "ENDSTOP_TOKEN"
"""The environment variable with the token of a server's only user."""


class BearerTokens:
    """Who shows this token is this owner. Raises WrongUse if a token is empty or belongs to two owners.

    Only digests are kept: neither a log nor a memory dump of this object shows a token.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._owners: list[tuple[bytes, str]] = []
        self._add(tokens.items())

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> BearerTokens:
        """Tokens of a file with a line `owner:token` each; blank lines and lines after `#` do not count."""
        try:
            lines = Path(path).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
            raise WrongUse(f"the tokens in {path} cannot be read: {why}") from None
        pairs = []
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            owner, colon, token = (part.strip() for part in line.partition(":"))
            if not (owner and colon and token):
                raise WrongUse(f"{path}, line {number}: write owner:token, one in a line")
            pairs.append((owner, token))
        if not pairs:
            raise WrongUse(f"{path} holds no token: write owner:token, one in a line")
        tokens = cls({})
        tokens._add(pairs)
        return tokens

    @classmethod
    def from_environment(cls) -> BearerTokens | None:
        """The token of `ENDSTOP_TOKEN`, whose user is the only one; None if it is not set."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return cls({ANONYMOUS: token}) if token else None

    def _add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for owner, token in pairs:
            if not token.strip() or not token.isascii() or not token.isprintable():
                raise WrongUse(f"the token of {owner!r} is none: write printable ASCII characters")
            digest = _digest(token.strip())
            if any(digest == known and owner != whose for known, whose in self._owners):
                raise WrongUse(f"the token of {owner!r} is another owner's, too: give each a token of its own")
            self._owners.append((digest, owner))

    def __call__(self, request: Request) -> str | None:
        """The owner of the token in `Authorization`, compared in constant time."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        shown = _digest(token.strip())
        found = None
        for known, owner in self._owners:
            if hmac.compare_digest(known, shown):
                found = owner
        return found if scheme.lower() == "bearer" else None


async def authenticate(request: Request, auth: Auth | None) -> str:
    """Whose request it is. Raises Refused: 401."""
    if auth is None:
        return ANONYMOUS
    owner = auth(request)
    if inspect.isawaitable(owner):
        owner = await owner
    if owner is None:
        shown = "authorization" in request.headers
        challenge = 'Bearer realm="endstop"' + (', error="invalid_token"' if shown else "")
        what = "is not known" if shown else "is missing: send `Authorization: Bearer TOKEN`"
        raise HttpError(401, "unauthorized", f"the token {what}", {"WWW-Authenticate": challenge})
    return owner


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
