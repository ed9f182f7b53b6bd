"""Text from models and tools in the sizes that a terminal has room for."""

from __future__ import annotations

from typing import Any

import msgspec

from ..._sanitize import clean, one_line


def brief(name: str, written: str) -> str:
    """A call in a few words: its name and the first argument that is short enough to be one."""
    short = [value.strip('"') for _, value in arguments(written, 60) if value.startswith('"') and value.endswith('"')]
    return f"{one_line(name, 60)} {short[0]}" if short else one_line(name, 60)


def first_lines(text: str, most: int) -> tuple[list[str], int]:
    """The first lines of the text, and how many more there are. Blank lines at its ends do not count."""
    lines = clean(text).strip("\n").rstrip().split("\n")
    if len(lines) == most + 1:
        most += 1  # one more line says more than that there is one more line
    return lines[:most], max(0, len(lines) - most)


def last_lines(text: str, most: int) -> list[str]:
    """The last lines of the text that are not blank, under a line that says how many there are before them."""
    lines = [line for line in clean(text).split("\n") if line.strip()]
    return lines if len(lines) <= most else [f"… {len(lines) - most:,} lines before", *lines[-most:]]


def arguments(written: str, longest: int) -> list[tuple[str, str]]:
    """Names and values of a call's arguments, each value in one line of at most so many characters."""
    try:
        given: Any = msgspec.json.decode(written or "{}")
    except (msgspec.DecodeError, ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        return [("", one_line(written, longest))]
    return [(one_line(str(name), 40), _value(value, longest)) for name, value in given.items()]


def _value(value: Any, longest: int) -> str:
    if isinstance(value, str) and len(value) > longest:
        return f'{_json(value[:longest])[:longest].rstrip(chr(92))}…" ({len(value):,} characters)'
    text = _json(value)
    return text if len(text) <= longest else text[:longest] + "…"


def _json(value: Any) -> str:
    return clean(msgspec.json.encode(value).decode())
