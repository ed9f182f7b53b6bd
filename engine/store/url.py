"""Stores by path or URL."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from ..decision import WrongUse
from ..decision.errors import missing_extra
from ..decision.wrong_calls import explained

try:
    from sqlalchemy import URL, make_url
    from sqlalchemy.exc import ArgumentError

    from .database import Database, Postgresql, Sqlite
    from .sql import SqlStore
except ModuleNotFoundError as error:
    raise missing_extra("endstop.store keeps sessions in a database", "server", error) from None

__all__ = ["store_at"]

URL_FORMS = "a path, sqlite:///PATH or postgresql://USER:PASSWORD@HOST/DATABASE"


@explained
def store_at(place: str | os.PathLike[str]) -> SqlStore:
    """Return the store at a path or URL, not yet open.

    A path or `sqlite:///path` is a SQLite file, created if it does not exist; `postgresql://...` is a database on a
    server. Raises WrongUse for anything else, or if the driver is not installed.
    """
    return SqlStore(_database_at(place))


def file_at(place: str | os.PathLike[str]) -> Path | None:
    """Return the file of the store at a path or URL; None for a database on a server. Raises like `store_at`."""
    database = _database_at(place)
    return database.path.absolute() if isinstance(database, Sqlite) else None


def mask_url(url: str) -> str:
    """Return a URL that may be shown, with `***` for the passwords."""
    url = re.sub(r"(://[^/?#:]*):.*@", r"\1:***@", url, flags=re.DOTALL)
    return re.sub(r"([?&][^=&]*password=)[^&]*", r"\1***", url, flags=re.IGNORECASE)


def parse_store_url(place: str | os.PathLike[str]) -> Path | URL:
    """Return the path of a SQLite file or the URL of a PostgreSQL database. Raises WrongUse for anything else."""
    text = os.fspath(place)
    scheme, found, rest = text.partition("://")
    if not found:
        return _path(text, text)
    match scheme.lower():
        case "sqlite":
            return _path(rest.removeprefix("/"), text)
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return _url(text)
        case _:
            raise WrongUse(f"{mask_url(text)!r} is not the path or URL of a store: give {URL_FORMS}")


def passwords_in(url: URL) -> tuple[str, ...]:
    """Return the passwords in a URL."""
    found = [url.password or ""]
    for name, value in url.query.items():
        if "password" in name.lower():
            found += [value] if isinstance(value, str) else value
    return tuple(secret for secret in found if secret)


def _database_at(place: str | os.PathLike[str]) -> Database:
    found = parse_store_url(place)
    if isinstance(found, Path):
        return Sqlite(found)
    shown = mask_url(os.fspath(place))
    if find_spec("psycopg") is None:
        raise missing_extra(f"{shown}: PostgreSQL needs its driver", "postgres")
    return Postgresql(found.set(drivername="postgresql+psycopg"), shown, passwords_in(found))


def _path(path: str, given: str) -> Path:
    if not path.strip() or path == ":memory:" or "\0" in path:
        raise WrongUse(f"{given!r} does not name a file: give {URL_FORMS}")
    return Path(os.path.expanduser(path))


def _url(text: str) -> URL:
    try:
        url = make_url(text)
        if not 0 < (url.port or 5432) < 65536:
            raise ValueError(url.port)
    except (ArgumentError, ValueError):
        raise WrongUse(f"{mask_url(text)!r} is not the URL of a database: give {URL_FORMS}") from None
    return url
