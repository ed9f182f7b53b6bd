"""Compression of pages of events, each by itself, with Zstandard and a dictionary of lines that most runs have.

A page is written while its run goes on, and has a few hundred bytes, of which names of fields are most. A dictionary
gives them to the first page as well (`docs/decisions/0055-pages-are-compressed-with-a-dictionary-of-lines.md`).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..records.compression import LEVEL, zstd_library
from .base import StoreError

DICTIONARY = Path(__file__).with_name("page_dictionary.jsonl")
"""Events of a run as lines of a page. It is never edited: without these bytes no compressed page can be read."""


def compress_page(lines: bytes) -> bytes:
    """Return a page as one frame of Zstandard (RFC 8878), whose dictionary is the whole of `DICTIONARY`."""
    compressor = _compressor()
    frame: bytes = compressor.compress(lines, compressor.FLUSH_FRAME)
    return frame


def expand_page(frame: bytes, size: int) -> bytes:
    """Return the lines of a compressed page. size: how many bytes they have. Raises StoreError for a damaged frame."""
    zstd = zstd_library()
    reader = zstd.ZstdDecompressor(zstd_dict=_dictionary())
    try:
        lines: bytes = reader.decompress(frame, max_length=size)
    except zstd.ZstdError as error:
        raise StoreError(f"a page of events is damaged: {error}") from None
    if len(lines) != size or not reader.eof:
        raise StoreError(f"a page of events is damaged: it has {len(lines)} bytes or more, not {size}")
    return lines


@cache
def _dictionary() -> Any:
    return zstd_library().ZstdDict(DICTIONARY.read_bytes(), is_raw=True).as_digested_dict


@cache
def _compressor() -> Any:
    """Return the compressor of this process; each call of it is a whole frame, so threads can share it."""
    return zstd_library().ZstdCompressor(LEVEL, zstd_dict=_dictionary())
