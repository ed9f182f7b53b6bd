"""Catalog of the sessions in the viewed files, kept up to date while the files change.

A thread reads the files, the latest first, and its results so far can be requested meanwhile. The figures are the
digests that `endstop report` makes, and are cached in the same index. A file is read again when its size or time has
changed; a large file that grows is read so rarely that reading takes at most a tenth of the time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic

import msgspec
from msgspec import Struct

from ..analysis.report import RecordDigest, digest_index, digest_record
from ..analysis.sampling import partly_read, view_ids
from ..analysis.summary import RunSummary
from ..decision import WrongUse
from ..providers._logging import log_warning
from ..records.files import RECORD_SUFFIXES, list_records, subagent_file, subagents_folder
from ..records.index import Stamp, file_stamp, map_files_cached
from ..records.parallel import FileFailure
from ..records.recorder import is_being_written

REFRESH_SECONDS = 2.0
"""Seconds between checks of the folders while somebody requests sessions."""
REDACTED = "redacted: some of its texts were replaced"
"""Message about a record with redacted texts."""
SHARE = 10
"""A check of the folders, or of a growing file, is followed by a pause this many times as long as the check."""
_decode = msgspec.msgpack.Decoder(RecordDigest).decode


class CatalogEntry(Struct, frozen=True, kw_only=True):
    """One file."""

    path: Path
    file: str
    """Path below the given folder, for people."""
    id: str
    """The session's id; with `~2` and so on if an earlier file has the same id."""
    runs: tuple[RunSummary, ...]
    """Summaries of the runs; empty if the file cannot be read."""
    trouble: str | None
    """Why the file or part of it cannot be read, or that texts are redacted; None if it is complete."""
    changed: float
    """Time of its last change, in seconds since 1970."""
    is_written: bool
    """Whether a process is writing to it."""


class ReadingProgress(Struct, frozen=True):
    """Number of files read, and number of files to read."""

    done: int
    total: int


class _File(Struct, frozen=True):
    """A file as it was read. digest: the digest, or the reason why the file cannot be read."""

    stamp: Stamp | None
    digest: RecordDigest | str
    seconds: float
    """Duration of reading."""
    at: float
    """Time of reading, on the monotonic clock."""


