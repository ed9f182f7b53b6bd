"""Files in gzip, zstandard and ZIP: their contents are unpacked into temporary files, one after the other.

Memory is bounded by one block, and disk by the largest file and by `MAX_UNPACKED_BYTES`, which a decompression bomb
reaches at once. A torn file yields the data before the tear, and says that it is torn.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

from msgspec import Struct

from ..records import compression as zst
from .imported_session import Unreadable

MAX_UNPACKED_BYTES = 4 * 1024**3
"""Size limit of the data unpacked from one file, including files packed inside it."""
MAX_NESTING = 3
"""Number of layers that are unpacked: a ZIP with files in gzip has two."""
_BLOCK = 256 * 1024
_GZIP, _ZIP, _EMPTY_ZIP = b"\x1f\x8b", b"PK\x03\x04", b"PK\x05\x06"
_PLAIN_NAME = re.compile(r"[\w.\- ]{1,100}")
_TORN = "the compressed data ends early or is damaged"
_ENCRYPTED = 0x1


class UnpackedFile(Struct, frozen=True, kw_only=True):
    """An unpacked file. Its copy is deleted when the next one is requested."""

    name: str
    """Its path in the archive; empty if it was packed alone."""
    path: Path
    """The copy, whose name has the same suffix as the file's."""
    error: str = ""
    """Reason why it is incomplete; empty if it is complete."""


class Allowance:
    """Number of bytes that may still be unpacked from one file."""

    def __init__(self, bytes: int | None = None) -> None:
        self._left = MAX_UNPACKED_BYTES if bytes is None else bytes

    def take(self, count: int) -> None:
        """Take this many bytes. Raises Unreadable if not enough are left."""
        self._left -= count
        if self._left < 0:
            limit = f"{MAX_UNPACKED_BYTES // 1024**2:,} MiB"
            raise Unreadable(f"larger than {limit} when unpacked: if it is meant to be, unpack it first")


def is_packed(head: bytes) -> bool:
    """Return whether a file that begins with these bytes is in gzip, zstandard or ZIP."""
    return head.startswith((_GZIP, zst.MAGIC, _ZIP, _EMPTY_ZIP))


def unpack(path: Path, allowance: Allowance) -> Iterator[UnpackedFile]:
    """Yield the files in a packed file. Raises Unreadable for an archive that is damaged or too large when unpacked."""
    with open(path, "rb") as file:
        head = file.read(4)
        file.seek(0)
        if head.startswith((_ZIP, _EMPTY_ZIP)):
            yield from _unpack_zip(file, allowance)
        elif head.startswith(_GZIP):
            yield from _unpack_one(_read_gzip(file), plain_name(path.name), allowance)
        else:
            yield from _unpack_one(_read_zstandard(file), plain_name(path.name), allowance)


def member_names(path: Path) -> frozenset[str]:
    """Return the names of the files in a ZIP archive; empty for any other file and for a damaged archive."""
    zipfile = _zipfile()
    try:
        with zipfile.ZipFile(path) as archive:
            return frozenset(archive.namelist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return frozenset()


def plain_name(name: str) -> str:
    """Return the name without the suffix of its compression: `chat.jsonl` for `chat.jsonl.gz`."""
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and stem and suffix.lower() in ("gz", "gzip", "zst", "zstd") else name


def _unpack_one(blocks: Iterator[bytes], name: str, allowance: Allowance) -> Iterator[UnpackedFile]:
    with _temporary_folder() as folder:
        path = Path(folder, _safe_name(name))
        error = _write(path, blocks, allowance)
        yield UnpackedFile(name="", path=path, error=error)


def _temporary_folder() -> AbstractContextManager[str]:
    return TemporaryDirectory(prefix="endstop-", ignore_cleanup_errors=True)


def _write(path: Path, blocks: Iterator[bytes], allowance: Allowance) -> str:
    """Write the blocks to a file. Return why it is incomplete; empty if it is complete."""
    try:
        with open(path, "wb") as copy:
            for block in blocks:
                allowance.take(len(block))
                copy.write(block)
    except OSError as error:
        raise Unreadable(f"cannot be unpacked into {path.parent.parent}: {error.strerror or error}") from None
    except _Torn as error:
        return str(error) or _TORN
    return ""


class _Torn(Exception):
    """The packed data ends early or is damaged. Data before that point is valid."""


def _read_gzip(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the data of all streams of a gzip file (RFC 1952) up to a tear, where the standard reader loses a block."""
    block = file.read(_BLOCK)
    while block.startswith(_GZIP):
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        while not stream.eof:
            try:
                plain = stream.decompress(block, _BLOCK)
            except zlib.error:
                raise _Torn from None
            if plain:
                yield plain
            block = stream.unconsumed_tail or (b"" if stream.eof else file.read(_BLOCK))
            if not block and not plain and not stream.eof:
                raise _Torn
        block = stream.unused_data or file.read(_BLOCK)


def _read_blocks(plain: IO[bytes], errors: tuple[type[Exception], ...]) -> Iterator[bytes]:
    while True:
        try:
            block = plain.read(_BLOCK)
        except errors:
            raise _Torn from None
        if not block:
            return
        yield block


def _read_zstandard(file: IO[bytes]) -> Iterator[bytes]:
    try:
        yield from zst.decompress(file.read(_BLOCK), file)
    except zst.CorruptData:
        raise _Torn from None


# ---- ZIP


def _unpack_zip(file: IO[bytes], allowance: Allowance) -> Iterator[UnpackedFile]:
    zipfile = _zipfile()
    try:
        archive = zipfile.ZipFile(file)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise Unreadable(f"a damaged ZIP archive: {error}") from None
    with archive:
        for member in sorted(archive.infolist(), key=lambda member: member.filename):
            if not member.is_dir() and not _is_by_the_way(member.filename):
                yield from _unpack_member(archive, member, allowance)


def _is_by_the_way(name: str) -> bool:
    """Return whether this is one of the extra files that macOS adds to an archive."""
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith("._")


def _unpack_member(archive: Any, member: Any, allowance: Allowance) -> Iterator[UnpackedFile]:
    with _temporary_folder() as folder:
        path = Path(folder, _safe_name(member.filename.rpartition("/")[2]))
        error = _write(path, _read_member(archive, member), allowance)
        if error and not path.exists():
            path.touch()
        yield UnpackedFile(name=member.filename, path=path, error=error)


def _read_member(archive: Any, member: Any) -> Iterator[bytes]:
    if member.flag_bits & _ENCRYPTED:
        raise _Torn("encrypted: unpack it first")
    errors = (EOFError, zlib.error, _zipfile().BadZipFile, OSError, ValueError)
    try:
        plain = archive.open(member)
    except (NotImplementedError, RuntimeError) as error:
        raise _Torn(f"packed in a way that is not supported: {error}") from None
    except errors:
        raise _Torn from None
    with closing(plain):
        yield from _read_blocks(plain, errors)


def _safe_name(name: str) -> str:
    """Return a name for a copy: unchanged if it is safe, otherwise one with the same suffix."""
    if _PLAIN_NAME.fullmatch(name) and name.strip(". "):
        return name
    suffix = re.search(r"\.[A-Za-z0-9]{1,16}\Z", name)
    return f"file{suffix[0] if suffix else ''}"


def _zipfile() -> Any:
    """Return the module that reads ZIP, imported on first use. It also supports members in zstandard."""
    if sys.version_info >= (3, 14):
        import zipfile
    else:
        from backports.zstd import zipfile
    return zipfile
