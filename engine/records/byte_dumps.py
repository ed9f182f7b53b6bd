r"""Find dumps of bytes in a text, and decode them line by line.

The dumps: those of `xxd`, `hexdump`, `od` (POSIX, `-t x1` and `-c`) and what looks like them: an offset, bytes in
hexadecimal, and possibly a column of text, which is a part of the line that is hidden. Also uuencode (POSIX) and
lists of decimal bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence

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
_NUMBER = r"[0-9](?:x[0-9A-Fa-f]{1,2}|[01]{7}|[0-9]{0,2})(?![0-9A-Za-z])"
_CONVERSION = r"(?:(?i:u?n?i?chrw?|n?char|u?int8|byte)[$]?[( )]{1,3})?"
"""What a language writes before a number that stands for a character or a byte."""
_JOINT = r"(?:\|\||[+.&])"
_NUMBERS = re.compile(
    rf"[0-9](?<![0-9A-Za-z.].){_NUMBER.removeprefix('[0-9]')}(?:[^0-9A-Za-z]{{1,24}}{_CONVERSION}{_NUMBER}){{7,}}+"
    rf"\)?(?: ?{_JOINT} ?[\"']{{1,2}})?"
)
_BEFORE_NUMBERS = re.compile(rf"(?:[\"']{{1,2}} ?{_JOINT} ?)?{_CONVERSION}\Z")
_ONE_NUMBER = re.compile(r"0x[0-9A-Fa-f]{1,2}|(?<![0-9A-Za-z])[0-9]+")
_CHARACTERS = re.compile(
    r"'(?:[^'\\\n]|\\[^\n])',\s{0,3}(?:'(?:[^'\\\n]|\\[^\n])',\s{0,3}){6,}+(?:'(?:[^'\\\n]|\\[^\n])')?"
)
_CHARACTER = re.compile(r"'\\?([^\n])'")
_SPACED_LETTERS = re.compile(r"[ ][!-~](?:[ ][!-~]){8,}+")
_ASCII85 = re.compile(r"<~[!-uz\s]{8,}+~>")


def dumped_texts(text: str) -> Iterator[list[Run]]:
    """The dumps in a text, in each way in which they can be read."""
    lines = list(_DUMP_LINE.finditer("\n" + text))
    if lines:
        yield [(line.start(), line.end() - 1, _printed(_bytes_of(line["bytes"]))) for line in lines]
        if any(len(_DIGITS.findall(line["bytes"])[0]) == 4 for line in lines):
            yield [(line.start(), line.end() - 1, _printed(_bytes_of(line["bytes"], swapped=True))) for line in lines]
    others = [*_character_lines(text), *_uuencoded(text), *_listed(text), *_ascii85(text)]
    if others:
        yield sorted(others)


def _bytes_of(digits: str, *, swapped: bool = False) -> bytes:
    groups = (bytes.fromhex(group[: len(group) & ~1]) for group in _DIGITS.findall(digits))
    return b"".join(group[::-1] if swapped else group for group in groups)


def _printed(content: Iterable[int]) -> str:
    """These bytes, of ASCII or UTF-16, as ASCII; a line end for each that is not printed."""
    content = bytes(content)
    if content[1::2].count(0) * 2 >= len(content) - 1 > 0:
        content = content[::2]
    elif content[::2].count(0) * 2 >= len(content) - 1 > 0:
        content = content[1::2]
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


def _listed(text: str) -> Iterator[Run]:
    """Lists of bytes as numbers, and of single characters; each as a text in quotes."""
    for found in _NUMBERS.finditer(text):
        codes = _codes_of(_ONE_NUMBER.findall(found[0]))
        codes = codes[: codes.index(0) if 0 in codes else None]
        if codes and all(9 <= code < 127 for code in codes):
            before = _BEFORE_NUMBERS.search(text[max(0, found.start() - 20) : found.start()])
            yield found.start() - len(before[0] if before else ""), found.end(), f'"{_printed(codes).strip()}"'
    for found in _CHARACTERS.finditer(text):
        yield *found.span(), '"' + "".join(_CHARACTER.findall(found[0])) + '"'
    for found in _SPACED_LETTERS.finditer(text):
        end = found.end() - 2 * (not text[found.end() : found.end() + 1].isspace() and found.end() < len(text))
        yield found.start() + 1, end, f'"{text[found.start() + 1 : end : 2]}"'


def _codes_of(numbers: Sequence[str]) -> list[int]:
    """What these numbers are in the base that they are written in."""
    if all(len(number) == 8 for number in numbers):
        return [int(number, 2) for number in numbers]
    if numbers[0].startswith("0x"):
        return [int(number, 16) for number in numbers]
    codes = list(map(int, numbers))
    if max(codes) < 127 or any(not set(number) < set("01234567") for number in numbers):
        return codes
    return [int(number, 8) for number in numbers]


def _ascii85(text: str) -> Iterator[Run]:
    for found in _ASCII85.finditer(text):
        try:
            yield *found.span(), _printed(base64.a85decode(found[0], adobe=True))
        except ValueError:
            continue
