"""The sessions in files of other loops, whatever is broken beside them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from typing import IO, Any

from msgspec import Struct

from ..decision import AssistantMessage
from ..decision.errors import error_text
from .files import TOO_DEEP, Value, files_in, values_in
from .table import FORMATS, guess
from .transcript import Foreign, Unreadable

AUTO = "auto"
"""In place of a format's name: whichever the data is in."""


class Found(Struct, frozen=True, kw_only=True):
    """One session."""

    foreign: Foreign
    format: str
    id: str
    """The session's own id; where it has none, or one that says little by itself, the file's name is in it."""
    source: str
    """The file it came from."""
    place: str
    """Where in the file; empty if it is all that the file holds."""


class Skipped(Struct, frozen=True, kw_only=True):
    """What is no session, or one that was not imported, and why."""

    source: str
    place: str
    why: str
    known: bool = False
    """True if there is a record of it already."""
    aside: bool = False
    """True if it was found in a folder, and holds no sessions: nothing is amiss."""


def found_in(path: str | os.PathLike[str], format: str = AUTO) -> Iterator[Found | Skipped]:
    """The sessions of a file, or of all files of a folder."""
    place = Path(path)
    for file in files_in(place):
        try:
            opened = open(file, "rb")  # noqa: SIM115  closed below
        except OSError as error:
            yield Skipped(source=str(file), place="", why=f"cannot be read: {error.strerror}")
            continue
        with opened:
            if file.is_file():
                yield from _found(opened, str(file), _stem(file.name), format, inside=place != file)
            else:
                yield from found_in_stream(opened, format, str(file))


def found_in_stream(stream: IO[bytes], format: str = AUTO, source: str = "-") -> Iterator[Found | Skipped]:
    """The sessions of a stream, which is put into a temporary file first."""
    with _spooled(stream) as file:
        yield from _found(file, source, "stdin", format, inside=False)


def why(error: Exception) -> str:
    """Why a session could not be read, in words."""
    match error:
        case Unreadable():
            return str(error)
        case RecursionError():
            return TOO_DEEP
        case _:
            return f"it breaks the rules of its format: {error_text(error)}"


def _found(file: IO[bytes], source: str, stem: str, format: str, inside: bool) -> Iterator[Found | Skipped]:
    try:
        for value in values_in(file):
            yield from _in_value(value, source, stem, format)
    except Unreadable as error:
        yield Skipped(source=source, place="", why=str(error), aside=inside)


def _in_value(value: Value, source: str, stem: str, format: str) -> Iterator[Found | Skipped]:
    """Each session of a value. What breaks the first that breaks is told, whatever it is."""
    try:
        if value.error:
            raise Unreadable(value.error)
        name = format if format != AUTO else guess(value.data)
        if name is None:
            raise Unreadable(f"in none of the formats {', '.join(FORMATS)}")
        for foreign in FORMATS[name].sessions(value.data):
            if not any(isinstance(said.message, AssistantMessage) for said in foreign.said):
                raise Unreadable(_no_response(foreign))
            id = _id(foreign, stem, value.number)
            yield Found(foreign=foreign, format=name, id=id, source=source, place=value.place)
    except Exception as error:
        yield Skipped(source=source, place=value.place, why=why(error) + _hint(value, format))


def _no_response(foreign: Foreign) -> str:
    """Why nothing can be made of it, with the names of what could not be read."""
    unread = [kind.partition(": ")[2] for kind in foreign.lost if kind.startswith(("role: ", "message field: "))]
    if not unread:
        return "it holds no response of a model"
    return f"it holds no response of a model in a form that is known here (not known: {', '.join(sorted(unread)[:8])})"


def _hint(value: Value, format: str) -> str:
    guessed = None if value.error or format == AUTO else guess(value.data)
    return f" (it looks like {guessed})" if guessed is not None and guessed != format else ""


def _stem(name: str) -> str:
    """A file's name without its ending."""
    return name.rsplit(".", 1)[0] if "." in name.strip(".") else name


def _id(foreign: Foreign, stem: str, number: int) -> str:
    if foreign.id and not foreign.within_file:
        return foreign.id
    own: Any = foreign.id or number or ""
    return f"{stem}.{own}" if own else stem


@contextmanager
def _spooled(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        copyfileobj(stream, file, 1024 * 1024)
        file.flush()
        file.seek(0)
        yield file
