"""Incremental parser for the arguments of one tool call: JSON in fragments, cut anywhere.

Arguments are complete with the brace that closes an object with at least one member; only white space may follow.

- Some servers send the placeholder `{}` before the arguments. It is held back, and dropped once the arguments follow.
- Some servers send the whole arguments a second time, with the finish reason. The repetition is dropped.
- Any other text after the closing brace is part of the arguments and makes them invalid, so a call never runs on a part
  of what was sent.
- Half of a surrogate pair in an escape becomes U+FFFD once the arguments are complete, because no value can hold it.
- Arguments that were encoded twice (a JSON string that holds the object) are unwrapped.

The result does not depend on how the text was cut, and each character is scanned once.
"""

from __future__ import annotations

import json
import re
from typing import Literal

import msgspec

from .deferred_patterns import deferred
from .messages import FinishReason

COMPLETE_REASONS: frozenset[str | None] = frozenset({"stop", "tool_calls", "other", "pause"})
"""Finish reasons of responses that were not cut off, in which a call without arguments is complete."""
JSON_WHITESPACE = " \t\n\r"
"""White space between the tokens of JSON (RFC 8259, section 2)."""
_NO_WHITESPACE = deferred(rf"[^{JSON_WHITESPACE}]")
_MARKS = deferred(r'["{}\[\]]')
_IN_STRING = deferred(r'["\\]')
_FIRST, _SECOND = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_ESCAPES = deferred(rf"(?:(?!{_FIRST}|{_SECOND})\\.[^\\]*+)++|((?:{_FIRST}|{_SECOND})++)", re.DOTALL)
"""JSON escapes that are not halves of surrogate pairs, with the text between them; or, as a group, a run of such
halves."""
_ALONE = deferred(rf"{_FIRST}(?!{_SECOND})|(?<!{_FIRST}){_SECOND}")
"""A half without its other half, in a run of halves."""


class ArgumentsBuffer:
    """Collects the fragments of a call's arguments, returns what to emit, and detects when they are complete."""

    __slots__ = (
        "_depth", "_empty", "_escaped", "_held", "_in_string", "_late", "_mode", "_parts", "_raw", "doubtful", "whole",
    )  # fmt: skip

    def __init__(self) -> None:
        self.whole = False
        """Whether the arguments are a closed object with members."""
        self.doubtful = False
        """Whether the fragment with the closing brace held further text that does not (yet) repeat the arguments. The
        call is then not reported as complete before the response ends, because the text may still become a repetition.
        """
        self._mode: Literal["begins", "object", "string", "other"] = "begins"
        self._parts: list[str] = []
        """Emitted text."""
        self._held: list[str] = []
        """Text not emitted yet, because it may be a placeholder or an object that was encoded twice."""
        self._empty = ""
        """The placeholder, if one came first."""
        self._raw = ""
        """The complete object as it arrived; the JSON string if it was encoded twice."""
        self._late: list[str] = []
        """Fragments after the closing brace."""
        self._depth = 0
        self._in_string = self._escaped = False

    @property
    def text(self) -> str:
        """The arguments: everything emitted, and the trailing text that belongs to it."""
        return self._shown() + self.trailing() if self._late else self._shown()

    def feed(self, piece: str) -> str:
        """Add a fragment and return what to emit now. `settle` emits what arrives once the arguments are complete."""
        if self.whole:
            self._late.append(piece)
            return ""
        if self._mode == "begins":
            return self._begin(piece)
        if self._mode == "other":
            return self._show(piece)
        end = self._end_in(piece)
        if end >= 0:
            if self._is_placeholder(piece[:end]):
                return self._begin(piece, end)
            return self._close(piece[:end], piece[end:])
        if not self._held:
            return self._show(piece)
        if self._mode == "string" or not piece.strip(JSON_WHITESPACE):
            self._held.append(piece)
            return ""
        return self._show(piece)

    def add(self, piece: str) -> str:
        """Add a fragment without looking for the end of the arguments, which the chunk's `whole` reports."""
        self._mode = "other"
        return self._show(piece)

    def finish(self) -> str:
        """Return the text that was held back, to be emitted now. Call it when no more fragments come."""
        if self.whole:
            return self.settle()
        if self._mode == "begins" and self._empty:
            self._held = [] if self._parts else [self._empty]
        self._mode, self._empty = "other", ""
        return self._show("")

    def trailing(self) -> str:
        """Return the text after the complete arguments, unless it only repeats them."""
        late = "".join(self._late).strip(JSON_WHITESPACE)
        return "" if not late or _repeats(late, self._raw.strip(JSON_WHITESPACE)) else late

    def settle(self) -> str:
        """Return the trailing text, to be emitted now, and add it to the emitted text."""
        late, self._late = self.trailing(), []
        return self._show(late) if late else ""

    def _shown(self) -> str:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
        return self._parts[0] if self._parts else ""

    def _show(self, piece: str) -> str:
        shown = piece
        if self._held:
            shown, self._held = "".join((*self._held, piece)), []
        if shown:
            self._parts.append(shown)
        return shown

    def _begin(self, piece: str, at: int = 0) -> str:
        """Handle a fragment from `at` on, when the arguments have not begun or follow a placeholder."""
        while True:
            begins = _skip_whitespace(piece, at)
            if begins > at:
                self._held.append(piece[at:begins])
            if begins == len(piece):
                return ""
            if piece[begins] not in '{"':
                self._mode = "other"
                return self._show(piece[begins:])
            self._mode = "object" if piece[begins] == "{" else "string"
            self._held = []
            self._depth, self._in_string, self._escaped = 0, False, False
            at = self._end_in(piece, begins)
            if at < 0:
                rest = piece[begins:]
                if self._mode == "object" and rest.strip(JSON_WHITESPACE) != "{":
                    return self._show(rest)
                self._held.append(rest)
                return ""
            if not self._is_placeholder(piece[begins:at]):
                return self._close(piece[begins:at], piece[at:])

    def _is_placeholder(self, piece: str) -> bool:
        """Return whether `piece` ends an object without members, which the real arguments then follow."""
        self._raw = "".join((self._shown(), *self._held, piece))
        text = self._raw if self._mode == "object" else _unwrapped(self._raw)
        if count_members(text) != 0:
            return False
        self._mode, self._held, self._empty = "begins", [], self._empty or text
        return True

    def _close(self, piece: str, rest: str) -> str:
        """Handle the end of the outermost object or string, which is the end of `piece`, and return what to emit.

        rest: the text after it in the same fragment.
        """
        whole = with_whole_escapes(self._raw)
        text = whole if self._mode == "object" else with_whole_escapes(_unwrapped(whole))
        if count_members(text) is None:
            self._mode = "other"
            return self._show(piece + rest)
        if self._mode == "string":
            self._held, piece = [], text
        self.whole = True
        if rest:
            self._late.append(rest)
            self.doubtful = bool(self.trailing())
        if self._mode == "object" and whole != self._raw:
            return self._show_mended(whole, piece)
        return self._show(piece)

    def _show_mended(self, whole: str, piece: str) -> str:
        """Handle the last piece of arguments, `whole` after corrected escapes. What was emitted does not change."""
        before = self._shown()
        shown = whole[len(before) :] if whole.startswith(before) else "".join((*self._held, piece))
        self._held, self._parts = [], [whole]
        return shown

    def _end_in(self, piece: str, at: int = 0) -> int:
        """Return the index at which the outermost object or string ends in this fragment; -1 if it does not end in it.

        at: index at which to begin.
        """
        if self._escaped and piece:
            at, self._escaped = at + 1, False
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


