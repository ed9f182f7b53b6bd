"""The protocol of an object store: put, get, list and delete bytes under keys.

A key is a path of names with `/` between them, such as `alice/2026/11/30/session_1.jsonl.zst`. It is no folder of
another key: where `a/b` is or was stored, `a` is not.

    ObjectStoreError (an OSError)    the store cannot do it: it is away, or full
    ├── ObjectNotFound               there is no object under this key
    └── AccessRefused                the store refuses: the credentials, the rights or the bucket are wrong
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from ..decision import WrongUse
from ..decision.wrong_attributes import explained_attributes
from ..decision.wrong_calls import ExplainedStruct
from ..validation import preview

MAX_KEY_BYTES = 900
"""Longest key, in bytes of UTF-8. S3 takes 1024, with the prefix of the store."""
MAX_NAME_BYTES = 200
"""Longest name between two `/`, in bytes of UTF-8. File systems take 255, and a store needs some for a suffix."""
PAGE = 1000
"""Most objects in one page of a list, as in S3."""


@explained_attributes
class ObjectStoreError(OSError):
    """The object store could not do what was asked. The text says what is wrong."""


class ObjectNotFound(ObjectStoreError):
    """There is no object under this key."""


class AccessRefused(ObjectStoreError):
    """The object store refuses, and will go on to: credentials, rights or the bucket's name are wrong."""


class StoredObject(ExplainedStruct, frozen=True):
    """An object of a list."""

    key: str
    size: int
    """Bytes."""


class ObjectStore(Protocol):
    """Bytes under keys. All methods raise ObjectStoreError, and WrongUse for a key that `check_key` refuses.

    `endstop.testing.conformance.objects` checks an implementation.
    """

    @property
    def name(self) -> str:
        """What people know it by, without secrets, such as `s3://bucket/prefix`."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Store an object, and replace an earlier one. Returns once it is durable.

        Readers see all of it or none; so do they after an error, which leaves open whether it was stored.
        """
        ...

    async def get(self, key: str) -> bytes:
        """Return an object, whole. Raises ObjectNotFound."""
        ...

    async def list(self, folder: str = "", *, after: str = "", limit: int = PAGE) -> list[StoredObject]:
        """Return a page of the objects whose keys begin with `folder` and `/`; shorter than `limit`: the last page.

        folder: the beginning of keys, without a `/` at its end; empty: all. after: the last key of the page before.
        limit: from 1 to PAGE.

        The order is always the same: ascending by code points within each folder.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete an object. Does nothing if there is none."""
        ...


async def every_object(store: ObjectStore, folder: str = "") -> AsyncIterator[StoredObject]:
    """Yield the objects whose keys begin with `folder` and `/`; empty: all. Raises like `ObjectStore.list`.

    Those that have come may be deleted meanwhile.
    """
    after = ""
    while page := await store.list(folder, after=after):
        for one in page:
            yield one
        after = page[-1].key


def check_key(key: str) -> str:
    r"""Return a key that every object store can hold. Raises WrongUse for another one.

    Refused are empty names and those that begin with a dot, `/` at either end, control characters, `\`, lone
    surrogates, and what is too long.
    """
    try:
        encoded = key.encode()
    except UnicodeEncodeError:
        raise WrongUse(f"the key {preview(key)} has half of a surrogate pair") from None
    names = encoded.split(b"/")
    if any(not name or name.startswith(b".") for name in names):
        raise WrongUse(f"the key {preview(key)} has an empty name, or one that begins with a dot")
    if len(encoded) > MAX_KEY_BYTES or any(len(name) > MAX_NAME_BYTES for name in names):
        raise WrongUse(
            f"the key {preview(key)} is too long: at most {MAX_KEY_BYTES} bytes, and {MAX_NAME_BYTES} from / to /"
        )
    if "\\" in key or any(letter < " " or letter == "\x7f" for letter in key):
        raise WrongUse(f"the key {preview(key)} has a control character or a backslash")
    return key


def is_key(key: str) -> bool:
    """Return whether `check_key` takes this key."""
    try:
        check_key(key)
    except WrongUse:
        return False
    return True


def check_page(folder: str, after: str, limit: int) -> None:
    """Raise WrongUse unless these are arguments of `ObjectStore.list`."""
    for key in filter(None, (folder, after)):
        check_key(key)
    if not 1 <= limit <= PAGE:
        raise WrongUse(f"limit is {limit}, and must be from 1 to {PAGE}")
