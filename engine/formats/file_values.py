"""Reader of the JSON values of a file: one value of JSON, or many of JSON Lines.

JSON Lines are read line by line, so that a file may have any size. JSON is mapped into memory, and an array of sessions
is split without decoding it as a whole. Unreadable values are reported with their place, and the rest is still read.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any

import msgspec
from msgspec import Struct

from ..records.format import BYTE_ORDER_MARK, begins_record
from . import codex
from .imported_session import Unreadable
from .response_items import is_item

MAX_SESSION_BYTES = 256 * 1024 * 1024
"""Size limit of a session: a line of JSON Lines, or an element of a JSON array."""
TOO_LARGE = (
    f"larger than {MAX_SESSION_BYTES // 1024 // 1024} MiB, which no session should be: split the file into sessions"
)
TOO_DEEP = "nested too deeply to be a session"
_WHOLE_BYTES = 64 * 1024 * 1024
"""Size limit in bytes for decoding a file that begins like an object at once, on trial. For JSON Lines, this reads no
more than the first line before it fails."""
_LINES_SAMPLED = 20
"""Number of lines at the beginning of a file of which one must be JSON for the file to be JSON Lines."""
_UNSUPPORTED_ENCODINGS: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xfe", "text in UTF-16: convert it to UTF-8"),
    (b"\xfe\xff", "text in UTF-16: convert it to UTF-8"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ\x00", "compressed with xz: unpack it first"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive: unpack it first"),
)
_TAR_MARK, _TAR_MARK_AT = b"ustar", 257
_STRUCTURE = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\],]', re.DOTALL)
"""Pattern for strings (the last may be cut off) and for the punctuation between values."""
_decode = msgspec.json.Decoder().decode

MESSAGES = "messages"
"""Owner of lines that are messages or similar, of no particular program."""
Owner = Callable[[Any, str], str]
"""Function that returns whose session a value is a part of: the name of a format, `MESSAGES`, or empty if the value is
not one of many parts. Its second argument is the owner of the value before it."""


class FileValue(Struct, kw_only=True):
    """One JSON value of a file, which holds one or more sessions: the whole file, a line, or an element of an array."""

    place: str
    """`line 3`, `element 2`; empty if it is the whole file."""
    number: int = 0
    """Number of the line or element, from 1; 0 if it is the whole file."""
    data: Any = None
    error: str = ""
    """Reason why it cannot be read; empty if it can."""
    torn: bool = False
    """Whether the file ends after it in an unreadable line, so that the end of its session is unknown."""


def message_owner(data: Any, before: str) -> str:
    """Return the owner of a value: the `Owner` function that only knows messages."""
    return MESSAGES if is_session_part(data) else ""


def read_values(file: IO[bytes], owner: Owner = message_owner) -> Iterator[FileValue]:
    """Yield the values in a seekable file. Raises Unreadable if it is neither JSON nor JSON Lines.

    Consecutive lines, and the elements of an array, are one value if they have the same `owner`.
    """
    head = file.read(4096)
    if not head.strip(BYTE_ORDER_MARK + b" \t\r\n") and len(head) < 4096:
        raise Unreadable("empty")
    if begins_record(head.splitlines()):
        raise Unreadable("already an endstop record, which needs no import: name the file itself")
    for mark, what in _UNSUPPORTED_ENCODINGS:
        if head.startswith(mark):
            raise Unreadable(what)
    if head[_TAR_MARK_AT:].startswith(_TAR_MARK):
        raise Unreadable("a tar archive: unpack it first")
    begins = len(BYTE_ORDER_MARK) if head.startswith(BYTE_ORDER_MARK) else 0
    if (value := _read_object(file, begins)) is not None:
        yield value
        return
    if _is_json_lines(file, begins):
        yield from _group_lines(_read_lines(file, begins, owner), owner)
    else:
        yield from _read_json(file, begins, owner)


def _read_object(file: IO[bytes], begins: int) -> FileValue | None:
    """Return the file as one JSON object, decoded once; None if it is anything else or too large to try."""
    size = file.seek(0, os.SEEK_END)
    file.seek(begins)
    if size > _WHOLE_BYTES or file.read(64).lstrip()[:1] != b"{":
        return None
    try:
        return FileValue(place="", data=_decode(_map_file(file, begins)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_json_lines(file: IO[bytes], begins: int) -> bool:
    """Return whether it is JSON Lines: the first of several lines is JSON, or another line is and the file is not."""
    file.seek(begins)
    lines = islice(_bounded_lines(file), _LINES_SAMPLED)
    first = next(lines, None)
    if first is None:
        raise Unreadable("empty")
    if _is_container(first[1]):
        return next(lines, None) is not None
    return any(_is_container(line) for _, line in lines) and not _is_json(_map_file(file, begins))


def _is_container(line: bytes | None) -> bool:
    if line is None or line.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        decode_json(line)
    except Unreadable:
        return False
    return True


def _is_json(text: memoryview) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    except RecursionError:
        pass
    return True


# ---- JSON Lines


def _bounded_lines(file: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Yield the lines that are not blank, with their numbers, and None in place of a line that is too long."""
    number = 0
    while line := file.readline(MAX_SESSION_BYTES + 1):
        number += 1
        if len(line) <= MAX_SESSION_BYTES:
            if line.strip():
                yield number, line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(1024 * 1024)
        yield number, None


