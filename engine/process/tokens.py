"""Tokens that requests to a server must have. Only their digests are kept."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Self

from ..decision import WrongUse
from ..records.entropy import looks_random

ANONYMOUS = ""
"""The owner of all sessions without authentication."""
_UUID = re.compile(r"[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}")
TOKEN_VARIABLE = "ENDSTOP_TOKEN"
"""Environment variable with the token of a server that has one user."""


class Tokens:
    """Owners by their tokens.

    tokens: token of each owner. Raises WrongUse if a token is blank, not printable ASCII, or belongs to two owners.

    Only digests are kept, so that no log or traceback can show a token.
    """

    def __init__(self, tokens: Mapping[str, str]) -> None:
        self._owners: list[tuple[bytes, str]] = []
        self._add(tokens.items())

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
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
    def from_environment(cls) -> Self | None:
        """Return the token in `ENDSTOP_TOKEN`, for a single user; None if the variable is not set."""
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return cls({ANONYMOUS: token}) if token else None

    def _add(self, pairs: Iterable[tuple[str, str]]) -> None:
        for owner, token in pairs:
            _check_order(owner, token)
            if not token.strip() or not token.isascii() or not token.isprintable():
                raise WrongUse(f"the token of {owner!r} is not valid: use printable ASCII characters")
            digest = _digest(token.strip())
            if any(digest == known and owner != whose for known, whose in self._owners):
                raise WrongUse(
                    f"the token of {owner!r} also belongs to another owner: give each owner a different token"
                )
            self._owners.append((digest, owner))

    def owner_of(self, token: str) -> str | None:
        """Return the owner of a token, compared in constant time; None if it is unknown."""
        shown = _digest(token.strip())
        found = None
        for known, owner in self._owners:
            if hmac.compare_digest(known, shown):
                found = owner
        return found


def _check_order(owner: str, token: str) -> None:
    """Raise WrongUse if an owner is a long random text, but no UUID, and its token a short word."""
    if len(owner) < 20 or len(token) >= 20 or not looks_random(owner) or _UUID.fullmatch(owner):
        return
    raise WrongUse(f"{token!r} is given as the token of an owner who looks like a token: write {{{token!r}: TOKEN}}")


def _digest(token: str) -> bytes:
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
