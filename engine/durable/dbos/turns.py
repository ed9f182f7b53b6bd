"""What DBOS's table says of queued runs: the turn of the next run of an owner, and who has which run.

DBOS gives out the runs of a queue by priority, and those of one priority by age. The priority of a run is the number
of its turn: one more than that of the owner's last waiting run, or for an owner with none, that of the run that is next
to begin. So of each owner one run begins, then of each a second one, and a thousand runs of one owner keep those of
another waiting for one run each. The table keeps the owner as the key of the queue's partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import and_, literal_column, or_, select, tuple_, update

from ...durability import GivenRun

WAITING = ("ENQUEUED", "DELAYED", "PENDING")
"""The statuses of runs that wait or are being executed."""
_PAGE = 100
"""How many runs `given_to_others` returns at most."""
_LAST_TURN = 2**31 - 1
"""The largest priority in DBOS."""


class Submissions:
    """The submissions of one owner that are under way in this process.

    The table has their turns only once they are stored, so until then a second one would be given the same.
    """

    def __init__(self) -> None:
        self.count = 0
        self._latest = 0

    def take(self, turn: int) -> int:
        """Return the turn of the next submission. turn: what the table says."""
        self._latest = min(max(turn, self._latest + 1), _LAST_TURN)
        return self._latest


class QueuedRuns:
    """The rows of queued runs. system: DBOS's access to its database; it blocks, and so does what reads or writes."""

    def __init__(self, system: Any) -> None:
        self._system = system
        file = system.engine.dialect.name == "sqlite"
        # a query alone needs no transaction; DBOS begins those of a file in a way of its own
        self._reading = system.engine if file else system.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._rows = system.tables.workflow_status
        self._submissions: dict[str, Submissions] = {}

    @contextmanager
    def submitting(self, owner: str) -> Iterator[Submissions]:
        """Count a submission as under way until it is stored, or is not made. For the thread of the event loop."""
        those = self._submissions.setdefault(owner, Submissions())
        those.count += 1
        try:
            yield those
        finally:
            those.count -= 1
            if not those.count:
                del self._submissions[owner]

    def place(self, queue: str, run: str, owner: str) -> tuple[str | None, int]:
        """Return the status of a run, None if it is unknown, and the turn of the owner's next run, from 1.

        Submissions under way are not in it: see `submitting`.
        """
        rows = self._rows
        waiting = select(rows.c.priority).where(
            rows.c.queue_name == queue,
            rows.c.status == literal_column("'ENQUEUED'"),
            self._system._in_flight_status_prover(),  # private: without it SQLite does not use DBOS's indexes
        )
        last = waiting.where(rows.c.queue_partition_key == owner).order_by(rows.c.priority.desc()).limit(1)
        first = waiting.order_by(rows.c.priority, rows.c.created_at).limit(1)
        status = select(rows.c.status).where(rows.c.workflow_uuid == run)
        asked = select(*(part.scalar_subquery() for part in (status, last, first)))
        with self._reading.begin() as connection:
            known, own, next_one = connection.execute(asked).one()
        return known, (next_one or 1) if own is None else own + 1

    def kept(self, runs: Sequence[str], seconds: float) -> set[str]:
        """Return those of these runs that wait, or were claimed less than `seconds` ago by the database's clock."""
        rows = self._rows
        since = self._system._now_ms_sql() - int(seconds * 1000)
        claimed = and_(rows.c.status == "PENDING", rows.c.started_at_epoch_ms > since)
        there = select(rows.c.workflow_uuid).where(
            rows.c.workflow_uuid.in_(runs), or_(rows.c.status.in_(("ENQUEUED", "DELAYED")), claimed)
        )
        with self._reading.begin() as connection:
            return set(connection.execute(there).scalars())

    def given_to_others(
        self, application: str, queue: str, processes: Sequence[str], after: GivenRun | None
    ) -> list[GivenRun]:
        """Return the first runs that were given to a process that is not one of these; see `Queue.given_to_others`.

        Only a run that was given to a process has a time of its start, and DBOS has an index of those: what is read are
        the runs that are being executed or have ended, in all queues of the database, and none that wait.
        """
        rows = self._rows
        at = rows.c.started_at_epoch_ms
        given = (
            select(rows.c.workflow_uuid, at, rows.c.status)
            .where(at.is_not(None), rows.c.queue_name == queue, rows.c.status.not_in(("ENQUEUED", "DELAYED")))
            .where(or_(rows.c.application_name == application, rows.c.application_name.is_(None)))
            .where(rows.c.executor_id.not_in(processes))
            .order_by(at, rows.c.workflow_uuid)
            .limit(_PAGE)
        )
        if after is not None:
            given = given.where(at >= after.at, tuple_(at, rows.c.workflow_uuid) > (after.at, after.run_id))
        with self._reading.begin() as connection:
            return [GivenRun(run, since, status != "PENDING") for run, since, status in connection.execute(given)]

    def name_owners(self, queue: str) -> None:
        """Give the runs of an older version the owner `""`: with a limit for each owner, DBOS looks for owners."""
        rows = self._rows
        theirs = rows.c.queue_name == queue, rows.c.status.in_(WAITING), rows.c.queue_partition_key.is_(None)
        with self._system.engine.begin() as connection:
            connection.execute(update(rows).where(*theirs).values(queue_partition_key=""))
