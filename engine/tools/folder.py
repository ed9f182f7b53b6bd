"""One folder of the file system, which no path leads out of.

A path is resolved with all its links first and refused if the place is outside. The way to that place is then walked
again from the folder, name by name, and no link is followed on it: a link that somebody puts there in between makes
the walk fail, and cannot lead it astray. Links that stay inside work as usual.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Parts = tuple[str, ...]
"""Names from the folder down to a place in it; none is `..`, and () is the folder itself."""
Kind = Literal["folder", "file", "link", "other"]

LONGEST_TEXT = 5_000_000
"""Bytes of one file that are read."""
LONGEST_PATH = 4096
VERSION_CONTROL = frozenset({".git", ".hg", ".svn", ".jj"})
_FOLDER = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # opening a named pipe must not wait


class WorkspaceError(Exception):
    """What was asked for cannot be done in the workspace; the message tells the model why."""


class Folder:
    """Reads and writes below `root`, an existing folder without links on the way to it."""

    def __init__(self, root: str) -> None:
        self.root = root

    def parts(self, path: str) -> Parts:
        """Where a path leads, links followed. Raises WorkspaceError if that is outside."""
        if "\0" in path or len(path) > LONGEST_PATH:
            raise WorkspaceError("a path has at most 4096 characters, and none of them is a null")
        try:
            os.fsencode(path)
        except UnicodeEncodeError:
            raise WorkspaceError(f"{path!r} has characters that no file name can have") from None
        real = os.path.realpath(os.path.join(self.root, path))
        above = self.root.rstrip("/") + "/"
        if real != self.root and not real.startswith(above):
            raise WorkspaceError(f"{path!r} is outside the workspace")
        return tuple(part for part in real[len(above) :].split("/") if part)

    def entries(self, path: str, parts: Parts) -> list[tuple[str, Kind]]:
        """What a folder holds, sorted by name."""
        with _in_words(path), self._walked(parts) as here, os.scandir(here) as found:
            return sorted((entry.name, _kind(entry)) for entry in found)

    def files(self, path: str, parts: Parts) -> Iterator[Parts]:
        """The file at a place, or all files below it, sorted; without links, version control, unreadable folders."""
        waiting: list[tuple[Parts, Kind]] = [(parts, self._kind_at(path, parts))]
        while waiting:
            place, kind = waiting.pop()
            if kind == "file":
                yield place
            elif kind == "folder":
                with suppress(OSError, WorkspaceError):
                    inner = self.entries("/".join(place), place)
                    waiting += [((*place, name), of) for name, of in reversed(inner) if name not in VERSION_CONTROL]

    def read(self, path: str, parts: Parts) -> bytes:
        """A file's content, at most `LONGEST_TEXT` bytes and one more, by which it is known that there is more."""
        if not parts:
            raise IsADirectoryError(f"{path!r} is a folder, not a file")
        with _in_words(path), self._walked(parts[:-1]) as here:
            file = os.open(parts[-1], os.O_RDONLY | _FILE, dir_fd=here)
            try:
                _must_be_file(path, os.fstat(file))
                with os.fdopen(file, "rb", closefd=False) as stream:
                    return stream.read(LONGEST_TEXT + 1)
            finally:
                os.close(file)

    def write(self, path: str, parts: Parts, content: bytes) -> bool:
        """Put the content there in one move, folders above included; True if the file is new."""
        if not parts:
            raise IsADirectoryError(f"{path!r} is a folder, not a file")
        if VERSION_CONTROL & {part.lower() for part in parts}:
            raise WorkspaceError(f"{path!r} belongs to version control, and its files are not written by hand")
        with _in_words(path), self._walked(parts[:-1], create=True) as here:
            before = _writable(path, parts[-1], here)
            temporary = f".endstop-{secrets.token_hex(4)}.tmp"
            file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE, 0o666, dir_fd=here)
            try:
                with os.fdopen(file, "wb") as stream:
                    stream.write(content)
                    if before is not None:
                        with suppress(PermissionError):
                            os.fchown(file, before.st_uid, before.st_gid)
                        os.fchmod(file, stat.S_IMODE(before.st_mode))
                os.replace(temporary, parts[-1], src_dir_fd=here, dst_dir_fd=here)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=here)
                raise
        return before is None

    def _kind_at(self, path: str, parts: Parts) -> Kind:
        if not parts:
            return "folder"
        with _in_words(path), self._walked(parts[:-1]) as here:
            mode = os.stat(parts[-1], dir_fd=here, follow_symlinks=False).st_mode
        if stat.S_ISDIR(mode):
            return "folder"
        if stat.S_ISREG(mode):
            return "file"
        raise WorkspaceError(f"{path!r} is neither a folder nor an ordinary file")

    @contextmanager
    def _walked(self, parts: Parts, *, create: bool = False) -> Iterator[int]:
        """The open folder at a place, reached without following a link."""
        here = os.open(self.root, os.O_RDONLY | _FOLDER)
        try:
            for part in parts:
                if create:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                deeper = os.open(part, os.O_RDONLY | _FOLDER, dir_fd=here)
                os.close(here)
                here = deeper
            yield here
        finally:
            os.close(here)


def _writable(path: str, name: str, here: int) -> os.stat_result | None:
    """What stands at a name and may be written over; None if nothing does."""
    try:
        file = os.open(name, os.O_WRONLY | _FILE, dir_fd=here)
    except FileNotFoundError:
        return None
    try:
        found = os.fstat(file)
    finally:
        os.close(file)
    _must_be_file(path, found)
    return found


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "folder"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _must_be_file(path: str, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(f"{path!r} is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise WorkspaceError(f"{path!r} is not an ordinary file")


@contextmanager
def _in_words(path: str) -> Iterator[None]:
    """Errors of the operating system, in one sentence for the model."""
    try:
        yield
    except OSError as error:
        match error.errno:
            case None:  # already one of ours
                raise
            case errno.ENOENT:
                said: Exception = FileNotFoundError(f"{path!r} does not exist in the workspace")
            case errno.EISDIR:
                said = IsADirectoryError(f"{path!r} is a folder, not a file")
            case errno.ENOTDIR:
                said = NotADirectoryError(f"{path!r}, or a part of it, is not a folder")
            case errno.EACCES | errno.EPERM:
                said = PermissionError(f"{path!r} may not be used that way: no permission")
            case errno.ELOOP:
                said = WorkspaceError(f"{path!r} is a link that leads in a circle")
            case errno.ENXIO:
                said = WorkspaceError(f"{path!r} is not an ordinary file")
            case _:
                said = WorkspaceError(f"{path!r} cannot be used: {error.strerror}")
        raise said from None
