"""OpenAI's response items as messages: what a response holds stands in a list, each call and each thought by itself.

Items that follow each other and are the model's are one response, until a result or another voice comes between.
Source: OpenAI API reference, "Responses" (input items, output items).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .imported_session import Foreign
from .parsing import first_word, listed, mapping, word

CALLS = frozenset({"function_call", "custom_tool_call"})
RESULTS = frozenset({"function_call_output", "custom_tool_call_output"})
ITEMS = CALLS | RESULTS | {"reasoning"}
"""Items that are no message, and are read."""
_READ = frozenset(
    {"type", "id", "call_id", "name", "arguments", "input", "output", "status", "summary", "content",
     "encrypted_content", "role"}
)  # fmt: skip


def is_item(data: Any) -> bool:
    """Whether this is an item that is no message."""
    kind = word(mapping(data).get("type"))
    return "role" not in mapping(data) and (kind in ITEMS or kind.endswith(("_call", "_call_output")))


def joined(messages: list[Any], foreign: Foreign) -> list[Any]:
    """The messages, with the items among them as messages; as they are where there are none."""
    if not any(is_item(message) for message in messages):
        return messages
    joining = _Joining(foreign)
    for message in messages:
        joining.take(message)
    return joining.done()


class _Joining:
    def __init__(self, foreign: Foreign) -> None:
        self._foreign = foreign
        self._messages: list[Any] = []
        self._response: dict[str, Any] | None = None

    def take(self, entry: Any) -> None:
        item = mapping(entry)
        kind = word(item.get("type"))
        if not is_item(entry):
            self._message(entry)
        elif kind == "reasoning":
            self._part("thinking_blocks", _reasoning(item))
            self._foreign.lose_fields("item field", item, _READ)
        elif kind in CALLS:
            arguments = (
                {"arguments": item.get("arguments")} if kind == "function_call" else {"input": item.get("input")}
            )
            id = first_word(item, "call_id", "id")
            self._part("tool_calls", {"id": id, "function": {"name": item.get("name"), **arguments}})
            self._foreign.lose_fields("item field", item, _READ)
        elif kind in RESULTS:
            self._close()
            id = first_word(item, "call_id", "id")
            self._messages.append({"role": "tool", "tool_call_id": id, "content": item.get("output")})
            self._foreign.lose_fields("item field", item, _READ)
        else:
            self._foreign.leave_out(f"item: {kind[:40]}", item)

    def done(self) -> list[Any]:
        self._close()
        return self._messages

    def _message(self, entry: Any) -> None:
        if mapping(entry).get("role") != "assistant":
            self._close()
            self._messages.append(entry)
            return
        begun = self._response
        if begun is None or "content" in begun or begun.get("tool_calls"):
            self._close()
            begun = {}
        self._response = {**entry, **begun}

    def _part(self, field: str, part: dict[str, Any]) -> None:
        response = self._response = self._response or {"role": "assistant"}
        response[field] = [*listed(response.get(field)), part]

    def _close(self) -> None:
        if self._response is not None:
            self._messages.append({**self._response, "role": "assistant"})
        self._response = None


def _reasoning(item: dict[str, Any]) -> dict[str, str]:
    parts: Iterable[Any] = [*listed(item.get("content")), *listed(item.get("summary"))]
    text = "\n".join(first_word(mapping(part), "text") for part in parts)
    hidden = word(item.get("encrypted_content"))
    if hidden and not text:
        return {"type": "redacted_thinking", "data": hidden}
    return {"type": "reasoning", "text": text, "signature": hidden}
