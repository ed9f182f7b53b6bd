"""Texts that users and tools pass, made of whole characters: half a surrogate pair has no form in UTF-8.

Names of files (`os.listdir`), texts that were cut by UTF-16 code units, and JSON from elsewhere may hold such halves. No
request and no record can, so each becomes U+FFFD where it enters.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from .providers.surrogate_pairs import whole_characters

S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode


def with_whole_characters(value: S) -> S:
    """Return an event or a specification with U+FFFD for each half of a surrogate pair in its texts."""
    try:
        _encode(value)
    except UnicodeEncodeError:
        fields = msgspec.to_builtins(value)
        return msgspec.convert(_whole(fields), type(value))
    except (TypeError, ValueError):
        pass  # it holds what JSON cannot express, of which a record keeps the `repr`
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return [*map(_whole, value)] if isinstance(value, list | tuple) else value
