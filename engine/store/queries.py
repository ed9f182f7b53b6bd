"""Queries: everything that is read from a store."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, Integer, Row, Select, bindparam, exists, func, literal_column, select, tuple_

from ..decision import Image, Outcome, Question, WrongUse
from .base import Orphan, Overview, Page, SessionFilter, SessionStatus, StoredMessage, StoredRun, StoredSession
from .database_schema import DELETABLE, FILTERS, IS_ROOT, MESSAGES, PAGES, PROCESSES, RUNNING, RUNS, SESSIONS
from .leases import now, processes
from .transaction import LAST_SEQ, stored_lines

MAX_ROWS = 1000
"""The largest number of sessions, or of queued runs, in one result."""
MAX_PAGE_BYTES = 8 << 20
"""Once the pages of a result have this many bytes, no more are added."""

_questions = msgspec.json.Decoder(tuple[Question, ...]).decode
_outcome = msgspec.json.Decoder(Outcome).decode

_STEPS = select(func.coalesce(func.sum(RUNS.c.steps), 0)).where(RUNS.c.session_id == SESSIONS.c.id).scalar_subquery()
_RUN_UPDATED = select(RUNS.c.updated_at).where(RUNS.c.id == SESSIONS.c.run_id).scalar_subquery()
_SESSIONS = select(SESSIONS, _STEPS.label("steps"), _RUN_UPDATED.label("run_updated_at"))
_SESSION = _SESSIONS.where(SESSIONS.c.id == bindparam("of"))
_RUNS = select(RUNS, func.coalesce(LAST_SEQ, 0).label("last_seq"))
_RUN = _RUNS.where(RUNS.c.id == bindparam("of"))
_RUNS_OF = _RUNS.where(RUNS.c.session_id == bindparam("of")).order_by(RUNS.c.number)
_ORPHANS: Select[Any] = select(SESSIONS.c.id, SESSIONS.c.run_id, SESSIONS.c.agent, SESSIONS.c.owner)
_NOT_HELD = ~exists().where(PROCESSES.c.id == SESSIONS.c.holder)
_NEWEST_FIRST = (SESSIONS.c.created_at.desc(), SESSIONS.c.id.desc())
_ended_at = tuple_(SESSIONS.c.updated_at, SESSIONS.c.id)
_UNDELIVERED = select(MESSAGES).where(MESSAGES.c.session_id == bindparam("of")).order_by(MESSAGES.c.key)


def _pages() -> Select[int, int, bytes, int | None]:
    """Return the query of `pages`.

    It selects at most `most` pages, from the one with event `after` + 1, and none after `MAX_PAGE_BYTES`.
    """
    key = select(RUNS.c.key).where(RUNS.c.id == bindparam("of")).scalar_subquery()
    after = bindparam("after", type_=Integer)
    first = select(func.max(PAGES.c.first_seq)).where(PAGES.c.run == key, PAGES.c.first_seq <= after + 1)
    sized = (
        select(PAGES.c.first_seq, func.coalesce(PAGES.c.size, func.length(PAGES.c.lines)).label("bytes"))
        .where(PAGES.c.run == key, PAGES.c.first_seq >= func.coalesce(first.scalar_subquery(), 0))
        .where(PAGES.c.last_seq > after)
        .order_by(PAGES.c.first_seq)
        .limit(bindparam("most", type_=Integer))
        .subquery()
    )
    ahead = (func.sum(sized.c.bytes).over(order_by=sized.c.first_seq) - sized.c.bytes).label("ahead")
    chosen = select(sized.c.first_seq, ahead).subquery()
    return (
        select(PAGES.c.first_seq, PAGES.c.last_seq, PAGES.c.lines, PAGES.c.size)
        .join(chosen, PAGES.c.first_seq == chosen.c.first_seq)
        .where(PAGES.c.run == key, chosen.c.ahead < MAX_PAGE_BYTES)
        .order_by(PAGES.c.first_seq)
    )


_PAGES = _pages()


def session(connection: Connection, id: str) -> StoredSession | None:
    """Return the session with this id."""
    row = connection.execute(_SESSION, {"of": id}).first()
    return None if row is None else _session(row)


def sessions(
    connection: Connection, wanted: SessionFilter, limit: int, before: tuple[str, str] | None
) -> list[StoredSession]:
    """Return sessions, newest first.

    Their ids are selected first. An index that has all columns of the filter is enough for that, so PostgreSQL prefers
    it to one with fewer columns, along which it would read sessions only to drop them.

    before: `created_at` and id of the last session of the previous page; None: from the newest.
    """
    ids = select(SESSIONS.c.id).where(IS_ROOT if wanted.parent is None else SESSIONS.c.parent == wanted.parent)
    for name in FILTERS:
        value = getattr(wanted, name)
        if value is not None:
            ids = ids.where(SESSIONS.c[name] == value)
    if before is not None:
        ids = ids.where(tuple_(SESSIONS.c.created_at, SESSIONS.c.id) < before)
    page = ids.order_by(*_NEWEST_FIRST).limit(limit).subquery()
    query = _SESSIONS.join(page, page.c.id == SESSIONS.c.id).order_by(*_NEWEST_FIRST)
    return [_session(row) for row in connection.execute(query)]


def run(connection: Connection, id: str) -> StoredRun | None:
    """Return the run with this id."""
    row = connection.execute(_RUN, {"of": id}).first()
    return None if row is None else _run(row)


def runs(connection: Connection, session_id: str) -> list[StoredRun]:
    """Return all runs of a session, in order."""
    return [_run(row) for row in connection.execute(_RUNS_OF, {"of": session_id})]


def statuses(connection: Connection, ids: Sequence[str]) -> dict[str, SessionStatus]:
    """Return the status of each of these runs that is stored, by its id."""
    found = connection.execute(select(RUNS.c.id, RUNS.c.status).where(RUNS.c.id.in_(ids)))
    return {row.id: row.status for row in found}


def pages(connection: Connection, run_id: str, after: int, limit: int) -> list[Page]:
    """Return at most `limit` pages, in order, starting with the page that holds the event after number `after`."""
    found = connection.execute(_PAGES, {"of": run_id, "after": after, "most": limit})
    return [Page(run_id, first, last, stored_lines(lines, size)) for first, last, lines, size in found]


def undelivered_messages(connection: Connection, session_id: str) -> list[StoredMessage]:
    """Return messages that no run has received yet, in order."""
    return [
        StoredMessage(
            id=row.id,
            session_id=row.session_id,
            text=row.text,
            created_at=row.created_at,
            images=() if row.images is None else msgspec.json.decode(row.images, type=tuple[Image, ...]),
        )
        for row in connection.execute(_UNDELIVERED, {"of": session_id})
    ]


def ended_before(connection: Connection, last: tuple[str, str] | None, skip: int) -> tuple[str, str] | None:
    """Return `updated_at` and id of the latest ended session but for `skip` of them; None: there are no more.

    last: the latest one that counts; None: all do.
    """
    ended = select(SESSIONS.c.updated_at, SESSIONS.c.id).where(DELETABLE)
    if last is not None:
        ended = ended.where(_ended_at <= last)
    latest = ended.order_by(SESSIONS.c.updated_at.desc(), SESSIONS.c.id.desc()).offset(skip).limit(1)
    row = connection.execute(latest).first()
    return None if row is None else (row.updated_at, row.id)


def expired(connection: Connection, last: tuple[str, str], limit: int) -> list[str]:
    """Return the ids of at most `limit` ended sessions, oldest first.

    last: `updated_at` and id of the latest one that may be among them.
    """
    ended = select(SESSIONS.c.id).where(DELETABLE, _ended_at <= last)
    return list(connection.execute(ended.order_by(SESSIONS.c.updated_at, SESSIONS.c.id).limit(limit)).scalars())


def orphans(connection: Connection) -> list[Orphan]:
    """Return sessions that are running, and whose holder is not a member."""
    lost = RUNNING, _NOT_HELD, IS_ROOT  # sub-agents continue with their callers
    rows = _ORPHANS.where(*lost).order_by(SESSIONS.c.id)
    return [_orphan(row) for row in connection.execute(rows)]


_QUEUED_TOTAL = (
    select(func.count(), func.min(RUNS.c.queued))
    .select_from(SESSIONS)
    .outerjoin(RUNS, RUNS.c.id == SESSIONS.c.run_id)
    .where(SESSIONS.c.status == literal_column("'queued'"), IS_ROOT)
)
_RUNNING_TOTAL = select(func.count()).select_from(SESSIONS).where(RUNNING, IS_ROOT)
_RESTING_TOTALS = (
    select(SESSIONS.c.status, func.count())
    .where(SESSIONS.c.status.in_(("awaiting_input", "interrupted")), IS_ROOT)
    .group_by(SESSIONS.c.status)
)


def overview(connection: Connection) -> Overview:
    """Return how many sessions wait or run, and all members. Each total is read from an index."""
    waiting, since = connection.execute(_QUEUED_TOTAL).one()
    sessions: dict[SessionStatus, int] = {"queued": waiting, "running": connection.execute(_RUNNING_TOTAL).scalar_one()}
    sessions |= {"awaiting_input": 0, "interrupted": 0, **dict(map(tuple, connection.execute(_RESTING_TOTALS)))}
    oldest = None
    if since is not None:
        oldest = max(0.0, (connection.execute(select(now(connection))).scalar_one() - since) / 1000)
    members = tuple(processes(connection))
    return Overview(sessions=sessions, oldest_queued_seconds=oldest, processes=members)


def queued(connection: Connection, milliseconds: int) -> list[Orphan]:
    """Return runs queued for at least that long, and not held by a member; oldest first."""
    rows = (
        _ORPHANS.add_columns(RUNS.c.job)
        .join(RUNS, RUNS.c.id == SESSIONS.c.run_id)
        .where(SESSIONS.c.status == literal_column("'queued'"), IS_ROOT, _NOT_HELD)
        .where(RUNS.c.queued <= now(connection) - milliseconds)
        .order_by(RUNS.c.queued, SESSIONS.c.id)
        .limit(MAX_ROWS)
    )
    return [_orphan(row, row.job) for row in connection.execute(rows)]


def make_cursor(session: StoredSession) -> str:
    """Return the cursor of the page that starts after this session."""
    return base64.urlsafe_b64encode(msgspec.json.encode((session.created_at, session.id))).decode().rstrip("=")


def parse_cursor(cursor: str) -> tuple[str, str]:
    """Parse a cursor into the position that it stands for. Raises WrongUse for an invalid cursor."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=tuple[str, str])
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise WrongUse(f"{cursor[:100]!r} is not a cursor: use `next` of an earlier page") from None


