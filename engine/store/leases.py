"""Leases: which processes share the store, by the clock of the database, and which are dead.

Leases have a separate connection and thread: a lease can be renewed while a large transaction is being written, and an
outage of the database is noticed immediately.

A lease shows that a process is dead only when it expires. For a process on the same machine, `is_gone` knows
immediately: a process id together with the time at which the kernel started the process is unique until the next boot.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

from ..base.version import __version__
from .base import LEASE, PAGE_FORMAT, Process, Store, StoredProcess, StoreError
from .database import DATABASE_ERRORS, LEASE_TIMEOUT_SECONDS, Database
from .database_schema import PAGE_FORMATS, PROCESSES

T = TypeVar("T")

ANSWER_SECONDS = 5.0
"""The longest time to wait for an answer of the database."""
_START = 19
"""Index of the start time (field 22 of /proc/PID/stat) after the name, which may hold anything and ends with `)`."""
_NOW = {
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
    "postgresql": "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)",
}
FROZEN_SECONDS = 1.0
"""If a process sends nothing for this many seconds inside a transaction here, PostgreSQL closes its connection: it has
locked its own row, and processes that want to evict it would wait forever. It is short, because a process that waits
for it cannot renew its own lease in the meantime."""
JOIN_SECONDS = 30.0
"""In place of `ANSWER_SECONDS` and `FROZEN_SECONDS` for a process that joins. It has no lease yet that could expire
meanwhile, nobody waits for its row, and a process that starts is busy: on two cores with a load of 8 to 10 the answer
took more than 5 seconds twice in one run of all tests, and the store could not be joined."""
_LIMITS = select(
    func.set_config("statement_timeout", bindparam("statement"), True),
    func.set_config("idle_in_transaction_session_timeout", bindparam("idle"), True),
)
_about = msgspec.json.Decoder(dict[str, str]).decode


def now(connection: Connection) -> ColumnElement[int]:
    """Return milliseconds since 1970 by the clock of the database. SQLite uses the clock of this machine."""
    return literal_column(_NOW[connection.dialect.name], Integer)


class LeaseThread:
    """Thread that reads and changes the list of processes, one call after another, each in its own transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="endstop-store-leases")

    async def run(self, change: Callable[[Connection], T]) -> T:
        """Make a change. Raises StoreError within `ANSWER_SECONDS`; the change may still be made after that."""
        return await self._answer(change, ANSWER_SECONDS, FROZEN_SECONDS)

    async def join(self, process: Process) -> None:
        """Add a process, or renew its lease. Raises StoreError within `JOIN_SECONDS`; it may still be added then."""
        await self._answer(partial(join, process), JOIN_SECONDS, JOIN_SECONDS)

    async def _answer(self, change: Callable[[Connection], T], seconds: float, frozen: float) -> T:
        """Run `change` in the thread and return its result. Raises StoreError after `seconds`.

        frozen: seconds after which PostgreSQL closes the connection of a process that stops in the middle of it.
        """
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.get_running_loop().run_in_executor(
                    self._thread, partial(self._run, change, frozen)
                )
        except TimeoutError:
            raise StoreError(f"{self._database.display_name}: no answer within {seconds:g} seconds") from None
        except DATABASE_ERRORS as error:
            raise self._database.map_error(error) from None

    def close(self) -> None:
        """Drop the changes that have not begun."""
        self._thread.shutdown(cancel_futures=True)

    def _run(self, change: Callable[[Connection], T], frozen: float) -> T:
        with self._database.lease_engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                limits = {"statement": LEASE_TIMEOUT_SECONDS, "idle": frozen}
                connection.execute(_LIMITS, {name: f"{seconds * 1000:.0f}" for name, seconds in limits.items()})
            return change(connection)


def join(process: Process, connection: Connection) -> None:
    """Add a process with a new lease, or renew the lease of one that is a member already."""
    row: dict[str, Any] = {name: getattr(process, name) for name in ("kind", "host", "pid", "started_at", "version")}
    lease = int(process.lease_seconds * 1000)
    row |= {"lease_ms": lease, "until": now(connection) + lease, "about": msgspec.json.encode(process.about)}
    row["pages"] = int(process.about.get("pages", "1"))
    if not connection.execute(update(PROCESSES).where(PROCESSES.c.id == process.id).values(row)).rowcount:
        connection.execute(insert(PROCESSES).values(id=process.id, **row))


