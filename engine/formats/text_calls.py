"""Calls and results that an agent keeps as texts in its history, read as those of chat completions.

smolagents writes "Calling tools:" and the calls as a Python list behind the text of the model, and then, in the user's
role, "Observation:" with the results of all of them, or "Error:". A step with several calls has one text of results: it
is read as the result of each.
Source: smolagents, `memory.py` (`ActionStep.to_messages`) and `models.py` (`get_clean_message_list`).
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Sequence
from typing import Any

import msgspec

from .parsing import as_dict, as_list, as_text

_CALLING = "Calling tools:\n["
_LONGEST = 1_000_000
"""Maximum length of a list of calls that is read."""
_RESULT = re.compile(r"(?:Call id: [^\n]*\n)?(Observation|Error):\n")
_NEW_TASK = "\nNew task:\n"


def read_text_calls(messages: Sequence[Any]) -> list[Any]:
    """Return the messages with the calls and results in their texts as calls and results of their own."""
    found: list[Any] = []
    calls: list[Any] = []
    for message in messages:
        entry = as_dict(message)
        role, text = entry.get("role"), _text(entry.get("content"))
        if role == "assistant" and not entry.get("tool_calls") and _CALLING in text:
            said, calls = _split(text)
            found.append({**entry, "content": said, "tool_calls": calls} if calls else message)
        elif calls and role == "user" and (result := _RESULT.match(text)):
            content, new_task, prompt = text[result.end() :].partition(_NEW_TASK)
            failed = result[1] == "Error"
            found += (
                {"role": "tool", "tool_call_id": call["id"], "content": content.strip("\n"), "is_error": failed}
                for call in calls
            )
            if new_task:
                found.append({"role": "user", "content": new_task.lstrip("\n") + prompt})
            calls = []
        else:
            found.append(message)
    return found


def _text(content: Any) -> str:
    """Return the content of a message if it is nothing but text."""
    if isinstance(content, str):
        return content
    parts = as_list(content)
    if not all(as_dict(part).get("type") == "text" for part in parts):
        return ""
    return "\n".join(as_text(part.get("text")) for part in parts)


def _split(text: str) -> tuple[str, list[dict[str, Any]]]:
    """Return what a model said, and the calls that are written behind it; none if they cannot be read."""
    said, _, rest = text.rpartition(_CALLING)
    line, _, after = rest.partition("\n")
    if (said and not said.endswith("\n")) or len(line) > _LONGEST:
        return text, []
    try:
        calls = [_call(one) for one in literal_eval("[" + line)]
    except (ValueError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError):
        return text, []
    return "\n".join(part for part in (said.rstrip("\n"), after) if part), calls


def _call(value: Any) -> dict[str, Any]:
    """Return a call with its arguments as JSON. Raises ValueError if it is none."""
    function = as_dict(as_dict(value).get("function"))
    name, arguments = as_text(function.get("name")), function.get("arguments")
    if not name:
        raise ValueError("a call has a name")
    encoded = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return {"id": as_text(value.get("id")), "type": "function", "function": {"name": name, "arguments": encoded}}
