"""Each object store does what the conformance kit asks for; and each fault of one is found by the kit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from endstop.objects.folder_objects import FolderObjects
from endstop.objects.object_store import PAGE, ObjectStore, StoredObject, check_key
from endstop.testing.conformance.nonconformance import Nonconformance
from endstop.testing.conformance.objects import CASES, ObjectStoreCase, check

NAMED = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_it_conforms(case: ObjectStoreCase, make: Callable[[], ObjectStore]) -> None:
    await check(case, make)


class Torn(FolderObjects):
    """Writes where readers look."""

    async def put(self, key: str, data: bytes) -> None:
        path = self.folder / check_key(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        half = len(data) // 2
        path.write_bytes(data[:half])
        await super()._in_thread(lambda: None)
        path.write_bytes(data)


class Forgetful(FolderObjects):
    """Gives nothing instead of an error."""

    async def get(self, key: str) -> bytes:
        path = self.folder / check_key(key)
        return path.read_bytes() if path.is_file() else b""


class Strict(FolderObjects):
    """Raises for what is deleted already."""

    async def delete(self, key: str) -> None:
        await self._in_thread((self.folder / check_key(key)).unlink)


class Careless(FolderObjects):
    """Takes any key."""

    async def delete(self, key: str) -> None:
        if key not in ("..", "a/../b"):
            await super().delete(key)


class Repeating(FolderObjects):
    """Begins each page with the last object of the page before."""

    async def list(self, folder: str = "", *, after: str = "", limit: int = PAGE) -> list[StoredObject]:
        whole = await super().list(folder)
        if limit == PAGE:
            return await super().list(folder, after=after)
        keys = [one.key for one in whole]
        first = max(0, keys.index(after)) if after and after != keys[-1] else len(keys) if after else 0
        return whole[first : first + limit]


class Loose(FolderObjects):
    """Takes the beginning of a name for a folder."""

    async def list(self, folder: str = "", *, after: str = "", limit: int = PAGE) -> list[StoredObject]:
        return [one for one in await super().list(after=after, limit=limit) if one.key.startswith(folder)]


@pytest.mark.parametrize(
    ("faulty", "name"),
    [
        (Torn, "put: a reader sees all or none"),
        (Forgetful, "get: what is not there"),
        (Strict, "delete: also twice"),
        (Careless, "keys: those that are refused"),
        (Repeating, "list: pages"),
        (Loose, "list: folders"),
    ],
)
async def test_the_kit_finds_a_fault(faulty: type[FolderObjects], name: str, tmp_path: Path) -> None:
    with pytest.raises((Nonconformance, OSError)) as found:
        await check(NAMED[name], lambda: faulty(tmp_path / "archive"))
    assert faulty is Strict or isinstance(found.value, Nonconformance)
