"""Results of steps in DBOS's table, written by one thread: all that ended meanwhile, of any run, in one transaction.

DBOS stores each result with two separate transactions, in threads that wait for its few connections;
`docs/decisions/0038-results-of-steps-are-written-together-into-dbos-s-table.md` has the figures. A row is the one that
DBOS would have written, and is written under the same condition: the execution that did the work must be the latest one
of its run (`owner_xid`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from msgspec import Struct
from sqlalchemy import BigInteger, Column, Connection, Engine, Integer, MetaData, Table, Text, insert, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from ...decision import WrongUse
from ...durability import ResultNotStored, RunLost
from ...providers._outage import Outage
from ...store.write_thread import DatabaseAway, Write, WriteThread
from .client import APPLICATION, JsonSerializer, JsonText, error_text
from .database_url import DatabaseUrl

TRIED_WITH = "3.4"
"""The version of DBOS whose tables are known."""


class Execution(Struct, frozen=True):
    """One execution of a run, as DBOS stores it."""

    owner: str
    """The token of this execution; DBOS makes another one when it gives the run away."""
    results: dict[str, JsonText]
    """The results that are stored, by step name."""
    last: int
    """The highest number of a stored step; 0 without steps."""


class StepResult(Struct, frozen=True):
    """The result of a step."""

    number: int
    name: str
    text: JsonText
    began: int
    """Milliseconds since 1970."""


class _Change(Struct, frozen=True):
    """A request for a run: without an owner, to begin its execution; without a result, to check that it is ours."""

    run: str
    owner: str | None = None
    result: StepResult | None = None


class StepResults(WriteThread[_Change]):
    """Results of the runs that DBOS has this process execute.

    engine: DBOS's SQLAlchemy engine, so that a SQLite file is opened as DBOS opens it. process: the name of this
    process there. While the database is away, all calls wait. Raises WrongUse if the tables lack a column, as those of
    another version of DBOS may.
    """

    def __init__(self, engine: Engine, url: DatabaseUrl, process: str) -> None:
        self._engine = engine
        self._url = url
        self._process = process
        self._outage = Outage("steps wait for the database")
        self._of_runs, self._of_steps = _tables(None if url.is_a_file else "dbos")
        for table in (self._of_runs, self._of_steps):
            _require_columns(engine, table, url)
        super().__init__("endstop-steps", float("inf"))

    async def begin(self, run: str) -> Execution:
        """Begin and return an execution by this process.

        Raises RunLost unless DBOS has this process execute the run.
        """
        execution: Execution = await self.submit(_Change(run))
        return execution

    async def check(self, run: str, owner: str) -> None:
        """Raise RunLost unless this execution is the latest one of its run."""
        await self.submit(_Change(run, owner))

    async def store(self, run: str, owner: str, result: StepResult) -> None:
        """Store a result. Raises RunLost unless this execution is the latest one of its run; ResultNotStored."""
        await self.submit(_Change(run, owner, result), len(result.text))

    def _write_in_one(self, writes: Sequence[Write[_Change]], *, check_first: bool) -> None:
        for write in writes:
            write.result = write.error = None
        try:
            connection = self._engine.connect()
        except (DBAPIError, NoConnection, OSError) as error:
            raise DatabaseAway(error_text(self._url, error)) from None
        with connection, connection.begin():
            owned = self._owned(connection, writes)
            if check_first:
                owned = [write for write in owned if not self._is_stored(connection, write)]
            rows = [_row(write.change) for write in owned if write.change.result is not None]
            if rows:
                connection.execute(insert(self._of_steps).returning(self._of_steps.c.function_id), rows)
            begun = {write.change.run: write for write in owned if write.change.owner is None}
            if begun:
                self._read(connection, begun)
        self._outage.over()

    def _owned(self, connection: Connection, writes: Sequence[Write[_Change]]) -> list[Write[_Change]]:
        """Return the changes that may be made; the others get RunLost.

        The rows of the runs whose results are stored stay locked until the commit, so that no process takes these runs.
        """
        stored = sorted({write.change.run for write in writes if write.change.result is not None})
        others = sorted({write.change.run for write in writes}.difference(stored))
        its = self._of_runs.c
        ask = select(its.workflow_uuid, its.status, its.executor_id, its.owner_xid).order_by(its.workflow_uuid)
        owners: dict[str, str] = {}
        if stored and self._url.is_a_file:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        for runs, locked in ((stored, ask.with_for_update(key_share=True)), (others, ask)):
            if runs:
                found = connection.execute(locked.where(its.workflow_uuid.in_(runs)))
                ours = [row for row in found if row.status == "PENDING" and row.executor_id == self._process]
                owners.update((row.workflow_uuid, row.owner_xid) for row in ours)
        owned = []
        for write in writes:
            owner = owners.get(write.change.run)
            if owner is not None and write.change.owner in (None, owner):
                write.result = owner
                owned.append(write)
            else:
                write.error = RunLost(
                    f"DBOS has given the run {write.change.run} to another process, or it was dropped"
                )
        return owned

    def _is_stored(self, connection: Connection, write: Write[_Change]) -> bool:
        """Return whether a transaction that seemed to fail has stored this result.

        Another result in its place is an error.
        """
        result, its = write.change.result, self._of_steps.c
        if result is None:
            return False
        there = select(its.function_name, its.output).where(
            its.workflow_uuid == write.change.run, its.function_id == result.number
        )
        row = connection.execute(there).first()
        if row is not None and tuple(row) != (result.name, result.text):
            write.error = RunLost(f"another execution of the run {write.change.run} has done the step {result.name}")
        return row is not None

    def _read(self, connection: Connection, begun: dict[str, Write[_Change]]) -> None:
        """Read the stored results for the changes that begin an execution."""
        its = self._of_steps.c
        ask = select(its.workflow_uuid, its.function_id, its.function_name, its.output, its.error)
        results: dict[str, dict[str, JsonText]] = {run: {} for run in begun}
        last = dict.fromkeys(begun, 0)
        for row in connection.execute(ask.where(its.workflow_uuid.in_(sorted(begun))).order_by(its.function_id)):
            last[row.workflow_uuid] = row.function_id
            if row.error is None:
                results[row.workflow_uuid][row.function_name] = JsonText(row.output)
        for run, write in begun.items():
            write.result = Execution(write.result, results[run], last[run])

    def _error_of(self, error: Exception) -> Exception:
        if isinstance(error, DBAPIError):
            busy = str(getattr(error.orig, "sqlite_errorname", "")).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
            if busy or error.connection_invalidated:
                raise DatabaseAway(error_text(self._url, error)) from None
            return ResultNotStored(f"the database did not take the result: {error.orig}")
        return error

    def _on_away(self, error: DatabaseAway) -> None:
        self._outage.failed(error=str(error))


def _tables(schema: str | None) -> tuple[Table, Table]:
    """Return the parts used here of DBOS's tables of runs and of steps."""
    metadata = MetaData(schema=schema)
    runs = Table(
        "workflow_status",
        metadata,
        *(Column(name, Text) for name in ("workflow_uuid", "status", "executor_id", "owner_xid")),
    )
    steps = Table(
        "operation_outputs",
        metadata,
        *(Column(name, Text) for name in ("workflow_uuid", "function_name", "output", "error", "serialization")),
        *(Column(name, BigInteger) for name in ("started_at_epoch_ms", "completed_at_epoch_ms", "retention_timestamp")),
        Column("function_id", Integer),
        Column("application_name", Text),
    )
    return runs, steps


def _require_columns(engine: Engine, table: Table, url: DatabaseUrl) -> None:
    there = {column["name"] for column in inspect(engine).get_columns(table.name, table.schema)}
    missing = sorted(set(table.c.keys()) - there)
    if missing:
        raise WrongUse(
            f"{url.shown}: DBOS {version('dbos')} has no {', '.join(missing)} in its table {table.name}, so endstop "
            f"cannot keep results there: install dbos {TRIED_WITH}"
        )


def _row(change: _Change) -> dict[str, Any]:
    result = change.result
    assert result is not None
    now = int(time.time() * 1000)
    return {
        "workflow_uuid": change.run,
        "function_id": result.number,
        "function_name": result.name,
        "output": str(result.text),
        "started_at_epoch_ms": result.began,
        "completed_at_epoch_ms": now,
        "retention_timestamp": now,
        "serialization": JsonSerializer().name(),
        "application_name": APPLICATION,
    }
