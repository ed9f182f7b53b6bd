"""Assembler of streamed chat completions. Source: OpenAI API reference, "The chat completion chunk object".

Servers add their own fields to those that OpenAI describes. Unknown fields are joined by their form: texts and lists
grow, objects are joined field by field, everything else is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..decision.assembler import GrowingText
from ..formats.parsing import as_dict, as_list, as_text
from .wire import ResponseAssembler

_OF_THE_STREAM = frozenset({"choices", "object", "obfuscation", "usage"})
"""Fields of a chunk that the response lacks or has in another form."""
_CONSTANT = frozenset({"format", "index", "role", "type"})
"""Texts that arrive whole, though perhaps more than once."""


class ChatAssembler(ResponseAssembler):
    """Assembler of the chunks of the first choice into a completion."""

    def __init__(self) -> None:
        super().__init__()
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": None}
        self._index: Any = None
        """The choice that arrived first; others are not expected, because only one was requested."""
        self._content: Any = None
        self._message: dict[str, Any] = {}
        """Message without its content and its calls."""
        self._calls: list[dict[str, Any]] = []
        self._at: dict[int, dict[str, Any]] = {}
        """Latest call of each index."""

    def is_error(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event reports that the response has failed."""
        return bool(event.get("error")) or (not event.get("choices") and event.get("object") == "error")

    def read_end(self) -> None:
        """Accept the stream's last mark as its end, because some servers give no finish reason."""
        self.complete = self.complete or bool(self._head)

    def add(self, event: dict[str, Any]) -> None:
        """Add a chunk. Raises ValueError for anything else."""
        choices = event.get("choices")
        if choices is None and "usage" not in event and not self._head:
            raise ValueError("the stream is not in the chat completions format")
        for name, value in event.items():
            if name not in _OF_THE_STREAM:
                before = self._head.get(name)
                if isinstance(before, dict) and isinstance(value, dict):
                    before.update(value)
                else:
                    self._head[name] = value or before
        self._usage = event.get("usage") or self._usage
        for choice in map(as_dict, as_list(choices)):
            if self._index is None:
                self._index = choice.get("index")
            if choice.get("index") in (None, self._index):
                self._add_choice(choice)

    def _add_choice(self, choice: dict[str, Any]) -> None:
        delta = as_dict(choice.get("delta") or choice.get("message"))
        for name, value in choice.items():
            if name == "finish_reason":
                self._choice[name] = value or self._choice[name]
            elif name not in ("delta", "message", "index"):
                self._choice[name] = _joined(self._choice.get(name), value)
        self.complete = self.complete or bool(self._choice["finish_reason"])
        for name, value in delta.items():
            if name == "content":
                self._content = _joined_content(self._content, value)
            elif name == "tool_calls":
                for position, call in enumerate(map(as_dict, as_list(value))):
                    self._add_call(position, call)
            elif name != "index":
                self._message[name] = _joined(self._message.get(name), value)

    def _add_call(self, position: int, piece: dict[str, Any]) -> None:
        """Add a piece of a call. With a known index, a new id, or a name after arguments, begins a new call.

        Some servers number all calls alike. See also `decision.assembler`.
        """
        given = piece.get("index")
        index = given if isinstance(given, int) else position
        call = self._at.get(index)
        id, name = as_text(piece.get("id")), as_text(_function_of(piece).get("name"))
        if call is None or (name and _is_another(call, id, name, numbered=given is not None)):
            call = self._at[index] = {}
            self._calls.append(call)
        for field, value in piece.items():
            if field != "index":
                call[field] = _joined(call.get(field), value, field=field)

    def build(self) -> dict[str, Any]:
        """Return the completion."""
        extra = as_dict(self._head.get("x_groq"))
        usage = self._usage or extra.pop("usage", None)
        extra.pop("usage", None)
        message = {"role": "assistant", "content": self._content, **self._message}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {**self._choice, "index": 0, "message": message}
        choice["finish_reason"] = choice["finish_reason"] or ("tool_calls" if self._calls else "stop")
        whole: dict[str, Any] = _whole({**self._head, "object": "chat.completion", "choices": [choice]})
        return whole if usage is None else {**whole, "usage": usage}


