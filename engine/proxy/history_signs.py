"""Signs by which a response is found again in the history that an agent sends.

Agents rewrite their histories: they shorten results, strip thoughts, add marks and notes, encode arguments anew, merge
messages, or put a summary in the place of all of them. What a response is known by survives that: the ids of its calls,
their names and arguments, and its text. An id that no other conversation can have is enough by itself. All else counts
only together with the conversation's beginning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage, ToolCall, UserMessage
from ..formats.imported_session import ImportedMessage
from .wire import WireRequest, first_response, read_messages

Run = TypeVar("Run")
LONG_LINE = 60
"""Minimum length of a line that tells a text from all others."""
SUMMARY_LINES = 8
"""Maximum number of lines by which a text is found again in a conversation that begins with it anew."""
_COUNTED = re.compile(r"[^0-9]*[0-9]{0,4}|[0-9.+]+")
"""Ids that a server counts up in each conversation, such as `call_1` and `functions.bash:0`."""
_OURS = re.compile(r"|[0-9]+\.[0-9]+\+*")
"""Ids that a reader gives to calls which have none."""
_SHORTEST_ID = 8


class KnownResponse(Struct, Generic[Run], eq=False):
    """A response of a run, or its beginning, before any response."""

    run: Run
    signs: list[bytes] = []
    id: str = ""
    """Its id at the provider."""
    call_ids: frozenset[str] = frozenset()
    """The ids of its calls."""
    marks: Sequence[bytes] = ()
    """Those of its signs by which it is told from others."""
    told: set[int] = msgspec.field(default_factory=set)
    """Hashes of the messages behind it that were reported to the follower."""

    def take_new(self, messages: Iterable[ImportedMessage]) -> list[ImportedMessage]:
        """Return the messages behind the response that were not reported, and note that they are."""
        new = []
        times: dict[int, int] = {}
        for one in messages:
            key = hash(_content(one))
            times[key] = times.get(key, 0) + 1
            key = hash((key, times[key]))
            if key not in self.told:
                self.told.add(key)
                new.append(one)
        return new


def _content(one: ImportedMessage) -> Any:
    """Return what makes a message the same again. The first result of a call is its only one."""
    message = one.message
    if isinstance(message, UserMessage):
        return message.text, len(message.images)
    if isinstance(message, AssistantMessage):
        return message.text, message.calls
    return getattr(message, "call_id", None)


class ResponseIndex(Generic[Run]):
    """The known responses, by their signs."""

    def __init__(self) -> None:
        self._by_sign: dict[bytes, list[KnownResponse[Run]]] = {}

    def add(self, response: KnownResponse[Run], signs: Iterable[bytes]) -> None:
        """Add signs of a response."""
        for sign in signs:
            if sign not in response.signs:
                response.signs.append(sign)
                self._by_sign.setdefault(sign, []).append(response)

    def remove(self, response: KnownResponse[Run]) -> None:
        """Remove a response."""
        for sign in response.signs:
            others = self._by_sign.get(sign, [])
            if response in others:
                others.remove(response)
            if not others:
                self._by_sign.pop(sign, None)

    def all(self, sign: bytes) -> Sequence[KnownResponse[Run]]:
        """Return the responses with a sign, oldest first."""
        return self._by_sign.get(sign, ())

    def like(self, said: AssistantMessage, key: bytes) -> list[tuple[float, KnownResponse[Run]]]:
        """Return the known responses that may be what the model says in a history, each with how much of it is there.

        key: of the conversation.
        """
        ids = {call.id for call in said.calls if is_unique(call.id)}
        signs = dict.fromkeys(marks_of(said, key, _lines(said.text)))
        found: dict[int, tuple[float, KnownResponse[Run]]] = {}
        for sign in signs:
            for response in reversed(self.all(sign)):
                known = {id for id in response.call_ids if is_unique(id)}
                if not (ids and known) or ids & known:  # otherwise their ids tell that they are not the same
                    share = sum(mark in signs for mark in response.marks) / max(1, len(response.marks))
                    found.setdefault(id(response), (share, response))
        return list(found.values())


def is_unique(id: str) -> bool:
    """Return whether no other conversation has a call with this id, as far as its form tells."""
    return len(id) >= _SHORTEST_ID and not _COUNTED.fullmatch(id)


def signs_of(said: AssistantMessage, key: bytes) -> list[bytes]:
    """Return all signs of a response of the model, in a conversation with this key."""
    longest = sorted(_lines(said.text), key=len)[-1:]
    return [*marks_of(said, key), *_text_signs(said.text, longest, key)]


def marks_of(said: AssistantMessage, key: bytes, lines: Iterable[str] = ()) -> list[bytes]:
    """Return the signs by which a response is told from others: those of its calls, or those of its text without any.

    lines: of the text that may be all that is left of it.
    """
    if not said.calls:
        return list(_text_signs(said.text, lines, key))
    marks = []
    for call in said.calls:
        if is_unique(call.id):
            marks.append(_sign(b"", "id", call.id))
        elif not _OURS.fullmatch(call.id):
            marks.append(_sign(key, "id", call.id, call.name))
        marks.append(_sign(key, "call", call.name, _arguments(call)))
    return marks


def _text_signs(text: str, lines: Iterable[str], key: bytes) -> Iterator[bytes]:
    if text.strip():
        yield _sign(key, "text", " ".join(text.split()))
    for line in lines:
        yield _sign(key, "line", line)


def summary_signs(text: str) -> list[bytes]:
    """Return the signs by which a text is found again in a conversation that begins with it anew."""
    lines = sorted(set(long_lines(text)), key=len)[-SUMMARY_LINES:]
    return [summary_sign(line) for line in lines]


def summary_sign(line: str) -> bytes:
    """Return the sign of a line of a text that a conversation begins with anew."""
    return _sign(b"", "summary", line)


def response_sign(id: str) -> bytes:
    """Return the sign of a response, or a conversation, that is stored at the provider under this id."""
    return _sign(b"", "stored", id)


class Beginning(Struct, frozen=True):
    """What a conversation begins with, before any response."""

    key: bytes
    """The session in the request's header, or what the user said."""
    signs: Sequence[bytes]
    """Signs of the agent's tools and of what the user said: of all messages, of all but the last, and so on."""


