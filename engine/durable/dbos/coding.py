"""How jobs and results stand in DBOS's tables: as JSON. Its own way is pickle, which runs what it reads."""

from __future__ import annotations

import json
from typing import Any

from dbos import Serializer


class Encoded(str):
    """A value that is JSON already."""

    __slots__ = ()


class Json(Serializer):
    """JSON as text. An exception is written as what it says, and is not made again."""

    def name(self) -> str:
        """Stands beside each value: another program sees by that how it is written."""
        return "endstop_json"

    def serialize(self, data: Any) -> str:
        """The value's text."""
        if isinstance(data, Encoded):
            return str(data)
        if isinstance(data, BaseException):
            return encoded({"error": type(data).__name__, "message": str(data)})
        return encoded(data)

    def deserialize(self, serialized_data: str) -> Any:
        """The value."""
        return json.loads(serialized_data)


def encoded(value: Any) -> Encoded:
    """JSON that any database takes. Raises TypeError or ValueError for what is none."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can hold and UTF-8 cannot
        text = json.dumps(value, separators=(",", ":"))
    return Encoded(text)


def named(text: str) -> str:
    """A name that any database takes, and that no other text has: as within a string of JSON."""
    return json.dumps(text)[1:-1]
