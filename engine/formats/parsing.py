"""Tolerant parsing: any field may be missing, null or not of the type that its format documents.

These functions do not raise. Unreadable values are returned as empty or None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

import msgspec

from ..decision import Usage
from ..decision.reported_usage import dollars, reported_usage, sum_of_counts, token_count

TIME_FIELDS = ("timestamp", "created_at", "created", "createdAt", "time", "ts", "date")
"""Fields that may hold the time of a message, in the order in which they are tried."""
_FIRST_YEAR = -62_135_596_800.0
"""Beginning of the year 1 in seconds since 1970."""
_LAST_YEAR = 253_402_300_799.0
"""End of the year 9999 in seconds since 1970: ISO 8601 has four digits for the year."""
_REASONING_TYPES = frozenset({"thinking", "redacted_thinking", "reasoning"})
_CALL_TYPES = frozenset({"tool_use", "function_call", "custom_tool_call", "tool_call"})
_RESULT_TYPES = frozenset({"tool_result", "function_call_output", "custom_tool_call_output"})
_FAILURE_STATUSES = frozenset({"crashed", "error", "errored", "failed", "failure"})


def as_dict(value: Any) -> dict[str, Any]:
    """Return the value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """Return the value if it is an array, otherwise an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Return the value if it is text, or the digits of a whole number; otherwise an empty text."""
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def first_text(data: Mapping[str, Any], *names: str) -> str:
    """Return the text (`as_text`) of the first of these fields that has one; empty if none has."""
    return next((found for name in names if (found := as_text(data.get(name)))), "")


def as_json(value: Any) -> str:
    """Return the text unchanged, an empty text for None, and anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def decode_if_json(value: Any) -> Any:
    """Return the value, decoded if it is text with JSON."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def as_number(value: Any) -> float | None:
    """Return the value if it is a finite number, otherwise None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def parse_time(value: Any) -> float | None:
    """Return the seconds since 1970 from ISO 8601 or from seconds, milliseconds or microseconds; otherwise None."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    found = as_number(value)
    if found is None or found <= 0:
        return None
    while found > _LAST_YEAR / 2:  # beyond the year 5999: milliseconds or microseconds
        found /= 1000
    return found


def moment_of(t: float) -> datetime:
    """Return the time this many seconds after the start of 1970 in UTC, limited to what ISO 8601 can write."""
    return datetime.fromtimestamp(min(max(t, _FIRST_YEAR), _LAST_YEAR), UTC)


def format_time(t: float) -> str:
    """Return the time in ISO 8601, in UTC with milliseconds, as in records."""
    return moment_of(t).isoformat(timespec="milliseconds")


def message_time(data: Mapping[str, Any]) -> float | None:
    """Return the time of a message in seconds since 1970, from the first of `TIME_FIELDS` that has one."""
    for name in TIME_FIELDS:
        if name in data and (t := parse_time(data[name])) is not None:
            return t
    return None


def parse_usage(value: Any) -> Usage | None:
    """Parse token counts as OpenAI or Anthropic report them. Returns None if there are none.

    Anthropic reports cached input tokens in addition to the other input tokens, OpenAI as a part of them.
    """
    if not isinstance(value, dict):
        return None
    input, output = _first(value, "prompt_tokens", "input_tokens"), _first(value, "completion_tokens", "output_tokens")
    details = as_dict(value.get("prompt_tokens_details") or value.get("input_tokens_details"))
    cached = token_count(details.get("cached_tokens"))
    if "prompt_tokens" not in value:
        read = value.get("cache_read_input_tokens")
        input = sum_of_counts(input, read, value.get("cache_creation_input_tokens"))
        cached = cached or token_count(read)
    spent = as_dict(value.get("completion_tokens_details") or value.get("output_tokens_details"))
    return usage_from_counts(
        input, output, cached=cached, reasoning=spent.get("reasoning_tokens"), cost=parse_cost(value)
    )


def usage_from_counts(
    input: Any, output: Any, *, cached: Any = None, reasoning: Any = None, cost: Any = None
) -> Usage | None:
    """Return a response's token counts from the data's values; None if there are none or both are 0.

    cached: the part of the input that came from a cache. reasoning: the part of the output that is reasoning. cost: in
    US dollars; 0 counts as unknown, because many loops write it for an unknown cost.
    """
    if not (token_count(input) or token_count(output)):
        return None
    return reported_usage(input, output, cached=cached, reasoning=reasoning, cost=dollars(cost) or None)


def parse_cost(usage: Mapping[str, Any]) -> float | None:
    """Return the reported cost in US dollars; None if missing or 0, because many loops write 0 for an unknown cost."""
    for name in ("cost", "cost_usd", "total_cost", "market_cost"):
        if cost := dollars(usage.get(name)):
            return cost
    return None


def _first(usage: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of these fields that is a count of tokens."""
    return next((count for name in names if (count := token_count(usage.get(name))) is not None), None)


def count_characters(text: str) -> int:
    """Return the number of characters that are not white space."""
    return len("".join(text.split()))


def count_contents(value: Any) -> Counter[str]:
    """Count characters without white space, calls, results (`answer`) and reasoning blocks (`thought`) in a message."""
    held: Counter[str] = Counter()
    _count_into(held, value)
    return +held


def _count_into(held: Counter[str], value: Any) -> None:
    if isinstance(value, str):
        held["characters"] += count_characters(value)
    elif isinstance(value, list):
        for part in value:
            _count_into(held, part)
    elif isinstance(value, dict):
        kind = as_text(value.get("type"))
        if kind in _REASONING_TYPES:
            held["thought"] += 1
        elif kind in _CALL_TYPES:
            held["call"] += 1
        else:
            held["answer"] += kind in _RESULT_TYPES or value.get("role") in ("tool", "function")
            held["answer"] += bool(value.get("functionResponse"))
            held["call"] += len(as_list(value.get("tool_calls") or value.get("toolCalls")))
            held["call"] += bool(as_dict(value.get("function_call") or value.get("functionCall")))
            blocks = as_list(value.get("thinking_blocks"))
            held["thought"] += len(blocks) or bool(first_text(value, "reasoning_content", "reasoning"))
            for name in ("content", "text", "parts", "refusal", "output", "message"):
                _count_into(held, value.get(name))


def describe_failure(data: Mapping[str, Any]) -> str:
    """Return the error reported by a message, response or session; empty if there is none."""
    error = data.get("error")
    if isinstance(error, dict):
        message = first_text(error, "message", "detail", "type", "code") or as_json(error)
        status = as_text(error.get("status")) or as_text(error.get("code"))
        return f"status {status}: {message}" if status.isdigit() and status not in message else message
    if error:
        return "an error" if error is True else as_json(error)
    if as_text(data.get("status")).lower() in _FAILURE_STATUSES:
        return first_text(data, "message", "detail", "reason") or f"status {as_text(data['status'])}"
    return ""