def has_lone_half(text: str) -> bool:
    """Return whether JSON text has an escape of half a surrogate pair without the other (RFC 8259, section 8.2)."""
    return any(found[1] and _ALONE.search(found[0]) for found in _ESCAPES.finditer(text))


def with_whole_escapes(text: str) -> str:
    """Return JSON text with U+FFFD for each escape of half a surrogate pair (RFC 8259, section 8.2)."""
    if "\\ud" not in text and "\\uD" not in text:
        return text
    return _ESCAPES.sub(lambda found: _ALONE.sub(r"\\ufffd", found[0]) if found[1] else found[0], text)


def count_members(arguments: str) -> int | None:
    """Return the number of members of the JSON object in `arguments`; None if it is not a complete JSON object."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError, ValueError):
        return None
    return len(value) if isinstance(value, dict) else None


def is_truncated(arguments: str, finish: FinishReason | None) -> bool:
    """Return whether the response ended inside these arguments, whatever its finish reason says."""
    if arguments.strip() in ("", "{}"):
        return finish not in COMPLETE_REASONS  # the arguments may not have arrived yet
    try:
        msgspec.json.decode(arguments)
    except msgspec.DecodeError as error:
        why = str(error)
        return "truncated" in why or ("invalid number" in why and arguments[-1] in "-+.eE")  # cut inside a number
    except (RecursionError, ValueError):
        return False
    return False


def _unwrapped(text: str) -> str:
    """Return the text in a JSON string; empty if it is not a JSON string."""
    try:
        value = msgspec.json.decode(text, type=str)
    except (msgspec.DecodeError, ValueError):
        return ""
    return value


def _repeats(late: str, raw: str) -> bool:
    """Return whether `late` is the same JSON value as `raw`, once or several times."""
    at = 0
    while late.startswith(raw, at):
        at = _skip_whitespace(late, at + len(raw))
    if at == len(late):
        return True
    try:
        wanted, decoder = _canonical(json.loads(raw)), json.JSONDecoder()
        while at < len(late):
            value, end = decoder.raw_decode(late, at)
            if _canonical(value) != wanted:
                return False
            at = _skip_whitespace(late, end)
    except (ValueError, RecursionError):
        return False
    return True


def _skip_whitespace(text: str, at: int) -> int:
    """Return the index of the first character from `at` on that is not white space, or the length of the text."""
    found = _NO_WHITESPACE.search(text, at)
    return found.start() if found else len(text)


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True)
