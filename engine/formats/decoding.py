"""JSON from anywhere: what strict readers refuse and other programs write is read, too.

Python writes NaN, and half surrogate pairs as escapes; files that were cut by bytes hold broken UTF-8. Numbers that
are none become null where they are written again, half pairs and broken bytes a replacement character.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from .transcript import Unreadable

LARGEST = 256 * 1024 * 1024
"""Bytes that one session, as one line or one element of an array, may hold."""
TOO_LARGE = f"larger than {LARGEST // 1024 // 1024} MiB, which no session should be: split the file into sessions"
TOO_DEEP = "nested too deeply to be a session"

_decode = msgspec.json.Decoder().decode


def decoded(data: bytes | memoryview) -> Any:
    """What this JSON holds. Raises Unreadable, with where it breaks."""
    if len(data) > LARGEST:
        raise Unreadable(TOO_LARGE)
    try:
        return _decode(data)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _patiently(bytes(data), error)


def _patiently(data: bytes, strict: Exception) -> Any:
    try:
        return _clean(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except ValueError:
        raise Unreadable(f"no JSON: {str(strict)[:200]}") from None


def _clean(value: Any) -> Any:
    """The value without half surrogate pairs, which no UTF-8 can hold."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case list():
            return [_clean(part) for part in value]
        case dict():
            return {_clean(name): _clean(part) for name, part in value.items()}
        case _:
            return value
