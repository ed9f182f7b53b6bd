r"""Joins surrogate pairs that a server split between two events, and replaces invalid characters.

A server that cuts its texts by UTF-16 code units ends one delta with `\ud83d` and begins the next with `\ude00`. Each
half is valid JSON, but neither can be encoded in UTF-8 (RFC 8259, section 8.2). So an event whose text ends in a first
half waits for the event with the second. The pair is then placed in the earlier event, and all readers see only whole
characters, whatever the wire format. A half that stays alone becomes U+FFFD, like bytes that are not UTF-8.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from ..decision.call_arguments import has_lone_half, with_whole_escapes
from ..decision.deferred_patterns import deferred

S = TypeVar("S", bound=msgspec.Struct)
_encode = msgspec.json.Encoder().encode
BACKSLASH = ord("\\")
"""A number, because searching bytes for one takes a fraction of the time of searching for a text."""
_HALF = deferred("[\\ud800-\\udfff]")
_FIRST_AT_END = deferred("[\\ud800-\\udbff]\\Z")
_SECOND = deferred("[\\udc00-\\udfff]")
_find_candidate = re.compile(rb"\\u[dD][89a-fA-F]").search
MOST_HELD = 64
"""Maximum number of events that wait for a second half; after that, the first half counts as alone."""
_GROWING = ("delta", "added", "start")
"""Endings of the types of events whose texts may continue in a later event, in formats whose events have types."""
_Place = tuple[str | int, ...]
"""Place of a text in an event: the event's type, the names of the members that lead to it, and the indexes next to
them."""
_AT_THE_TOP = 2
"""Number of names in the place of a text that is itself a member of the event."""
_Text = tuple[_Place, Any, Any]
"""A text of an event: its place, the object or list that holds it, and its name or position there."""


def whole_characters(text: str) -> str:
    """Return a text that can be encoded in UTF-8: pairs are joined, and each half that stays alone becomes U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _HALF.search(text) else text


def ends_in_half(text: str) -> bool:
    """Return whether a text ends in the first half of a surrogate pair, so that a later text may have the second."""
    return _FIRST_AT_END.search(text, len(text) - 1) is not None


def with_whole_characters(value: S) -> S:
    """Return an event or a tool's description with U+FFFD for each half of a surrogate pair in its texts.

    Names of files (`os.listdir`), texts cut by UTF-16 code units, and JSON from elsewhere may hold such halves, which
    neither a request nor a record can.
    """
    try:
        _encode(value)
    except UnicodeEncodeError:
        return msgspec.convert(_whole(msgspec.to_builtins(value)), type(value))
    except (TypeError, ValueError):
        pass  # it holds a value that JSON cannot express; a record keeps its `repr`
    return value


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return whole_characters(value)
    if isinstance(value, dict):
        return {_whole(name): _whole(part) for name, part in value.items()}
    return [*map(_whole, value)] if isinstance(value, list | tuple) else value


def is_encodable(data: bytes) -> bool:
    """Return whether JSON text is UTF-8, and no escape in it is half a surrogate pair."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    return _find_candidate(data) is None or not has_lone_half(text)


def encodable(data: bytes) -> bytes:
    """Return JSON text with U+FFFD for bytes that are not UTF-8 and for each escape of half a surrogate pair.

    If there are none, the same object is returned.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return with_whole_escapes(data.decode("utf-8", "replace")).encode()
    if _find_candidate(data) is None or (whole := with_whole_escapes(text)) == text:
        return data
    return whole.encode()


def _encoded(event: dict[str, Any]) -> bytes:
    """A decoded event as JSON, with whole characters."""
    return whole_characters(json.dumps(event, ensure_ascii=False)).encode()


class PairJoiner:
    """Joins the pairs in the decoded events of one stream. Pass it the events in order."""

    def __init__(self) -> None:
        self.held: list[Any] = []
        """The events that wait for the next one."""
        self._open: dict[_Place, tuple[Any, Any]] = {}
        """The texts that end in a first half, by their places: what holds each, and its name there."""

    def feed(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the events that no later one can change, in order.

        An event waits while only the same member of other items grows (calls that arrive in turns) or only keep-alives
        arrive, and for at most `MOST_HELD` events.
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
        """Return the waiting events when no more arrive."""
        held = self.held[:]
        self.held.clear()
        self._open.clear()
        return held

    def _without_second_half(self, place: _Place, text: str) -> str:
        """Move a second half at the beginning of a text to the first half that waits for it, and return the rest."""
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
    """Makes the data of one stream's events encodable; see `PairJoiner`. Pass it the events in order."""

    def __init__(self) -> None:
        self._pairs = PairJoiner()
        self.held = self._pairs.held
        """The events that wait for the next one."""

    def feed(self, events: list[bytes]) -> list[bytes]:
        """Return the data of the events that can be read now."""
        if not self.held:
            try:
                for data in events:  # fast path without a function call: nearly all events can be read as they are
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
        """Return the data of the waiting events."""
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
    """Return whether the texts of an event may continue in a later one: it is a delta, and does not end a response."""
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
