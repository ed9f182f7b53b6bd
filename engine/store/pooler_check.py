"""A check that each connection to PostgreSQL keeps a session of the server, as a pooler by transactions does not.

Behind PgBouncer with `pool_mode=transaction` each transaction may run in another session: notifications never arrive,
and statements that a connection prepared are unknown in the next transaction, which fails some of the requests.
"""

from __future__ import annotations

from uuid import uuid4

from sqlalchemy import Connection, Engine, bindparam, func, select

from ..decision import WrongUse

_ROUNDS = 4
"""How often is looked: on a busy pooler another client may get, between two transactions, the session of the first."""
_NAME = "endstop.session"
_MARK = select(func.pg_backend_pid(), func.set_config(_NAME, bindparam("mark"), False))
_SEEN = select(func.pg_backend_pid(), func.current_setting(_NAME, True))


def check_sessions(engine: Engine, name: str) -> None:
    """Raise WrongUse if two connections of the engine share a session of the server, or one changes it.

    One of them sets a variable of its session, which the other one then must not have. A server without a pooler, and
    a pooler by sessions, pass for certain. name: of the database, for people.
    """
    with engine.connect() as first, engine.connect() as second:
        connections = [one.execution_options(isolation_level="AUTOCOMMIT") for one in (first, second)]
        if any(_is_shared(*connections) for _ in range(_ROUNDS)):
            raise WrongUse(
                f"{name} is a connection pooler that gives each transaction another session of the server, like "
                "PgBouncer with pool_mode=transaction: give the address of the PostgreSQL server itself, or set "
                "pool_mode=session for this database (notifications and prepared statements need a session)"
            )


def _is_shared(first: Connection, second: Connection) -> bool:
    mark = uuid4().hex
    marked = first.execute(_MARK, {"mark": mark}).one()
    theirs, ours = second.execute(_SEEN).one(), first.execute(_SEEN).one()
    return mark in theirs or marked != ours
