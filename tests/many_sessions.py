"""Tables of a store with any number of ended sessions, filled by the database itself in seconds.

Half of the sessions are of one owner; the others of a hundred owners. One in a hundred is of another agent, one in a
thousand is a sub-agent, and one in fifty waits for an answer. The oldest hundredth is different: of an owner and an
agent of its own, and failed. All ended one second after another.
"""

from __future__ import annotations

from endstop.store.database import Database
from sqlalchemy import Connection

_AT = {
    "sqlite": "strftime('%Y-%m-%dT%H:%M:%f+00:00', '2025-01-01', n || ' seconds')",
    "postgresql": "to_char(timestamp '2025-01-01' + n * interval '1 second', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"+00:00\"')",
}
_BLOB = {"sqlite": "CAST('{0}' AS BLOB)", "postgresql": "convert_to('{0}', 'UTF8')"}
_NUMBERS = "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count})"
_TABLES = (
    "INSERT INTO endstop_sessions (id, owner, agent, title, status, stop_reason, created_at, updated_at, run_id, runs,"
    " questions, token, parent) {numbers} SELECT 'old_' || n,"
    " CASE WHEN n * 100 <= {count} THEN 'zoe' WHEN n % 2 = 0 THEN 'ann' ELSE 'owner_' || (n % 100) END,"
    " CASE WHEN n * 100 <= {count} THEN 'early' WHEN n % 100 = 0 THEN 'other' ELSE 'main' END, {title},"
    " CASE WHEN n * 100 <= {count} THEN 'failed' WHEN n % 50 = 0 THEN 'awaiting_input' ELSE 'completed' END,"
    " 'completed', {at}, {at}, 'run_of_' || n, 1,"
    " {empty}, 1, CASE WHEN n % 1000 = 1 THEN 'old_' || (n + 1) END FROM numbers",
    "INSERT INTO endstop_runs (id, session_id, number, status, stop_reason, prompt, started_at, updated_at,"
    " finished_at, carried_steps, steps, resumed_at) {numbers}"
    " SELECT 'run_of_' || n, 'old_' || n, 1, 'completed', 'completed', {title}, {at}, {at}, {at}, 0, 3, {empty}"
    " FROM numbers",
    "INSERT INTO endstop_pages (run, first_seq, last_seq, lines) SELECT key, 1, 9, {title} FROM endstop_runs",
    "INSERT INTO endstop_messages (id, session_id, text, created_at) {numbers}"
    " SELECT 'message_' || n, 'old_' || n, {title}, {at} FROM numbers",
)


def fill(database: Database, count: int) -> None:
    """Add so many ended sessions, each with a run, a page of events and a message.

    PostgreSQL gets the statistics that it makes of tables by itself, in time; SQLite makes none.
    """
    with database.write_engine.begin() as connection:
        for statement in _TABLES:
            _insert(connection, statement, count)
    if database.write_engine.dialect.name == "postgresql":
        with database.write_engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql("VACUUM ANALYZE")


def _insert(connection: Connection, statement: str, count: int) -> None:
    dialect = connection.dialect.name
    blob = _BLOB[dialect]
    filled = statement.format(
        count=count,
        numbers=_NUMBERS.format(count=count),
        at=_AT[dialect],
        title=blob.format("Fix the tests of the parser"),
        empty=blob.format("[]"),
    )
    # without parameters `%` is itself
    connection.execution_options(no_parameters=True).exec_driver_sql(filled)
