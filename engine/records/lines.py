"""A file's lines, in batches, in memory that does not depend on the file."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .compression import Torn, blocks

LONGEST = 256 * 1024 * 1024
"""Bytes of a line that is read; a longer one is damaged. One of four times as many ends the reading."""
CUT = b"\x00"
"""Follows the beginning of a line that did not come whole, so that no reader takes it for one that did."""

_SHOWN = 100


def batches(path: str | os.PathLike[str], longest: int = LONGEST) -> Iterator[list[bytes]]:
    """The lines without their line feeds, whole blocks of them at a time. Raises WrongUse if it cannot be read.

    A line that is too long, or in which compressed data breaks off, comes as its beginning and a null byte. The last
    one need not end in a line feed.
    """
    begun = bytearray()  # grows in place: a long line is never there twice, nor in pieces that outlive it
    length = 0
    try:
        for block in blocks(path):
            lines = block.split(b"\n")
            length += len(lines[0])
            if length <= longest:
                begun += lines[0]
            elif length > 4 * longest:
                break
            else:
                del begun[_SHOWN:]
            if len(lines) > 1:
                lines[0] = bytes(begun) if length <= longest else _cut(begun)
                begun = bytearray(lines.pop())
                length = len(begun)
                yield lines
    except Torn:
        yield [_cut(begun)]
        return
    if length:
        yield [bytes(begun) if length <= longest else _cut(begun)]


def _cut(begun: bytearray) -> bytes:
    return bytes(begun[:_SHOWN]) + CUT
