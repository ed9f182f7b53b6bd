"""Compression: read a file in blocks, plain or compressed with Zstandard or gzip; write a new one with Zstandard.

A file is compressed if it begins with a magic number, whatever its name. Several frames may follow each other (RFC
8878, section 3). Python 3.14 has zstd in its standard library; older versions use `backports.zstd`
(`docs/decisions/0009-an-index-in-sqlite-and-zstd-as-python-will-have-it.md`).
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ..decision import WrongUse

MAGIC = b"\x28\xb5\x2f\xfd"
"""Magic number that begins a frame (RFC 8878, section 3.1.1), as bytes."""
GZIP_MAGIC = b"\x1f\x8b"
"""First bytes of a gzip member (RFC 1952, section 2.3.1)."""
SUFFIX = ".zst"
BLOCK = 256 * 1024
"""Number of bytes read at a time, and the most that is decompressed at a time."""
MAX_EMPTY_FRAMES = 1000
"""Most empty frames in a row. A file with more is refused, because it would take time without yielding data."""
LEVEL = 3
"""Compression level for writing: zstd's own default."""


class CorruptData(Exception):
    """Raised when compressed data ends early or is damaged. What was read before is valid."""


def read_blocks(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the bytes of a file, decompressed if necessary. Raises WrongUse if unreadable, CorruptData if damaged.

    Memory is bounded for any file: a block holds at most BLOCK bytes, and a frame that needs a window of more than
    128 MB (zstd's default limit) is refused as corrupt.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            block = file.read(BLOCK)
            if block.startswith((MAGIC, GZIP_MAGIC)):
                yield from decompress(block, file)
                return
            while block:
                yield block
                block = file.read(BLOCK)
    except OSError as error:
        raise WrongUse(f"cannot read the record {path}: {error.strerror or error}") from None


def decompress(block: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the data of a compressed file that begins with this block and continues in `file`. Raises CorruptData."""
    if block.startswith(GZIP_MAGIC):
        yield from _decompress_gzip(block, file)
        return
    zstd, empty = zstd_library(), 0
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
                        raise CorruptData("the compressed data ends early")
            block = frame.unused_data or file.read(BLOCK)
    except zstd.ZstdError as error:
        raise CorruptData(str(error)) from None
    if block:
        raise CorruptData(f"{MAX_EMPTY_FRAMES} empty frames in a row")


def _decompress_gzip(block: bytes, file: IO[bytes]) -> Iterator[bytes]:
    """Yield the data of gzip members. Zeros that pad the last member are ignored. Raises CorruptData."""
    empty = 0
    try:
        while block and empty < MAX_EMPTY_FRAMES:
            member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
            empty += 1
            while not member.eof:
                expanded = member.decompress(block, BLOCK)
                if expanded:
                    empty = 0
                    yield expanded
                block = member.unconsumed_tail
                if not block and not member.eof:
                    block = file.read(BLOCK)
                    if not block:
                        raise CorruptData("the compressed data ends early")
            block = (member.unused_data or file.read(BLOCK)).lstrip(b"\0")
    except zlib.error as error:
        raise CorruptData(str(error)) from None
    if block:
        raise CorruptData(f"{MAX_EMPTY_FRAMES} empty members in a row")


def is_compressed(path: str | os.PathLike[str]) -> bool:
    """Return whether the file begins with a magic number of zstd or gzip; False if it cannot be read."""
    return begins_with(path, MAGIC) or begins_with(path, GZIP_MAGIC)


def begins_with(path: str | os.PathLike[str], magic: bytes) -> bool:
    """Return whether these are the first bytes of the file; False if it cannot be read."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(len(magic)) == magic
    except OSError:
        return False


@contextmanager
def create_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a new file for writing, compressed if its name ends in `.zst`.

    The file is written under a temporary name and renamed at the end of the `with` block; an exception in the block
    deletes it. Raises WrongUse if the file exists already or cannot be written.
    """
    target = Path(path)
    if target.exists():
        raise WrongUse(f"{target} exists already: remove it, or write to another folder")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            if target.suffix == SUFFIX:
                with zstd_library().ZstdFile(file, "wb", level=LEVEL) as compressed:
                    yield compressed
            else:
                yield file
        part.rename(target)
    except OSError as error:
        raise WrongUse(f"cannot write {target}: {error.strerror or error}") from None
    finally:
        part.unlink(missing_ok=True)


def new_compressor() -> Any:
    """Return a compressor for one frame: `compress(data)` for each piece, then `flush()`; both return bytes."""
    return zstd_library().ZstdCompressor(level=LEVEL)


def zstd_library() -> Any:
    """Return the zstd library, imported on first use because most records are not compressed."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
