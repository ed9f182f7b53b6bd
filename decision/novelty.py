"""How much of what tools returned is new: a bounded memory of the lines that were seen.

Two results are hardly ever equal to the last byte (times, counters, temporary names), so digits do not count, nor does
white space around a line. The memory is a table of fixed size: each line has one slot, which holds eight bits of its
checksum. So it takes one new line in 256 for an old one, and forgets a line once a newer one needs its slot.
"""

from __future__ import annotations

from collections.abc import Collection
from zlib import crc32

READ_CHARS = 20_000
"""Characters at the beginning of a result that are read."""
READ_LINES = 400
"""Lines of them that are read."""
LONG_CHARS = 65_536
"""Of a longer result only the first `SHORT_CHARS` are read: a record keeps no more of a text that it stores apart."""
SHORT_CHARS = 1_000
SLOTS = 32_768
"""Lines and results that the memory holds at most. Of those seen 3,000 new lines ago, 9 % are forgotten on average."""
NO_LINES = bytes(SLOTS)
"""The memory before the first line."""
DIGITS = b"0123456789"
"""What does not count in a line."""


def add_lines(memory: bytes, lines: Collection[bytes]) -> tuple[bytes, int, bool]:
    """The memory with these lines added, how many of them are new, and whether all of them together are."""
    whole = crc32(b"\n".join(lines), 1)
    unknown = memory[whole & 0x7FFF] != whole >> 24
    if not unknown:
        return memory, 0, False
    new = [mark for mark in map(crc32, lines) if memory[mark & 0x7FFF] != mark >> 24]
    filled = bytearray(memory)
    filled[whole & 0x7FFF] = whole >> 24
    for mark in new:
        filled[mark & 0x7FFF] = mark >> 24
    return bytes(filled), len(new), True


def distinct_lines(text: str) -> Collection[bytes]:
    """The different lines of a result, without digits, white space around them, and empty ones."""
    read = text[: SHORT_CHARS if len(text) > LONG_CHARS else READ_CHARS]
    raw = read.encode("utf-8", "surrogatepass").translate(None, DIGITS)
    lines = dict.fromkeys(map(bytes.strip, raw.splitlines()[:READ_LINES]))
    lines.pop(b"", None)
    return lines.keys()
