"""Items of OpenAI's Responses API, merged into messages.

That API lists every call and every reasoning block as a separate item. Consecutive items of the model form one
response, up to the next tool result or message in another role.
Source: OpenAI API reference, "Responses" (input items, output items).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .content_blocks import OPENAI
from .imported_session import ImportedSession
from .parsing import as_dict, as_list, as_text, first_text

CALL_ITEMS = frozenset({"function_call", "custom_tool_call"})
RESULT_ITEMS = frozenset({"function_call_output", "custom_tool_call_output"})
ITEM_TYPES = CALL_ITEMS | RESULT_ITEMS | {"reasoning"}
"""Types of the items that are read, other than messages."""
_ITEM_FIELDS = frozenset(
    {"type", "id", "call_id", "name", "arguments", "input", "output", "status", "summary", "content",
     "encrypted_content", "role"}
)  # fmt: skip


def is_item(data: Any) -> bool:
    """Return whether this is an item other than a message."""
    kind = as_text(as_dict(data).get("type"))
    return "role" not in as_dict(data) and (kind in ITEM_TYPES or kind.endswith(("_call", "_call_output")))


def merge_items(messages: list[Any], session: ImportedSession) -> list[Any]:
    """Return the messages, with all items merged into messages. Without items, return the list unchanged."""
    if not any(is_item(message) for message in messages):
        return messages
    merger = _ItemMerger(session)
    for message in messages:
        merger.add(message)
    return merger.finish()


class _ItemMerger:
    def __init__(self, session: ImportedSession) -> None:
        self._session = session
        self._messages: list[Any] = []
        self._response: dict[str, Any] | None = None

    def add(self, entry: Any) -> None:
        item = as_dict(entry)
        kind = as_text(item.get("type"))
        if not is_item(entry):
            self._message(entry)
        elif kind == "reasoning":
            self._part("thinking_blocks", reasoning_block(item))
            self._session.count_unread_fields("item field", item, _ITEM_FIELDS)
        elif kind in CALL_ITEMS:
            arguments = (
                {"arguments": item.get("arguments")} if kind == "function_call" else {"input": item.get("input")}
            )
            id = first_text(item, "call_id", "id")
            self._part("tool_calls", {"id": id, "function": {"name": item.get("name"), **arguments}})
            self._session.count_unread_fields("item field", item, _ITEM_FIELDS)
        elif kind in RESULT_ITEMS:
            self._close()
            id = first_text(item, "call_id", "id")
            self._messages.append({"role": "tool", "tool_call_id": id, "content": item.get("output")})
            self._session.count_unread_fields("item field", item, _ITEM_FIELDS)
        else:
            self._session.count_unknown("item", kind, item)

    def finish(self) -> list[Any]:
        self._close()
        return self._messages

    def _message(self, entry: Any) -> None:
        if as_dict(entry).get("role") != "assistant":
            self._close()
            self._messages.append(entry)
            return
        begun = self._response
        if begun is None or "content" in begun:
            self._close()
            begun = {}
        self._response = {**entry, **begun}

    def _part(self, field: str, part: dict[str, Any]) -> None:
        response = self._response = self._response or {"role": "assistant"}
        response[field] = [*as_list(response.get(field)), part]

    def _close(self) -> None:
        if self._response is not None:
            self._messages.append({**self._response, "role": "assistant"})
        self._response = None


def reasoning_block(item: dict[str, Any]) -> dict[str, str]:
    """Return a reasoning item as a block of a message: its text and its summary, or only its encrypted content."""
    parts: Iterable[Any] = [*as_list(item.get("content")), *as_list(item.get("summary"))]
    text = "\n".join(first_text(as_dict(part), "text") for part in parts)
    hidden = as_text(item.get("encrypted_content"))
    if hidden and not text:
        return {"type": "redacted_thinking", "data": hidden, "vendor": OPENAI}
    return {"type": "reasoning", "text": text, "signature": hidden, "vendor": OPENAI if hidden else ""}
