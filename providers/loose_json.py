"""JSON as some servers write it: with numbers that JSON does not have, and characters that are not valid."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

import msgspec

from .surrogate_pairs import encodable


def decode_loosely(data: bytes) -> Any:
    """Decode any JSON value, with null for numbers that JSON does not have, such as NaN; None if it is not JSON.

    Invalid characters become U+FFFD: see `encodable`.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, ValueError):
        mended = with_json_numbers(encodable(data))
    try:
        return None if mended is data else msgspec.json.decode(mended)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None


MOST_DIGITS = 400
"""Maximum number of digits of a whole number; longer ones are not read as numbers."""


def with_json_numbers(data: bytes) -> bytes:
    """Return JSON with null for each number that JSON does not have (RFC 8259, section 6) or that is too large to hold.

    The data itself is returned if it has no such number or is not JSON for another reason.
    """
    found: list[str] = []

    def note(text: str) -> None:
        found.append(text)

    def whole(text: str) -> int | None:
        if len(text) <= MOST_DIGITS:
            return int(text)
        note(text)
        return None

    def fraction(text: str) -> float | None:
        if isfinite(number := float(text)):
            return number
        note(text)
        return None

    try:
        value = json.loads(data, parse_int=whole, parse_float=fraction, parse_constant=note)
    except (ValueError, RecursionError):
        return data
    return json.dumps(value).encode() if found else data
