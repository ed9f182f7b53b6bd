"""`endstop erase` at work: where data of an owner may be, the question, and the report.

Imported only when something is erased: it imports SQLAlchemy.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from ..base.sanitize import one_line
from ..decision import WrongUse
from ..durable import Queue
from ..durable.dbos import Dbos
from ..objects.object_store import ObjectNotFound, ObjectStore, ObjectStoreError
from ..objects.object_url import object_store_at
from ..process.streams import StdStreams
from ..records.parallel import ProgressCallback
from ..service.erasure import Erasure, OwnedData
from ..service.errors import RECEIVED
from ..service.membership import QUEUE
from ..service.session_archive import README
from ..store.base import StoredProcess, StoreError
from ..store.sql import SqlStore
from ..store.url import file_at, mask_url, store_at
from ..validation import preview
from .options import read_store
from .question_prompt import read_line
from .serve import default_store
from .views.tables import progress
from .views.text import counted
from .worker import require_queue
from .worker_process import build_queue

LEFT = 1
"""The exit code if something is left, for another erasure to delete."""
MOST_NAMED = 50
"""How many sessions are named that could not be deleted; `--json` names all."""
_ASK = "Erase it for ever? [y]es or [n]o: "


class Places(NamedTuple):
    """Where data of the owner may be. queue, archive: None if there is none."""

    store: SqlStore
    queue: Queue | None
    archive: ObjectStore | None


class LeftSession(Struct):
    """A session that could not be deleted."""

    id: str
    status: str
    agent: str
    holder: str | None
    """The process that works on it."""


class ErasureReport(Struct, kw_only=True):
    """The answer of the command. Of `found` and `erased` both name `sessions`, `runs` and `records`."""

    owner: str
    store: str
    queue: str | None
    archive: str | None
    found: dict[str, Any]
    """Its `sessions` are numbers by status."""
    erased: dict[str, int] | None = None
    """None with `--dry-run`."""
    left: list[LeftSession] = []
    error: str | None = None
    """Why it ended before all was gone."""


def erase_owner(args: argparse.Namespace) -> int:
    """Erase the owner's data and return the exit code. Raises WrongUse."""
    args.store = _existing_store(args)
    archive = None if args.archive is None else object_store_at(args.archive)
    places = Places(store_at(args.store), _queue_of(args), archive)
    std_streams = StdStreams()
    found = asyncio.run(_look(args.owner, places))
    report = ErasureReport(
        owner=args.owner,
        store=places.store.display_name,
        queue=None if places.queue is None else mask_url(args.queue),
        archive=None if archive is None else archive.name,
        found=msgspec.to_builtins(found),
    )
    there = _told(report, found)
    if not args.dry_run:
        if not args.yes and not _confirmed(there):
            raise WrongUse("nothing was erased")
        with progress(args, "erasing") as on_progress:
            asyncio.run(_erase(args, places, report, on_progress))
    if args.json:
        std_streams.write_answer(msgspec.json.encode(report).decode() + "\n")
    else:
        std_streams.write_answer(f"{there if report.erased is None else _erased(report, report.erased)}\n")
    for line in ([] if args.quiet else _not_looked_into(args, report)) + _left(args, report):
        print(line, file=sys.stderr)
    return LEFT if report.left or report.error else 0


def _existing_store(args: argparse.Namespace) -> str:
    """Return the path or URL of the store. Raises WrongUse for a file that does not exist: it would be created."""
    store = read_store(args) or default_store()
    file = file_at(store)
    if file is not None and not file.exists():
        raise WrongUse(f"{file}: there is no store")
    return store


def _queue_of(args: argparse.Namespace) -> Queue | None:
    """Return the queue of `--queue`, not yet open; None if there is none at the place of the default. Raises WrongUse.

    DBOS's tables are not made where they are missing.
    """
    name, _, place = args.queue.partition(":")
    if name == "dbos":
        if not place and file_at(args.store) is not None:
            return None
        try:
            there = Dbos.has_tables(place or args.store)
        except ConnectionError as error:
            raise WrongUse(f"nothing was erased: {error}") from None
        if place and not there:
            raise WrongUse(f"--queue is {mask_url(args.queue)}: DBOS has no tables there")
        if not there:
            return None
    require_queue(args.queue)
    return build_queue(args)


async def _look(owner: str, places: Places) -> OwnedData:
    """Count what there is of an owner. Raises WrongUse if that is nothing, or a place is away or another one."""
    store, queue, archive = places
    try:
        await store.open()
        _check_queue(await store.processes(), queue)
        if archive is not None:
            await _check_archive(archive)
        found = await Erasure(store, owner, archive=archive).look()
    except (StoreError, ObjectStoreError) as error:
        raise WrongUse(f"nothing was erased: {error}") from None
    finally:
        await store.close()
    if not found.session_count and not found.records:
        where = f", and no record in {archive.name}" if archive is not None else ""
        raise WrongUse(f"no session of owner {preview(owner)} in {store.display_name}{where}")
    return found


