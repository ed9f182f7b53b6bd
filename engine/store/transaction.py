"""What is written in one transaction: the batches of many runs, and whatever else comes between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, bindparam, delete, insert, select, update

from ..records.format import encoded
from .base import Batch, Diverged, Message, NewSession, Process, StoreError
from .holding import Holding
from .schema import MESSAGES, PAGES, RUNS, SESSIONS

ENDED = ("completed", "exhausted", "failed", "cancelled")
"""What may be forgotten."""
LAST_SEQ = (
    select(PAGES.c.last_seq).where(PAGES.c.run == RUNS.c.key).order_by(PAGES.c.first_seq.desc()).limit(1)
).scalar_subquery()
"""Where the pages of a run end."""
_STEP = b'{"type":"STEP_FINISHED"'
_ADD_STEPS = (
    update(RUNS)
    .where(RUNS.c.key == bindparam("of"))
    .values(steps=RUNS.c.steps + bindparam("more"), updated_at=bindparam("at"))
)

_WAITS_NO_MORE = {"queued": None, "job": None}
_RESUMED = b'{"type":"RUN_RESUMED"'


class Tail(NamedTuple):
    """Where a run's next batch goes."""

    key: int
    last_seq: int


class Changes:
    """Changes in one transaction. `tails` are those of committed runs, and change only by `committed`.

    careful: look whether it has been done already before doing it. For what may be handed in a second time: where a
        connection broke in a commit, nobody knows whether that came to pass.
    own: the process that writes. Raises LeaseLost if it was given up.
    """

    def __init__(
        self, connection: Connection, tails: dict[str, Tail], *, careful: bool, own: Process | None = None
    ) -> None:
        self.connection = connection
        self.holding = Holding(connection, own)
        self._execute = connection.execute
        self._tails = tails
        self._moved: dict[str, Tail] = {}
        self._careful = careful
        self._pages: list[dict[str, Any]] = []
        self._steps: dict[int, tuple[int, str]] = {}

    def add(self, session: NewSession) -> None:
        """A new session."""
        if self._careful and self._is_there(session):
            return
        self.holding.add(session, "running")

    def commit(self, batch: Batch) -> None:
        """A batch of a run. Raises Diverged if it does not go on from what is stored."""
        self.holding.touched.add(batch.session_id)
        known = batch.run_id in self._moved or (not self._careful and batch.run_id in self._tails)
        tail = self._start(batch) if batch.started is not None else self._tail(batch)
        if batch.first_seq != tail.last_seq + 1:
            batch = self._rest(batch, tail)
            if not batch.lines:
                return
        if batch.resumed:
            self._resume(batch)
        elif not known and batch.started is None:
            self.holding.check_own(batch.session_id)
        self._pages.append(
            {"run": tail.key, "first_seq": batch.first_seq, "last_seq": batch.last_seq, "lines": batch.lines}
        )
        self._moved[batch.run_id] = Tail(tail.key, batch.last_seq)
        if batch.finished is not None:
            self._finish(batch, tail.key)
        else:
            self._count_steps(batch, tail.key)
        if batch.heard:
            self._execute(
                delete(MESSAGES).where(MESSAGES.c.session_id == batch.session_id, MESSAGES.c.id.in_(batch.heard))
            )

    def say(self, message: Message) -> None:
        """A message that no run has heard yet."""
        values = {name: getattr(message, name) for name in message.__struct_fields__}
        if self._careful and self._execute(select(MESSAGES.c.key).where(MESSAGES.c.id == message.id)).first():
            return
        self._check_session(message.session_id)
        self.holding.touched.add(message.session_id)
        self._execute(insert(MESSAGES), values)

    def drop_messages(self, session_id: str) -> None:
        """Forget what no run has heard."""
        self._execute(delete(MESSAGES).where(MESSAGES.c.session_id == session_id))

    def delete(self, ids: Sequence[str], *, ended: bool = False) -> int:
        """Forget sessions with all that belongs to them; `ended`: only those that have ended. Gives how many."""
        self.settle()
        self.holding.touched.update(ids)
        chosen = delete(SESSIONS).where(SESSIONS.c.id.in_(ids))
        return self._execute(chosen.where(SESSIONS.c.status.in_(ENDED)) if ended else chosen).rowcount

    def settle(self) -> None:
        """Hand the database what was gathered; to be called before the transaction is committed."""
        pages, self._pages = self._pages, []
        steps, self._steps = self._steps, {}
        if pages:
            self._execute(insert(PAGES), pages)
        if steps:
            self._execute(_ADD_STEPS, [{"of": key, "more": more, "at": at} for key, (more, at) in steps.items()])

    def committed(self) -> None:
        """The transaction is through."""
        self._tails.update(self._moved)

    def _start(self, batch: Batch) -> Tail:
        started = batch.started
        assert started is not None
        if self._careful and (tail := self._stored_tail(batch.run_id)) and tail.last_seq:
            return tail
        begun = self.holding.begin(batch)
        values = {
            "status": "running",
            "prompt": started.prompt,
            "started_at": started.started_at or batch.at,
            "updated_at": batch.at,
            "carried_steps": 0 if started.carried is None else started.carried.steps,
        }
        its = RUNS.c.id == batch.run_id
        if begun.waited:
            self._execute(update(RUNS).where(its).values(**values, **_WAITS_NO_MORE))
            return Tail(self._execute(select(RUNS.c.key).where(its)).scalar_one(), 0)
        own = {"id": batch.run_id, "session_id": batch.session_id, "number": begun.number}
        row = {**values, **own, "steps": 0, "resumed_at": b"[]"}
        return Tail(self._execute(insert(RUNS).returning(RUNS.c.key), row).scalar_one(), 0)

    def _resume(self, batch: Batch) -> None:
        self.holding.begin(batch)
        now = {"status": "running", "stop_reason": None, "updated_at": batch.at, **_WAITS_NO_MORE}
        before = self._execute(select(RUNS.c.resumed_at).where(RUNS.c.id == batch.run_id)).scalar_one()
        resumed_at = msgspec.json.decode(before)
        if batch.lines.startswith(_RESUMED):  # else it is stored already, and only the rest of the batch is new
            resumed_at.append(batch.first_seq)
        again = {"finished_at": None, "outcome": None, "resumed_at": encoded(resumed_at)}
        self._execute(update(RUNS).where(RUNS.c.id == batch.run_id).values(**now, **again))

    def _finish(self, batch: Batch, key: int) -> None:
        outcome = batch.finished
        assert outcome is not None
        self._steps.pop(key, None)
        now = {"status": outcome.status, "stop_reason": outcome.stop_reason, "updated_at": batch.at}
        own = outcome.steps - RUNS.c.carried_steps
        self._execute(
            update(RUNS)
            .where(RUNS.c.key == key)
            .values(**now, finished_at=batch.at, steps=own, outcome=encoded(outcome))
        )
        self._execute(
            update(SESSIONS)
            .where(SESSIONS.c.id == batch.session_id, SESSIONS.c.run_id == batch.run_id)
            .values(**now, questions=encoded(batch.questions), holder=None)
        )

    def _count_steps(self, batch: Batch, key: int) -> None:
        more = batch.lines.startswith(_STEP) + batch.lines.count(b"\n" + _STEP)
        if more:
            self._steps[key] = (self._steps.get(key, (0, ""))[0] + more, batch.at)

    def _tail(self, batch: Batch) -> Tail:
        id = batch.run_id
        known = self._moved.get(id) or (None if batch.resumed or self._careful else self._tails.get(id))
        tail = known or self._stored_tail(id)
        if tail is None:
            raise StoreError(f"the run {id} is not there (any more)")
        return tail

    def _stored_tail(self, id: str) -> Tail | None:
        row = self._execute(select(RUNS.c.key, LAST_SEQ).where(RUNS.c.id == id)).first()
        return None if row is None else Tail(row[0], row[1] or 0)

    def _rest(self, batch: Batch, tail: Tail) -> Batch:
        """What of a batch is not stored yet, if its beginning is, line for line. Raises Diverged if it is not.

        Who tries again after a commit that broke hands in the same events, and perhaps more.
        """
        of_it = PAGES.c.first_seq.between(batch.first_seq, batch.last_seq)
        there = select(PAGES.c.lines).where(PAGES.c.run == tail.key, of_it).order_by(PAGES.c.first_seq)
        stored = b"".join(map(bytes, self._execute(there).scalars()))
        if not stored or not (batch.lines.startswith(stored) or stored.startswith(batch.lines)):
            raise Diverged(
                f"events {batch.first_seq} to {batch.last_seq} of {batch.run_id} cannot be kept: "
                f"what is stored ends at {tail.last_seq}, and is not the same"
            )
        return replace(batch, first_seq=tail.last_seq + 1, lines=batch.lines[len(stored) :], started=None)

    def _is_there(self, session: NewSession) -> bool:
        there = select(SESSIONS.c.owner, SESSIONS.c.created_at).where(SESSIONS.c.id == session.id)
        row = self._execute(there).first()
        if row is not None and tuple(row) != (session.owner, session.created_at):
            raise StoreError(f"there is another session {session.id} already")
        return row is not None

    def _check_session(self, id: str) -> None:
        if self._execute(select(SESSIONS.c.runs).where(SESSIONS.c.id == id)).first() is None:
            raise StoreError(f"the session {id} is not there (any more)")
