"""A change of a file as a unified diff that shows no value of another setting, which may be a key."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .document_edits import Entry

MASK = "…"
"""Stands for a value that is not endstop's."""
_TOKEN = re.compile(
    r"""(?P<name>"(?:[^"\\]|\\.)*"(?=\s*:)|^\s*(?:-\s+)?[\w.-]+(?=\s*[:=](?:\s|$)))"""
    r"""|(?P<value>"(?:[^"\\]|\\.?)*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s,:={}\[\]"']+)"""
)


def masked_diff(name: str, before: str | None, after: str | None, entries: Sequence[Entry] | None) -> list[str]:
    """Return the lines of the diff, without context.

    before, after: None for no file. entries: what is endstop's, and so shown; None if the whole file is.
    """
    own = None if entries is None else {form for entry in entries for one in _own_values(entry) for form in _forms(one)}
    sides = [[] if text is None else _lines(text, own) for text in (before, after)]
    names = ["/dev/null" if text is None else name for text in (before, after)]
    shown = [[line for _, line in side] for side in sides]
    old, new = ([line for line, _ in side] for side in sides)
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(0):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@")
        for tag, a, b, c, d in group:
            if tag != "equal":
                lines += [f"-{line}" for line in shown[0][a:b]] + [f"+{line}" for line in shown[1][c:d]]
    return lines


def _lines(text: str, own: set[str] | None) -> list[tuple[str, str]]:
    """Return each line with its masked form."""
    return [(line, line if own is None else _masked(line, own)) for line in text.removeprefix("\ufeff").splitlines()]


def _masked(line: str, own: set[str]) -> str:
    def shown(match: re.Match[str]) -> str:
        return match[0] if match["name"] is not None or match[0] in own else MASK

    return re.sub(rf"{MASK}(?:\s+{MASK})+", MASK, _TOKEN.sub(shown, line))


def _own_values(entry: Entry) -> Iterator[Any]:
    yield from entry.path
    yield ".".join(entry.path)
    yield from _leaves(entry.value)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _leaves(one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for one in value:
            yield from _leaves(one)
    else:
        yield value


def _forms(value: Any) -> Iterator[str]:
    """Yield the ways in which a value of endstop may stand in a line."""
    written = json.dumps(value, ensure_ascii=False)
    yield written
    if isinstance(value, str):
        yield from (match[0] for match in _TOKEN.finditer(value))


def _range(start: int, stop: int) -> str:
    count = stop - start
    return f"{start + (1 if count else 0)}" if count == 1 else f"{start + (1 if count else 0)},{count}"
