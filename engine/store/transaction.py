"""One write transaction: the batches of many runs, and which process has claimed which session.

Before a decision depends on a session, its row is locked, and only then the list of processes is read. So of two
processes that want the same session, the second one sees what the first one did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, Select, bindparam, delete, exists, func, insert, or_, select, update

from ..records.format import encode_line
from .base import (
    GOING,
    EventBatch,
    LeaseLost,
    NewSession,
    Process,
    QueuedRun,
    SequenceConflict,
    SessionBusy,
    SessionDeleted,
    SessionLocked,
    StoredMessage,
    StoredSession,
    StoreError,
)
from .bulk_writes import add_steps, insert_pages
from .database_schema import DELETABLE, MESSAGES, PAGES, PROCESSES, RUNNING, RUNS, SESSIONS
from .leases import now
from .page_codec import compress_page, expand_page

LAST_SEQ = (
    select(PAGES.c.last_seq).where(PAGES.c.run == RUNS.c.key).order_by(PAGES.c.first_seq.desc()).limit(1)
).scalar_subquery()
"""A subquery for the number of a run's latest event, from its last page; None without pages."""
_STEP = b'{"type":"STEP_FINISHED"'
_NOT_QUEUED = {"queued": None, "job": None}
_RESUMED = b'{"type":"RUN_RESUMED"'

CHANNEL = "endstop"
"""The PostgreSQL channel for notifications of changed sessions. A notification is the id of the process that changed
them, followed by the ids of the sessions, separated by spaces."""
ANY = "*"
"""Placeholder in a notification for a session whose id does not fit: receivers assume that any session has changed."""
MAX_NOTIFY_BYTES = 7900
"""The most bytes in a notification; PostgreSQL's limit is 8000."""
_SAFE_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")

_LOCKED_SESSION: Select[Any] = (
    select(*(SESSIONS.c[name] for name in ("id", "owner", "status", "run_id", "runs", "holder", "token")))
    .order_by(SESSIONS.c.id)
    .with_for_update(key_share=True)
)
_IS_MEMBER = select(PROCESSES.c.id).where(PROCESSES.c.id == bindparam("of")).with_for_update(read=True, key_share=True)
_IS_MEMBER_POSTGRESQL = (
    select(func.set_config("idle_in_transaction_session_timeout", bindparam("idle"), True))
    .where(PROCESSES.c.id == bindparam("of"))
    .with_for_update(read=True, key_share=True)
)
"""As `_IS_MEMBER`; it also makes PostgreSQL close the connection if this process sends nothing for `idle` milliseconds.
So if it freezes inside the transaction, a process that evicts it waits for the lock no longer than that."""


class RunTail(NamedTuple):
    """The end of a stored run: its key in the tables and its last sequence number."""

    key: int
    last_seq: int


class Known:
    """What a process knows about the database without a query, because only it, as a member, can change it."""

    def __init__(self) -> None:
        self.tails: dict[str, RunTail] = {}
        """The ends of runs that it has written, by run id."""
        self.tokens: dict[str, int] = {}
        """The tokens of its claims, by session id. Another process can claim these sessions only once it has evicted
        this one, which then writes nothing more."""

    def clear(self) -> None:
        """Forget everything."""
        self.tails.clear()
        self.tokens.clear()


