"""Zstandard: a file's bytes in blocks, whether it is compressed or not, and writing one that is.

Whether a file is compressed is told by its first bytes, never by its name. Frames may follow one another, as in the
format (RFC 8878). From Python 3.14 on the standard library brings what `backports.zstd` does here; see
`docs/decisions/0009-*.md`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..decision import WrongUse

MAGIC = b"\x28\xb5\x2f\xfd"
"""The first bytes of a frame."""
SUFFIX = ".zst"
BLOCK = 256 * 1024
"""Bytes that are read, and at most expanded, at once."""
MAX_EMPTY_FRAMES = 1000
"""So many frames in a row that hold nothing end the reading: they cost time and bring nothing."""
LEVEL = 3
"""Compression level of what is written: zstd's own default."""


class CorruptData(Exception):
    """Compressed data breaks off or is damaged; what came before it is whole. Says how."""


def read_blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """The bytes of a file, expanded if it is compressed. Raises WrongUse if it cannot be read, and Torn.

    Memory stays flat whatever the file expands to: a block holds at most BLOCK bytes, and a frame that asks for more
    than 128 MB of its own history (zstd's default bound) is refused as torn.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            block = file.read(BLOCK)
            if block.startswith(MAGIC):
                yield from _expanded(block, file)
                return
            while block:
                yield block
                block = file.read(BLOCK)
    except OSError as error:
        raise WrongUse(f"cannot read the record {path}: {error.strerror or error}") from None


def _expanded(block: bytes, file: IO[bytes]) -> Iterator[bytes]:
    zstd, empty = _zstd(), 0
    try:
        while block and empty < MAX_EMPTY_FRAMES:
            frame = zstd.ZstdDecompressor()
            empty += 1
            while not frame.eof:
                expanded = frame.decompress(block, max_length=BLOCK)
                if expanded:
                    empty = 0
                    yield expanded
                block = b""
                if frame.needs_input:
                    block = file.read(BLOCK)
                    if not block and not frame.eof:
                        raise CorruptData("the compressed data breaks off")
            block = frame.unused_data or file.read(BLOCK)
    except zstd.ZstdError as error:
        raise CorruptData(str(error)) from None
    if block:
        raise CorruptData(f"{MAX_EMPTY_FRAMES} frames in a row that hold nothing")


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Whether the file is compressed, by its first bytes; False if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


@contextmanager
def create_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A new file to write to, compressed if its name ends in `.zst`. It appears under its name once it is whole.

    Raises WrongUse if there is such a file already, or if it cannot be written.
    """
    place = Path(path)
    if place.exists():
        raise WrongUse(f"{place} exists already: remove it, or write to another folder")
    part = place.with_name(f".{place.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            if place.suffix == SUFFIX:
                with _zstd().ZstdFile(file, "wb", level=LEVEL) as compressed:
                    yield compressed
            else:
                yield file
        part.rename(place)
    except OSError as error:
        raise WrongUse(f"cannot write {place}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def _zstd() -> Any:
    """The library, imported when first used: most records are not compressed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
