"""One server on a file of SQLite: a second one would take for dead what the first one runs, and mark it interrupted.

The lock lies in a file of its own, `NAME-lock` beside the store: SQLite gives up its locks on a file as soon as anybody
in the process closes that file. The system lets go of it when the process ends, however that comes about. A process
that embeds a `Service` takes no such lock, and neither does a server on PostgreSQL.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..decision import WrongUse


@contextmanager
def alone_on(path: str | os.PathLike[str] | None) -> Iterator[None]:
    """Hold the store at this path; None is one that is no file. Raises WrongUse if another server holds it."""
    held = None if path is None else _locked(os.fspath(path))
    try:
        yield
    finally:
        if held is not None:
            os.close(held)


def _locked(path: str) -> int | None:
    """The open lock; None where there can be none, such as in a folder that is missing: opening the store tells why."""
    with suppress(OSError):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    try:
        held = os.open(f"{path}-lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        raise WrongUse(
            f"--store {path} is in use by another endstop serve: use that one, or give this one a --store of its own"
        ) from None
    except OSError:  # a file system without such locks
        os.close(held)
        return None
    return held