class Transaction:
    """Changes in one transaction.

    known: updated by `on_committed`; before that, claims that change are only removed from it. check_first: before each
    change, check whether it was already made. If a connection breaks during a commit, nobody knows whether the commit
    succeeded, and its changes are submitted again.
    process: the process that writes, if it has joined.
    """

    def __init__(
        self, connection: Connection, known: Known, *, check_first: bool, process: Process | None = None
    ) -> None:
        self.connection = connection
        if check_first:
            known.tokens.clear()
        self.claims = Claims(connection, process, known.tokens)
        self._execute = connection.execute
        self._known = known
        self._new_tails: dict[str, RunTail] = {}
        self._check_first = check_first
        self._pages: list[dict[str, Any]] = []
        self._steps: dict[int, tuple[int, str]] = {}

    def add(self, session: NewSession) -> None:
        """Add a session, running and held by the process that writes."""
        if self._check_first and self._exists(session):
            return
        self.claims.add(session)

    def commit(self, batch: EventBatch) -> int:
        """Add a batch of a run; returns the token of the claim for which it was written.

        Raises SequenceConflict if it does not continue what is stored, SessionLocked if that claim is not the latest.
        """
        self.claims.changed.add(batch.session_id)
        tail = self._start(batch) if batch.started is not None else self._tail(batch)
        if batch.first_seq != tail.last_seq + 1:
            batch = self._unstored_part(batch, tail)
            if not batch.lines:
                return self.claims.token_of(batch.session_id) if batch.token is None else batch.token
        if batch.resumed:
            self._resume(batch)
        token = self.claims.check_own(batch.session_id, batch.token)
        self._pages.append({"run": tail.key, **_page(batch)})
        self._new_tails[batch.run_id] = RunTail(tail.key, batch.last_seq)
        if batch.finished is not None:
            self._finish(batch, tail.key)
        else:
            self._count_steps(batch, tail.key)
        if batch.delivered:
            self._execute(
                delete(MESSAGES).where(MESSAGES.c.session_id == batch.session_id, MESSAGES.c.id.in_(batch.delivered))
            )
        return token

    def add_message(self, message: StoredMessage) -> None:
        """Add a message that no run has received yet."""
        values = {name: getattr(message, name) for name in message.__struct_fields__}
        values["images"] = msgspec.json.encode(message.images) if message.images else None
        if self._check_first and self._execute(select(MESSAGES.c.key).where(MESSAGES.c.id == message.id)).first():
            return
        self._check_session(message.session_id)
        self.claims.changed.add(message.session_id)
        self._execute(insert(MESSAGES), values)

    def delete_messages(self, session_id: str) -> None:
        """Delete the messages that no run has received."""
        self._execute(delete(MESSAGES).where(MESSAGES.c.session_id == session_id))

    def delete(self, ids: Sequence[str]) -> int:
        """Delete sessions with all that belongs to them; returns how many."""
        self.flush()
        found = list(self._execute(select(SESSIONS.c.id).where(SESSIONS.c.id.in_(ids))).scalars())
        return self._delete_whole(found)

    def delete_ended(self, ids: Sequence[str], tokens: Mapping[str, int] | None = None) -> int:
        """Delete those of these sessions that have ended; returns how many.

        tokens: delete only these, and only if their latest claim has this token; None: all.
        """
        self.flush()
        chosen = select(SESSIONS.c.id, SESSIONS.c.token).where(SESSIONS.c.id.in_(ids), DELETABLE)
        rows = self._execute(chosen.order_by(SESSIONS.c.id).with_for_update())  # no run begins between this and the end
        return self._delete_whole([row.id for row in rows if tokens is None or tokens.get(row.id) == row.token])

    def delete_idle(self, sessions: Sequence[StoredSession]) -> list[str]:
        """Delete those of these sessions that no process works on; returns the ids of which.

        One that has another run or another claim than it is given with stays.
        """
        self.flush()
        given = {one.id: (one.run_id, one.token) for one in sessions}
        idle = self.claims.idle(list(given))
        found = [row.id for row in idle if given[row.id] == (row.run_id, row.token)]
        self._delete_whole(found)
        return found

    def _delete_whole(self, found: Sequence[str]) -> int:
        """Delete these sessions, which exist, with all that belongs to them; returns how many they are."""
        whole = [*found, *self._subagents_of(found)]
        self.claims.changed.update(whole)
        self.claims.forget(*whole)
        self._execute(delete(SESSIONS).where(SESSIONS.c.id.in_(whole)))
        return len(found)

    def _subagents_of(self, ids: Sequence[str]) -> list[str]:
        """Return the sub-agents of these sessions, recursively."""
        found: list[str] = []
        above = list(ids)
        while above:
            above = list(self._execute(select(SESSIONS.c.id).where(SESSIONS.c.parent.in_(above))).scalars())
            found += above
        return found

    def flush(self) -> None:
        """Execute the inserts that were collected. Must be called before the commit."""
        pages, self._pages = self._pages, []
        steps, self._steps = self._steps, {}
        if pages:
            insert_pages(self.connection, pages)
        if steps:
            add_steps(self.connection, [{"of": key, "more": more, "at": at} for key, (more, at) in steps.items()])

    def on_committed(self) -> None:
        """Add the new ends of runs and the new claims to what is known. Call this after the commit."""
        self._known.tails.update(self._new_tails)
        self._known.tokens.update(self.claims.new_tokens)

    def _start(self, batch: EventBatch) -> RunTail:
        started = batch.started
        assert started is not None
        if self._check_first and (tail := self._stored_tail(batch.run_id)) and tail.last_seq:
            return tail
        begun = self.claims.begin(batch)
        values = {
            "status": "running",
            "prompt": started.prompt,
            "started_at": started.started_at or batch.at,
            "updated_at": batch.at,
            "carried_steps": 0 if started.carried is None else started.carried.steps,
        }
        its = RUNS.c.id == batch.run_id
        if begun.was_queued:
            waited = update(RUNS).where(its).values(**values, **_NOT_QUEUED).returning(RUNS.c.key)
            return RunTail(self._execute(waited).scalar_one(), 0)
        own = {"id": batch.run_id, "session_id": batch.session_id, "number": begun.number}
        row = {**values, **own, "steps": 0, "resumed_at": b"[]"}
        return RunTail(self._execute(insert(RUNS).returning(RUNS.c.key), row).scalar_one(), 0)

    def _resume(self, batch: EventBatch) -> None:
        self.claims.begin(batch)
        state = {"status": "running", "stop_reason": None, "updated_at": batch.at, **_NOT_QUEUED}
        before = self._execute(select(RUNS.c.resumed_at).where(RUNS.c.id == batch.run_id)).scalar_one()
        resumed_at = msgspec.json.decode(before)
        if batch.lines.startswith(_RESUMED):  # otherwise it is stored already, and only the rest of the batch is new
            resumed_at.append(batch.first_seq)
        again = {"finished_at": None, "outcome": None, "resumed_at": encode_line(resumed_at)}
        self._execute(update(RUNS).where(RUNS.c.id == batch.run_id).values(**state, **again))

    def _finish(self, batch: EventBatch, key: int) -> None:
        outcome = batch.finished
        assert outcome is not None
        self._steps.pop(key, None)
        state = {"status": outcome.status, "stop_reason": outcome.stop_reason, "updated_at": batch.at}
        own = outcome.steps - RUNS.c.carried_steps
        self._execute(
            update(RUNS)
            .where(RUNS.c.key == key)
            .values(**state, finished_at=batch.at, steps=own, outcome=encode_line(outcome))
        )
        self._execute(
            update(SESSIONS)
            .where(SESSIONS.c.id == batch.session_id, SESSIONS.c.run_id == batch.run_id)
            .values(**state, questions=encode_line(batch.questions), holder=None)
        )
        self.claims.forget(batch.session_id)

    def _count_steps(self, batch: EventBatch, key: int) -> None:
        more = batch.lines.startswith(_STEP) + batch.lines.count(b"\n" + _STEP)
        if more:
            self._steps[key] = (self._steps.get(key, (0, ""))[0] + more, batch.at)

    def _tail(self, batch: EventBatch) -> RunTail:
        id = batch.run_id
        known = self._new_tails.get(id) or (None if batch.resumed or self._check_first else self._known.tails.get(id))
        tail = known or self._stored_tail(id)
        if tail is None:
            raise SessionDeleted(f"the run {id} does not exist (any more)")
        return tail

    def _stored_tail(self, id: str) -> RunTail | None:
        row = self._execute(select(RUNS.c.key, LAST_SEQ).where(RUNS.c.id == id)).first()
        return None if row is None else RunTail(row[0], row[1] or 0)

    def _unstored_part(self, batch: EventBatch, tail: RunTail) -> EventBatch:
        """Return the part of a batch not stored yet. Raises SequenceConflict unless the rest is stored, line for line.

        After a broken commit the caller submits the same events again, and perhaps more.
        """
        of_it = PAGES.c.first_seq.between(batch.first_seq, batch.last_seq)
        there = select(PAGES.c.lines, PAGES.c.size).where(PAGES.c.run == tail.key, of_it).order_by(PAGES.c.first_seq)
        stored = b"".join(stored_lines(kept, size) for kept, size in self._execute(there))
        if not stored or not (batch.lines.startswith(stored) or stored.startswith(batch.lines)):
            raise SequenceConflict(
                f"events {batch.first_seq} to {batch.last_seq} of {batch.run_id} cannot be stored: "
                f"the stored events end at {tail.last_seq} and differ"
            )
        return replace(batch, first_seq=tail.last_seq + 1, lines=batch.lines[len(stored) :], started=None)

    def _exists(self, session: NewSession) -> bool:
        there = select(SESSIONS.c.owner, SESSIONS.c.created_at).where(SESSIONS.c.id == session.id)
        row = self._execute(there).first()
        if row is not None and tuple(row) != (session.owner, session.created_at):
            raise StoreError(f"another session has the id {session.id} already")
        return row is not None

    def _check_session(self, id: str) -> None:
        if self._execute(select(SESSIONS.c.runs).where(SESSIONS.c.id == id)).first() is None:
            raise SessionDeleted(f"the session {id} does not exist (any more)")


