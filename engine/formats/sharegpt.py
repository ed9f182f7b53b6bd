"""Import of conversations in ShareGPT's form, used by fine-tuning data sets: `conversations` of `from` and `value`.

Calls are in separate turns (`function_call`, followed by an `observation`) or in the model's text (`<tool_call>`, with
`<tool_response>` in the next turn). Lines of `messages` are read by `openai.py`.
Sources: LLaMA-Factory, `data/README.md`; Hermes function calling, `README.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .imported_session import ImportedSession, RawCall, Unreadable
from .openai import parse_tools
from .parsing import as_dict, as_json, as_list, as_text, decode_if_json, first_text
from .session_builder import SessionBuilder

_LISTS = ("conversations", "conversation")
_ID_FIELDS = ("id", "conversation_id", "uuid")
_FIELDS = frozenset({*_LISTS, *_ID_FIELDS, "system", "tools", "model"})
_TURN_FIELDS = frozenset({"from", "value"})
_USERS = frozenset({"human", "user"})
_MODELS = frozenset({"gpt", "assistant", "chatgpt", "bing", "bard", "model", "claude"})
_RESULTS = frozenset({"observation", "tool", "tool_response", "function_response", "ipython"})
_CALL = re.compile(r"<tool_call>([^<]*+(?:<(?!/?tool_call>)[^<]*+)*+)</tool_call>")
_RESULT = re.compile(r"<tool_response>([^<]*+(?:<(?!/?tool_response>)[^<]*+)*+)</tool_response>")


def sessions(data: Any) -> Iterator[ImportedSession]:
    """Yield the session of a conversation, or of each in a list."""
    for one in data if isinstance(data, list) else [data]:
        yield _session(as_dict(one))


def matches(data: Any) -> bool:
    """Return whether this is a conversation, or a list of them."""
    return bool(_turns(as_dict(data[0] if isinstance(data, list) and data else data)))


def _turns(data: dict[str, Any]) -> list[Any]:
    """Return the turns of a conversation; empty if it has none of this form."""
    lists = (as_list(data.get(name)) for name in _LISTS)
    return next((turns for turns in lists if turns and {"from", "value"} <= as_dict(turns[0]).keys()), [])


def _session(data: dict[str, Any]) -> ImportedSession:
    turns = _turns(data)
    if not turns:
        raise Unreadable("it contains no `conversations` of `from` and `value`")
    session = ImportedSession(id=first_text(data, *_ID_FIELDS), model=as_text(data.get("model")))
    session.tools = parse_tools(decode_if_json(data.get("tools")))
    session.count_unread_fields("field", data, _FIELDS)
    builder = SessionBuilder(session)
    builder.add_system(as_text(data.get("system")))
    for turn in map(as_dict, turns):
        session.count_unread_fields("message field", turn, _TURN_FIELDS)
        _add_turn(builder, as_text(turn.get("from")).lower().replace("-", "_"), as_text(turn.get("value")))
    return session


def _add_turn(builder: SessionBuilder, who: str, value: str) -> None:
    if who == "system":
        builder.add_system(value)
    elif who in _USERS:
        builder.add_user([value])
    elif who in _MODELS:
        found = [decode_if_json(text.strip()) for text in _CALL.findall(value)]
        whole = bool(found) and all("name" in as_dict(call) for call in found)
        builder.add_response(_CALL.sub("", value).strip() if whole else value, _calls(found) if whole else ())
    elif who == "function_call":
        calls = decode_if_json(value)
        found = calls if isinstance(calls, list) else [calls]
        whole = all("name" in as_dict(call) for call in found)
        builder.add_response("" if whole else value, _calls(found) if whole else ())
    elif who in _RESULTS:
        _add_results(builder, value)
    else:
        builder.session.count_unknown("role", who, value)


def _add_results(builder: SessionBuilder, value: str) -> None:
    """Add the results of a turn, one for each call. Without a call, its text is a message of the loop."""
    for result in _RESULT.findall(value) or [value]:
        if builder.pending_calls:
            builder.add_result("", "", result.strip())
        else:
            builder.add_user([result.strip()], "nudge")


def _calls(found: list[Any]) -> list[RawCall]:
    calls = map(as_dict, found)
    return [("", as_text(call.get("name")), as_json(call.get("arguments", call.get("parameters")))) for call in calls]
