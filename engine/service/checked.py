"""What a service is given, checked before anything is begun."""

from __future__ import annotations

import re
from uuid import uuid4

from .._sanitize import one_line
from ..decision import WrongUse
from ..records.texts import Redact, Texts

TITLE = 120
"""Characters of the first prompt that a session is known by."""
_ID = re.compile(r"[A-Za-z0-9._:-]{1,100}")


def title(prompt: str) -> str:
    """What people know a session by: the beginning of its first prompt, in one line."""
    return one_line(prompt.lstrip()[: 4 * TITLE], TITLE)


def kept(text: str, redact: Redact | None) -> str:
    """What of a text the store may keep."""
    return text if redact is None else Texts(redact).text(text)


def new_id() -> str:
    """A session's id."""
    return f"session_{uuid4().hex[:12]}"


def checked_id(id: str) -> str:
    """An id that somebody else has made. Raises WrongUse."""
    if not _ID.fullmatch(id):
        raise WrongUse(f"{id[:100]!r} cannot name a session: use 1 to 100 letters, digits, '-', '_', '.' and ':'")
    return id


def check_said(what: str, text: str) -> None:
    """Refuse a text without a word in it."""
    if not text.strip():
        raise WrongUse(f"the {what} is empty: say something")


def check(**numbers: float | None) -> None:
    """Refuse numbers below 0, with their names."""
    for name, number in numbers.items():
        if number is not None and not number >= 0:
            raise WrongUse(f"{name} is {number!r}: use a number of 0 or more")


def check_above(**numbers: float) -> None:
    """Refuse numbers that are not above 0, with their names."""
    for name, number in numbers.items():
        if not number > 0:
            raise WrongUse(f"{name} is {number!r}: use a number above 0")
