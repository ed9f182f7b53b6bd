"""An object store in a folder: each object is a file, and each name in its key before the last one a folder."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import ParamSpec, TypeVar

from anyio import to_thread

from .object_store import PAGE, AccessRefused, ObjectNotFound, ObjectStoreError, StoredObject, check_key, check_page

_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
P = ParamSpec("P")
T = TypeVar("T")


class FolderObjects:
    """Objects in a folder, which is created when it is needed. Only their owner can read them.

    folder: its path. Several processes may share it, also over a network, if its file system renames atomically.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)

    @property
    def name(self) -> str:
        """The path of the folder."""
        return str(self.folder)

    async def put(self, key: str, data: bytes) -> None:
        """Implement `ObjectStore.put`: write a file beside it, sync it, and rename it."""
        try:
            await self._in_thread(self._put, self.folder / check_key(key), data)
        except ObjectNotFound:
            raise AccessRefused(f"{self.folder}: no folder can be created there") from None

    async def get(self, key: str) -> bytes:
        """Implement `ObjectStore.get`."""
        return await self._in_thread((self.folder / check_key(key)).read_bytes)

    async def list(self, folder: str = "", *, after: str = "", limit: int = PAGE) -> list[StoredObject]:
        """Implement `ObjectStore.list`. Hidden files, and links to folders, are left out."""
        check_page(folder, after, limit)
        names = tuple(folder.split("/")) if folder else ()
        passed = tuple(after.split("/")) if after else ()
        if passed[: len(names)] != names:
            if passed > names:
                return []
            passed = names
        found = _objects_below(str(self.folder.joinpath(*names)), names, passed[len(names) :])
        return await self._in_thread(lambda: list(islice(found, limit)))

    async def delete(self, key: str) -> None:
        """Implement `ObjectStore.delete`. The folders stay, as others may be writing into them."""
        with suppress(ObjectNotFound):
            await self._in_thread((self.folder / check_key(key)).unlink)

    # ---- inside

    async def _in_thread(self, work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        try:
            return await to_thread.run_sync(lambda: work(*args, **named))
        except FileNotFoundError as error:
            raise ObjectNotFound(f"{error.filename}: there is no such object") from None
        except OSError as error:
            kind = AccessRefused if error.errno in _REFUSED else ObjectStoreError
            raise kind(f"{error.filename or self.folder}: {(error.strerror or str(error)).lower()}") from None

    def _put(self, path: Path, data: bytes) -> None:
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, part = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
        for folder in (path.parent, *(one.parent for one in made)):
            _sync_folder(folder)


def _objects_below(folder: str, names: tuple[str, ...], passed: tuple[str, ...]) -> Iterator[StoredObject]:
    """Yield the objects of a folder and of those in it.

    names: those of the folder in keys. passed: names below it of the key behind which to begin; empty: all.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        with os.scandir(folder) as entries:
            found = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda one: one.name)
        for entry in found:
            if passed and entry.name < passed[0]:
                continue
            rest = passed[1:] if passed and entry.name == passed[0] else ()
            if entry.is_dir(follow_symlinks=False):
                yield from _objects_below(entry.path, (*names, entry.name), rest)
            elif entry.is_file() and not (passed and entry.name == passed[0]):
                with suppress(FileNotFoundError):  # another process has deleted it
                    yield StoredObject("/".join((*names, entry.name)), entry.stat().st_size)


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Does nothing where folders cannot be synced."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
