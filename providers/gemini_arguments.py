"""Arguments of a function call that Gemini sends in pieces, each with the path of the value that it belongs to.

Only used with `streamFunctionCallArguments` in a request (Vertex AI documentation, "Streaming function call
arguments").
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
from msgspec import Struct

_STEP = re.compile(r"""\.?([^.\[\]'"]+)|\[(\d+)\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
"""One step of a JSON path (RFC 9535): a name, an index, or a quoted name."""
LARGEST_GAP = 100
"""Maximum number of array items that may be missing before the one that a path names. They become null."""


class ArgumentPiece(Struct, gc=False, rename="camel"):
    """One piece of a value."""

    json_path: str = ""
    string_value: str | None = None
    number_value: float | int | None = None
    bool_value: bool | None = None
    null_value: Any = None
    will_continue: bool | None = None


class _Text:
    """A growing text, kept in pieces: joining it at each piece would copy a long text again and again."""

    __slots__ = ("pieces",)

    def __init__(self, begins: str) -> None:
        self.pieces = [begins]


def _joined(text: _Text) -> str:
    return "".join(text.pieces)


class GrowingArguments:
    """The arguments of one call, as far as they have arrived."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._open: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the last value is announced to go on."""
        return self._open is not None

    def add(self, piece: ArgumentPiece) -> None:
        """Add a piece. It is ignored if its path cannot be followed."""
        steps = _steps(piece.json_path)
        if steps:
            _put(self._values, steps, piece)
            self._open = piece.json_path if piece.will_continue else None

    def text(self) -> str:
        """Return the arguments as JSON text."""
        return msgspec.json.encode(self._values, enc_hook=_joined).decode()


def _steps(path: str) -> list[str | int]:
    return [
        int(index) if index else _unescaped(name or single or double)
        for name, index, single, double in _STEP.findall(path.removeprefix("$"))
    ]


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _put(values: Any, steps: list[str | int], piece: ArgumentPiece) -> None:
    for step, after in pairwise(steps):
        values = _child(values, step, [] if isinstance(after, int) else {})
        if values is None:
            return
    last = steps[-1]
    if piece.string_value is not None:
        text = _child(values, last, "")
        if not isinstance(text, _Text):
            text = _Text("")
            _set(values, last, text)
        text.pieces.append(piece.string_value)
    elif piece.bool_value is not None:
        _set(values, last, piece.bool_value)
    elif piece.number_value is not None:
        number = piece.number_value
        _set(values, last, int(number) if number == int(number) else number)
    elif piece.null_value is not None:
        _set(values, last, None)


def _child(values: Any, step: str | int, empty: Any) -> Any:
    """Return the value at this step, created if it is missing; None if `values` cannot have such a step."""
    if isinstance(values, dict) and isinstance(step, str):
        return values.setdefault(step, empty)
    if isinstance(values, list) and isinstance(step, int) and step <= len(values) + LARGEST_GAP:
        values += [None] * (step + 1 - len(values))
        if values[step] is None:
            values[step] = empty
        return values[step]
    return None


def _set(values: Any, step: str | int, value: Any) -> None:
    if _child(values, step, value) is not None or (isinstance(values, dict) and isinstance(step, str)):
        values[step] = value