def beginning_of(request: WireRequest, session: str) -> Beginning:
    """Return the beginning of a request's conversation. session: the id in its header."""
    before = request.items[: first_response(request.items)]
    said = [one for one in read_messages(before) if isinstance(one.message, UserMessage)]
    prompts = [one for one in said if one.origin == "user"] or said
    agent = _sign(b"", "agent", session, *sorted(tool.name for tool in request.tools))
    signs = [agent]
    for one in said:
        signs.append(_sign(signs[-1], "said", _text_of(one)))
    key = _sign(b"", "session", session) if session else _sign(b"", "prompt", *map(_text_of, prompts))
    return Beginning(key, signs[:0:-1] or signs)


def long_lines(text: str) -> list[str]:
    """Return the lines of a text that tell it from others."""
    return [line for line in _lines(text) if len(line) >= LONG_LINE]


def _lines(text: str) -> list[str]:
    return [stripped for line in text.splitlines() if (stripped := line.strip())]


def _text_of(one: ImportedMessage) -> str:
    return one.message.text if isinstance(one.message, UserMessage) else ""


def _arguments(call: ToolCall) -> str:
    """Return the arguments in a form that does not depend on how they are written."""
    try:
        return msgspec.json.encode(msgspec.json.decode(call.arguments), order="sorted").decode()
    except (msgspec.DecodeError, RecursionError, ValueError):
        return call.arguments.strip()


def _sign(key: bytes, *parts: str) -> bytes:
    encoded = "\0".join(parts).encode("utf-8", "surrogatepass")
    return blake2b(encoded, key=key, digest_size=12).digest()
