"""Files that a check stands on and that the agent must not change: what they were, and what has become of them.

The originals are kept in a file without a name, so that no command of the agent can reach them; `keep` writes them to
one with a name, for another process that goes on with them. What counts is a file's
content, its executable bit, its kind, and a link's target. Links are not followed: a folder that has been replaced by a
link has lost its files, and a link to a folder counts as a file wherever a guarded file could be in that folder.

    named, watched = named_files(command, "project"), watched_patterns(command)
    with GuardedFiles("project", ["tests/**"], named=named, watched=watched) as guarded:
        ...
        if guarded.changed():
            with guarded.pristine_copy() as folder:
                ...                                    # run the check in this folder
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from ..decision import WrongUse
from .file_states import CHUNK_BYTES, READ_FLAGS, UNREADABLE, FileStates
from .folder_copy import DEPENDENCIES, FolderCopy, temporary_place
from .path_patterns import PathPattern

MAX_BYTES = 200_000_000
"""Number of bytes that all guarded files of a folder may have together."""


class _Original(NamedTuple):
    """What a guarded file was: where its content lies among the originals, or its target if it was a link."""

    at: int
    size: int
    mode: int
    changed_ns: int
    link: str | None


class _Kept(Struct):
    """What stands before the contents in a file that `keep` has written."""

    states: dict[str, bytes]
    originals: dict[str, _Original]
    unreadable: list[str]
    marked: dict[str, bytes] | None


class GuardedFiles:
    """The files of a folder that fit patterns (see `path_patterns.py`), as they were when this was constructed.

    patterns: what the user wants guarded; each must fit at least one file. named: what is guarded unasked, as from
    `named_files`. watched: what is only watched (see `guards`), as from `watched_patterns`. The latter two may fit
    nothing. Blocks, as all its methods do. Raises WrongUse for a pattern that is wrong or fits nothing, for a guarded
    file that cannot be read, and if the files have more than `MAX_BYTES`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        patterns: Iterable[str],
        *,
        named: Iterable[str] = (),
        watched: Iterable[str] = (),
    ) -> None:
        self._folder = os.path.realpath(folder)
        asked_for = [PathPattern(text) for text in patterns]
        self._patterns = asked_for + [PathPattern(text) for text in named]
        self._watched = [PathPattern(text) for text in watched]
        self._environments: frozenset[str] = _virtual_environments(self._folder)
        self._reader = FileStates(whole=True)
        paths = list(self._paths(self._folder))
        for pattern in asked_for:
            if not any(pattern.fits(path) for path in paths):
                raise WrongUse(_fits_nothing(pattern.text, self._folder))
        self._check_size(paths)
        states = self._read_states(self._folder, paths)
        for path in sorted(states):
            if states[path].endswith(UNREADABLE) and self.guards(path):
                raise WrongUse(f"guarded file {path!r} cannot be read: make it readable, or guard other files")
        self._contents = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._states: dict[str, bytes] = {}
        self._unreadable: set[str] = set()
        self._originals: dict[str, _Original] = {}
        for path, state in states.items():
            self._keep(path, state)
        self._contents.flush()  # it is read by its descriptor
        self._marked: dict[str, bytes] | None = None

    def keep(self, file: Path) -> None:
        """Write the originals, and what `mark` has remembered, to a file, which is replaced whole. Raises OSError."""
        kept = _Kept(self._states, self._originals, sorted(self._unreadable), self._marked)
        head = msgspec.msgpack.encode(kept)
        new = file.with_name(f"{file.name}.new")
        with open(new, "wb") as out:
            out.write(len(head).to_bytes(8, "big") + head)
            self._contents.seek(0)
            shutil.copyfileobj(self._contents, out, CHUNK_BYTES)
        os.replace(new, file)

    def take_kept(self, file: Path) -> bool:
        """Go on with the originals that `keep` has written. Return whether there are any that can be read."""
        try:
            with open(file, "rb") as kept_in:
                kept = msgspec.msgpack.decode(kept_in.read(int.from_bytes(kept_in.read(8), "big")), type=_Kept)
                self._contents.seek(0)
                self._contents.truncate()
                shutil.copyfileobj(kept_in, self._contents, CHUNK_BYTES)
        except (OSError, msgspec.DecodeError, OverflowError):
            return False
        self._contents.flush()
        self._states, self._originals, self._marked = kept.states, kept.originals, kept.marked
        self._unreadable = set(kept.unreadable)
        return True

    def __enter__(self) -> GuardedFiles:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget the originals. May be called twice."""
        self._contents.close()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that were there at the start: relative paths with `/`, sorted."""
        return tuple(sorted(self._states))

    def guards(self, path: str) -> bool:
        """Return whether a path that `changed` has returned is guarded, and not just watched."""
        if os.path.islink(os.path.join(self._folder, path)):
            return any(pattern.fits(path) or pattern.leads_into(path.split("/")) for pattern in self._patterns)
        return any(pattern.fits(path) for pattern in self._patterns)

    def changed(self) -> tuple[str, ...]:
        """Return the relative paths, sorted, of files that have been changed, replaced or deleted, or that are new.

        A folder on the way to a guarded file that has become a link is among them.
        """
        return self._changed_in(self._folder, self._reader)

    def mark(self) -> None:
        """Remember the files as they are now: what is changed from here until `adopt` is not the agent's."""
        self._marked = self._read_states(self._folder, self._paths(self._folder))

    def adopt(self) -> None:
        """Take what has changed since `mark` as the originals; what had been changed before keeps its own."""
        if self._marked is None:
            return
        before, self._marked = self._marked, None
        now = self._read_states(self._folder, self._paths(self._folder))
        for path in now.keys() | before.keys():
            if now.get(path) == before.get(path):
                continue
            self._states.pop(path, None)
            self._originals.pop(path, None)
            self._unreadable.discard(path)
            if path in now:
                self._keep(path, now[path])
        self._contents.flush()

    @contextmanager
    def pristine_copy(self) -> Iterator[Path]:
        """Make a copy of the folder in which the guarded files are as they were; removed at the end.

        New files that fit a pattern are not in it. Everything else is as it is now; see `folder_copy.py` for links,
        dependencies and `.git`. Raises OSError if it cannot be written.
        """
        with temporary_place() as place:
            copy = FolderCopy(self._folder, place, whole=self.changed())
            self._put_back(copy)
            yield copy.path

    def _paths(self, root: str) -> Iterator[str]:
        """Yield what fits a pattern below a folder, and links to folders into which a pattern leads."""
        waiting: list[tuple[list[str], list[PathPattern]]] = [([], self._patterns + self._watched)]
        while waiting:
            folder, patterns = waiting.pop()
            with suppress(OSError), os.scandir(os.path.join(root, *folder)) as entries:
                for entry in entries:
                    names = [*folder, entry.name]
                    path = "/".join(names)
                    if entry.name == ".git":
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        inner = self._leading_into(names, path, patterns)
                        if inner:
                            waiting.append((names, inner))
                    elif any(pattern.fits(path) for pattern in patterns) or (
                        entry.is_symlink() and entry.is_dir() and self._leading_into(names, path, patterns)
                    ):
                        yield path

    def _leading_into(self, names: Sequence[str], path: str, patterns: list[PathPattern]) -> list[PathPattern]:
        if names[-1] in DEPENDENCIES or names[-1] == "__pycache__" or path in self._environments:
            return [pattern for pattern in patterns if pattern.begins_with(names)]
        return [pattern for pattern in patterns if pattern.leads_into(names)]

    def _check_size(self, paths: Sequence[str]) -> None:
        sizes = {}
        for path in paths:
            with suppress(OSError):
                found = os.lstat(os.path.join(self._folder, path))
                sizes[path] = found.st_size if stat.S_ISREG(found.st_mode) else 0
        if sum(sizes.values()) <= MAX_BYTES:
            return
        by_pattern = {
            pattern.text: sum(size for path, size in sizes.items() if pattern.fits(path))
            for pattern in (*self._patterns, *self._watched)
        }
        text = max(by_pattern, key=lambda name: by_pattern[name])
        raise WrongUse(
            f"the guarded files have {sum(sizes.values()) / 1e6:.0f} MB, of which {by_pattern[text] / 1e6:.0f} MB fit "
            f"{text!r}; at most {MAX_BYTES / 1e6:.0f} MB can be guarded: name fewer files"
        )

    def _read_states(self, root: str, paths: Iterable[str], reader: FileStates | None = None) -> dict[str, bytes]:
        whole_paths = {os.path.join(root, path): path for path in paths}
        states = (reader or self._reader).read(whole_paths)
        return {whole_paths[path]: state for path, state in states.items()}

    def _changed_in(self, root: str, reader: FileStates) -> tuple[str, ...]:
        now = self._read_states(root, self._paths(root), reader)
        either = (now.keys() | self._states.keys()) - self._unreadable
        return tuple(sorted(path for path in either if now.get(path) != self._states.get(path)))

    def _keep(self, path: str, state: bytes) -> None:
        """Take a file as it is now, with this state, as the original."""
        self._states[path] = state
        if state.endswith(UNREADABLE):
            self._unreadable.add(path)
        original = self._remember(path)
        if original is not None:
            self._originals[path] = original

    def _remember(self, path: str) -> _Original | None:
        """Keep a file's content and return what it was; None for what is neither a file nor a link."""
        whole_path = os.path.join(self._folder, path)
        found = os.lstat(whole_path)
        if stat.S_ISLNK(found.st_mode):
            return _Original(0, 0, 0, 0, os.readlink(whole_path))
        if not stat.S_ISREG(found.st_mode) or path in self._unreadable:
            return None
        begin = self._contents.tell()
        with open(os.open(whole_path, READ_FLAGS), "rb") as file:
            shutil.copyfileobj(file, self._contents, CHUNK_BYTES)
        mode = stat.S_IMODE(found.st_mode) & 0o777
        return _Original(begin, self._contents.tell() - begin, mode, found.st_mtime_ns, None)

    def _put_back(self, copy: FolderCopy) -> None:
        """Make the guarded files of a copy what they were. It is compared again: the folder may change meanwhile."""
        root = str(copy.path)
        linked = tuple(f"{folder}/" for folder in copy.linked)
        changed = [
            path
            for path in self._changed_in(root, FileStates(whole=True))
            if path not in copy.linked and not path.startswith(linked)
        ]
        for path in changed:
            if path not in self._states and not _has_link(root, path):
                _remove(os.path.join(root, path))
        for path in changed:
            original = self._originals.get(path)
            if original is not None:
                _make_folders(root, path)
                _remove(os.path.join(root, path))
                self._write(copy, path, original)

    def _write(self, copy: FolderCopy, path: str, original: _Original) -> None:
        if original.link is not None:
            copy.make_link(path, original.link)
            return
        target = os.path.join(copy.path, path)
        at, end = original.at, original.at + original.size
        with open(target, "xb") as file:
            while at < end:
                chunk = os.pread(self._contents.fileno(), min(CHUNK_BYTES, end - at), at)
                if not chunk:
                    raise OSError(f"the original of {path!r} has been lost")
                file.write(chunk)
                at += len(chunk)
        os.chmod(target, original.mode)
        os.utime(target, ns=(original.changed_ns, original.changed_ns))


def _fits_nothing(text: str, folder: str) -> str:
    return f"guard {text!r} fits no file in {folder!r}: name files that exist, relative to that folder, or leave it out"


def _virtual_environments(folder: str) -> frozenset[str]:
    """Return the relative paths of the virtual environments at the top of a folder, whatever their names are."""
    found = set()
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and os.path.isfile(os.path.join(entry.path, "pyvenv.cfg")):
                found.add(entry.name)
    return frozenset(found)


def _has_link(root: str, path: str) -> bool:
    """Return whether a folder on the way to `path` is a link."""
    place = root
    for name in path.split("/")[:-1]:
        place = os.path.join(place, name)
        if os.path.islink(place):
            return True
    return False


def _make_folders(root: str, path: str) -> None:
    """Make every folder on the way to `path` a real one, in the place of whatever else is there."""
    place = root
    for name in path.split("/")[:-1]:
        place = os.path.join(place, name)
        if os.path.islink(place) or not os.path.isdir(place):
            _remove(place)
            os.mkdir(place)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)