class Catalog:
    """Catalog of the sessions in these files and folders. `start` begins to read, and `stop` ends that.

    index_place: the file of the index; None for the one in the cache folder, "" for none.
    on_change: called in the reading thread after files were read or are gone.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        index_place: str | None = None,
        processes: int | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self.paths = [Path(path) for path in paths]
        self.generation = 0
        """Incremented with each change."""
        self.problems: dict[str, str] = {}
        """Folders that cannot be read now, with the reason."""
        self.index_problem = ""
        self.on_change = on_change
        self._index_place, self._processes = index_place, processes
        self._files: dict[Path, _File] = {}
        self._written: set[Path] = set()
        self._made: dict[Path, tuple[_File, CatalogEntry]] = {}
        self._subagents: dict[str, tuple[_File, CatalogEntry]] = {}
        self._reading: ReadingProgress | None = ReadingProgress(0, 0)
        self._stopping = threading.Event()
        self._asked = threading.Event()
        self._read_once = threading.Event()
        self._listed: tuple[int, list[CatalogEntry], dict[str, CatalogEntry]] = (-1, [], {})
        self._thread = threading.Thread(target=self._work, name="endstop-catalog", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """End reading as soon as the current file is done, without waiting for that."""
        self._stopping.set()
        self._asked.set()

    def join(self, seconds: float) -> None:
        """Wait until reading has ended, at most this many seconds."""
        self._thread.join(seconds)

    def wait_until_read(self, seconds: float) -> bool:
        """Wait until all files have been read once. Return False if that takes longer."""
        return self._read_once.wait(seconds)

    @property
    def reading(self) -> ReadingProgress | None:
        """Progress of reading new files; None if all are read."""
        return self._reading

    def entries(self) -> Sequence[CatalogEntry]:
        """Return all files that have been read, by path. Makes the catalog check for changes soon."""
        self._asked.set()
        return self._list()[1]

    def readable_files(self) -> list[Path]:
        """Return the files that can be read, the latest first."""
        files = [(path, file) for path, file in self._files.copy().items() if isinstance(file.digest, RecordDigest)]
        files.sort(key=lambda item: item[1].stamp[1] if item[1].stamp is not None else 0, reverse=True)
        return [path for path, _ in files]

    def entry(self, session_id: str) -> CatalogEntry | None:
        """Return the file of a session that is listed; None if there is none."""
        return self._list()[2].get(session_id)

    def subagent_entry(self, session_id: str) -> CatalogEntry | None:
        """Return the file of a sub-agent, which is next to its caller's and not listed; or None. Reads files."""
        known = self._subagents.get(session_id)
        path = _find_subagent([entry.path for entry in self.entries()], session_id) if known is None else known[1].path
        stamp = None if path is None else file_stamp(path)
        if path is None or stamp is None:
            self._subagents.pop(session_id, None)
            return None
        is_written = is_being_written(path)
        if known is not None and known[0].stamp == stamp and known[1].is_written == is_written:
            return known[1]
        try:
            digest: RecordDigest | str = _decode(digest_record(path))
        except WrongUse as error:
            digest = str(error)
        file = _File(stamp, digest, 0.0, monotonic())
        entry = self._entry(path, file, session_id, is_written)
        self._subagents[session_id] = file, entry
        return entry

    def _list(self) -> tuple[int, list[CatalogEntry], dict[str, CatalogEntry]]:
        generation = self.generation
        if self._listed[0] != generation:
            entries = self._entries()
            self._listed = generation, entries, {entry.id: entry for entry in entries}
        return self._listed

    def _entries(self) -> list[CatalogEntry]:
        before, self._made = self._made, {}
        files = self._files.copy()
        for path, id in view_ids({path: self._own_id(path, file) for path, file in files.items()}).items():
            file = files[path]
            made = before.get(path)
            if made is None or made[0] is not file or made[1].id != id or made[1].is_written != (path in self._written):
                made = file, self._entry(path, file, id, path in self._written)
            self._made[path] = made
        return [entry for _, entry in self._made.values()]

    def _own_id(self, path: Path, file: _File) -> str:
        digest = file.digest
        return digest.runs[0].session_id if isinstance(digest, RecordDigest) else f"file:{self.name_of(path)}"

    def _entry(self, path: Path, file: _File, id: str, is_written: bool) -> CatalogEntry:
        shown = self.name_of(path)
        digest = file.digest if isinstance(file.digest, RecordDigest) else None
        changed = 0.0 if file.stamp is None else file.stamp[1] / 1e9
        return CatalogEntry(
            path=path,
            file=shown,
            id=id,
            runs=() if digest is None else digest.runs,
            trouble=_trouble(path, file.digest, is_written),
            changed=changed,
            is_written=is_written,
        )

    def name_of(self, path: Path) -> str:
        """Return the path of a file below the given folder."""
        for folder in self.paths:
            with suppress(ValueError):
                below = path.relative_to(folder)
                return _text(path.name if below == Path() else below)
        return _text(path)

    # ---- in the thread

    def _work(self) -> None:
        while not self._stopping.is_set():
            self._asked.clear()
            began, before = monotonic(), self.generation
            try:
                self._refresh()
            except WrongUse as error:  # the worker processes cannot be started; the next check tries again
                log_warning("records cannot be read", error=str(error))
            self._read_once.set()
            if self.generation != before and not self._stopping.is_set():
                self.on_change()
            if self._stopping.wait(max(REFRESH_SECONDS, SHARE * (monotonic() - began))):
                return
            self._asked.wait()

    def _refresh(self) -> None:
        """Check for changes, and read changed files."""
        paths, self.problems = list_records(self.paths)
        gone = self._files.keys() - set(paths)
        for path in gone:
            del self._files[path]
        changed, stamps = self._changed(paths)
        new = sum(path not in self._files for path in changed)
        if gone:
            self.generation += 1
        if changed:
            self._reading = ReadingProgress(0, new) if new else None
            self._read(changed, stamps, new)
        self._reading = None
        written = {path for path, file in self._files.items() if _is_unfinished(file) and is_being_written(path)}
        if written != self._written:
            self._written = written
            self.generation += 1

    def _changed(self, paths: Sequence[Path]) -> tuple[list[Path], dict[Path, Stamp | None]]:
        """Return the files to read, the latest first, and the stamps of all files."""
        stamps = {path: file_stamp(path) for path in paths}
        now = monotonic()

        def is_due(path: Path) -> bool:
            file = self._files.get(path)
            return file is None or (file.stamp != stamps[path] and now - file.at >= SHARE * file.seconds)

        changed = [path for path in paths if is_due(path)]
        changed.sort(key=lambda path: stamps[path][1] if stamps[path] is not None else 0, reverse=True)  # type: ignore[index]
        return changed, stamps

    def _read(self, paths: Sequence[Path], stamps: Mapping[Path, Stamp | None], new: int) -> None:
        index = None if self._index_place == "" else digest_index(self._index_place)
        done = 0
        latest = monotonic()
        try:
            with closing(map_files_cached(index, digest_record, paths, processes=self._processes)) as results:
                for path, result in results:
                    digest = result.message if isinstance(result, FileFailure) else _decode(result)
                    now = monotonic()
                    done += path not in self._files
                    self._files[path] = _File(stamps[path], digest, now - latest, now)
                    latest = now
                    self.generation += 1
                    if new:
                        self._reading = ReadingProgress(done, new)
                    if self._stopping.is_set():
                        return
        finally:
            if index is not None:
                index.close()
                self.index_problem = index.problem


