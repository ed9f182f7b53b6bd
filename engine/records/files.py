"""Record files on disk: find them in folders, and read their lines in bounded memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..base.ids import SESSION_PREFIX
from ..decision import WrongUse
from ..decision.wrong_calls import explained
from .compression import CorruptData, read_blocks
from .format import BYTE_ORDER_MARK

__all__ = ["find_records"]

RECORD_SUFFIXES = (".jsonl", ".jsonl.zst", ".jsonl.gz")
"""Suffixes by which files in a folder are records. A file that is named explicitly may have any name."""
ATTACHMENTS_SUFFIX = ".files"
"""Suffix of the folder next to a record that holds its attachments."""
SUBAGENTS_SUFFIX = ".subagents"
"""Suffix of the folder next to a record that holds the records of its sub-agents."""

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Longest line in bytes; a longer one counts as damaged. Reading ends at a line of more than four times as many."""
CUT_MARK = b"\x00"
"""Byte appended to the beginning of an incomplete line, so that no reader takes it for a complete one."""
_CUT_LINE_BYTES = 100


# ---- files in folders


@explained
def find_records(paths: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Return the given files, and the records in the given folders and below them: sorted by path, each once.

    Attachments, hidden files, and records of sub-agents, whose usage is part of their parent's, are skipped. Links are
    followed, but no folder is visited twice. Raises WrongUse for a path that does not exist, a folder that cannot be
    read, and a folder without records.
    """
    if isinstance(paths, str | os.PathLike):
        raise WrongUse(f"paths must be a list: write [{os.fspath(paths)!r}]")
    found: dict[tuple[int, int], Path] = {}
    for path in map(Path, paths):
        try:
            status = path.stat()
        except OSError as error:
            raise WrongUse(f"{path}: {(error.strerror or str(error)).lower()}") from None
        if stat.S_ISDIR(status.st_mode):
            inside = sorted(_records_below(path))
            if not inside:
                raise WrongUse(f"{path}: no records (*.jsonl, *.jsonl.zst) in this folder or below it")
            for name, identity in inside:
                found.setdefault(identity, Path(name))
        else:
            found.setdefault((status.st_dev, status.st_ino), path)
    return sorted(found.values())


def list_records(paths: Sequence[Path]) -> tuple[list[Path], dict[str, str]]:
    """List the records as `find_records` does, without raising, for files and folders that change meanwhile.

    Return the records and, for each path or folder that cannot be read, the reason.
    """
    found: dict[tuple[int, int], Path] = {}
    problems: dict[str, str] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            problems[str(path)] = error.strerror or str(error)
            continue
        if stat.S_ISDIR(status.st_mode):
            for name, identity in sorted(_records_below(path, problems)):
                found.setdefault(identity, Path(name))
        else:
            found.setdefault((status.st_dev, status.st_ino), path)
    return sorted(found.values()), problems


def _records_below(folder: Path, problems: dict[str, str] | None = None) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the path and identity of each record in or below this folder, once each even if links form a loop.

    problems: receives the reason for each folder that cannot be read; None: raise WrongUse for the first.
    """
    seen: set[tuple[int, int]] = set()
    left = [str(folder)]
    while left:
        here = left.pop()
        try:
            status = os.stat(here)
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(here) as entries:
                listed = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            if problems is None:
                raise WrongUse(f"cannot read the folder {here}: {error.strerror}") from None
            problems[here] = error.strerror or str(error)
            continue
        for entry in listed:
            with suppress(OSError):  # a broken link, or a link to itself
                if entry.is_dir():
                    if not entry.name.endswith((ATTACHMENTS_SUFFIX, SUBAGENTS_SUFFIX)):
                        left.append(entry.path)
                elif entry.name.endswith(RECORD_SUFFIXES) and entry.is_file():
                    yield entry.path, _identity(entry, status.st_dev)


def folder_beside(record: str | os.PathLike[str], suffix: str) -> Path:
    """Return the folder next to the record that has its name and this suffix. It need not exist."""
    path = Path(record)
    ending = next((one for one in sorted(RECORD_SUFFIXES, key=len, reverse=True) if path.name.endswith(one)), "")
    return path.parent / (path.name.removesuffix(ending) + suffix)


def subagents_folder(record: str | os.PathLike[str]) -> Path:
    """Return the folder of the records of a record's sub-agents, which need not exist."""
    return folder_beside(record, SUBAGENTS_SUFFIX)


def subagent_file(name: str, session_id: str) -> str:
    """Return the name of the record of a sub-agent in that folder. name: that of its tool."""
    return f"{name}-{session_id.removeprefix(SESSION_PREFIX)}.jsonl"


def _identity(entry: os.DirEntry[str], device: int) -> tuple[int, int]:
    """Return device and inode, which are equal for two names of the same file."""
    if not entry.is_symlink():
        return device, entry.inode()
    status = entry.stat()
    return status.st_dev, status.st_ino


# ---- lines of a file


def line_batches(path: str | os.PathLike[str], longest: int = MAX_LINE_BYTES) -> Iterator[list[bytes]]:
    """Yield the lines of a file without line feeds, in batches. Raises WrongUse if the file cannot be read.

    A line of more than `longest` bytes, or one in which compressed data ends early, is given as its first bytes
    followed by `CUT_MARK`. The last line need not end in a line feed.
    """
    begun = bytearray()  # grows in place, so that a long line is in memory only once
    length = 0
    try:
        for number, block in enumerate(read_blocks(path)):
            lines = block.split(b"\n")
            if not number:
                lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
            length += len(lines[0])
            if length <= longest:
                begun += lines[0]
            elif length > 4 * longest:
                break
            else:
                del begun[_CUT_LINE_BYTES:]
            if len(lines) > 1:
                lines[0] = bytes(begun) if length <= longest else _cut(begun)
                begun = bytearray(lines.pop())
                length = len(begun)
                yield lines
    except CorruptData:
        yield [_cut(begun)]
        return
    if length:
        yield [bytes(begun) if length <= longest else _cut(begun)]


def _cut(begun: bytearray) -> bytes:
    return bytes(begun[:_CUT_LINE_BYTES]) + CUT_MARK
