r"""Joins the halves of surrogate pairs that a server split between two events, and replaces what is no character.

A server that cuts its texts by UTF-16 code units ends one delta with `\ud83d` and begins the next with `\ude00`. Each
half is valid JSON, and neither has a form in UTF-8 (RFC 8259, section 8.2). So an event whose text ends in a first half
waits for the event that has the second. The pair then stands in the earlier one, and all readers see whole characters
only, whatever the wire format. A half that stays alone becomes U+FFFD, as do bytes that are not UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from ..decision.call_arguments import has_lone_half, with_whole_escapes

S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode
BACKSLASH = ord("\\")
"""As a number: bytes are searched for it in a fraction of the time that they are searched for a text."""
_HALF = re.compile("[\\ud800-\\udfff]")
_FIRST_AT_END = re.compile("[\\ud800-\\udbff]\\Z")
_SECOND = re.compile("[\\udc00-\\udfff]")
_find_candidate = re.compile(rb"\\u[dD][89a-fA-F]").search
MOST_HELD = 64
"""Events that wait for a second half at most: then the first one counts as alone."""
_GROWING = ("delta", "added", "start")
"""How the types of events end whose texts may go on in a later event, in formats whose events have types."""
_Place = tuple[str | int, ...]
"""Where a text stands in an event: the event's type, the names of the members that lead to it, and the indexes beside
them."""
_AT_THE_TOP = 2
"""Names in the place of a text that is itself a member of the event."""
_Text = tuple[_Place, Any, Any]
"""A text of an event: its place, and the object or list that holds it, with its name or position there."""


def whole_characters(text: str) -> str:
    """Return a text that has a form in UTF-8: pairs are joined, and each half that stands alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _HALF.search(text) else text


def ends_in_half(text: str) -> bool:
    """Whether a text ends in the first half of a surrogate pair, so that a later one may have the second."""
    return _FIRST_AT_END.search(text, len(text) - 1) is not None


def with_whole_characters(value: S) -> S:
    """Return an event or a tool's description in which each half of a surrogate pair in a text is U+FFFD.

    Names of files (`os.listdir`), texts cut by UTF-16 code units, and JSON from elsewhere may hold such halves, which
    neither a request nor a record can.
    """
    try:
        _encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(value)), type(value))
    except (TypeError, ValueError):
        pass  # it holds what JSON cannot express, of which a record keeps the `repr`
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return [*map(_whole, value)] if isinstance(value, list | tuple) else value


def is_encodable(data: bytes) -> bool:
    """Whether JSON text is UTF-8, and no escape in it is half a surrogate pair."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return _find_candidate(data) is None or not has_lone_half(text)


def encodable(data: bytes) -> bytes:
    """Return JSON text with U+FFFD for what is not UTF-8, and for each escape of half a surrogate pair.

    Without such, the data itself is returned.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return with_whole_escapes(data.decode("utf-8", "replace")).encode()
    if _find_candidate(data) is None or (mended := with_whole_escapes(text)) == text:
        return data
    return mended.encode()


def _encoded(event: dict[str, Any]) -> bytes:
    """A decoded event as JSON, with whole characters."""
    return whole_characters(json.dumps(event, ensure_ascii=False)).encode()


class PairJoiner:
    """Joins the pairs in the decoded events of one stream. Feed it the events in their order."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        """The events that wait for the next one."""
        self._open: dict[_Place, tuple[Any, Any]] = {}
        """The texts that end in a first half, by their places: what holds each, and its name there."""

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that no later one can change, in their order.

        An event waits for as long as only the same member of other items grows (calls that come in turns), or nothing
        comes but signs of life, and for at most `MOST_HELD` events.
        """
        earlier = dict(self._open)
        grows, awaited = _grows(event), {_names(place) for place in earlier}
        goes_on, is_idle = False, not (grows and isinstance(event.get("type"), str))
        for place, holder, name in list(_texts(event, (str(event.get("type")),))):
            text: str = holder[name]
            names = _names(place)
            goes_on = goes_on or names in awaited
            is_idle = is_idle and (not text or len(names) <= _AT_THE_TOP)
            if text and self._open:
                text = holder[name] = self._without_second_half(place, text)
            if grows and _FIRST_AT_END.search(text):
                self._open[place] = holder, name
        if not (goes_on or is_idle):
            for place, held in earlier.items():
                if self._open.get(place) is held:
                    del self._open[place]
        self.held.append(event)
        return [] if self._open and len(self.held) < MOST_HELD else self.end()

    def end(self) -> list[dict[str, Any]]:
        """Return the events that have waited: nothing more comes for them."""
        held = self.held[:]
        self.held.clear()
        self._open.clear()
        return held

    def _without_second_half(self, place: _Place, text: str) -> str:
        """Move a second half at the beginning of a text to the first half that waits for it. Returns the rest."""
        begins = _SECOND.match(text) is not None
        if place not in self._open:
            if not begins:
                return text
            place = next(iter(self._open))
        holder, name = self._open.pop(place)
        if not begins:
            return text
        holder[name] += text[0]
        return text[1:]


class EncodableEvents:
    """Makes the data of the events of one stream encodable: see `PairJoiner`. Feed it the events in their order."""

    def __init__(self) -> None:
        self._pairs = PairJoiner()
        self.held = self._pairs.held
        """The events that wait for the next one."""

    def feed(self, events: list[bytes]) -> list[bytes]:
        """Return the data of the events that can be read now."""
        if not self.held:
            try:
                for data in events:  # nearly all can be read as they are: no call of a function for these
                    data.decode()
                    at = data.find(BACKSLASH)
                    if at >= 0 and _find_candidate(data, at) is not None and not is_encodable(data):
                        break
                else:
                    return events
            except UnicodeDecodeError:
                pass
        return [ready for data in events for ready in self._next(data)]

    def end(self) -> list[bytes]:
        """Return the data of the events that have waited."""
        return [*map(_encoded, self._pairs.end())]

    def _next(self, data: bytes) -> list[bytes]:
        if not self.held and is_encodable(data):
            return [data]
        try:
            event = json.loads(data.decode("utf-8", "replace")) if type(data) is bytes else None
            if isinstance(event, dict) and (self.held or _grows(event)):
                return [*map(_encoded, self._pairs.feed(event))]
        except (ValueError, RecursionError):
            pass
        return [*self.end(), type(data)(encodable(data))]


def _grows(event: dict[str, Any]) -> bool:
    """Whether the texts of an event may go on in a later one: it is a delta, and ends no response."""
    kind = event.get("type")
    if isinstance(kind, str):
        return kind.endswith(_GROWING)
    parts = event.get("choices") or event.get("candidates")
    ends = ("finish_reason", "finishReason")
    return isinstance(parts, list) and not any(
        isinstance(part, dict) and any(part.get(end) for end in ends) for part in parts
    )


def _texts(value: Any, place: _Place) -> Iterator[_Text]:
    """Yield the texts of a decoded event. An item of a list is known by its `index`, or else by its position."""
    if isinstance(value, dict):
        place += tuple(part for name, part in value.items() if name.endswith("index") and type(part) is int)
        members: list[tuple[Any, Any, _Place]] = [(name, part, (*place, name)) for name, part in value.items()]
    elif isinstance(value, list):
        numbered = enumerate(value)
        members = [
            (at, part, place if isinstance(part, dict) and "index" in part else (*place, at)) for at, part in numbered
        ]
    else:
        return
    for name, part, where in members:
        if isinstance(part, str):
            yield where, value, name
        else:
            yield from _texts(part, where)


def _names(place: _Place) -> _Place:
    return tuple(part for part in place if isinstance(part, str))
