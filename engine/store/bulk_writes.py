"""Writes of many rows at once: pages of events, and steps of runs.

PostgreSQL gets one statement for all rows, whose columns are arrays, so its text never changes and a transaction takes
one answer of the server. SQLite, which answers at once, gets a statement for each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    TableValuedAlias,
    Text,
    bindparam,
    func,
    insert,
    select,
    update,
)

from .database_schema import PAGES, RUNS

_OF_ALL = "{}_of_all"


def _given(*columns: Column[Any]) -> TableValuedAlias:
    """Return the rows whose values are bound as arrays, one for each column."""
    arrays = (bindparam(_OF_ALL.format(column.name), type_=ARRAY(column.type)) for column in columns)
    return func.unnest(*arrays).table_valued(*(column.name for column in columns)).render_derived()


_pages = _given(
    Column("run", BigInteger),
    Column("first_seq", Integer),
    Column("last_seq", Integer),
    Column("lines", LargeBinary),
    Column("size", Integer),
)
_PAGES_OF_ARRAYS = insert(PAGES).from_select(_pages.c.keys(), select(_pages))
_steps = _given(Column("of", BigInteger), Column("more", Integer), Column("at", Text))
_STEPS_OF_ARRAYS = (
    update(RUNS).where(RUNS.c.key == _steps.c["of"]).values(steps=RUNS.c.steps + _steps.c.more, updated_at=_steps.c.at)
)
_STEPS_OF_ONE = (
    update(RUNS)
    .where(RUNS.c.key == bindparam("of"))
    .values(steps=RUNS.c.steps + bindparam("more"), updated_at=bindparam("at"))
)


def insert_pages(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Insert pages of events. rows: by the names of the columns."""
    if connection.dialect.name == "postgresql":
        connection.execute(_PAGES_OF_ARRAYS, _arrays(rows))
    else:
        connection.execute(insert(PAGES), rows)


def add_steps(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Add steps to runs. rows: the key of a run (`of`), how many `more`, and `at`: when it was updated; a run once."""
    if connection.dialect.name == "postgresql":
        connection.execute(_STEPS_OF_ARRAYS, _arrays(rows))
    else:
        connection.execute(_STEPS_OF_ONE, rows)


def _arrays(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {_OF_ALL.format(name): [row[name] for row in rows] for name in rows[0]}
