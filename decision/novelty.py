"""How much of what tools returned is new: a bounded memory of the lines that were seen.

Two results are hardly ever equal to the last byte (times, counters, temporary names), so digits do not count, nor does
white space around a line. The memory is a table of fixed size: each line has one slot, which holds eight bits of its
checksum. So it takes one new line in 256 for an old one, and forgets a line once a newer one needs its slot.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from zlib import crc32

READ_CHARS = 20_000
"""Characters at the beginning of a result that are read."""
READ_LINES = 400
"""Lines of them that are read."""
LONG_CHARS = 65_536
"""Of a longer result only the first `SHORT_CHARS` are read: a record keeps no more of a text that it stores apart."""
SHORT_CHARS = 1_000
SLOTS = 16_384
"""Lines and results that the memory holds at most. Of those seen 3,000 new lines ago, 17 % are forgotten on average."""
_EXACT = 0x5EED
NO_LINES = bytes(2 * SLOTS)
"""The memory before the first line."""


def add_lines(memory: bytes, lines: Collection[bytes], exact: bool = False) -> tuple[bytes, int, bool]:
    """The memory with these lines added, how many of them are new, and whether all of them together are.

    exact: whether the lines have their digits; they are remembered apart from lines without.
    """
    seed = _EXACT if exact else 0
    slots = memoryview(memory).cast("H")
    new = [mark for line in lines if slots[(mark := crc32(line, seed)) & 0x3FFF] != mark >> 16]
    whole = crc32(b"\n".join(lines), seed + 1)
    new_whole = slots[whole & 0x3FFF] != whole >> 16
    if not new and not new_whole:
        return memory, 0, False
    filled = bytearray(memory)
    slots = memoryview(filled).cast("H")
    for mark in (*new, whole):
        slots[mark & 0x3FFF] = mark >> 16
    return bytes(filled), len(new), new_whole


def distinct_lines(text: str) -> Collection[bytes]:
    """The different lines of a result, without white space around them, and without empty ones."""
    read = text[: SHORT_CHARS if len(text) > LONG_CHARS else READ_CHARS]
    raw = read.encode("utf-8", "surrogatepass")
    lines = dict.fromkeys(map(bytes.strip, raw.splitlines()[:READ_LINES]))
    lines.pop(b"", None)
    return lines.keys()


def without_digits(lines: Collection[bytes]) -> Collection[bytes]:
    """The lines without their digits."""
    return dict.fromkeys(b"\n".join(lines).translate(None, b"0123456789").split(b"\n")).keys()


def essential_text(content: str) -> str:
    """A result without a shell's prompt at its end; empty if it only says that there is nothing."""
    text = content
    if text.rstrip()[-1:] in _PROMPT_ENDS:
        text = text[:-PROMPT_CHARS] + _PROMPT.sub("", text[-PROMPT_CHARS:])
    return "" if len(text) < LONGEST_NOTHING and _NOTHING.fullmatch(text) else text


def without_line_numbers(text: str) -> str:
    """A result without the numbers that a shell gives to the lines of its input, which say nothing new."""
    return _NUMBERED.sub("line", text[:PROMPT_CHARS]) + text[PROMPT_CHARS:] if "line " in text else text


PROMPT_CHARS = 2_000
"""Characters at the end of a result in which a prompt is looked for."""
LONGEST_NOTHING = 300
_PROMPT_ENDS = ("$", "#", "%", ">")
_PROMPT = re.compile(r"\n(?:\([^\n]{1,300}\)\n){0,4}[\w@:~/.-]{0,80}[$#%>]\s*\Z")
"""A prompt, with the lines in parentheses above it that tell the state of the shell."""
_NOTHING = re.compile(
    r"\s*(?:<returncode>0</returncode>\s*<output>\s*</output>|\(?no output\)?\.?|\(?(?:your )?command "
    r"(?:ran|executed|completed|succeeded)[^\n]{0,20}(?:success|no output|without output)[^\n]{0,60})?\s*",
    re.IGNORECASE,
)
"""What tools say instead of nothing."""
_NUMBERED = re.compile(r"\bline \d+")
