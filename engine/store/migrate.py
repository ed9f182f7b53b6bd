"""Bring a database's tables up to date, and refuse those of a newer endstop.

All that is missing is made in one transaction under a lock, so that of two processes that open a new database at once
one waits for the other.
"""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from ..decision import WrongUse
from .schema import VERSION_TABLE

_FOLDER = Path(__file__).parent / "migrations"
_LOCK = 0x656E6473746F70
"""PostgreSQL's advisory locks are numbers; this one is ours."""
_OPTIONS = {"version_table": VERSION_TABLE}


def migrate(connection: Connection, place: str) -> None:
    """Upgrade to the latest schema, in the connection's transaction; the caller commits.

    Raises WrongUse if the schema is newer than this endstop, or if a file of SQLite belongs to something else.
    """
    config = Config(attributes={"configure": {"connection": connection, **_OPTIONS}})
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    if _version(connection) == script.get_current_head():
        return
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    version = _version(connection)  # another process may have been quicker
    if version is None and connection.dialect.name == "sqlite" and inspect(connection).get_table_names():
        raise WrongUse(f"{place} is a database of something else: name another file")
    known = [revision.revision for revision in script.walk_revisions()]
    if version is not None and version not in known:
        raise WrongUse(
            f"{place} was written by a newer endstop: its schema is {version}, and this endstop knows up to "
            f"{script.get_current_head()}: upgrade endstop, or name another store"
        )
    command.upgrade(config, "head")


def _version(connection: Connection) -> str | None:
    return MigrationContext.configure(connection, opts=_OPTIONS).get_current_revision()
