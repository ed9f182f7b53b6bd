"""Every statement of the store finds its rows by an index, in tables that are too large to be read.

The statements are those that the store executes when everything is done that can be done with it (`statements.use`),
and a test compares them with the calls in the code: a new statement has to come along.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from endstop.store.base import SessionFilter
from endstop.store.database import Database
from endstop.store.database_schema import FILTERS
from endstop.store.sql import SqlStore
from endstop.store.url import store_at
from sqlalchemy import Connection

from ... import many_sessions
from ...postgres import Server
from .statements import FOLDER, Executed, recorded, use

ROWS = {"sqlite": 20_000, "postgresql": 100_000}
"""Enough for PostgreSQL, which reads a small table whatever indexes it has; SQLite's plans do not depend on it."""
WITHOUT = {"database.py", "notify.py", "pooler_check.py"}
"""Files whose statements read no table of sessions: connections, migrations, and notifications."""
BIG = ("endstop_sessions", "endstop_runs", "endstop_pages", "endstop_messages")


@pytest.fixture(scope="module")
def executed(
    postgres: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[list[Executed], dict[str, Database]]]:
    """What the store executes in either database, and the databases, in which it has `ROWS` ended sessions."""
    places = {
        "sqlite": str(tmp_path_factory.mktemp("many") / "sessions.db"),
        "postgresql": postgres.url(postgres.new_database()),
    }
    stores = {dialect: store_at(place) for dialect, place in places.items()}
    found: list[Executed] = []

    async def fill_and_use(store: SqlStore, rows: int) -> None:
        await store.open()
        many_sessions.fill(store._database, rows)
        with recorded(store._database) as noted:
            await use(store, rows)
        found.extend(noted)

    for dialect, store in stores.items():
        asyncio.run(fill_and_use(store, ROWS[dialect]))
    yield found, {dialect: store._database for dialect, store in stores.items()}
    for store in stores.values():
        asyncio.run(store.close())


def test_everything_that_the_code_executes_was_executed(executed: tuple[list[Executed], Any]) -> None:
    seen = {one.place for one in executed[0]}
    missing = []
    for path in sorted(FOLDER.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if path.name not in WITHOUT and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                executes = node.func.attr in ("execute", "_execute", "exec_driver_sql")
                if executes and not any((path.name, line) in seen for line in lines):
                    missing.append(f"{path.name}:{node.lineno}")
    assert not missing, f"`use` executes nothing at {', '.join(missing)}: let it do what does"


def test_no_statement_reads_a_whole_table(executed: tuple[list[Executed], dict[str, Database]]) -> None:
    statements, databases = executed
    reading = []
    for dialect, database in databases.items():
        with database.read_engine.connect() as connection:
            for one in statements:
                if one.dialect == dialect and one.has_plan:
                    reading += [f"{one.place}: {step}: {one.sql}" for step in scans(connection, one)]
    assert not reading, "\n".join(reading)


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_a_statement_that_reads_a_whole_table_is_seen(executed: tuple[Any, dict[str, Database]], dialect: str) -> None:
    with executed[1][dialect].read_engine.connect() as connection:
        for sql in ("SELECT id FROM endstop_sessions WHERE runs = 7", "DELETE FROM endstop_runs WHERE steps = 7"):
            assert scans(connection, Executed(dialect, ("here", 1), sql, ()))


def test_a_page_of_a_list_reads_no_sessions_but_those_on_it(
    executed: tuple[list[Executed], dict[str, Database]],
) -> None:
    statements, databases = executed
    lists = [one for one in statements if "ORDER BY endstop_sessions.created_at DESC" in one.sql]
    seen = {(one.dialect, tuple(filters(one)), "created_at, endstop_sessions.id) <" in one.sql) for one in lists}
    assert len(seen) == 2 * 2 ** len(FILTERS) * 2 * 2, "not every list of either database was read: let `use` do it"
    reading = []
    for dialect, database in databases.items():
        with database.read_engine.connect() as connection:
            for one in lists:
                if one.dialect == dialect and (read := sessions_read(connection, one)):
                    reading.append(f"{read}: {one.sql.partition(' WHERE ')[2]} {one.parameters}")
    assert not reading, "\n".join(reading)


def sessions_read(connection: Connection, statement: Executed) -> str | None:
    """How a list reads more sessions than a page has; None if it does not.

    PostgreSQL reads them, each once to find it and once for the rest of it. SQLite says which columns it looks up in an
    index, and whether it sorts what it finds.
    """
    if statement.dialect == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
        steps = [row[3] for row in rows]
        found = steps[: steps.index("SCAN anon_1")]  # what follows is about the sessions of the page
        limits = filters(statement)
        sought = ["parent"] if "parent" in limits else limits  # the others are compared: sub-agents are few
        sorts = any("TEMP B-TREE" in step for step in found)
        return "; ".join(found) if sorts or not all(f"{name}=?" in " ".join(found) for name in sought) else None
    explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.sql}"
    plan = connection.exec_driver_sql(explain, statement.parameters).scalar_one()
    reads = [step for step in _steps(plan[0]["Plan"]) if step.get("Relation Name") == "endstop_sessions"]
    read = sum(step["Actual Loops"] * (step["Actual Rows"] + step.get("Rows Removed by Filter", 0)) for step in reads)
    return None if read <= 2 * (SessionFilter().limit + 1) else f"{read} sessions"


def filters(statement: Executed) -> list[str]:
    """The columns by which a list is limited."""
    where = statement.sql.partition("\nWHERE ")[2]
    return [name for name in (*FILTERS, "parent") if f"endstop_sessions.{name} = " in where]


def scans(connection: Connection, statement: Executed) -> list[str]:
    """The steps of a statement's plan that read a whole table of sessions, runs, pages or messages."""
    if statement.dialect == "sqlite":
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement.sql}", statement.parameters)
        steps = [row[3] for row in rows]
        return [step for step in steps if re.match(rf"SCAN ({'|'.join(BIG)})\b(?!.* USING )", step)]
    plan = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {statement.sql}", statement.parameters).scalar_one()
    read = [step for step in _steps(plan[0]["Plan"]) if step["Node Type"].endswith("Seq Scan")]
    return [f"Seq Scan on {step['Relation Name']}" for step in read if step.get("Relation Name") in BIG]


def _steps(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _steps(part)
