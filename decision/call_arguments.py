"""The arguments of one tool call as they come: JSON in pieces, cut anywhere.

They are whole with the brace that closes an object with at least one member: only white space may follow. What comes
first may be a placeholder: `{}`, after which some servers send the arguments; it is held back and dropped then. What
comes after may be the same once more, which some servers send with the finish; it is dropped, too. Anything else that
comes after belongs to the arguments and makes them invalid, so that a call never runs on a part of what was sent.
Arguments that were encoded twice (a JSON string that holds the object) are unwrapped.

The same text comes to the same end however it was cut, and each character is looked at once.
"""

from __future__ import annotations

import json
import re
from typing import Literal

import msgspec

from .messages import FinishReason

COMPLETE_REASONS: frozenset[str | None] = frozenset({"stop", "tool_calls", "other", "pause"})
"""Finish reasons of responses that came to an end of their own: a call without arguments is then whole."""
JSON_WHITESPACE = " \t\n\r"
"""White space between the tokens of JSON (RFC 8259, section 2)."""
_MARKS = re.compile(r'["{}\[\]]')
_IN_STRING = re.compile(r'["\\]')


class ArgumentsBuffer:
    """Takes the pieces; tells what of them is to be shown, and whether they are whole."""

    __slots__ = (
        "_depth", "_empty", "_escaped", "_held", "_in_string", "_late", "_mode", "_parts", "_raw", "doubtful", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.whole = False
        """Whether they form an object with members that is closed."""
        self.doubtful = False
        """Whether more came in the piece that closed them: only the finish tells whether that was the same again."""
        self._mode: Literal["begins", "object", "string", "other"] = "begins"
        self._parts: list[str] = []
        """What is shown."""
        self._held = ""
        """What is not shown yet, as it may be a placeholder, or an object that was encoded twice."""
        self._empty = ""
        """The placeholder that came first."""
        self._raw = ""
        """The whole object as it came; where it was encoded twice, the string."""
        self._late: list[str] = []
        """What came after it."""
        self._depth = 0
        self._in_string = self._escaped = False

    @property
    def text(self) -> str:
        """All that is shown, and what came after it and belongs to it."""
        return self._shown() + self.trailing()

    def feed(self, piece: str) -> str:
        """Take a piece; gives what is to be shown now. What comes once they are whole is shown by `settle`."""
        if self.whole:
            self._late.append(piece)
            return ""
        if self._mode == "begins":
            return self._begin(piece)
        if self._mode == "other":
            return self._show(piece)
        end = self._end_in(piece)
        if end >= 0:
            return self._close(piece[:end], piece[end:])
        if not self._held:
            return self._show(piece)
        self._held += piece
        if self._mode == "string" or self._held.strip(JSON_WHITESPACE) == "{":
            return ""
        return self._show("")

    def add(self, piece: str) -> str:
        """Take a piece as it is: somebody else knows when they are whole."""
        self._mode = "other"
        return self._show(piece)

    def finish(self) -> str:
        """No more will come; gives what had been held back."""
        if self.whole:
            return self.settle()
        if self._mode == "begins" and self._empty:
            self._held = "" if self._parts else self._empty
        self._mode, self._empty = "other", ""
        return self._show("")

    def trailing(self) -> str:
        """What came once they were whole, unless it says nothing new."""
        late = "".join(self._late).strip(JSON_WHITESPACE)
        return "" if not late or _repeats(late, self._raw.strip(JSON_WHITESPACE)) else late

    def settle(self) -> str:
        """The same, now a part of what is shown."""
        late, self._late = self.trailing(), []
        return self._show(late) if late else ""

    def _shown(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def _show(self, piece: str) -> str:
        shown, self._held = self._held + piece, ""
        if shown:
            self._parts.append(shown)
        return shown

    def _begin(self, piece: str) -> str:
        rest = piece.lstrip(JSON_WHITESPACE)
        self._held += piece[: len(piece) - len(rest)]
        if not rest:
            return ""
        if rest[0] not in '{"':
            self._mode = "other"
            return self._show(rest)
        self._mode = "object" if rest[0] == "{" else "string"
        self._held = ""
        self._depth, self._in_string, self._escaped = 0, False, False
        end = self._end_in(rest)
        if end >= 0:
            return self._close(rest[:end], rest[end:])
        self._held += rest
        return "" if self._mode == "string" or rest.strip(JSON_WHITESPACE) == "{" else self._show("")

    def _close(self, piece: str, rest: str) -> str:
        """The outermost object or string ends with `piece`; `rest` follows it."""
        self._raw = self._shown() + self._held + piece
        text = self._raw if self._mode == "object" else _unwrapped(self._raw)
        count = count_members(text)
        if count == 0:
            self._mode, self._held, self._empty = "begins", "", self._empty or text
            return self._begin(rest)
        if count is None:
            self._mode = "other"
            return self._show(piece + rest)
        if self._mode == "string":
            self._held, piece = "", text
        self.whole = True
        if rest:
            self._late.append(rest)
            self.doubtful = bool(self.trailing())
        return self._show(piece)

    def _end_in(self, piece: str) -> int:
        """Where the outermost object or string ends in this piece; -1 if it goes on."""
        at = 0
        if self._escaped and piece:
            at, self._escaped = 1, False
        while True:
            found = (_IN_STRING if self._in_string else _MARKS).search(piece, at)
            if found is None:
                return -1
            at, mark = found.end(), found[0]
            if mark == "\\":
                if at == len(piece):
                    self._escaped = True
                    return -1
                at += 1
            elif mark == '"':
                self._in_string = not self._in_string
                if not self._in_string and self._depth == 0:
                    return at
            elif mark in "{[":
                self._depth += 1
            else:
                self._depth -= 1
                if self._depth <= 0:
                    return at


def count_members(arguments: str) -> int | None:
    """How many members the JSON object in `arguments` has; None if it is no whole JSON object."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return len(value) if isinstance(value, dict) else None


def is_truncated(arguments: str, finish: FinishReason | None) -> bool:
    """True if the response ended inside these arguments, whatever its finish reason says."""
    if arguments.strip() in ("", "{}"):
        return finish not in COMPLETE_REASONS  # the arguments may have been about to come
    try:
        msgspec.json.decode(arguments)
    except msgspec.DecodeError as error:
        why = str(error)
        return "truncated" in why or ("invalid number" in why and arguments[-1] in "-+.eE")  # cut inside a number
    except (RecursionError, ValueError):
        return False
    return False


def _unwrapped(text: str) -> str:
    """What a JSON string holds; nothing if it is none."""
    try:
        value = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, ValueError):
        return ""
    return value


def _repeats(late: str, raw: str) -> bool:
    """Whether this is the same JSON value as `raw`, once or several times."""
    while late.startswith(raw):
        late = late[len(raw) :].lstrip(JSON_WHITESPACE)
    if not late:
        return True
    try:
        wanted, decoder = _canonical(json.loads(raw)), json.JSONDecoder()
        while late:
            value, end = decoder.raw_decode(late)
            if _canonical(value) != wanted:
                return False
            late = late[end:].lstrip(JSON_WHITESPACE)
    except (ValueError, RecursionError):
        return False
    return True


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