def _read_lines(file: IO[bytes], begins: int, owner: Owner) -> Iterator[FileValue]:
    file.seek(begins)
    for number, line in _bounded_lines(file):
        value = FileValue(place=f"line {number}", number=number)
        try:
            if line is None:
                raise Unreadable(TOO_LARGE)
            value.data = decode_json(line.rstrip(b"\r\n"))
        except Unreadable as error:
            value.error = str(error)
        yield from _split_line(value, owner)


def _split_line(value: FileValue, owner: Owner) -> Iterator[FileValue]:
    """Split a line that contains a list of sessions into its elements. Yield any other line unchanged."""
    if not isinstance(value.data, list) or not value.data or owner(value.data[0], ""):
        yield value
        return
    for number, data in enumerate(value.data, 1):
        yield FileValue(place=f"{value.place}, element {number}", number=value.number, data=data)


def _group_lines(values: Iterator[FileValue], owner: Owner) -> Iterator[FileValue]:
    """Join consecutive lines of one owner into one session. A line without an owner stays with its format's lines."""
    group: list[FileValue] = []
    current, others, torn = "", False, False
    for value in values:
        torn = bool(value.error)
        if torn:
            others = True
            yield value
            continue
        found = owner(value.data, current)
        if group and (found == current or (not found and current != MESSAGES)):
            group.append(value)
            continue
        if group:
            others = True
            yield _join_lines(group, alone=False)
        current, group = found, [value] if found else []
        if not found:
            others = True
            yield value
    if group:
        joined = _join_lines(group, alone=not others)
        joined.torn = torn
        yield joined


def _join_lines(group: list[FileValue], alone: bool) -> FileValue:
    first, last = group[0], group[-1]
    data = [value.data for value in group]
    if alone:
        return FileValue(place="", data=data)
    return FileValue(place=f"lines {first.number} to {last.number}", number=first.number, data=data)


def is_session_part(data: Any) -> bool:
    """Return whether this is part of a session: a message, a wrapped message, a response item or an HTTP reply."""
    if not isinstance(data, dict):
        return False
    if isinstance(data.get("role"), str):
        return not any(isinstance(data.get(name), list) for name in ("messages", "traj", "history"))
    if is_item(data) or codex.is_old_line(data):
        return True
    if isinstance(data.get("message"), dict) and "role" in data["message"]:
        return True
    return {"path", "status", "response"} <= data.keys()


# ---- JSON


def _map_file(file: IO[bytes], begins: int) -> memoryview:
    """Return the file mapped into memory for as long as something refers to it."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[begins:]


def _read_json(file: IO[bytes], begins: int, owner: Owner) -> Iterator[FileValue]:
    text = _map_file(file, begins)
    values = [(0, len(text))] if _is_json(text) else list(split_values(text))
    if not values or bytes(text[: values[0][0]]).strip():
        raise Unreadable("neither JSON nor JSON Lines")
    number = 0
    for start, end in values:
        for value in _sessions_of_value(text[start:end], len(values) == 1, owner):
            number += 1
            if value.place:
                value.number, value.place = number, f"element {number}"
            yield value


def _sessions_of_value(text: memoryview, alone: bool, owner: Owner) -> Iterator[FileValue]:
    """Yield the elements of an array of sessions, or any other value unchanged."""
    place = "" if alone else "one of several"
    if bytes(text[:64]).lstrip()[:1] != b"[":
        yield _read_value(text, place)
        return
    parts = list(split_array(text)) if (raws := _raw_elements(text)) is None else raws
    if not parts:
        raise Unreadable("an empty array")
    if owner(_read_value(_slice(text, parts[0]), "").data, ""):
        yield _read_value(text, place)
        return
    for part in parts:
        yield _read_value(_slice(text, part), "one of several")


def _raw_elements(text: memoryview) -> list[Any] | None:
    try:
        return msgspec.json.decode(text, type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _slice(text: memoryview, part: Any) -> memoryview:
    return text[part[0] : part[1]] if isinstance(part, tuple) else memoryview(part)


def _read_value(data: memoryview, place: str) -> FileValue:
    try:
        return FileValue(place=place, data=decode_json(data))
    except Unreadable as error:
        return FileValue(place=place, error=str(error))


# ---- tolerant decoding


def decode_json(data: bytes | memoryview) -> Any:
    """Decode JSON, including some that strict decoders reject. Raises Unreadable with the place of the error.

    Python writes NaN and escapes lone surrogates; a file that was cut at a byte contains invalid UTF-8. NaN is read as
    a number, surrogates and invalid bytes as replacement characters.
    """
    if len(data) > MAX_SESSION_BYTES:
        raise Unreadable(TOO_LARGE)
    try:
        return _decode(data)
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _decode_tolerantly(bytes(data), error)


def _decode_tolerantly(data: bytes, strict: Exception) -> Any:
    try:
        return _replace_surrogates(json.loads(data.decode("utf-8", "replace")))
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except ValueError:
        raise Unreadable(f"invalid JSON: {str(strict)[:200]}") from None


def _replace_surrogates(value: Any) -> Any:
    """Return the value without lone surrogates, which UTF-8 cannot encode."""
    match value:
        case str():
            return value.encode("utf-8", "replace").decode() if not value.isascii() else value
        case list():
            return [_replace_surrogates(part) for part in value]
        case dict():
            return {_replace_surrogates(name): _replace_surrogates(part) for name, part in value.items()}
        case _:
            return value


# ---- values in broken JSON


def split_values(text: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each top-level object or array, also in text that is not valid JSON.

    Only strings and brackets are examined, so that intact values around an error are found. The last value may be cut
    off.
    """
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


def split_array(text: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each element of the array at the start of the text, even if it is not valid JSON."""
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
