"""Fingerprint of the work in a folder: the same text as long as no file of it has changed.

Work is what git would commit: tracked files and untracked ones that it does not ignore, in submodules and other
repositories inside the folder, too. Where there is no git, or where it fails, all files are work. What checks leave
behind (`tools/artefacts.py`) is no work in either case.

Content decides, not time: a file that is only touched, or changed and changed back, is as it was. So do kind,
executable bit and a link's target. Links are not followed, and sockets, fifos and devices are not opened.
`file_states.py` says what is done with large files.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator

from ..tools.artefacts import CACHE_TAG, VERSION_CONTROL, is_artefact, is_cache
from .file_states import FileStates
from .git_files import GitFiles


class WorkFingerprint:
    """Fingerprint of the work in a folder. Keep the object: it reads only the files that changed since the last time.

    One thread at a time may use it. folder: the folder, which must exist.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = os.path.realpath(folder)
        self._listing = _Listing(self._folder)
        self._states = FileStates()
        self._taken: dict[str, bytes] | None = None
        self._text = ""

    def take(self) -> str:
        """Return the fingerprint of the folder as it is now, 32 hexadecimal digits. Blocks; never raises OSError."""
        taken = self._states.read(self._listing.paths())
        if taken != self._taken:
            self._taken, self._text = taken, _digest(taken, len(self._folder))
        return self._text


def _digest(states: dict[str, bytes], skipped: int) -> str:
    """Return the hash of the states. skipped: the length of the folder's path, which is no part of the work."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(states):
        digest.update(b"%s\0%s\0" % (os.fsencode(path[skipped:]), states[path]))
    return digest.hexdigest()


class _Listing:
    """The absolute paths of the files of one repository, or of a folder without one."""

    def __init__(self, folder: str, *, own_repository: bool = False) -> None:
        self._folder = folder
        self._git = GitFiles(folder, own_repository=own_repository)
        self._printed: bytes | None = None
        self._files: list[str] = []
        self._parents: list[str] = []
        self._inner: dict[str, _Listing] = {}

    def paths(self) -> list[str]:
        printed = self._git.listed()
        if printed is None:
            return list(_walk(self._folder))
        if printed != self._printed:
            self._printed = printed
            self._read(printed)
        paths = self._files
        replaced = tuple(place + os.sep for place in self._parents if os.path.islink(place))
        if replaced:  # tracked below a folder in whose place there is a link now
            paths = [path for path in paths if not path.startswith(replaced)]
        for inner in self._inner.values():
            paths = paths + inner.paths()
        return paths

    def _read(self, printed: bytes) -> None:
        names = set(os.fsdecode(printed).split("\0")) - {""}
        caches = tuple(_tagged_folders(self._folder, names))
        work = sorted(name for name in names if not is_artefact(name) and not name.startswith(caches))
        paths = [os.path.join(self._folder, name) for name in work]
        before = self._inner
        self._inner = {}
        self._files = []
        for path in paths:
            if path.endswith(os.sep) or (os.path.isdir(path) and not os.path.islink(path)):
                place = path.rstrip(os.sep)
                self._inner[place] = before.get(place) or _Listing(place, own_repository=True)
            else:
                self._files.append(path)
        self._parents = sorted(_parents(work, self._folder))


def _parents(names: Iterable[str], folder: str) -> set[str]:
    """Return all folders between `folder` and the files, as absolute paths."""
    found: set[str] = set()
    for name in names:
        while (name := name.rpartition("/")[0]) and name not in found:
            found.add(name)
    return {os.path.join(folder, name) for name in found}


def _tagged_folders(folder: str, names: Collection[str]) -> Iterator[str]:
    """Yield the folders, each with a `/` at the end, that have a `CACHEDIR.TAG` among the names."""
    for name in names:
        place, _, last = name.rpartition("/")
        if last == CACHE_TAG and place and is_cache(os.path.join(folder, place)):
            yield place + "/"


def _walk(folder: str) -> Iterator[str]:
    """Yield all files below a folder that are no artefacts, as absolute paths. Skips folders that it cannot list."""
    waiting = [""]
    while waiting:
        inner = waiting.pop()
        place = os.path.join(folder, inner)
        try:
            with os.scandir(place) as entries:
                found = list(entries)
        except OSError:
            continue
        if inner and any(entry.name == CACHE_TAG for entry in found) and is_cache(place):
            continue
        for entry in found:
            path = f"{inner}/{entry.name}" if inner else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in VERSION_CONTROL and not is_artefact(path + "/"):
                    waiting.append(path)
            elif not is_artefact(path):
                yield entry.path
