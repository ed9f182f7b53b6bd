"""An object store in a bucket of Amazon S3 or of a service with the same interface, by the library `obstore`.

Imported only when a bucket is used: `obstore` is an extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from ..decision import WrongUse
from ..decision.errors import missing_extra
from .object_store import (
    PAGE,
    AccessRefused,
    ObjectNotFound,
    ObjectStoreError,
    StoredObject,
    check_key,
    check_page,
    is_key,
)

try:
    import obstore
    from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import S3Store
except ModuleNotFoundError as error:
    raise missing_extra("an archive in S3 needs the package obstore", "s3", error) from None

CONNECT_SECONDS = 5
REQUEST_SECONDS = 30
"""Seconds for one request; a large object is sent in several (multipart upload)."""
RETRIES = 3
RETRY_SECONDS = 20
"""Seconds after its first attempt in which a request is tried again."""
_DETAILS = "Debug source:"
"""What an error's text repeats behind this is for the library's developers."""
_MOST_TEXT = 400


class S3Objects:
    """Objects in a bucket.

    bucket: its name. prefix: put before each key, without `/` at either end; may be empty. endpoint: the URL of
    another service than Amazon's. region: the bucket's. What is None is read from the environment, as are credentials:
    `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`; without these,
    those of the machine or container in Amazon's cloud are asked for. Files such as `~/.aws/credentials` are not read.

    Raises WrongUse for settings that cannot work.
    """

    def __init__(
        self, bucket: str, prefix: str = "", *, endpoint: str | None = None, region: str | None = None
    ) -> None:
        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        if prefix:
            check_key(prefix)
        given = {name: value for name, value in (("endpoint", endpoint), ("region", region)) if value is not None}
        try:
            self._store = S3Store(
                bucket,
                prefix=prefix or None,
                client_options={
                    "allow_http": True,  # an endpoint says itself which it is, and keys are never sent, only signatures
                    "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
                    "timeout": timedelta(seconds=REQUEST_SECONDS),
                },
                retry_config={"max_retries": RETRIES, "retry_timeout": timedelta(seconds=RETRY_SECONDS)},
                **given,  # type: ignore[arg-type]
            )
        except (BaseError, ValueError) as error:
            raise WrongUse(f"{self.name} cannot be used: {_text(error)}") from None

    async def put(self, key: str, data: bytes) -> None:
        """Implement `ObjectStore.put`."""
        with self._errors_mapped():
            await obstore.put_async(self._store, check_key(key), data)

    async def get(self, key: str) -> bytes:
        """Implement `ObjectStore.get`."""
        with self._errors_mapped(key):
            found = await obstore.get_async(self._store, check_key(key))
            return bytes(await found.bytes_async())

    async def list(self, folder: str = "", *, after: str = "", limit: int = PAGE) -> list[StoredObject]:
        """Implement `ObjectStore.list`. Keys that `put` would refuse are left out."""
        check_page(folder, after, limit)
        found: list[StoredObject] = []
        with self._errors_mapped():
            pages = obstore.list(self._store, folder or None, offset=after or None, chunk_size=limit)
            async for page in pages:
                found += (StoredObject(meta["path"], meta["size"]) for meta in page if is_key(meta["path"]))
                if len(found) >= limit:
                    break
        return found[:limit]

    async def delete(self, key: str) -> None:
        """Implement `ObjectStore.delete`."""
        with self._errors_mapped():
            await obstore.delete_async(self._store, check_key(key))

    @contextmanager
    def _errors_mapped(self, key: str | None = None) -> Iterator[None]:
        """Raise the library's errors as ObjectStoreError. key: of the object that is read, which may be missing."""
        try:
            yield
        except FileNotFoundError as error:
            if key is not None and "NoSuchBucket" not in str(error):
                raise ObjectNotFound(f"{self.name}/{key}: there is no such object") from None
            raise AccessRefused(f"{self.name}: there is no such bucket: {_text(error)}") from None
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise AccessRefused(f"{self.name}: {_text(error)}") from None
        except (BaseError, OSError) as error:
            raise ObjectStoreError(f"{self.name}: {_text(error)}") from None


def _text(error: Exception) -> str:
    """Return what an error of the library says, in one line that is not too long."""
    text = " ".join(str(error).partition(_DETAILS)[0].split())
    return text if len(text) <= _MOST_TEXT else text[:_MOST_TEXT] + "..."
