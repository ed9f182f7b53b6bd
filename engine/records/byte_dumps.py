r"""Find dumps of bytes in a text, and decode them line by line.

The dumps: those of `xxd`, `hexdump`, `od` (POSIX, `-t x1` and `-c`) and what looks like them: an offset, bytes in
hexadecimal, and possibly a column of text, which is a part of the line that is hidden. Also uuencode (POSIX) and
lists of decimal bytes.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterable, Iterator

Run = tuple[int, int, str]
"""Begin and end of an encoded part, and what it stands for."""

_DUMP_LINE = re.compile(
    r"\n[ \t]{0,8}(?:0x)?[0-9A-Fa-f]{4,16}:?[ \t]{1,4}"
    r"(?P<bytes>(?:[0-9A-Fa-f]{2}[ ]{0,2}){17,32}(?=[ \t\r]{0,4}(?:\n|\Z))"
    r"|(?:[0-9A-Fa-f]{2}[ :-]{0,2}){2,16})[^\n]{0,100}(?=\n|\Z)"
)
"""A line after a line end, which is put before the first, since a search for a fixed sign is fast."""
_DIGITS = re.compile(r"[0-9A-Fa-f]+")
_CHARACTER_LINE = re.compile(
    r"\n[0-7]{7}(?P<cells>(?:   [!-~]|    |  \\[0abfnrtv\\]|   \\| [0-7]{3}){2,16})[ \r]{0,4}(?=\n|\Z)"
)
_CONTROLS = {"\\n": "\n", "\\r": "\r", "\\t": "\t"}
_UU_FILE = re.compile(r"begin [0-7]{3,4} [^\n]{1,100}\n(?P<lines>(?:M[ -`]{60}\r?\n)*+(?:[ -`]{2,62}\r?\n)?)")
_DECIMAL = re.compile(r"[0-9]{2,3},\s{0,3}(?:[0-9]{2,3},\s{0,3}){10,}+(?:[0-9]{2,3})?")


def dumped_texts(text: str) -> Iterator[list[Run]]:
    """The dumps in a text, in each way in which they can be read."""
    lines = list(_DUMP_LINE.finditer("\n" + text))
    if lines:
        yield [(line.start(), line.end() - 1, _printed(_bytes_of(line["bytes"]))) for line in lines]
        if any(len(_DIGITS.findall(line["bytes"])[0]) == 4 for line in lines):
            yield [(line.start(), line.end() - 1, _printed(_bytes_of(line["bytes"], swapped=True))) for line in lines]
    others = [*_character_lines(text), *_uuencoded(text), *_decimal_bytes(text)]
    if others:
        yield sorted(others)


def _bytes_of(digits: str, *, swapped: bool = False) -> bytes:
    groups = (bytes.fromhex(group[: len(group) & ~1]) for group in _DIGITS.findall(digits))
    return b"".join(group[::-1] if swapped else group for group in groups)


def _printed(content: Iterable[int]) -> str:
    """These bytes as ASCII, of the same length; a line end for each that is not printed."""
    return "".join(chr(byte) if 32 <= byte < 127 or byte == 9 else "\n" for byte in content)


def _character_lines(text: str) -> Iterator[Run]:
    for line in _CHARACTER_LINE.finditer("\n" + text):
        cells = line["cells"]
        signs = (cells[at : at + 4].strip(" ") or " " for at in range(0, len(cells), 4))
        yield (
            line.start(),
            line.end() - 1,
            "".join(_CONTROLS.get(sign, sign if len(sign) == 1 else "\n") for sign in signs),
        )


def _uuencoded(text: str) -> Iterator[Run]:
    for found in _UU_FILE.finditer(text) if "begin " in text else ():
        at = found.start("lines")
        for line in found["lines"].splitlines(keepends=True):
            try:
                yield at, at + len(line.rstrip()), _printed(binascii.a2b_uu(line))
            except binascii.Error:
                break
            at += len(line)


def _decimal_bytes(text: str) -> Iterator[Run]:
    for found in _DECIMAL.finditer(text):
        numbers = [int(number) for number in found[0].split(",") if number.strip()]
        if all(9 <= number < 127 for number in numbers):
            yield *found.span(), _printed(numbers)