def _find_subagent(callers: Sequence[Path], session_id: str) -> Path | None:
    """Return the record of a sub-agent of one of these sessions, or of a sub-agent of a sub-agent."""
    name = subagent_file("", session_id).removesuffix(".jsonl")
    endings = tuple(name + suffix for suffix in RECORD_SUFFIXES)
    waiting = list(callers)
    for caller in waiting:  # this list grows, because sub-agents have sub-agents
        try:
            found = [entry for entry in os.scandir(subagents_folder(caller)) if entry.is_file()]
        except OSError:  # most records have no such folder
            continue
        for entry in found:
            if entry.name.endswith(endings):
                return Path(entry.path)
        waiting += [Path(entry.path) for entry in found if entry.name.endswith(RECORD_SUFFIXES)]
    return None


def _text(path: str | os.PathLike[str]) -> str:
    """Return a path as text that JSON can hold, because a file name need not be valid text."""
    return os.fsencode(path).decode("utf-8", "replace")


def _is_unfinished(file: _File) -> bool:
    return isinstance(file.digest, RecordDigest) and file.digest.runs[-1].status is None


def without_path(message: str, path: Path) -> str:
    """Return the message of an error about a file, without the file's path at its start."""
    return message.removeprefix(f"{path}: ").removeprefix(f"{path} ")


def _trouble(path: Path, digest: RecordDigest | str, is_written: bool) -> str | None:
    """Return why a file or part of it cannot be read. The last line of a file being written may be incomplete."""
    if isinstance(digest, str):
        return without_path(digest, path)
    torn = 1 if is_written and digest.damaged else 0
    partly = partly_read("", digest.damaged - torn, digest.lost, "shown")
    return "; ".join([*([] if partly is None else [partly.why]), *([REDACTED] if digest.redacted else [])]) or None