def heartbeat(process_id: str, connection: Connection) -> bool:
    """Renew the lease of a process; False if it is not a member."""
    its = update(PROCESSES).where(PROCESSES.c.id == process_id)
    return connection.execute(its.values(until=now(connection) + PROCESSES.c.lease_ms)).rowcount > 0


def evict(process_id: str, even_alive: bool, connection: Connection) -> bool:
    """Remove a process if its lease has expired; True if it was removed. even_alive: also if it has not expired."""
    its = delete(PROCESSES).where(PROCESSES.c.id == process_id)
    return connection.execute(its if even_alive else its.where(PROCESSES.c.until <= now(connection))).rowcount > 0


def processes(connection: Connection) -> list[StoredProcess]:
    """Return all members, in the order in which they started."""
    found = select(PROCESSES, (PROCESSES.c.until - now(connection)).label("seconds_left"))
    return [
        StoredProcess(
            id=row.id,
            kind=row.kind,
            host=row.host,
            pid=row.pid,
            started_at=row.started_at,
            lease_seconds=row.lease_ms / 1000,
            version=row.version,
            about=_about(row.about),
            alive=row.seconds_left > 0,
            seconds_left=row.seconds_left / 1000,
        )
        for row in connection.execute(found.order_by(PROCESSES.c.started_at, PROCESSES.c.id))
    ]


def settle_page_format(connection: Connection) -> bool:
    """Return whether every member reads pages of `PAGE_FORMAT`; if so, refuse processes that do not from now on.

    A process that joins at this moment holds a lock on the row of its format, so it is either seen here or refused.
    """
    older = PAGE_FORMATS.c.format < PAGE_FORMAT
    if connection.execute(select(PAGE_FORMATS.c.format).where(older).with_for_update()).first() is None:
        return True
    if connection.execute(select(PROCESSES.c.id).where(PROCESSES.c.pages < PAGE_FORMAT).limit(1)).first():
        return False
    connection.execute(delete(PAGE_FORMATS).where(older))
    return True


async def evict_dead(store: Store, *, by_lease: bool = True) -> list[Process]:
    """Evict the processes that are dead; returns which.

    by_lease: also processes whose lease has expired, not only those of this machine that are gone. A process that could
        not reach the store just now must not judge by leases: the others could not renew theirs either.
    """
    dead: list[Process] = []
    for process in await store.processes():
        gone = is_gone(process)
        if gone or (by_lease and not process.alive):
            with suppress(StoreError):  # frozen in the middle of a write: the next attempt will succeed
                if await store.evict(process.id, even_alive=gone):
                    dead.append(process)
    return dead


def this_process(kind: str, *, lease_seconds: float = LEASE) -> Process:
    """Return a description of this process, with a new id. kind: as in `Process`."""
    host = socket.gethostname()
    about = {"boot": _boot(), "namespace": _namespace(), "start": _state(os.getpid())[1]}
    about["pages"] = str(PAGE_FORMAT)
    return Process(
        id=f"process_{uuid4().hex[:12]}",
        kind=kind,
        host=host,
        pid=os.getpid(),
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        lease_seconds=lease_seconds,
        version=__version__,
        about={name: value for name, value in about.items() if value},
    )


def is_gone(process: Process) -> bool:
    """Return whether the process ran on this machine and has certainly ended. False in any doubt.

    Reads /proc, as described in proc(5); pid_namespaces(7) says when process ids can be compared.
    """
    here = (socket.gethostname(), _boot(), _namespace())
    start = process.about.get("start", "")
    there = (process.host, process.about.get("boot", ""), process.about.get("namespace", ""))
    if there != here or not all(there) or not start or process.pid <= 0:
        return False
    state, started = _state(process.pid)
    if started:
        return started != start or state in "ZX"
    return not _may_exist(process.pid)


def _boot() -> str:
    return _read(Path("/proc/sys/kernel/random/boot_id")).strip()


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _state(pid: int) -> tuple[str, str]:
    """Return the state and start time of a process; both empty if they cannot be read."""
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return (fields[0], fields[_START]) if len(fields) > _START else ("", "")


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _may_exist(pid: int) -> bool:
    """Ask the kernel whether a process with this id exists: /proc may hide the processes of other users."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
