"""Copy of a folder in which a check may run and write, while the folder itself is being worked in.

- Files are copied, by reference where the file system can (btrfs, XFS), never as hard links: a check could write
  through them. Modes and times are kept; sockets, fifos, devices and what cannot be read are left out.
- Links stay links and are not followed. One that leads into the folder leads into the copy, one that leads out leads to
  the same place as before.
- A large folder that git ignores or that holds dependencies (`DEPENDENCIES`) is a link to the original: a check that
  writes there writes into the original, as it would without a copy. Compiled Python is not copied, since it would stand
  in for a source that has been put back.
- The copy has a `.git` of its own, with the same commits, refs and index; it takes its objects from the original. There
  are no hooks and no submodules in it. If the folder is not the root of a repository, it has none.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .file_states import CHUNK_BYTES, READ_FLAGS
from .git_files import GitFiles

DEPENDENCIES = frozenset({"node_modules", ".venv", "venv", ".tox", ".nox"})
"""Names of folders of installed packages, which no test runner searches for tests."""
LARGE_FILES = 1000
LARGE_BYTES = 20_000_000
"""A folder of dependencies, or one that git ignores, is linked if it has more files or more bytes than this."""

_NOT_COPIED = frozenset({"__pycache__", ".pytest_cache", ".git"})
_GIT_PARTS = ("HEAD", "config", "index", "info", "packed-refs", "refs", "reftable", "shallow")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


@contextmanager
def copy_of(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Make a copy of a folder, give its path, and remove it at the end. Blocks. Raises OSError if the disk is full."""
    with temporary_place() as place:
        yield FolderCopy(folder, place).path


@contextmanager
def temporary_place() -> Iterator[str]:
    """Make a private temporary folder and remove it at the end, read-only folders in it included."""
    place = tempfile.mkdtemp(prefix="endstop-copy-")
    try:
        yield place
    finally:
        for inner, names, _ in os.walk(place):
            for name in names:
                path = os.path.join(inner, name)
                if not os.path.islink(path):
                    with suppress(OSError):
                        os.chmod(path, stat.S_IRWXU)
        shutil.rmtree(place, ignore_errors=True)


class FolderCopy:
    """A copy of a folder, made when it is constructed.

    folder: what is copied. place: an existing folder, in which the copy gets the name of the original. whole: paths
    relative to the folder; the folders that hold them are copied even if they would be linked otherwise.
    """

    def __init__(self, folder: str | os.PathLike[str], place: str, whole: Collection[str] = ()) -> None:
        self._names = {os.path.realpath(folder), os.path.abspath(folder)}
        self._folder = os.path.realpath(folder)
        self._place = os.path.realpath(place)
        self.path = Path(place, os.path.basename(self._folder) or "copy")
        """The path of the copy."""
        self.linked: set[str] = set()
        """Folders that are links to the originals, relative to the folder."""
        self._whole = {parent for path in whole for parent in _parents(path)}
        self._ignored = GitFiles(self._folder).ignored_folders() or frozenset()
        self._copy_folders()
        _copy_repository(self._folder, str(self.path))

    def _copy_folders(self) -> None:
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            source, target = os.path.join(self._folder, inner), os.path.join(self.path, inner)
            try:
                mode = os.lstat(source).st_mode
                entries = list(os.scandir(source))
            except OSError:
                if not inner:
                    raise
                continue
            os.mkdir(target)
            os.chmod(target, stat.S_IMODE(mode) & 0o777 | stat.S_IRWXU)
            for entry in entries:
                path = f"{inner}/{entry.name}" if inner else entry.name
                if entry.name in _NOT_COPIED or entry.path == self._place:
                    continue
                if entry.is_symlink():
                    self._copy_link(entry.path, path)
                elif not entry.is_dir(follow_symlinks=False):
                    copy_file(entry.path, os.path.join(self.path, path))
                elif self._is_linked(path):
                    os.symlink(entry.path, os.path.join(self.path, path))
                    self.linked.add(path)
                else:
                    waiting.append(path)

    def _is_linked(self, path: str) -> bool:
        if path in self._whole or (path not in self._ignored and os.path.basename(path) not in DEPENDENCIES):
            return False
        return _is_large(os.path.join(self._folder, path))

    def _copy_link(self, source: str, path: str) -> None:
        with suppress(OSError):  # gone since it was listed
            self.make_link(path, os.readlink(source))

    def make_link(self, path: str, text: str) -> None:
        """Make the link in the copy that a link at `path` with this text is in the folder."""
        leads_to = os.path.normpath(os.path.join(self._folder, os.path.dirname(path), text))
        inside = next((name for name in self._names if os.path.commonpath([name, leads_to]) == name), None)
        if inside is None:
            text = leads_to
        elif os.path.isabs(text):
            text = os.path.normpath(os.path.join(self.path, os.path.relpath(leads_to, inside)))
        os.symlink(text, os.path.join(self.path, path))


