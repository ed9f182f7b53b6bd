"""Object stores by path or URL."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from ..decision import WrongUse
from ..decision.wrong_calls import explained
from ..validation import preview
from .folder_objects import FolderObjects
from .object_store import ObjectStore

FORMS = "the path of a folder, or s3://BUCKET/PREFIX"
_SETTINGS = frozenset({"endpoint", "region"})


@explained
def object_store_at(place: str | os.PathLike[str]) -> ObjectStore:
    """Return the object store at a path or URL. Nothing is read or written yet.

    `s3://BUCKET/PREFIX` may have `?endpoint=URL&region=NAME` at its end. Raises WrongUse for anything else, or if the
    library for S3 is not installed.
    """
    text = os.fspath(place)
    scheme, found, rest = text.partition("://")
    if found and scheme.lower() == "s3":
        return _bucket_at(text)
    if found and scheme.lower() != "file":
        raise WrongUse(f"{preview(scheme + '://...')} is no archive: give {FORMS}")
    path = unquote(rest) if found else text
    if not path.strip() or "\0" in path:
        raise WrongUse(f"{preview(text)} is no archive: give {FORMS}")
    return FolderObjects(Path(path).expanduser())


def _bucket_at(url: str) -> ObjectStore:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise WrongUse(
            "the URL of an archive holds no keys, as others may read it: set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY, and write s3://BUCKET/PREFIX"
        )
    settings = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(settings.keys() - _SETTINGS)
    if unknown or not parts.netloc or parts.fragment or ":" in parts.netloc:
        about = f"has no setting {unknown[0]!r}: it takes {' and '.join(sorted(_SETTINGS))}" if unknown else "is wrong"
        raise WrongUse(f"the archive {preview(url)} {about}; give {FORMS}")
    from .s3_objects import S3Objects  # an extra

    return S3Objects(
        parts.netloc,
        unquote(parts.path).strip("/"),
        endpoint=settings.get("endpoint"),
        region=settings.get("region"),
    )
