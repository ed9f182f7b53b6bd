"""The files of a run in the order in which they grew: the state left by a process killed after any number of bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...decision import WrongUse
from ...records.files import ATTACHMENTS_SUFFIX, SUBAGENTS_SUFFIX
from ...records.reader import last_event, read_beginning, read_record

RECORD = "record.jsonl"
"""Name of the record of the run itself, in a separate folder."""


class Growth:
    """Follower of the files in a record's folder while a run writes them."""

    def __init__(self, folder: Path) -> None:
        self.size = 0
        """Total size of all files so far, in bytes."""
        self._folder = folder
        self._sizes: dict[str, int] = {}
        self._pieces: list[tuple[str, bytes]] = []

    def look(self) -> int:
        """Note what has been written since the last look, and return the total bytes so far.

        Between two looks, attachments come first, then the writes of known sub-agents, the record itself, and new
        sub-agents.
        """
        sizes = {path.relative_to(self._folder).as_posix(): path.stat().st_size for path in _files(self._folder)}
        for name in sorted(sizes, key=self._place):
            before = self._sizes.get(name, 0)
            if sizes[name] > before:
                piece = (self._folder / name).read_bytes()[before : sizes[name]]
                self._pieces.append((name, piece))
                self.size += len(piece)
        self._sizes = sizes
        return self.size

    def _place(self, name: str) -> tuple[int, int]:
        if ATTACHMENTS_SUFFIX in name:
            return 0, 0
        if name == RECORD:
            return 2, 0
        return (1 if name in self._sizes else 3), -name.count("/")

    def lines(self) -> list[int]:
        """Return the numbers of bytes after which a line of a record is complete."""
        ends, before = [], 0
        for name, piece in self._pieces:
            if ATTACHMENTS_SUFFIX not in name:
                ends += [before + place + 1 for place, byte in enumerate(piece) if byte == ord("\n")]
            before += len(piece)
        return ends

    def left_at(self, size: int) -> dict[str, bytes]:
        """Return the files left by a process killed after this many bytes. An attachment is complete or missing."""
        left: dict[str, bytes] = {}
        for name, piece in self._pieces:
            kept = piece[:size]
            if kept and (len(kept) == len(piece) or ATTACHMENTS_SUFFIX not in name):
                left[name] = left.get(name, b"") + kept
            size -= len(kept)
            if not size:
                break
        return left

    def opened_at(self, size: int) -> str | None:
        """Return the empty record that may have been opened after this many bytes, because the next bytes begin it."""
        there: set[str] = set()
        for name, piece in self._pieces:
            if size < len(piece):
                return name if not size and name not in there and ATTACHMENTS_SUFFIX not in name else None
            there.add(name)
            size -= len(piece)
        return None


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def subagent_records(record: Path) -> list[Path]:
    """Return the records of the sub-agents of a record, and of their sub-agents."""
    return sorted(Path(f"{record}".removesuffix(".jsonl") + SUBAGENTS_SUFFIX).rglob("*.jsonl"))


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write these files, by their names in this folder."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def as_read(record: Path) -> list[Any]:
    """Return everything that a process can know of these records: their current content, also after ending a torn line.

    A resuming process cannot distinguish two cuts for which this is equal.
    """
    return [_as_read(path) for path in (record, *subagent_records(record)) if path.exists()]


def _as_read(path: Path) -> list[Any]:
    content = path.read_bytes()
    found: list[Any] = [path.name, b"\n" in content, *_reads(path)]
    if not content.endswith(b"\n"):
        path.write_bytes(content + b"\n")  # like a writer that appends to it
        found += _reads(path)
        path.write_bytes(content)
    return found


def _reads(path: Path) -> list[Any]:
    found: list[Any] = [last_event(path)]
    for read in (read_beginning, read_record):
        try:
            found.append(read(path))
        except WrongUse as error:
            found.append(str(error))
    return found