def _parents(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


def _is_large(folder: str) -> bool:
    files = size = 0
    for place, _, names in os.walk(folder):
        files += len(names)
        for name in names:
            if files > LARGE_FILES or size > LARGE_BYTES:
                return True
            with suppress(OSError):
                size += os.lstat(os.path.join(place, name)).st_size
    return size > LARGE_BYTES


def copy_file(source: str, target: str) -> None:
    """Copy a regular file with its mode and times. Anything else, and what cannot be read, is left out."""
    try:
        reading = os.open(source, READ_FLAGS)
    except OSError:
        return
    try:
        found = os.fstat(reading)
        if stat.S_ISREG(found.st_mode):
            writing = os.open(target, _CREATE, 0o600)
            try:
                _copy_content(reading, writing)
                os.utime(writing, ns=(found.st_atime_ns, found.st_mtime_ns))
                os.chmod(writing, stat.S_IMODE(found.st_mode) & 0o777)
            finally:
                os.close(writing)
    finally:
        os.close(reading)


def _copy_content(reading: int, writing: int) -> None:
    """Copy all that can be read, in the kernel if it can; only what has not been copied is read a second way."""
    if hasattr(os, "copy_file_range"):
        with suppress(OSError):  # as between some file systems; a disk that is full says so again below
            while os.copy_file_range(reading, writing, 1 << 30):
                pass
    while chunk := os.read(reading, CHUNK_BYTES):
        left = memoryview(chunk)
        while left:
            left = left[os.write(writing, left) :]


def _copy_repository(folder: str, copy: str) -> None:
    """Give a copy of a repository's root a `.git` that shares the objects, and nothing that can be written, with it."""
    own = _git_folder(os.path.join(folder, ".git"))
    if own is None:
        return
    common = _named_in(os.path.join(own, "commondir"), own) or own
    objects = os.path.join(common, "objects")
    if not os.path.isdir(objects):
        return
    target = os.path.join(copy, ".git")
    os.makedirs(os.path.join(target, "objects", "info"))
    Path(target, "objects", "info", "alternates").write_bytes(os.fsencode(objects) + b"\n")
    for source in dict.fromkeys((common, own)):  # what a linked work tree has of its own counts more
        shared_indexes = [name for name in os.listdir(source) if name.startswith("sharedindex.")]
        for name in (*_GIT_PARTS, *shared_indexes):
            _copy_git_part(os.path.join(source, name), os.path.join(target, name))
    with open(os.path.join(target, "config"), "a", encoding="utf-8") as file:
        file.write("\n[core]\n\tbare = false\n\tworktree = ..\n")


def _copy_git_part(source: str, target: str) -> None:
    if os.path.isdir(source):
        ignored = shutil.ignore_patterns("*.lock")
        with suppress(shutil.Error):  # refs that came or went meanwhile
            shutil.copytree(source, target, symlinks=True, ignore=ignored, dirs_exist_ok=True)
    elif os.path.isfile(source):
        with suppress(FileNotFoundError):
            os.unlink(target)
        copy_file(source, target)


def _git_folder(path: str) -> str | None:
    """Return the folder of a repository that `path`, a `.git`, is or names; None if there is none."""
    if os.path.isdir(path):
        return os.path.realpath(path)
    return _named_in(path, os.path.dirname(path))


def _named_in(path: str, relative_to: str) -> str | None:
    """Return the folder that a file of git names: `gitdir: /x/.git/worktrees/y`, or `../..` in a `commondir`."""
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            text = os.fsdecode(file.read(4096)).removeprefix("gitdir:").strip()
    except OSError:
        return None
    if "\0" in text:
        return None
    found = os.path.realpath(os.path.join(relative_to, text))
    return found if os.path.isdir(found) else None
