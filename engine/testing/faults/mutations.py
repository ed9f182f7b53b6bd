"""Changes to data: bytes flipped, removed, added or repeated, inputs joined or re-encoded, JSON values replaced.

The same random numbers make the same change. JSON is searched for in each line, also after `data:`.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

ODD_BYTES: tuple[bytes, ...] = (
    b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\xf0\x9f\x92", b"\r", b"\n", b"\r\n", b"\n\n",
    b"\x1b[2J", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\\u0000", b"\\ud800", b"\\u", b"NaN", b"-Infinity",
    b"1e999", b"9" * 400, b"-1", b"-0.0", b"null", b"true", b"data: ", b"data:", b"event: error\n", b"[DONE]", b": a\n",
    "\u202e".encode(), "\u2028".encode(), b"=", b"[[", b'"""', b"#", b"'", b"--", b"../", b"%s", b"{}", b"&a ", b"*a",
)  # fmt: skip
"""Byte strings to insert."""
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308, float("nan"),
    float("inf"), "", " ", "0", "-1", "text", "\x00", "\ud800", "\u202e", "a" * 5000, "{", "[]", "NaN", "1e999", "null",
    "../../etc/passwd", [], [None], [[]], [0], [""], [{}], {}, {"": None}, {"type": {}}, {"a": {"a": {"a": 1}}},
)  # fmt: skip
"""Values to replace a JSON value with."""
DEEP = 3_000
"""Depth of a nested value: more than Python's recursion limit."""
_JSON_LINE = re.compile(rb"(?m)^((?:data:)?[ \t]*)([\[{].*?)\r?$")
_MEMBER = re.compile(rb'("[^"\\]{0,40}":\s*)("[^"\\]{0,200}"|-?\d{1,40}|true|false|null|\[\]|\{\})')
"""Pattern for a member of a JSON object whose value contains no other values."""
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig")
_MOST_CHANGES = 3


def mutated(examples: Sequence[bytes], seed: int, number: int) -> bytes:
    """Return one of the examples with one to three changes, the same ones for the same seed and number."""
    random = Random(f"{seed}:{number}")
    data = random.choice(examples)
    for _ in range(random.randint(1, _MOST_CHANGES)):
        data = random.choice(_CHANGES)(data, random, examples)
    return data


def _flip(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Flip one to eight bits."""
    changed = bytearray(data)
    for _ in range(random.randint(1, 8) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Remove a part."""
    start, end = _range(data, random)
    return data[:start] + data[end:]


def _end(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Remove the end."""
    return data[: random.randint(0, len(data))]


def _repeat(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Repeat a part."""
    start, end = _range(data, random)
    return data[:end] + data[start:end] * random.randint(1, 3) + data[end:]


def _move(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Move a part to another place."""
    start, end = _range(data, random)
    rest = data[:start] + data[end:]
    to = random.randint(0, len(rest))
    return rest[:to] + data[start:end] + rest[to:]


def _put_in(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Insert odd bytes."""
    at = random.randint(0, len(data))
    return data[:at] + random.choice(ODD_BYTES) * random.choice((1, 1, 1, 2, 50)) + data[at:]


def _join(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Splice the start of one input onto the end of another."""
    other = random.choice(examples)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def _swap_lines(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Swap a line with another one, remove it, or duplicate it."""
    lines = data.split(b"\n")
    one, two = random.randrange(len(lines)), random.randrange(len(lines))
    match random.randrange(3):
        case 0:
            lines[one], lines[two] = lines[two], lines[one]
        case 1:
            del lines[one]
        case _:
            lines.insert(two, lines[one])
    return b"\n".join(lines)


def _change_json(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Change the type of a value in a line of JSON, or remove, duplicate or rename it."""
    lines = list(_JSON_LINE.finditer(data))
    if lines:
        found = random.choice(lines)
        text, start, end = found[2], found.start(2), found.end(2)
    else:
        text, start, end = data, 0, len(data)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return _put_in(data, random, examples)
    changed = json.dumps(_changed_value(value, random), ensure_ascii=random.random() < 0.5)
    return data[:start] + changed.encode("utf-8", "surrogatepass") + data[end:]


def _nest(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Insert brackets, nested deeper than a parser may follow."""
    if random.random() < 0.9:  # they are long, and one in ten is enough
        return _change_json(data, random, examples)
    at = random.randint(0, len(data))
    opened, closed = random.choice(((b"[", b"]"), (b'{"a":', b"}")))
    return data[:at] + opened * DEEP + b"0" + closed * random.choice((0, DEEP)) + data[at:]


def _encode(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Use another encoding, or insert a byte order mark, or a NUL after each byte of a part."""
    match random.randrange(3):
        case 0:
            return data.decode("utf-8", "replace").encode(random.choice(ENCODINGS))
        case 1:
            return codecs.BOM_UTF8 * random.randint(1, 2) + data
        case _:
            start, end = _range(data, random)
            return data[:start] + data[start:end].decode("latin-1").encode("utf-16-le") + data[end:]


def _double_member(data: bytes, random: Random, examples: Sequence[bytes]) -> bytes:
    """Duplicate a member of a JSON object, perhaps with the value of another member."""
    members = list(_MEMBER.finditer(data))
    if not members:
        return _put_in(data, random, examples)
    one, other = random.choice(members), random.choice(members)
    return data[: one.start()] + one[1] + other[2] + b"," + data[one.start() :]


_CHANGES: tuple[Callable[[bytes, Random, Sequence[bytes]], bytes], ...] = (
    _flip, _cut, _end, _repeat, _move, _put_in, _put_in, _join, _swap_lines,
    *[_change_json] * 6, _nest, _encode, _double_member,
)  # fmt: skip


def _range(data: bytes, random: Random) -> tuple[int, int]:
    """Return start and end of a part, which is short more often than long."""
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((1, 1, 2, 4, 16, 64, 256, len(data))))


def _changed_value(value: Any, random: Random) -> Any:
    """Return the value with one change at a random place in it."""
    inner, parent, key = value, None, None
    while isinstance(inner, dict | list) and inner and random.random() < 0.8:
        parent, key = inner, random.choice(list(inner)) if isinstance(inner, dict) else random.randrange(len(inner))
        inner = parent[key]
    if parent is None or key is None:
        return random.choice(ODD_VALUES)
    match random.randrange(6):
        case 0:
            del parent[key]
        case 1 if isinstance(parent, dict):
            parent[random.choice(list(parent))] = inner
        case 2 if isinstance(parent, list):
            parent += [inner] * random.randint(1, 3)
        case 3:
            parent[key] = [inner] if random.random() < 0.5 else {"a": inner}
        case _:
            parent[key] = random.choice(ODD_VALUES)
    return value
