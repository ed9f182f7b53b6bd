"""The cases that every object store must pass, and `check`, which runs one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count

from ...decision import WrongUse
from ...decision.wrong_calls import checked
from ...objects.object_store import PAGE, ObjectNotFound, ObjectStore
from .nonconformance import Nonconformance

__all__ = ["CASES", "ObjectStoreCase", "check"]

MakeObjects = Callable[[], ObjectStore]
"""Makes an object store: another object each time, for the same place, which is empty at first."""

LARGE = 20 << 20
BAD_KEYS = ("", "/a", "a/", "a//b", ".", "..", "a/../b", ".a", "a/.b", "a\0b", "a\nb", "a\\b", "\ud800", "x" * 1000)
NAMES = (
    "plain", "UPPER", "with space", "a+b", "a%2Fb", "100%", "a=b&c", "#1?", "it's", '"quoted"', "~tilde", "a*b",
    "ümlaut", "e\u0301 is not \u00e9", "\u00e9 is not e\u0301", "日本語", "😀", "-", "_", "a.b", "x" * 200,
)  # fmt: skip


@checked
@dataclass(frozen=True)
class ObjectStoreCase:
    """One requirement of an object store."""

    name: str
    check: Callable[[MakeObjects], Awaitable[None]]

    def __str__(self) -> str:
        return self.name


async def check(case: ObjectStoreCase, make: MakeObjects) -> None:
    """Run a case. Raises Nonconformance if the store does not do what it requires.

    make: returns the object store, another object at each call; it holds nothing at the first.
    """
    await case.check(make)


# ---- put and get


async def _comes_back(make: MakeObjects) -> None:
    objects = make()
    for size, data in ((0, b""), (1, b"\0"), (256 << 8, bytes(range(256)) * 256)):
        await objects.put(f"bytes/{size}", data)
        _expect(f"the object of {size} bytes", await objects.get(f"bytes/{size}"), data)


async def _large_comes_back(make: MakeObjects) -> None:
    objects = make()
    data = bytes(range(251)) * (LARGE // 251)
    await objects.put("large", data)
    if await objects.get("large") != data:
        raise Nonconformance(f"an object of {len(data)} bytes came back different")
    _expect("its size in the list", [one.size for one in await objects.list()], [len(data)])


async def _replaces(make: MakeObjects) -> None:
    objects = make()
    for data in (b"first, and longer", b"second", b"second"):
        await objects.put("key", data)
        _expect("the object that was put last", await objects.get("key"), data)
    _expect("the list after three puts under one key", await _keys(objects), ["key"])


async def _seen_by_others(make: MakeObjects) -> None:
    one, other = make(), make()
    await one.put("a/b", b"data")
    _expect("what another object of the same store gets", await other.get("a/b"), b"data")
    await other.delete("a/b")
    await _expect_absent(one, "a/b")


async def _whole_for_readers(make: MakeObjects) -> None:
    writer, reader = make(), make()
    size = 1 << 20
    await writer.put("key", b"0" * size)
    reading = True

    async def read() -> int:
        for number in count(1):
            data = await reader.get("key")
            if len(data) != size or data.count(data[:1]) != size:
                raise Nonconformance("a reader got parts of two objects while one replaced the other")
            listed = [one.size for one in await reader.list()]
            _expect("the sizes in the list while an object is replaced", listed, [size])
            if not reading:
                return number
        raise AssertionError

    task = asyncio.create_task(read(), name="endstop conformance reader")
    try:
        for digit in range(20):
            await writer.put("key", b"%d" % (digit % 10) * size)
    finally:
        reading = False
        await task


async def _whole_after_cancel(make: MakeObjects) -> None:
    objects = make()
    old, new = b"o" * (8 << 20), b"n" * (8 << 20)
    await objects.put("key", old)
    for turns in (0, 1, 2, 5, 50):
        putting = asyncio.create_task(objects.put("key", new), name="endstop conformance put")
        for _ in range(turns):
            await asyncio.sleep(0)
        putting.cancel()
        await asyncio.wait([putting])
        if await make().get("key") not in (old, new):
            raise Nonconformance("a put that was cancelled left something else than the old or the new object")
        _expect("the list after a put that was cancelled", await _keys(make()), ["key"])


async def _many_at_once(make: MakeObjects) -> None:
    objects = make()
    numbers = range(50)
    await asyncio.gather(*(objects.put(f"many/{number:02}/x", b"%d" % number) for number in numbers))
    found = await asyncio.gather(*(objects.get(f"many/{number:02}/x") for number in numbers))
    _expect("50 objects that were put at once", found, [b"%d" % number for number in numbers])


async def _absent(make: MakeObjects) -> None:
    objects = make()
    await _expect_absent(objects, "nothing")
    await _expect_absent(objects, "deep/down/nothing")
    await objects.put("folder/key", b"data")
    await _expect_absent(objects, "folder/other")
    await _expect_absent(objects, "folder/key2")


# ---- keys


async def _any_name(make: MakeObjects) -> None:
    objects = make()
    keys = [f"names/{name}/{name}" for name in NAMES]
    for key in keys:
        await objects.put(key, key.encode())
    for key in keys:
        _expect(f"the object {key!r}", await objects.get(key), key.encode())
        _expect(f"the folder of {key!r}", await _keys(objects, key.rpartition("/")[0]), [key])
    _expect("all of them", sorted(await _keys(objects)), sorted(keys))


async def _bad_keys(make: MakeObjects) -> None:
    objects = make()
    for key in BAD_KEYS:
        for what, work in (("put", objects.put(key, b"")), ("get", objects.get(key)), ("delete", objects.delete(key))):
            try:
                await work
            except WrongUse:
                continue
            raise Nonconformance(f"{what} took the key {key!r}, which has to raise WrongUse")
    _expect("the list after keys that were refused", await _keys(objects), [])


# ---- list and delete


async def _lists_folders(make: MakeObjects) -> None:
    objects = make()
    _expect("the list of an empty store", await objects.list(), [])
    _expect("the list of a folder that is not there", await objects.list("nowhere"), [])
    for key in ("ab/1", "a/b/2", "a/b/10", "a/c", "b"):
        await objects.put(key, key.encode())
    _expect("the folder a", await _keys(objects, "a"), ["a/b/10", "a/b/2", "a/c"])
    _expect("the folder a/b", await _keys(objects, "a/b"), ["a/b/10", "a/b/2"])
    _expect("all", await _keys(objects), ["a/b/10", "a/b/2", "a/c", "ab/1", "b"])
    _expect("a key, which is no folder", await _keys(objects, "a/c"), [])
    _expect("sizes", {one.key: one.size for one in await objects.list("a/b")}, {"a/b/10": 6, "a/b/2": 5})


async def _lists_pages(make: MakeObjects) -> None:
    objects = make()
    keys = [f"{folder}/{number:02}" for folder in ("a", "a-b", "a.c", "b/c") for number in range(6)]
    await asyncio.gather(*(objects.put(key, b"") for key in reversed(keys)))
    whole = await _keys(objects)
    _expect("all keys", sorted(whole), sorted(keys))
    for folder in ("a", "a-b", "a.c", "b/c"):
        inside = [key for key in whole if key.startswith(f"{folder}/")]
        _expect(f"the folder {folder}, in order", inside, sorted(inside))
    for limit in (1, 5, len(keys), PAGE):
        paged: list[str] = []
        while page := await objects.list(after=paged[-1] if paged else "", limit=limit):
            if len(page) > limit:
                raise Nonconformance(f"a page of at most {limit} objects has {len(page)}")
            if paged and page[0].key in paged:
                raise Nonconformance(f"the page after {paged[-1]!r} begins with {page[0].key!r} again")
            paged += (one.key for one in page)
        _expect(f"all pages of {limit}", paged, whole)
    _expect("after a key that is gone", await _keys(objects, "a", after="a/02x"), ["a/03", "a/04", "a/05"])
    for wrong in (0, PAGE + 1):
        try:
            await objects.list(limit=wrong)
        except WrongUse:
            continue
        raise Nonconformance(f"list took the limit {wrong}, which has to raise WrongUse")


async def _deletes(make: MakeObjects) -> None:
    objects = make()
    await objects.put("a/b", b"data")
    await objects.put("a/c", b"data")
    for _ in range(2):
        await objects.delete("a/b")
        await _expect_absent(objects, "a/b")
    await objects.delete("never/there")
    _expect("what is left", await _keys(objects), ["a/c"])


CASES: tuple[ObjectStoreCase, ...] = (
    ObjectStoreCase("put: bytes come back", _comes_back),
    ObjectStoreCase("put: 20 MB come back", _large_comes_back),
    ObjectStoreCase("put: an earlier object is replaced", _replaces),
    ObjectStoreCase("put: others see it", _seen_by_others),
    ObjectStoreCase("put: a reader sees all or none", _whole_for_readers),
    ObjectStoreCase("put: cancelled", _whole_after_cancel),
    ObjectStoreCase("put: many at once", _many_at_once),
    ObjectStoreCase("get: what is not there", _absent),
    ObjectStoreCase("keys: any name", _any_name),
    ObjectStoreCase("keys: those that are refused", _bad_keys),
    ObjectStoreCase("list: folders", _lists_folders),
    ObjectStoreCase("list: pages", _lists_pages),
    ObjectStoreCase("delete: also twice", _deletes),
)
"""Every requirement of an object store."""


# ---- inside


async def _keys(objects: ObjectStore, folder: str = "", after: str = "") -> list[str]:
    return [one.key for one in await objects.list(folder, after=after)]


async def _expect_absent(objects: ObjectStore, key: str) -> None:
    try:
        data = await objects.get(key)
    except ObjectNotFound:
        return
    raise Nonconformance(f"get({key!r}) gave {data[:50]!r}, and has to raise ObjectNotFound")


def _expect(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise Nonconformance(f"{what}: expected {_short(expected)}, found {_short(found)}")


def _short(value: object) -> str:
    if isinstance(value, bytes | str | Sequence) and len(value) > 40:
        return f"{value[:40]!r}... ({len(value)})"
    return repr(value)
