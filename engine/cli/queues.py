"""`--queue`: which durable engine hands out the runs, and where it is."""

from __future__ import annotations

import argparse
from urllib.parse import urlsplit

from ..decision import WrongUse
from ..durable import Queue
from ..durable.dbos import Dbos
from ..durable.temporal import Temporal
from ..store.url import file_at, masked

_FORMS = "dbos, dbos:URL of a PostgreSQL database, or temporal://HOST:PORT/NAMESPACE"


def queue_of(given: argparse.Namespace) -> Queue:
    """The queue that was named, not open yet. Raises WrongUse."""
    most = given.max_running_everywhere
    if most is not None and most < 1:
        raise WrongUse(f"--max-running-everywhere is {most}: use 1 or more")
    name, _, place = given.queue.partition(":")
    match name:
        case "dbos":
            return Dbos(place or _shared_store(given), running_in_all=most)
        case "temporal":
            if most is not None:
                raise WrongUse(
                    "--max-running-everywhere: Temporal has no such limit; give each worker its --max-running"
                )
            return _temporal(given.queue, given.lease)
        case _:
            raise WrongUse(f"--queue is {masked(given.queue)!r}: give {_FORMS}")


def _temporal(url: str, lease: float) -> Queue:
    parts = urlsplit(url)
    try:
        host, port = parts.hostname, parts.port or 7233
    except ValueError:
        host, port = None, 0
    if not host:
        raise WrongUse(f"--queue is {url!r}: give temporal://HOST:PORT/NAMESPACE")
    return Temporal(f"{host}:{port}", namespace=parts.path.strip("/") or "default", lease=min(max(lease, 1.0), 3600.0))


def _shared_store(given: argparse.Namespace) -> str:
    """The store, which several processes can have open."""
    store: str | None = given.store
    if store is None or file_at(store) is not None:
        raise WrongUse(
            "workers share a PostgreSQL database: give --store postgresql://USER:PASSWORD@HOST/DATABASE"
            + (f" (--store {store} is a file)" if store else "")
        )
    return store