def _orphan(row: Row[Any], job: str | None = None) -> Orphan:
    return Orphan(session_id=row.id, run_id=row.run_id, agent=row.agent, owner=row.owner, job=job)


def _session(row: Row[Any]) -> StoredSession:
    return StoredSession(
        id=row.id,
        owner=row.owner,
        agent=row.agent,
        title=row.title,
        status=row.status,
        stop_reason=row.stop_reason,
        created_at=row.created_at,
        updated_at=max(row.updated_at, row.run_updated_at or ""),
        run_id=row.run_id,
        runs=row.runs,
        steps=row.steps,
        questions=_questions(row.questions),
        holder=row.holder,
        trouble=row.trouble,
        token=row.token,
        metadata={} if row.metadata is None else msgspec.json.decode(row.metadata),
        parent=row.parent,
    )


def _run(row: Row[Any]) -> StoredRun:
    return StoredRun(
        id=row.id,
        session_id=row.session_id,
        number=row.number,
        status=row.status,
        stop_reason=row.stop_reason,
        prompt=row.prompt,
        started_at=row.started_at,
        finished_at=row.finished_at,
        last_seq=row.last_seq,
        outcome=None if row.outcome is None else _outcome(row.outcome),
        resumed_at=tuple(msgspec.json.decode(row.resumed_at)),
        cancel=row.cancel,
        job=row.job,
    )
