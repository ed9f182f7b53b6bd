"""Importer that writes imported sessions as records into a folder, one record per session.

Existing records are never overwritten unless the caller asks for it, and no record appears before it is complete.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import copy
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from shutil import copyfileobj, rmtree
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ..base.version import __version__
from ..decision import WrongUse
from ..records import compression as zst
from ..records.attachments import attachments_folder
from ..records.format import Redact
from ..records.reader import read_header
from ..records.recorder import RecordWriter
from .imported_session import ImportedSession, ImportOptions
from .parsing import format_time
from .session_files import FoundSession, SkippedSession, explain_error
from .to_events import Sink, write_events

PLAIN, COMPRESSED = ".jsonl", f".jsonl{zst.SUFFIX}"
MAX_NAME_BYTES = 120
"""Maximum length of a name without suffixes, in bytes; file systems allow 255."""
_DEVICE_NAMES = frozenset(
    {"con", "prn", "aux", "nul", *(f"{name}{n}" for name in ("com", "lpt") for n in range(1, 10))}
)
"""Names of devices on Windows, which no file can have, regardless of what follows the first dot of its name."""
T = TypeVar("T")
Complete = Callable[[str, ImportedSession], None]


class ImportedRecord(Struct, frozen=True, kw_only=True):
    """A session that was imported."""

    session_id: str
    record: str
    """Path of the record."""
    format: str
    source: str
    """Path of the file it came from."""
    place: str
    """Where in the file the session is, such as `line 3`; empty if it is the whole file."""
    runs: int
    steps: int
    lost: Counter[str]


class Importer:
    """Importer of sessions into one folder."""

    def __init__(
        self,
        folder: RecordFolder,
        options: ImportOptions = ImportOptions(),  # noqa: B008
        complete: Complete | None = None,
        assign: Callable[[str], str] | None = None,
        now: float | None = None,
    ) -> None:
        """Set the target folder and how sessions are imported.

        complete: called with each session and the name of its record before that is written; may add to the session.
        assign: returns the name of the record for a session's id (default: `RecordNames`).
        now: time at which the records are made, in seconds since the epoch.
        """
        self._folder = folder
        self._options = options
        self._complete = complete
        self._assign = assign or RecordNames().assign
        self._now = datetime.now(UTC).timestamp() if now is None else now
        self.tool_names: set[str] = set()
        """Names of all tools that were offered or called so far."""

    def import_all(self, found: Iterable[FoundSession | SkippedSession]) -> Iterator[ImportedRecord | SkippedSession]:
        """Import each session. A session that cannot be imported is skipped.

        Raises WrongUse or OSError if the folder cannot be written.
        """
        for one in found:
            if isinstance(one, SkippedSession):
                yield one
                continue
            try:
                result: ImportedRecord | SkippedSession = self._import_one(one)
            except RecordExists as error:
                there = f"{self._folder.target} already has a record of it: {error}"
                result = SkippedSession(source=one.source, place=one.place, why=there, known=True)
            except (WrongUse, OSError):
                raise  # the folder is at fault, not the session
            except Exception as error:
                result = SkippedSession(source=one.source, place=one.place, why=explain_error(error))
            yield result

    def _import_one(self, one: FoundSession) -> ImportedRecord:
        name = self._assign(one.id)
        if one.session.parent is not None:
            parent = one.session.parent
            one.session.parent = replace(parent, session_id=record_name(parent.session_id))
        if self._complete is not None:
            self._complete(name, one.session)
        path, stats = self._folder.write(
            name, self._now, lambda sink: write_events(one.session, name, one.format, self._options, sink)
        )
        self.tool_names |= stats.tool_names
        return ImportedRecord(
            session_id=name,
            record=str(path),
            format=one.format,
            source=one.source,
            place=one.place,
            runs=stats.runs,
            steps=stats.steps,
            lost=one.session.losses,
        )


def total_losses(results: Iterable[ImportedRecord | SkippedSession]) -> Counter[str]:
    """Return the losses of all imported sessions, by kind."""
    total: Counter[str] = Counter()
    for result in results:
        if isinstance(result, ImportedRecord):
            total.update(result.lost)
    return total


# ---- the folder of the records


class RecordExists(Exception):
    """Raised if the folder already has a record of this name."""


class RecordFolder:
    """Folder into which records are written. Raises WrongUse if it cannot be created."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        compress: bool = False,
        replace: bool = False,
        redact: Redact | None = None,
    ) -> None:
        self.path = Path(path)
        self._redact = redact
        self._ending = COMPRESSED if compress else PLAIN
        self._replace = replace
        self._staged_for: RecordFolder | None = None
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise WrongUse(f"{path} is a file: name a folder for the records") from None
        except OSError as error:
            raise WrongUse(f"cannot make the folder {path}: {error.strerror}") from None

    def write(self, name: str, now: float, write_events: Callable[[Sink], T]) -> tuple[Path, T]:
        """Write a record of this name: its header, then the events that `write_events` passes to its argument.

        The record appears once it is complete. Raises RecordExists if the name is taken, unless the folder replaces
        records; a file that is not a record is never replaced.
        """
        if self._staged_for is not None:
            self._staged_for.records_to_replace(name)
        path, there = self._record_path(name), self.records_to_replace(name)
        part = self.path / f".{name}.{os.getpid()}.part"
        attachments = attachments_folder(path)
        had_attachments = os.path.lexists(attachments)
        try:
            part.unlink(missing_ok=True)
            writer = RecordWriter(part, name, format_time(now), __version__, redact=self._redact, named=path)
            try:
                result = write_events(writer.write)
            finally:
                writer.close()
            if self._ending == COMPRESSED:
                _compress(part)
            _appear(part, path, there)
        except BaseException:
            if not had_attachments:
                rmtree(attachments, ignore_errors=True)
            raise
        finally:
            part.unlink(missing_ok=True)
        return path, result

    @property
    def target(self) -> Path:
        """The folder for the records."""
        return self.path if self._staged_for is None else self._staged_for.path

    def staged(self, path: Path) -> RecordFolder:
        """Return a folder for records that this one takes in later. A name that is taken here is also taken there."""
        other = copy(self)
        other.path, other._staged_for = path, self
        path.mkdir(parents=True)
        return other

    def take_in(self, record: Path) -> Path:
        """Move a record and its attachments here from a `staged` folder, and return its path.

        Raises RecordExists as `write` does.
        """
        name = record.name.removesuffix(self._ending)
        path, there = self._record_path(name), self.records_to_replace(name)
        staged, attachments = attachments_folder(record), attachments_folder(path)
        for attachment in staged.iterdir() if staged.is_dir() else ():
            attachments.mkdir(exist_ok=True)
            os.replace(attachment, attachments / attachment.name)
        _appear(record, path, there)
        record.unlink(missing_ok=True)
        return path

    def records_to_replace(self, name: str) -> list[Path]:
        """Return the records of this name that a new one replaces. Raises RecordExists if they must stay."""
        paths = (self.path / f"{name}{ending}" for ending in (PLAIN, COMPRESSED))
        there = [old for old in paths if os.path.lexists(old)]
        if there and not (self._replace and all(map(_is_record, there))):
            raise RecordExists(there[0].name)
        return there

    def _record_path(self, name: str) -> Path:
        return self.path / f"{name}{self._ending}"


