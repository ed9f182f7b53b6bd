"""Reading data in which every field may be missing, null or of another type than its format says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec

from ..decision import Usage

TIME_FIELDS = ("timestamp", "created_at", "created", "createdAt", "time", "ts", "date")
"""Fields under which a message's time is looked for."""
_LAST_YEAR = 253_402_300_799.0
"""Seconds from 1970 to the end of the year 9999, the last that ISO 8601 writes with four digits."""
_MAX_TOKENS = 10**12
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call", "tool_call"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_FAILURE_STATUSES = frozenset({"crashed", "error", "errored", "failed", "failure"})


def as_dict(value: Any) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """The value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """The value if it is text, the digits of a whole number, else nothing."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def first_text(data: Mapping[str, Any], *names: str) -> str:
    """The first of these fields that holds a word."""
    return next((found for name in names if (found := as_text(data.get(name)))), "")


def as_json(value: Any) -> str:
    """Text stays as it is, nothing is nothing, all else is written as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def as_number(value: Any) -> float | None:
    """The value if it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def parse_time(value: Any) -> float | None:
    """A time in seconds since 1970: from ISO 8601, or from a number of seconds, milliseconds or microseconds."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    found = as_number(value)
    if found is None or found <= 0:
        return None
    while found > _LAST_YEAR / 2:  # no session is of the year 6000: it is counted in smaller parts of a second
        found /= 1000
    return found


def format_time(t: float) -> str:
    """A time as records hold it: ISO 8601 in UTC."""
    return datetime.fromtimestamp(t, UTC).isoformat(timespec="milliseconds")


def message_time(data: Mapping[str, Any]) -> float | None:
    """When a message was said, by the usual names of such a field."""
    for name in TIME_FIELDS:
        if name in data and (t := parse_time(data[name])) is not None:
            return t
    return None


def parse_usage(value: Any) -> Usage | None:
    """Token counts as OpenAI or Anthropic report them; None if there are none.

    Anthropic counts cached input beside the rest of the input, all others within it.
    """
    if not isinstance(value, dict):
        return None
    usage = value
    input = _tokens(usage, "prompt_tokens", "input_tokens")
    output = _tokens(usage, "completion_tokens", "output_tokens")
    cached = _tokens(as_dict(usage.get("prompt_tokens_details") or usage.get("input_tokens_details")), "cached_tokens")
    if "prompt_tokens" not in usage:
        read = _tokens(usage, "cache_read_input_tokens")
        input += read + _tokens(usage, "cache_creation_input_tokens")
        cached = cached or read
    spent = as_dict(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    if not (input or output):
        return None
    return Usage(
        input_tokens=input,
        output_tokens=output,
        cached_tokens=cached,
        reasoning_tokens=_tokens(spent, "reasoning_tokens"),
        cost_usd=parse_cost(usage),
    )


def parse_cost(usage: Mapping[str, Any]) -> float | None:
    """What it cost, in US dollars, where a provider says so; a cost of nothing says nothing."""
    for name in ("cost", "cost_usd", "total_cost", "market_cost"):
        cost = as_number(usage.get(name))
        if cost is not None and cost > 0:
            return cost
    return None


def _tokens(usage: Mapping[str, Any], *names: str) -> int:
    for name in names:
        found = as_number(usage.get(name))
        if found is not None:
            return int(min(max(found, 0), _MAX_TOKENS))
    return 0


def count_characters(text: str) -> int:
    """How many characters a text has, white space aside."""
    return len("".join(text.split()))


def count_contents(value: Any) -> Counter[str]:
    """What a message, or a part of one, holds: characters of text (white space aside), calls, results, thoughts."""
    held: Counter[str] = Counter()
    if isinstance(value, str):
        held["characters"] += count_characters(value)
    elif isinstance(value, list):
        for part in value:
            held += count_contents(part)
    elif isinstance(value, dict):
        kind = as_text(value.get("type"))
        if kind in _REASONING_TYPES:
            held["thought"] += 1
        elif kind in _CALL_TYPES:
            held["call"] += 1
        else:
            held["answer"] += kind in _RESULT_TYPES or value.get("role") in ("tool", "function")
            held["call"] += len(as_list(value.get("tool_calls"))) or bool(as_dict(value.get("function_call")))
            blocks = as_list(value.get("thinking_blocks"))
            held["thought"] += len(blocks) or bool(first_text(value, "reasoning_content", "reasoning"))
            for name in ("content", "text", "refusal", "output", "message"):
                held += count_contents(value.get(name))
    return +held


def describe_failure(data: Mapping[str, Any]) -> str:
    """What went wrong, in the words of a message, a response or a session that says it failed; empty if none does."""
    error = data.get("error")
    if isinstance(error, dict):
        said = first_text(error, "message", "detail", "type", "code") or as_json(error)
        status = as_text(error.get("status")) or as_text(error.get("code"))
        return f"status {status}: {said}" if status.isdigit() and status not in said else said
    if error:
        return "an error" if error is True else as_json(error)
    if as_text(data.get("status")).lower() in _FAILURE_STATUSES:
        return first_text(data, "message", "detail", "reason") or f"status {as_text(data['status'])}"
    return ""
