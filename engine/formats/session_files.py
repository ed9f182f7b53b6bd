"""Finds the sessions in files of other loops: JSON or JSON Lines, in any of the formats in `FORMATS`.

JSON Lines are read line by line, so that a file may have any size. JSON is mapped into memory, and an array of sessions
is split without decoding it as a whole. What cannot be read is reported with its place, and the rest is still read.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any

import msgspec
from msgspec import Struct

from ..decision import AssistantMessage
from ..decision.errors import error_text
from ..decision.events import SessionSource
from ..records.format import HEADER_PREFIX
from . import anthropic, cline, openai, swe_agent, tau_bench
from .imported_session import ImportedSession, Unreadable
from .response_items import is_item

AUTO = "auto"
"""Given instead of the name of a format: the format of each value is detected."""
MAX_SESSION_BYTES = 256 * 1024 * 1024
"""Size limit of a session: a line of JSON Lines, or an element of a JSON array."""
TOO_LARGE = (
    f"larger than {MAX_SESSION_BYTES // 1024 // 1024} MiB, which no session should be: split the file into sessions"
)
TOO_DEEP = "nested too deeply to be a session"
_LINES_SAMPLED = 20
"""A file is JSON Lines if one of this many lines at its beginning is JSON."""
_UNSUPPORTED_ENCODINGS: tuple[tuple[bytes, str], ...] = (
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstandard: unpack it first"),
    (b"PK\x03\x04", "a ZIP archive: unpack it first"),
    (b"\xff\xfe", "text in UTF-16: convert it to UTF-8"),
    (b"\xfe\xff", "text in UTF-16: convert it to UTF-8"),
)
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],]', re.DOTALL)
_decode = msgspec.json.Decoder().decode


class Format(Struct, frozen=True):
    """A format that can be imported, with the function that reads its sessions and the one that recognises its data."""

    name: str
    sessions: Callable[[Any], Iterator[ImportedSession]]
    """The sessions in data as it comes out of JSON. Raises Unreadable if there are none, or a broken one."""
    matches: Callable[[Any], bool]
    description: str
    """Description for help texts."""


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        Format("cline", cline.sessions, cline.matches, "recorded HTTP replies of chat endpoints"),
        Format("tau-bench", tau_bench.sessions, tau_bench.matches, "results of tau-bench"),
        Format("swe-agent", swe_agent.sessions, swe_agent.matches, "trajectories of SWE-agent (.traj)"),
        Format("anthropic", anthropic.sessions, anthropic.matches, "Anthropic messages, transcripts of Claude Code"),
        Format("openai", openai.sessions, openai.matches, "OpenAI messages"),
    )
}
"""The formats that can be imported, by name, in the order in which they are tried: the most specific first."""


class FoundSession(Struct, frozen=True, kw_only=True):
    """A session in a file."""

    session: ImportedSession
    format: str
    id: str
    """The session's own id; made with the file's name if it has none, or one that is unique only in its file."""
    source: str
    """Path of the file it came from."""
    place: str
    """Where in the file the session is, such as `line 3`; empty if it is the whole file."""


class SkippedSession(Struct, frozen=True, kw_only=True):
    """Something that was not imported, and why."""

    source: str
    place: str
    why: str
    known: bool = False
    """Whether there is already a record of it."""
    aside: bool = False
    """Whether it is a file of a folder that simply holds no sessions, which is not an error."""


def find_sessions(path: str | os.PathLike[str], format: str = AUTO) -> Iterator[FoundSession | SkippedSession]:
    """Find the sessions of a file, or of all files below a folder."""
    place = Path(path)
    for file in list_files(place):
        try:
            opened = open(file, "rb")  # noqa: SIM115  closed below
        except OSError as error:
            yield SkippedSession(source=str(file), place="", why=f"cannot be read: {error.strerror}")
            continue
        with opened:
            if file.is_file():
                name = _path_below(file, place if place != file else file.parent)
                yield from _sessions_in_file(opened, str(file), name, format, inside=place != file)
            else:
                yield from find_sessions_in_stream(opened, format, str(file))


def find_sessions_in_stream(
    stream: IO[bytes], format: str = AUTO, source: str = "-"
) -> Iterator[FoundSession | SkippedSession]:
    """Find the sessions of a stream, which is copied to a temporary file first."""
    with _temporary_copy(stream) as file:
        yield from _sessions_in_file(file, source, "stdin", format, inside=False)


def detect_format(data: Any) -> str | None:
    """The name of the format of this decoded JSON; None if it is none of `FORMATS`."""
    return next((format.name for format in FORMATS.values() if format.matches(data)), None)


def explain_error(error: Exception) -> str:
    """Why a session could not be read."""
    match error:
        case Unreadable():
            return str(error)
        case RecursionError():
            return TOO_DEEP
        case _:
            return f"it does not follow its format: {error_text(error)}"


def _sessions_in_file(
    file: IO[bytes], source: str, name: str, format: str, inside: bool
) -> Iterator[FoundSession | SkippedSession]:
    try:
        for value in read_values(file):
            yield from _sessions_in_value(value, source, name, format)
    except Unreadable as error:
        yield SkippedSession(source=source, place="", why=str(error), aside=inside)


def _sessions_in_value(
    value: FileValue, source: str, file: str, format: str
) -> Iterator[FoundSession | SkippedSession]:
    """The sessions of a value. After the first one that cannot be read, the rest of the value is skipped."""
    try:
        if value.error:
            raise Unreadable(value.error)
        name = format if format != AUTO else detect_format(value.data)
        if name is None:
            raise Unreadable(f"in none of the formats {', '.join(FORMATS)}")
        for session in FORMATS[name].sessions(value.data):
            if not any(isinstance(imported.message, AssistantMessage) for imported in session.messages):
                raise Unreadable(_no_response(session))
            id = _session_id(session, file_stem(file), value.number)
            session.source = SessionSource(file=file, place=value.place, id=id)
            yield FoundSession(session=session, format=name, id=id, source=source, place=value.place)
    except Exception as error:
        yield SkippedSession(source=source, place=value.place, why=explain_error(error) + _hint(value, format))


def _no_response(session: ImportedSession) -> str:
    """Why the session cannot be imported, with the names of roles and fields that are not supported."""
    unread = [kind.partition(": ")[2] for kind in session.losses if kind.startswith(("role: ", "message field: "))]
    if not unread:
        return "it holds no response of a model"
    return f"it holds no response of a model in a supported form (not supported: {', '.join(sorted(unread)[:8])})"


def _hint(value: FileValue, format: str) -> str:
    guessed = None if value.error or format == AUTO else detect_format(value.data)
    return f" (it looks like {guessed})" if guessed is not None and guessed != format else ""


def _session_id(session: ImportedSession, stem: str, number: int) -> str:
    if session.id and not session.within_file:
        return session.id
    own: Any = session.id or number or ""
    return f"{stem}.{own}" if own else stem


def _path_below(file: Path, folder: Path) -> str:
    """The path of a file from this folder on, whose name comes first: nothing above it is written into records."""
    above = os.path.dirname(os.path.abspath(folder))
    return Path(os.path.relpath(os.path.abspath(file), above)).as_posix()


def file_stem(path: str) -> str:
    """The name of a file without its folder and its extension."""
    name = path.rpartition("/")[2]
    return name.rsplit(".", 1)[0] if "." in name.strip(".") else name


@contextmanager
def _temporary_copy(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        copyfileobj(stream, file, 1024 * 1024)
        file.flush()
        file.seek(0)
        yield file


def list_files(path: Path) -> list[Path]:
    """The file itself, or all files below a folder, sorted by name, without hidden ones."""
    if not path.is_dir():
        return [path]
    return sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts)
    )


# ---- values of a file


class FileValue(Struct, kw_only=True):
    """One JSON value of a file, which holds one or more sessions: the whole file, a line, or an element of an array."""

    place: str
    """`line 3`, `element 2`; empty if it is the whole file."""
    number: int = 0
    """Number of the line or element, from 1; 0 if it is the whole file."""
    data: Any = None
    error: str = ""
    """Why it cannot be read; empty if it can."""


def read_values(file: IO[bytes]) -> Iterator[FileValue]:
    """The values in a seekable file. Raises Unreadable if it is neither JSON nor JSON Lines."""
    head = file.read(4096)
    if not head.strip(b" \t\r\n\xef\xbb\xbf") and len(head) < 4096:
        raise Unreadable("empty")
    if head.startswith(HEADER_PREFIX):
        raise Unreadable("already an endstop record: no import needed")
    for mark, what in _UNSUPPORTED_ENCODINGS:
        if head.startswith(mark):
            raise Unreadable(what)
    begins = 3 if head.startswith(b"\xef\xbb\xbf") else 0
    if _is_json_lines(file, begins):
        yield from _group_messages(_read_lines(file, begins))
    else:
        yield from _read_json(file, begins)


def _is_json_lines(file: IO[bytes], begins: int) -> bool:
    """Whether it is JSON Lines: the first line is JSON and others follow, or another line is and the file is not."""
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
    """The lines that are not blank, with their numbers; None instead of a line that is too long."""
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


def _read_lines(file: IO[bytes], begins: int) -> Iterator[FileValue]:
    file.seek(begins)
    for number, line in _bounded_lines(file):
        value = FileValue(place=f"line {number}", number=number)
        try:
            if line is None:
                raise Unreadable(TOO_LARGE)
            value.data = decode_json(line.rstrip(b"\r\n"))
        except Unreadable as error:
            value.error = str(error)
        yield from _split_line(value)


def _split_line(value: FileValue) -> Iterator[FileValue]:
    """Split a line that holds a list of sessions into its elements; yield any other line as it is."""
    if not isinstance(value.data, list) or not value.data or is_session_part(value.data[0]):
        yield value
        return
    for number, data in enumerate(value.data, 1):
        yield FileValue(place=f"{value.place}, element {number}", number=value.number, data=data)


def _group_messages(values: Iterator[FileValue]) -> Iterator[FileValue]:
    """Join consecutive lines that are messages into one session."""
    group: list[FileValue] = []
    others = False
    for value in values:
        if not value.error and is_session_part(value.data):
            group.append(value)
            continue
        if group and not value.error:
            yield _join_lines(group, alone=False)
            group = []
        others = True
        yield value
    if group:
        yield _join_lines(group, alone=not others)


def _join_lines(group: list[FileValue], alone: bool) -> FileValue:
    first, last = group[0], group[-1]
    data = [value.data for value in group]
    if alone:
        return FileValue(place="", data=data)
    return FileValue(place=f"lines {first.number} to {last.number}", number=first.number, data=data)


def is_session_part(data: Any) -> bool:
    """Whether this is a part of a session: a message, a wrapped message, a response item or a recorded HTTP reply."""
    if not isinstance(data, dict):
        return False
    if isinstance(data.get("role"), str):
        return not any(isinstance(data.get(name), list) for name in ("messages", "traj", "history"))
    if is_item(data):
        return True
    if isinstance(data.get("message"), dict) and "role" in data["message"]:
        return True
    if "sessionId" in data or (data.get("type") == "summary" and "leafUuid" in data):
        return "type" in data and "messages" not in data
    return {"path", "status", "response"} <= data.keys()


# ---- JSON


def _map_file(file: IO[bytes], begins: int) -> memoryview:
    """The file mapped into memory, until nothing refers to it any more."""
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[begins:]


def _read_json(file: IO[bytes], begins: int) -> Iterator[FileValue]:
    text = _map_file(file, begins)
    values = [(0, len(text))] if _is_json(text) else list(split_values(text))
    if not values or bytes(text[: values[0][0]]).strip():
        raise Unreadable("neither JSON nor JSON Lines")
    number = 0
    for start, end in values:
        for value in _sessions_of_value(text[start:end], len(values) == 1):
            number += 1
            if value.place:
                value.number, value.place = number, f"element {number}"
            yield value


def _sessions_of_value(text: memoryview, alone: bool) -> Iterator[FileValue]:
    """The elements of an array of sessions; any other value as it is."""
    place = "" if alone else "one of several"
    if bytes(text[:64]).lstrip()[:1] != b"[":
        yield _read_value(text, place)
        return
    parts = list(split_array(text)) if (raws := _raw_elements(text)) is None else raws
    if not parts:
        raise Unreadable("an empty array")
    if is_session_part(_read_value(_slice(text, parts[0]), "").data):
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
    """Decode JSON, including some that strict decoders refuse. Raises Unreadable that says where it is invalid.

    Python writes NaN and escapes lone surrogates; a file that was cut by bytes holds invalid UTF-8. NaN is read as a
    number, surrogates and invalid bytes as replacement characters.
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
    """The value without lone surrogates, which UTF-8 cannot encode."""
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
    """Start and end of each top-level object or array, also in text that is not valid JSON.

    Only strings and brackets are looked at, so that what is intact around an error is found. The last value may be cut
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
    """Start and end of each element of the array at the beginning of the text, also if it is not valid JSON."""
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
