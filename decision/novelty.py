"""How much of what tools returned is new: a bounded memory of the lines that were seen.

Two results are hardly ever equal to the last byte (times, counters, temporary names), so digits and the white space
around a line do not count. The memory is a table of fixed size: each line has one slot, which holds eight bits of its
checksum. So it takes one new line in 256 for an old one, and forgets a line once a newer one needs its slot.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple
from zlib import crc32

from .deferred_patterns import deferred

READ_CHARS = 20_000
"""Number of characters read at the beginning of a result."""
READ_LINES = 400
"""Number of lines read in them."""
LONG_CHARS = 65_536
"""Of a longer result only the first `SHORT_CHARS` are read, because a record keeps no more of a text that it
attaches."""
SHORT_CHARS = 1_000
SLOTS = 16_384
"""Maximum number of lines and results in the memory. Of those seen 3,000 new lines ago, 17 % are forgotten on
average."""
NO_LINES = bytes(2 * SLOTS)
"""The empty memory."""


def distinct_lines(text: str) -> Collection[bytes]:
    """Return the different lines of a result, without white space around them and without empty ones."""
    read = text[: SHORT_CHARS if len(text) > LONG_CHARS else READ_CHARS]
    raw = read.encode("utf-8", "surrogatepass")
    lines = dict.fromkeys(map(bytes.strip, raw.splitlines()[:READ_LINES]))
    lines.pop(b"", None)
    return lines.keys()


class Marks(NamedTuple):
    """The checksums by which a result is remembered."""

    lines: list[int]
    """Checksums of its lines, without their digits."""
    exact: list[int]
    """Checksums of its lines with their digits; empty if digits do not count."""
    whole: int
    """Checksum of all lines together, without digits."""


def marks_of(lines: Collection[bytes], exact: bool) -> Marks:
    """Return the marks of these lines. exact: whether a different number makes a line new."""
    joined = b"\n".join(lines)
    masked = joined.translate(None, b"0123456789")
    whole = crc32(masked, 1)
    if len(masked) == len(joined):
        marks = [crc32(line) for line in lines]
        return Marks(marks, marks if exact else [], whole)
    marks = [crc32(line) for line in dict.fromkeys(masked.split(b"\n"))]
    return Marks(marks, [crc32(line, _EXACT) for line in lines] if exact else [], whole)


_EXACT = 0x5EED
"""Start of the checksums with digits, so that they differ from those without."""


def add_marks(memory: bytes, marks: Marks) -> tuple[bytes, Marks]:
    """Return the memory with these marks, and the marks that are new; `whole` is 0 if it is not new."""
    slots = memoryview(memory).cast("H")
    new = [mark for mark in marks.lines if slots[mark & 0x3FFF] != mark >> 16]
    exact = [mark for mark in marks.exact if slots[mark & 0x3FFF] != mark >> 16]
    whole = marks.whole if slots[marks.whole & 0x3FFF] != marks.whole >> 16 else 0
    if not (new or exact or whole):
        return memory, Marks(new, exact, 0)
    filled = bytearray(memory)
    slots = memoryview(filled).cast("H")
    for mark in (*new, *exact, marks.whole):
        slots[mark & 0x3FFF] = mark >> 16
    return bytes(filled), Marks(new, exact, whole)


def add_text(memory: bytes, text: bytes) -> tuple[bytes, bool]:
    """Return the memory with a whole text, exact to the last digit, and whether it is new. Its lines are not added."""
    mark = crc32(text, _WHOLE)
    memory, new = add_marks(memory, Marks([], [mark], mark))
    return memory, bool(new.exact)


_WHOLE = 0x7E97
"""Start of the checksums of whole texts, so that they differ from those of lines."""


def essential_text(content: str) -> str:
    """Return a result without a shell's prompt at its end; empty if it only says that there is nothing."""
    text = content
    if text.rstrip()[-1:] in _PROMPT_ENDS:
        text = text[:-PROMPT_CHARS] + _PROMPT.sub("", text[-PROMPT_CHARS:])
    return "" if len(text) < LONGEST_NOTHING and _NOTHING.fullmatch(text) else text


def says_nothing_found(text: str) -> bool:
    """Return whether a result begins by saying that a search found nothing, whatever was searched for."""
    return _NOTHING_FOUND.search(text, 0, LONGEST_NOTHING) is not None


def without_line_numbers(text: str) -> str:
    """Return a result without the line numbers that a shell gives to its input, which say nothing new."""
    return _NUMBERED.sub("line", text[:PROMPT_CHARS]) + text[PROMPT_CHARS:] if "line " in text else text


PROMPT_CHARS = 2_000
"""Number of characters at the end of a result that are searched for a prompt."""
LONGEST_NOTHING = 300
_PROMPT_ENDS = ("$", "#", "%", ">")
_PROMPT = deferred(r"\n(?:\([^\n]{1,300}\)\n){0,4}[\w@:~/.-]{0,80}[$#%>]\s*\Z")
"""A prompt, including the lines in parentheses above it that show the state of the shell."""
_NOTHING = deferred(
    r"\s*+(?:<returncode>0</returncode>\s*<output>\s*</output>|\(?no output\)?\.?|\(?(?:your )?command "
    r"(?:ran|executed|completed|succeeded)[^\n]{0,20}(?:success|no output|without output)[^\n]{0,60})?\s*+",
    re.IGNORECASE,
)
"""Texts that tools return if there is no output."""
_NOTHING_FOUND = deferred(
    r"\b(?:no|0|zero) (?:matches|matching|results|files|occurrences|entries|rows|lines|such|records|items|hits)\b"
    r"|\b(?:not found|nothing found|does not exist)\b|\bno [^\n]{1,30} found\b",
    re.IGNORECASE,
)
_NUMBERED = deferred(r"line \d+")
