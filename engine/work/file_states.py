"""State of a file as bytes: what it is, whether it is executable, and a hash of its content.

Equal states mean equal files: times do not count. A file whose `lstat` has not changed since its content was read is
not read again, unless that reading came so soon after a change that another one could bear the same time (the racy
entries of git's index are the same problem).
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterable

MAX_FILE_BYTES = 64 * 1024 * 1024
"""Number of bytes up to which a file is compared by its content."""
MAX_READ_BYTES = 1024 * 1024 * 1024
"""Number of bytes that one call reads. Files past it are compared by size and time until they change again."""
RACY_NS = 2_000_000_000
"""Nanoseconds within which a file system may give two changes the same time: 2 s on FAT, a few ms on most others."""
CHUNK_BYTES = 1024 * 1024
READ_FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

UNREADABLE = b"unreadable"
"""State of what cannot be read. Before that of a file stands its kind."""
SPECIAL = b"special"
"""State of a socket, fifo or device. These are not opened, since opening one may block."""

_Stamp = tuple[int, int, int, int, int]
"""Mode, size, times of the last change of content and of anything, and the inode."""


class FileStates:
    """The states of files, with a cache of what was read before.

    whole: whether files are compared by content however large they are; otherwise those above `MAX_FILE_BYTES`, and
    all that comes after `MAX_READ_BYTES` in one call, are compared by size and time.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self._known: dict[str, tuple[_Stamp, bytes]] = {}
        self._whole = whole

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the state of each path that exists and is no folder. Never raises OSError.

        A link is not followed where it is the last part of a path.
        """
        now = time.time_ns()
        before, known = self._known, {}
        states: dict[str, bytes] = {}
        left = MAX_READ_BYTES
        for path in paths:
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                states[path] = UNREADABLE
                continue
            if stat.S_ISDIR(found.st_mode):
                continue
            stamp = (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            entry = before.get(path)
            if entry is None or entry[0] != stamp:
                by_content = self._whole or found.st_size <= min(MAX_FILE_BYTES, left)
                left -= found.st_size if by_content else 0
                entry = (stamp, _state(path, found, by_content))
            states[path] = entry[1]
            if max(stamp[2], stamp[3]) < now - RACY_NS:
                known[path] = entry
        self._known = known
        return states


def _state(path: str, found: os.stat_result, by_content: bool) -> bytes:
    if stat.S_ISLNK(found.st_mode):
        return _link_state(path)
    if not stat.S_ISREG(found.st_mode):
        return SPECIAL
    kind = b"executable " if found.st_mode & stat.S_IXUSR else b"file "
    if not by_content:
        return kind + f"of {found.st_size} bytes at {found.st_mtime_ns}".encode()
    try:
        return kind + _content_hash(path)
    except OSError:
        return kind + UNREADABLE


def _link_state(path: str) -> bytes:
    try:
        return b"link to " + os.fsencode(os.readlink(path))
    except OSError:
        return UNREADABLE  # replaced since it was found


def _content_hash(path: str) -> bytes:
    """Return the hash of a regular file's content. Raises OSError, also if the file has become something else."""
    handle = os.open(path, READ_FLAGS)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(f"{path!r} is no regular file any more")
        digest = hashlib.blake2b(digest_size=16)
        while chunk := os.read(handle, CHUNK_BYTES):
            digest.update(chunk)
        return digest.hexdigest().encode()
    finally:
        os.close(handle)
