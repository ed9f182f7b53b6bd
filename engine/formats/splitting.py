"""Where the values of JSON text begin and end, also in text that is broken somewhere.

What is whole before and after the break is still found. Used where a strict reader gives up on the whole; it looks at
strings and brackets only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]', re.DOTALL)


def top_values(text: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Start and end of each object or array that stands at the top, one after another. The last may be cut off."""
    depth, start = 0, -1
    for mark in _STRUCTURE.finditer(text):
        sign = mark[0][:1]
        if sign in (b"{", b"["):
            if not depth:
                start = mark.start()
            depth += 1
        elif sign in (b"}", b"]") and depth:
            depth -= 1
            if not depth:
                yield start, mark.end()
    if depth:
        yield start, len(text)


def elements(text: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Start and end of each element of the array that begins this text. The last may be cut off."""
    depth, start, end = 0, -1, len(text)
    for mark in _STRUCTURE.finditer(text):
        sign = mark[0][:1]
        if sign in (b"{", b"["):
            depth += 1
            if depth == 1:
                start = mark.end()
        elif sign in (b"}", b"]"):
            depth -= 1
            if not depth:
                end = mark.start()
                break
        elif sign == b"," and depth == 1:
            yield start, mark.start()
            start = mark.end()
    if start >= 0 and bytes(text[start:end]).strip():
        yield start, end
