"""Which files are meant: records by name, in folders and the folders below them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from ..decision import WrongUse
from .compression import CorruptData, read_blocks

RECORD_SUFFIXES = (".jsonl", ".jsonl.zst")
"""How the names of records end that are found in a folder. A file that is named by itself may have any name."""
ATTACHMENTS_SUFFIX = ".files"
"""How the name of the folder beside a record ends that holds what was too large for it."""


def find_records(places: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """The files that are named, and the records in the folders that are named. In order of their paths, each once.

    Folders of attachments and hidden files are left out; links are followed, but no folder is entered twice. Raises
    WrongUse for a place that does not exist, a folder that cannot be read, and one without any record.
    """
    if isinstance(places, str | os.PathLike):
        raise WrongUse(f"places is one name: write [{os.fspath(places)!r}]")
    found: dict[tuple[int, int], Path] = {}
    for place in places:
        path = Path(place)
        try:
            status = path.stat()
        except OSError as error:
            raise WrongUse(f"{path}: {(error.strerror or str(error)).lower()}") from None
        if stat.S_ISDIR(status.st_mode):
            inside = sorted(_below(path))
            if not inside:
                raise WrongUse(f"{path}: no record in it or below it (*.jsonl, *.jsonl.zst)")
            for name, identity in inside:
                found.setdefault(identity, Path(name))
        else:
            found.setdefault((status.st_dev, status.st_ino), path)
    return sorted(found.values())


def _below(folder: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Records of this folder and those below it, each folder once, however links lead round."""
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
            raise WrongUse(f"cannot read the folder {here}: {error.strerror}") from None
        for entry in listed:
            with suppress(OSError):  # a link that leads nowhere, or round and round
                if entry.is_dir():
                    if not entry.name.endswith(ATTACHMENTS_SUFFIX):
                        left.append(entry.path)
                elif entry.name.endswith(RECORD_SUFFIXES) and entry.is_file():
                    yield entry.path, _identity(entry, status.st_dev)


def _identity(entry: os.DirEntry[str], device: int) -> tuple[int, int]:
    """What tells two files from one under two names."""
    if not entry.is_symlink():
        return device, entry.inode()
    status = entry.stat()
    return status.st_dev, status.st_ino


# A file's lines, in batches, in memory that does not depend on the file.

MAX_LINE_BYTES = 256 * 1024 * 1024
"""Bytes of a line that is read; a longer one is damaged. One of four times as many ends the reading."""
CUT_MARK = b"\x00"
"""Follows the beginning of a line that did not come whole, so that no reader takes it for one that did."""

_CUT_LINE_BYTES = 100


def line_batches(path: str | os.PathLike[str], longest: int = MAX_LINE_BYTES) -> Iterator[list[bytes]]:
    """The lines without their line feeds, whole blocks of them at a time. Raises WrongUse if it cannot be read.

    A line that is too long, or in which compressed data breaks off, comes as its beginning and a null byte. The last
    one need not end in a line feed.
    """
    begun = bytearray()  # grows in place: a long line is never there twice, nor in pieces that outlive it
    length = 0
    try:
        for block in read_blocks(path):
            lines = block.split(b"\n")
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