def _compress(part: Path) -> None:
    """Compress a complete record in place."""
    packed = part.with_name(f"{part.name}{zst.SUFFIX}")
    with open(part, "rb") as plain, zst.create_file(packed) as file:
        copyfileobj(plain, file, 1024 * 1024)
    os.replace(packed, part)


def _appear(part: Path, path: Path, there: list[Path]) -> None:
    """Give a complete record its name, in place of the records in `there`.

    Raises RecordExists if `there` is empty and another process has written the record meanwhile.
    """
    if there:
        os.replace(part, path)
        for old in there:
            if old != path:
                old.unlink()
        return
    try:
        os.link(part, path)  # unlike a replacement, this fails if another process was faster
    except FileExistsError:
        raise RecordExists(path.name) from None
    except OSError:  # the file system has no hard links
        if os.path.lexists(path):
            raise RecordExists(path.name) from None
        os.replace(part, path)


def _is_record(path: Path) -> bool:
    with suppress(WrongUse):
        read_header(path)
        return True
    return False


# ---- names of records


def record_name(id: str) -> str:
    """Return a file name for a session id, which may be any text.

    Letters, digits, `.`, `_` and `-` are kept, anything else becomes `_`. If that changes or cuts the id, eight digits
    of its hash are added, so that different ids have different names.
    """
    letters = unicodedata.normalize("NFC", id)
    name = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in letters)
    name = name.lstrip(".-").rstrip(".")  # not a hidden file or command-line option, and no trailing dot (Windows)
    name = name.encode("utf-8", "replace")[:MAX_NAME_BYTES].decode("utf-8", "ignore")
    if not name.strip("._-") or name.partition(".")[0].lower() in _DEVICE_NAMES:
        name = f"session_{name}".rstrip("._")
    return name if name == id else f"{name}-{blake2b(id.encode('utf-8', 'replace'), digest_size=4).hexdigest()}"


class RecordNames:
    """Names assigned in one import: the second session with an id gets the suffix `-2`, the third `-3`."""

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._next: dict[str, int] = {}

    def assign(self, id: str) -> str:
        """Return a name that differs from all assigned before, also on file systems that ignore case."""
        name = wanted = record_name(id)
        while name.casefold() in self._given:
            number = self._next.get(wanted.casefold(), 2)
            self._next[wanted.casefold()] = number + 1
            name = f"{wanted}-{number}"
        self._given.add(name.casefold())
        return name
