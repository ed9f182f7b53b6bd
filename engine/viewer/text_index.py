"""Text index: finds the sessions in which words occur, and the first step of each in which they do.

An SQLite database (FTS5) in the cache folder, filled by a thread while the viewer serves. For each step it has the
words, and the compressed texts, from which excerpts are made. Texts that are no longer in any file are removed. Only
the first `MAX_TEXT` characters of a text and the first `MAX_FILE_TEXT` of a file are indexed.

If the index cannot be used, `problem` says why, and everything except the search works.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from ..base.sanitize import one_line
from ..decision import WrongUse
from ..records.index import Stamp, default_path, file_stamp
from ..records.parallel import FileFailure, map_files
from ..records.sqlite_file import FAILURES, open_database
from .catalog import ReadingProgress
from .session_list import TextMatch
from .step_texts import MAX_STEPS, IndexedStep, read_step_texts, text_to_match

FILE_NAME = "texts.sqlite"
SCHEMA_VERSION = 1
TEXTS_VERSION = 1
"""Incremented whenever the texts read from the same record change, so that records are read again."""
APPLICATION_ID = 0x656E6474
MAX_BYTES = 4 << 30
"""Maximum size of an index in bytes; one that is larger when it is opened is rebuilt."""
LOCK_TIMEOUT_SECONDS = 5.0
SEARCH_SECONDS = 5.0
"""Maximum seconds for one search."""
PAUSE_SECONDS = 10.0
"""Seconds until a growing file is read again, and until an index that failed is tried again."""
BATCH_BYTES = 4 << 20
"""Number of bytes of compressed texts that are written in one transaction."""
SHORTEST_BEGINNING = 3
"""Minimum length of the last word of a search for it to match beginnings of words."""
BEFORE, AFTER = 60, 160
"""Number of characters of an excerpt before and after the start of the match."""
_TABLES = """
BEGIN;
CREATE TABLE files (
    id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL, changed INTEGER NOT NULL, version INTEGER NOT NULL
);
CREATE TABLE steps (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, step INTEGER NOT NULL, texts BLOB NOT NULL);
CREATE VIRTUAL TABLE words USING fts5(
    text, content='', columnsize=0, prefix='3', tokenize="unicode61 remove_diacritics 0"
);
COMMIT;
"""
_STEP_BITS = MAX_STEPS.bit_length()
"""Number of bits for the place of a step in its file. The id of a step is the id of its file followed by these bits."""


class SearchFailed(Exception):
    """The index cannot answer. The message says why."""


class TextIndex:
    """Index of the words in a catalog's files.

    files: returns the readable files, the latest first. place: the file of the index; None for the one in the cache
    folder. processes: as for `map_files`.
    """

    def __init__(
        self, files: Callable[[], Sequence[Path]], *, place: Path | None = None, processes: int | None = None
    ) -> None:
        self.place = place or default_path().with_name(FILE_NAME)
        self.problem = ""
        """Why there is no search; empty while there is one."""
        self._files, self._processes = files, processes
        self._progress: ReadingProgress | None = ReadingProgress(0, 0)
        self._ids: dict[int, Path] = {}
        """Viewed files that are in the index."""
        self._read_at: dict[Path, float] = {}
        self._stopping = threading.Event()
        self._changed = threading.Event()
        self._built = threading.Event()
        self._reading = threading.Lock()
        self._reader: sqlite3.Connection | None = None
        self._thread = threading.Thread(target=self._work, name="endstop-texts", daemon=True)

    @property
    def progress(self) -> ReadingProgress | None:
        """Number of files in the index; None if it has all."""
        return self._progress

    def start(self) -> None:
        """Begin to fill the index after `update` is called."""
        self._thread.start()

    def stop(self) -> None:
        """End filling as soon as the current file is done, without waiting for that."""
        self._stopping.set()
        self._changed.set()

    def join(self, seconds: float) -> None:
        """Wait until filling has ended, at most this many seconds."""
        self._thread.join(seconds)

    def update(self) -> None:
        """Look for new and changed files."""
        self._changed.set()

    def wait_until_built(self, seconds: float) -> bool:
        """Wait until the index has been filled once. Return False if that takes longer."""
        return self._built.wait(seconds)

    # ---- searching

    def search(self, text: str) -> dict[Path, int]:
        """Return, for each file with a step in which all words of the text occur, the first such step.

        Words in quotation marks must occur together in this order; the last word may be the beginning of a longer one.
        Raises SearchFailed.
        """
        asked = match_expression(text)
        if not asked:
            return {}
        found = self._read(
            f"SELECT rowid >> {_STEP_BITS}, min(rowid) FROM words WHERE words MATCH ? GROUP BY 1", (asked,)
        )
        ids = self._ids.copy()
        return {ids[file]: first for file, first in found if file in ids}

    def match(self, step_id: int, text: str) -> TextMatch | None:
        """Return where the text occurs in this step; None if the step is no longer indexed. Raises SearchFailed."""
        rows = self._read("SELECT run, step, texts FROM steps WHERE id = ?", (step_id,))
        if not rows:
            return None
        run, step, texts = rows[0]
        seq, excerpt = find_excerpt(IndexedStep(run, step, texts).texts(), text)
        return TextMatch(run=run, step=step, seq=seq, excerpt=excerpt)

    def _read(self, select: str, values: tuple[object, ...]) -> list[Any]:
        if self.problem:
            raise SearchFailed(self.problem)
        with self._reading:
            try:
                if self._reader is None:
                    self._reader = self._open(one_thread=False)
                deadline = monotonic() + SEARCH_SECONDS
                self._reader.set_progress_handler(lambda: monotonic() > deadline, 100_000)
                return self._reader.execute(select, values).fetchall()
            except sqlite3.OperationalError as error:
                if "interrupted" in str(error):
                    raise SearchFailed("the search takes too long: write longer words, or more of them") from None
                raise SearchFailed(f"the text index {self.place} cannot be read: {error}") from None
            except (OSError, *FAILURES) as error:
                raise SearchFailed(f"the text index {self.place} cannot be read: {error}") from None

    # ---- filling, in the thread

    def _work(self) -> None:
        retry: float | None = None
        self._remove_if_large()
        while True:
            self._changed.wait(retry)
            self._changed.clear()
            if self._stopping.is_set():
                return
            try:
                with closing(self._open()) as database:
                    retry = PAUSE_SECONDS if self._update(database) else None
                self.problem = ""
            except (OSError, *FAILURES) as error:
                why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
                self.problem = f"there is no text search, because the index {self.place} cannot be used: {why}"
                retry = PAUSE_SECONDS
            except WrongUse as error:  # the worker processes cannot be started
                self.problem = f"there is no text search: {error}"
                retry = PAUSE_SECONDS
            self._progress = None
            self._built.set()

    def _remove_if_large(self) -> None:
        with suppress(OSError):
            if self.place.stat().st_size > MAX_BYTES:
                for suffix in ("", "-wal", "-shm"):
                    Path(f"{self.place}{suffix}").unlink(missing_ok=True)

    def _open(self, *, one_thread: bool = True) -> sqlite3.Connection:
        self.place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return open_database(
            self.place,
            what="an endstop text index",
            application_id=APPLICATION_ID,
            version=SCHEMA_VERSION,
            tables=_TABLES,
            timeout=LOCK_TIMEOUT_SECONDS,
            one_thread=one_thread,
        )

    def _update(self, database: sqlite3.Connection) -> bool:
        """Read new and changed files, and remove missing ones. Return whether changed files are left."""
        files = self._files()
        stamps = {path: file_stamp(path) for path in files}
        known = {
            Path(os.fsdecode(path)): (id, (size, changed) if version == TEXTS_VERSION else None)
            for id, path, size, changed, version in database.execute("SELECT * FROM files")
        }
        absolute = {path: Path(os.path.abspath(path)) for path in files}
        changed = [path for path in files if known.get(absolute[path], (0, None))[1] != stamps[path]]
        now = monotonic()
        missing = [path for path in changed if now - self._read_at.get(path, -PAUSE_SECONDS) >= PAUSE_SECONDS]
        self._ids = {known[absolute[path]][0]: path for path in files if absolute[path] in known}
        self._remove_gone(database, known, set(absolute.values()))
        if any(absolute[path] not in known for path in missing):
            self._progress = ReadingProgress(len(files) - len(missing), len(files))
        with closing(map_files(read_step_texts, missing, processes=self._processes)) as results:
            for batch in self._batches(results):
                _write(database, batch, stamps, absolute, self._ids)
                self._read_at |= dict.fromkeys((path for path, _ in batch), monotonic())
                if self._stopping.is_set():
                    break
        return len(missing) < len(changed)

    def _batches(
        self, results: Iterator[tuple[Path, list[IndexedStep] | FileFailure]]
    ) -> Iterator[list[tuple[Path, list[IndexedStep]]]]:
        """Yield the results in batches of about `BATCH_BYTES`. Files that cannot be read have no steps."""
        batch: list[tuple[Path, list[IndexedStep]]] = []
        size = 0
        for path, result in results:
            steps = [] if isinstance(result, FileFailure) else result
            batch.append((path, steps))
            size += sum(len(step.packed) for step in steps)
            if size >= BATCH_BYTES or len(batch) >= 100:
                yield batch
                if self._progress is not None:
                    self._progress = ReadingProgress(self._progress.done + len(batch), self._progress.total)
                batch, size = [], 0
        if batch:
            yield batch

    def _remove_gone(
        self, database: sqlite3.Connection, known: Mapping[Path, tuple[int, Stamp | None]], viewed: set[Path]
    ) -> None:
        """Remove the texts of files that no longer exist: a deleted record must not live on in the index."""
        for path, (id, _) in known.items():
            if path not in viewed and not path.exists():
                database.execute("BEGIN IMMEDIATE")
                _remove(database, id)
                database.execute("DELETE FROM files WHERE id = ?", (id,))
                database.execute("COMMIT")


def _write(
    database: sqlite3.Connection,
    batch: Sequence[tuple[Path, list[IndexedStep]]],
    stamps: Mapping[Path, Stamp | None],
    absolute: Mapping[Path, Path],
    ids: dict[int, Path],
) -> None:
    """Write the texts of these files, replacing earlier ones."""
    database.execute("BEGIN IMMEDIATE")
    for path, steps in batch:
        stamp = stamps[path]
        if stamp is None:
            continue
        key = os.fsencode(absolute[path])
        row = database.execute("SELECT id FROM files WHERE path = ?", (key,)).fetchone()
        if row is not None:
            _remove(database, row[0])
            database.execute("DELETE FROM files WHERE id = ?", (row[0],))
            ids.pop(row[0], None)
        insert = "INSERT INTO files (path, size, changed, version) VALUES (?, ?, ?, ?)"
        id = database.execute(insert, (key, *stamp, TEXTS_VERSION)).lastrowid
        assert id is not None
        numbered = [((id << _STEP_BITS) + place, step) for place, step in enumerate(steps)]
        database.executemany(
            "INSERT INTO steps VALUES (?, ?, ?, ?)", ((at, step.run, step.step, step.packed) for at, step in numbered)
        )
        texts = ((at, text_to_match(step.texts())) for at, step in numbered)
        database.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
        ids[id] = path
    database.execute("COMMIT")


def _remove(database: sqlite3.Connection, file_id: int) -> None:
    """Remove the steps of a file. A contentless index must be told which words to remove."""
    first, last = file_id << _STEP_BITS, (file_id + 1) << _STEP_BITS
    rows = database.execute("SELECT id, run, step, texts FROM steps WHERE id >= ? AND id < ?", (first, last)).fetchall()
    database.executemany(
        "INSERT INTO words (words, rowid, text) VALUES ('delete', ?, ?)",
        ((at, text_to_match(IndexedStep(run, step, texts).texts())) for at, run, step, texts in rows),
    )
    database.execute("DELETE FROM steps WHERE id >= ? AND id < ?", (first, last))


# ---- queries and excerpts

_ASKED = re.compile(r'"([^"]*)"?|(\S+)')
_WORD = re.compile(r"[^\W_]+")


def match_expression(text: str) -> str:
    """Return the FTS5 query for a text written by a person; empty if it has no word."""
    asked = (quoted or plain for quoted, plain in _ASKED.findall(text))
    parts = [text_to_match([(0, part.replace('"', " "))]).strip() for part in asked if _WORD.search(part)]
    if not parts:
        return ""
    is_whole = text.rstrip() != text or text.endswith('"') or len(_WORD.findall(parts[-1])[-1]) < SHORTEST_BEGINNING
    return " AND ".join(f'"{part}"' for part in parts) + ("" if is_whole else " *")


def find_excerpt(texts: Sequence[tuple[int, str]], asked: str) -> tuple[int, str]:
    """Return the event in which the text occurs first, and the text around that place."""
    for pattern in _patterns(asked):
        for seq, text in texts:
            found = _first_place(pattern, text)
            if found is not None:
                begin, end = max(0, found[0] - BEFORE), found[1] + AFTER
                shown = one_line(text[begin:end], end - begin)
                return seq, f"{'…' if begin else ''}{shown}{'…' if end < len(text) else ''}"
    seq, text = texts[0] if texts else (0, "")
    return seq, one_line(text, BEFORE + AFTER)


def _patterns(asked: str) -> Iterator[re.Pattern[str]]:
    """Yield lower-case patterns for the place to show: first of the words as written, then of each part."""
    parts = [_WORD.findall((quoted or plain).lower()) for quoted, plain in _ASKED.findall(asked)]
    for wanted in ([word for part in parts for word in part], *parts):
        if wanted:
            yield re.compile(r"[\W_]+".join(map(re.escape, wanted)))


def _first_place(pattern: re.Pattern[str], text: str) -> tuple[int, int] | None:
    """Return start and end of the first match at the start of a word, else of any first match; None without one."""
    lower = text.lower()
    if len(lower) != len(text):  # a few letters have two lower-case letters, which would shift positions
        lower = text
    first = None
    for found in pattern.finditer(lower):
        if found.start() == 0 or not lower[found.start() - 1].isalnum():
            return found.span()
        first = first or found.span()
    return first