def _function_of(call: Mapping[str, Any]) -> dict[str, Any]:
    return as_dict(call.get("function") or call.get("custom"))


def _is_another(call: Mapping[str, Any], id: str, name: str, *, numbered: bool) -> bool:
    """Return whether a piece with this id and name begins another call. numbered: whether it has an index."""
    function = _function_of(call)
    begun = function.get("arguments") or function.get("input") or not (numbered or id or call.get("id"))
    known = call["id"] if isinstance(call.get("id"), GrowingText) else as_text(call.get("id"))
    return bool(id and known and known != id) or bool(begun and function.get("name") != name)


class _Text:
    """A growing text, kept in pieces: joining it at each chunk would copy a long text again and again."""

    __slots__ = ("_pieces", "add")

    def __init__(self, text: str) -> None:
        self._pieces = [text]
        self.add = self._pieces.append

    def __str__(self) -> str:
        return "".join(self._pieces)


class _Items:
    """A growing list. An item continues the latest one of its index and type, or of its index if it has no type."""

    __slots__ = ("_latest", "items")

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self._latest: dict[tuple[Any, str], int] = {}
        """Position of the latest item of each index and type, and of each index with an empty type."""
        for place, item in enumerate(items):
            self._note(place, as_dict(item))

    def _note(self, place: int, fields: dict[str, Any]) -> None:
        if isinstance(index := fields.get("index"), int | str):
            self._latest[index, ""] = self._latest[index, as_text(fields.get("type"))] = place

    def add(self, item: Any) -> None:
        """Join an item to the one that it continues, or append it."""
        fields = as_dict(item)
        index = fields.get("index")
        place = self._latest.get((index, as_text(fields.get("type")))) if isinstance(index, int | str) else None
        if place is None:
            self._note(len(self.items), fields)
            self.items.append(item)
        else:
            self.items[place] = _joined(self.items[place], item)


def _whole(value: Any) -> Any:
    """Return a value with its texts joined."""
    if isinstance(value, GrowingText | _Text):
        return str(value)
    if isinstance(value, _Items):
        value = value.items
    if isinstance(value, dict):
        return {name: _whole(inside) for name, inside in value.items()}
    return [_whole(inside) for inside in value] if isinstance(value, list) else value


def _joined(before: Any, more: Any, *, field: str = "") -> Any:
    """Return a value joined with another chunk's addition, which may change the value. field: name of its field."""
    if before is None or more is None:
        return more if before is None else before
    if isinstance(before, str) and isinstance(more, str):
        if field in _CONSTANT:
            return before or more
        before = GrowingText(before) if field in ("id", "name") else _Text(before)
    if isinstance(before, GrowingText | _Text) and isinstance(more, str):
        before.add(more)
        return before
    if isinstance(before, dict) and isinstance(more, dict):
        for name, value in more.items():
            before[name] = _joined(before.get(name), value, field=name)
        return before
    if isinstance(before, list | _Items) and isinstance(more, list):
        grown_list = before if isinstance(before, _Items) else _Items(before)
        for item in more:
            grown_list.add(item)
        return grown_list
    return more


def _joined_content(before: Any, more: Any) -> Any:
    """Return growing content: a text, or a list of parts, the form in which Mistral sends thoughts and text."""
    if before is None or more is None or (isinstance(before, str | _Text) and isinstance(more, str)):
        return _joined(before, more)
    parts = _parts(before)
    for part in _parts(more):
        if parts and as_dict(parts[-1]).get("type") == as_dict(part).get("type"):
            parts[-1] = _joined_part(parts[-1], part)
        else:
            parts.append(part)
    return parts


def _parts(content: Any) -> list[Any]:
    if isinstance(content, str | _Text):
        return [{"type": "text", "text": content}] if content else []
    return as_list(content)


def _joined_part(before: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    inner = before.get("thinking"), more.get("thinking")
    if isinstance(inner[0], list) and isinstance(inner[1], list):
        before.update(more, thinking=_joined_content(*inner))
        return before
    joined: dict[str, Any] = _joined(before, more)
    return joined