class StartedRun(NamedTuple):
    """What `Claims.begin` returns: the run that it starts or resumes."""

    number: int
    """Its number in the session, from 1."""
    was_queued: bool
    """Whether it was queued, and so has a row in the table of runs already."""


class Claims:
    """Which process holds which session, and by which claim, within one transaction.

    process: the one that writes, if it has joined. tokens: of the claims of this process that are known, by session id;
        those that change are removed, and are in `new_tokens` after the commit.
    """

    def __init__(self, connection: Connection, process: Process | None, tokens: dict[str, int] | None = None) -> None:
        self._connection = connection
        self._execute = connection.execute
        self._process = process
        self._id = None if process is None else process.id
        self._tokens = {} if tokens is None else tokens
        self.new_tokens: dict[str, int] = {}
        """The tokens of claims that this transaction has made or looked up."""
        self.changed: set[str] = set()
        """Sessions that other processes are to be notified of."""

    def fence(self) -> None:
        """Keep this process from being evicted until the end of the transaction. Raises LeaseLost if it was."""
        if self._process is None:
            return
        asked = {"of": self._process.id}
        if self._on_postgresql:
            idle = str(max(1000, int(self._process.lease_seconds * 1000)))
            found = self._execute(_IS_MEMBER_POSTGRESQL, {**asked, "idle": idle}).first()
        else:
            found = self._execute(_IS_MEMBER, asked).first()
        if found is None:
            raise LeaseLost(f"this process was evicted ({self._process.id}): others may have its sessions by now")

    def notify(self) -> None:
        """Notify other processes of the sessions that changed, when the transaction commits."""
        if self._process is not None and self.changed and self._on_postgresql:
            for payload in _notifications(self._process.id, self.changed):
                self._execute(select(func.pg_notify(CHANNEL, payload)))

    def add(self, session: NewSession, first: QueuedRun | None = None) -> None:
        """Add a session: running and held by this process, or queued with its first run."""
        values = {name: getattr(session, name) for name in session.__struct_fields__}
        values["metadata"] = msgspec.json.encode(session.metadata) if session.metadata else None
        state = {"status": "running", "updated_at": session.created_at, "runs": 0, "holder": self._id, "run_id": None}
        if first is not None:
            state = {"status": "queued", "updated_at": first.at, "runs": 1, "holder": None, "run_id": first.run_id}
        self._execute(insert(SESSIONS), {**values, **state, "questions": b"[]"})

    def begin(self, batch: EventBatch) -> StartedRun:
        """Start or resume the run of a batch for its claim, or if it has none, for a new one. Raises SessionLocked."""
        again: dict[str, Any] = {
            "status": "running",
            "stop_reason": None,
            "updated_at": batch.at,
            "run_id": batch.run_id,
        }
        again |= {"holder": self._id, "trouble": None, **({"questions": b"[]"} if batch.started else {})}
        again |= {"token": SESSIONS.c.token + 1} if batch.token is None else {}
        one_more = {"runs": SESSIONS.c.runs + 1} if batch.started else {}
        its = update(SESSIONS).where(SESSIONS.c.id == batch.session_id).returning(SESSIONS.c.runs, SESSIONS.c.token)
        if batch.token is None:  # in most cases a run that did not wait
            waited, more = False, one_more
            ready = [or_(SESSIONS.c.holder.is_(None), SESSIONS.c.holder == self._id), SESSIONS.c.status != "queued"]
        else:  # in most cases one that was claimed from the queue
            waited, more = True, {}
            ready = [SESSIONS.c.holder == self._id, SESSIONS.c.token == batch.token]
            ready += [SESSIONS.c.status == "queued", SESSIONS.c.run_id == batch.run_id]
        row = self._execute(its.where(*ready).values(**again, **more)).first()
        if row is not None:
            self._know(batch.session_id, row.token)
            return StartedRun(row.runs, waited)
        found = self._locked(batch.session_id)
        if batch.token is None:
            self._check_free(found)
        else:
            self._check_claim(found, batch.token)
        waited = found.status == "queued"
        if waited and found.run_id != batch.run_id:
            raise SessionLocked(f"the session {batch.session_id} has another run in the queue, {found.run_id}")
        row = self._execute(its.values(**again, **({} if waited else one_more))).one()
        self._know(batch.session_id, row.token)
        return StartedRun(row.runs, waited)

    def check_own(self, session_id: str, token: int | None) -> int:
        """Return the token of the session's latest claim. Raises SessionLocked unless it is `token` and this process's.

        token: None: any token. A process that has not joined may write for a session that no member holds.
        """
        latest = self.new_tokens.get(session_id, self._tokens.get(session_id))
        if latest is None or token not in (None, latest):
            found = self._locked(session_id)
            self._check_claim(found, token)
            latest = int(found.token)
            self._know(session_id, latest)
        return latest

    def token_of(self, session_id: str) -> int:
        """Return the token of the session's latest claim; 0 if the session does not exist (any more)."""
        latest: int | None = self._execute(select(SESSIONS.c.token).where(SESSIONS.c.id == session_id)).scalar()
        return latest or 0

    def claim(self, session_id: str, run_id: str) -> None:
        """Make this process the holder of a session that is to run, under a new token. Raises SessionLocked."""
        found = self._locked(session_id)
        if found.run_id != run_id:
            raise SessionLocked(f"{run_id} is not the latest run of the session {session_id}; that is {found.run_id}")
        if found.status not in (*GOING, "interrupted"):
            raise SessionLocked(f"the run {run_id} of the session {session_id} is over: it is {found.status}")
        self._check_free(found)
        its = update(SESSIONS).where(SESSIONS.c.id == session_id)
        self._execute(its.values(holder=self._id, token=SESSIONS.c.token + 1))
        self._know(session_id, found.token + 1)
        self.changed.add(session_id)

    def idle(self, ids: Sequence[str]) -> list[Row[Any]]:
        """Lock these sessions, and return those that no process works on: at rest, or held by no member."""
        found = self._execute(_LOCKED_SESSION.where(SESSIONS.c.id.in_(ids))).all()
        known = self._members({row.holder for row in found if row.holder is not None})
        return [row for row in found if row.status not in GOING or row.holder not in known]

    def queue(self, run: QueuedRun) -> None:
        """Queue a run. Raises SessionBusy."""
        found = self._found(run.session_id)
        if found is not None and (found.status, found.run_id) == ("queued", run.run_id):
            return
        if found is None and run.new is not None:
            self.add(run.new, run)
            self._queue_run(run, 1)
            self.changed.add(run.session_id)
            return
        if found is None or run.new is not None:
            problem = "does not exist (any more)" if found is None else "exists already"
            raise StoreError(f"the session {run.session_id} {problem}")
        if found.status in GOING and (found.run_id is not None or found.holder not in (None, self._id)):
            raise SessionBusy(f"the session {run.session_id} is {found.status}: {found.run_id}")
        resumed = found.run_id == run.run_id
        if resumed and found.status != "interrupted":
            raise StoreError(f"the run {run.run_id} is over: it is {found.status}")
        number = found.runs if resumed else found.runs + 1
        self._queue_run(run, None if resumed else number)
        waits = {"status": "queued", "stop_reason": None, "updated_at": run.at, "run_id": run.run_id, "runs": number}
        rests = {"questions": b"[]", "holder": None, "trouble": None}
        self.forget(run.session_id)
        self._execute(update(SESSIONS).where(SESSIONS.c.id == run.session_id).values({**waits, **rests}))
        self.changed.add(run.session_id)

    def request_cancel(self, session_id: str, cause: str) -> bool:
        """Store the cause on the latest run, unless it has one; False if the run is neither queued nor running."""
        latest = select(SESSIONS.c.run_id).where(SESSIONS.c.id == session_id).scalar_subquery()
        going = update(RUNS).where(RUNS.c.id == latest, RUNS.c.status.in_(GOING))
        asked = self._execute(going.values(cancel=func.coalesce(RUNS.c.cancel, cause))).rowcount
        if asked:
            self.changed.add(session_id)
        return asked > 0

    def interrupt_orphans(self, ids: Sequence[str], trouble: str | None) -> int:
        """Mark orphans as interrupted, and delete those without a run; returns how many were marked."""
        found = self._execute(_LOCKED_SESSION.where(SESSIONS.c.id.in_(ids), RUNNING)).all()
        known = self._members({row.holder for row in found if row.holder is not None})
        orphans = [row for row in found if row.holder not in known]
        self.changed.update(row.id for row in orphans)
        begun = [row for row in orphans if row.run_id is not None]
        self._execute(delete(SESSIONS).where(SESSIONS.c.id.in_([row.id for row in orphans if row.run_id is None])))
        its = update(RUNS).where(RUNS.c.id.in_([row.run_id for row in begun]))
        self._execute(its.values(status="interrupted", cancel=None))
        its = update(SESSIONS).where(SESSIONS.c.id.in_([row.id for row in begun]))
        self._execute(its.values(status="interrupted", holder=None, trouble=trouble))
        self.forget(*(row.id for row in orphans))
        self._interrupt_subagents(trouble)
        return len(begun)

    def _interrupt_subagents(self, trouble: str | None) -> None:
        """Mark sub-agents as interrupted whose process is gone: they go on with their callers."""
        held = exists().where(PROCESSES.c.id == SESSIONS.c.holder)
        lost = select(SESSIONS.c.id, SESSIONS.c.run_id).where(RUNNING, SESSIONS.c.parent.is_not(None), ~held)
        rows = self._execute(lost).all()
        self._execute(update(RUNS).where(RUNS.c.id.in_([row.run_id for row in rows])).values(status="interrupted"))
        its = update(SESSIONS).where(SESSIONS.c.id.in_([row.id for row in rows]))
        self._execute(its.values(status="interrupted", holder=None, trouble=trouble))
        self.changed.update(row.id for row in rows)
        self.forget(*(row.id for row in rows))

    def requeue(self, ids: Sequence[str], token: int | None) -> list[str]:
        """Queue orphans, and sessions of this process, again; returns which.

        token: only sessions that this process holds by the claim with this token.
        """
        going = SESSIONS.c.status.in_(GOING), SESSIONS.c.run_id.is_not(None)
        found = self._execute(_LOCKED_SESSION.where(SESSIONS.c.id.in_(ids), *going)).all()
        known = self._members({row.holder for row in found if row.holder is not None}) - {self._id}
        free = [row for row in found if row.holder not in known and (row.status, row.holder) != ("queued", None)]
        if token is not None:
            free = [row for row in free if (row.holder, row.token) == (self._id, token)]
        self.forget(*(row.id for row in free))
        self.changed.update(row.id for row in free)
        its = update(RUNS).where(RUNS.c.id.in_([row.run_id for row in free]))
        self._execute(its.values(status="queued", queued=now(self._connection)))
        its = update(SESSIONS).where(SESSIONS.c.id.in_([row.id for row in free]))
        self._execute(its.values(status="queued", holder=None))
        self._interrupt_subagents(None)
        return [row.id for row in free]

    def mark_interrupted(self, session_id: str, why: str, token: int | None) -> None:
        """Mark a session that this process holds as interrupted, and its run. token: only if its claim has this one."""
        found = self._locked(session_id)
        if found.holder != self._id or found.status not in GOING or token not in (None, found.token):
            return
        self.forget(session_id)
        self._execute(update(RUNS).where(RUNS.c.id == found.run_id).values(status="interrupted", cancel=None))
        its = update(SESSIONS).where(SESSIONS.c.id == session_id)
        self._execute(its.values(status="interrupted", holder=None, trouble=why))
        self.changed.add(session_id)

    def forget(self, *session_ids: str) -> None:
        """Look these claims up before more is written for them: they change."""
        for id in session_ids:
            self._tokens.pop(id, None)
            self.new_tokens.pop(id, None)

    # ---- inside

    def _know(self, session_id: str, token: int) -> None:
        self.forget(session_id)
        self.new_tokens[session_id] = token

    @property
    def _on_postgresql(self) -> bool:
        return self._connection.dialect.name == "postgresql"

    def _queue_run(self, run: QueuedRun, number: int | None) -> None:
        """Write the row of a queued run. number: None if the row exists already."""
        waits: dict[str, Any] = {"status": "queued", "stop_reason": None, "updated_at": run.at, "cancel": None}
        waits |= {"queued": now(self._connection), "job": run.job}
        if number is None:
            self._execute(update(RUNS).where(RUNS.c.id == run.run_id).values(waits))
            return
        new = {"id": run.run_id, "session_id": run.session_id, "number": number, "prompt": run.prompt}
        none = {"carried_steps": 0, "steps": 0, "resumed_at": b"[]"}
        self._execute(insert(RUNS).values({**waits, **new, **none, "started_at": run.at}))

    def _found(self, session_id: str) -> Row[Any] | None:
        return self._execute(_LOCKED_SESSION.where(SESSIONS.c.id == session_id)).first()

    def _locked(self, session_id: str) -> Row[Any]:
        row = self._found(session_id)
        if row is None:
            raise SessionDeleted(f"the session {session_id} does not exist (any more)")
        return row

    def _check_free(self, found: Row[Any]) -> None:
        if found.holder != self._id and self._is_member(found.holder):
            raise SessionLocked(f"the session {found.id} is held by another process, {found.holder}")

    def _check_claim(self, found: Row[Any], token: int | None) -> None:
        if found.holder != self._id and (self._id is not None or self._is_member(found.holder)):
            raise SessionLocked(f"the session {found.id} is not held by this process (any more)")
        if token not in (None, found.token):
            raise SessionLocked(
                f"the session {found.id} was claimed again: this claim has token {token}, the latest one {found.token}"
            )

    def _is_member(self, holder: str | None) -> bool:
        return holder is not None and bool(self._members({holder}))

    def _members(self, ids: set[str]) -> set[str]:
        return set(self._execute(select(PROCESSES.c.id).where(PROCESSES.c.id.in_(ids))).scalars()) if ids else set()


def stored_lines(kept: bytes, size: int | None) -> bytes:
    """Return the lines of a page, given its columns `lines` and `size`. Raises StoreError if it is damaged."""
    return bytes(kept) if size is None else expand_page(bytes(kept), size)


def _page(batch: EventBatch) -> dict[str, Any]:
    """Return the columns of a batch's page but for its run; compressed if that makes it smaller."""
    frame = compress_page(batch.lines) if batch.compress else batch.lines
    smaller = len(frame) < len(batch.lines)
    stored = {"lines": frame, "size": len(batch.lines)} if smaller else {"lines": batch.lines, "size": None}
    return {"first_seq": batch.first_seq, "last_seq": batch.last_seq, **stored}


def _notifications(process_id: str, ids: set[str]) -> Iterator[str]:
    """Yield payloads with these ids, each starting with the id of the process that changed the sessions."""
    words = [process_id]
    size = len(process_id)
    for id in sorted(id if _SAFE_ID.fullmatch(id) else ANY for id in ids):
        if size + 1 + len(id) > MAX_NOTIFY_BYTES:
            yield " ".join(words)
            words, size = [process_id], len(process_id)
        words.append(id)
        size += 1 + len(id)
    yield " ".join(words)