def _check_queue(processes: Sequence[StoredProcess], queue: Queue | None) -> None:
    """Raise WrongUse if a member of the store has another kind of queue: what that keeps would stay."""
    named = None if queue is None else type(queue).__name__
    for process in processes:
        theirs = process.about.get(QUEUE)
        if theirs not in (None, named):
            raise WrongUse(
                f"{process.kind} {process.pid} on {process.host} works with the queue {theirs}: give its --queue, too"
            )


async def _check_archive(archive: ObjectStore) -> None:
    """Raise WrongUse if no server has written there: a place that is misspelt has no records either."""
    try:
        await archive.get(README)
    except ObjectNotFound:
        raise WrongUse(f"{archive.name}: there is no archive, as it has no {README}") from None


async def _erase(
    args: argparse.Namespace, places: Places, report: ErasureReport, on_progress: ProgressCallback | None
) -> None:
    """Erase what there is, and put what is gone and what is left into the report. Raises WrongUse."""
    total = sum(report.found["sessions"].values()) + report.found["records"]

    def on_erased(count: int) -> None:
        if on_progress is not None:
            on_progress(count, max(count, total))

    store, queue, archive = places
    erasure = Erasure(store, args.owner, queue=queue, archive=archive, on_erased=on_erased)
    try:
        async with AsyncExitStack() as stack:
            await store.open()
            stack.push_async_callback(store.close)
            if queue is not None:
                await queue.open()
                stack.push_async_callback(queue.close)
            left = await erasure.run(args.wait)
        report.left = [LeftSession(one.id, one.status, one.agent, one.holder) for one in left]
    except OSError as error:  # of the store, the queue or the archive
        report.error = str(error)
    report.erased = msgspec.to_builtins(erasure.erased)


def _confirmed(there: str) -> bool:
    """Ask whether to go on. False also if the person leaves with Ctrl-D."""
    print(there, file=sys.stderr)
    try:
        while (said := read_line(_ASK).strip().lower()) not in ("y", "yes", "n", "no"):
            pass
    except EOFError:
        return False
    return said in ("y", "yes")


def _told(report: ErasureReport, found: OwnedData) -> str:
    """Say what there is."""
    statuses = ", ".join(f"{count:,} {status}" for status, count in sorted(found.sessions.items()))
    sessions = counted(found.session_count, "session") + (f" ({statuses})" if statuses else "")
    queue = "" if report.queue is None else f" and the queue {report.queue}"
    records = "" if report.archive is None else f", and {counted(found.records, 'record')} in {report.archive}"
    runs = counted(found.runs, "run")
    return f"owner {preview(report.owner)}: {sessions} with {runs} in {report.store}{queue}{records}"


def _erased(report: ErasureReport, erased: dict[str, int]) -> str:
    records = "" if report.archive is None else f", and {counted(erased['records'], 'record')} of the archive"
    return f"erased {counted(erased['sessions'], 'session')} with {counted(erased['runs'], 'run')}{records}"


def _not_looked_into(args: argparse.Namespace, report: ErasureReport) -> list[str]:
    """Say which places were not named, as the servers may have them all the same."""
    lines = []
    if report.queue is None and file_at(args.store) is None:
        lines.append("no queue is in that database: give --queue if the workers have another one")
    if report.archive is None:
        lines.append("no archive was looked into: give --archive if the servers have one")
    return lines


def _left(args: argparse.Namespace, report: ErasureReport) -> list[str]:
    """Say what is left, and how to go on."""
    lines: list[str] = []
    if report.error is not None:
        lines.append(
            f"endstop: it ended before all was gone: {one_line(report.error, 1000)}; run it again, and it goes on"
        )
    if report.left:
        count = len(report.left)
        what = counted(count, f"session(s) still (runs|run) after {args.wait:g} s, and (is|are) left:")
        lines.append(f"endstop: {what}")
        lines += [f"  {_named(one)}" for one in report.left[:MOST_NAMED]]
        lines += [f"  and {count - MOST_NAMED:,} more (--json names all)"] if count > MOST_NAMED else []
        lines.append("run it again once they have ended, or with a longer --wait")
    return lines


def _named(session: LeftSession) -> str:
    if session.agent.startswith(RECEIVED):
        return f"{session.id}: received as spans, and it ends some minutes after the last one"
    return f"{session.id}: {session.status}" + (f" in {session.holder}" if session.holder else "")
