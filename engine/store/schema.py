"""The tables of a store, as SQLAlchemy knows them. A migration makes them; a test holds the two together.

What people and models wrote is kept as UTF-8 in columns of bytes, since PostgreSQL's text takes no NUL; half a
surrogate pair becomes a question mark, as in records. Names and ids are text, to be searched and read by people; there
both become U+FFFD. The lines of events are kept byte for byte.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Dialect,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)

VERSION_TABLE = "endstop_schema"
"""Where Alembic notes which migrations have been made."""


class Name(TypeDecorator[str]):
    """Text that is searched and sorted by its code points, whatever the database's language."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """PostgreSQL sorts by a language unless told otherwise, SQLite never does."""
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Without what PostgreSQL's text refuses."""
        return None if value is None else plain(value)


class Words(TypeDecorator[str]):
    """What somebody wrote: any characters, any length, never searched."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """As UTF-8."""
        return None if value is None else value.encode("utf-8", "replace")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """From UTF-8."""
        return None if value is None else bytes(value).decode()


def plain(name: str) -> str:
    """A name without NUL and without half surrogate pairs: U+FFFD stands for each."""
    if "\0" not in name and (name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)):
        return name
    return "".join("\ufffd" if letter == "\0" or "\ud800" <= letter <= "\udfff" else letter for letter in name)


METADATA = MetaData()
_KEY = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up by itself only in an INTEGER

SESSIONS = Table(
    "endstop_sessions",
    METADATA,
    Column("id", Name, primary_key=True),
    Column("owner", Name, nullable=False),
    Column("agent", Name, nullable=False),
    Column("title", Words, nullable=False),
    Column("status", Name, nullable=False),
    Column("stop_reason", Name),
    Column("created_at", Name, nullable=False),
    Column("updated_at", Name, nullable=False),
    Column("run_id", Name),
    Column("runs", Integer, nullable=False),
    Column("questions", LargeBinary, nullable=False),
    Column("holder", Name),
    Column("trouble", Words),
)
Index("endstop_sessions_newest", SESSIONS.c.created_at, SESSIONS.c.id)
Index("endstop_sessions_owner", SESSIONS.c.owner, SESSIONS.c.created_at, SESSIONS.c.id)

RUNS = Table(
    "endstop_runs",
    METADATA,
    Column("key", _KEY, Identity(), primary_key=True),
    Column("id", Name, nullable=False, unique=True),
    Column("session_id", Name, ForeignKey(SESSIONS.c.id, ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("status", Name, nullable=False),
    Column("stop_reason", Name),
    Column("prompt", Words),
    Column("started_at", Name, nullable=False),
    Column("updated_at", Name, nullable=False),
    Column("finished_at", Name),
    Column("carried_steps", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("outcome", LargeBinary),
    Column("resumed_at", LargeBinary, nullable=False),
    Column("cancel", Name),
    Column("queued", BigInteger),
    Column("job", Words),
    UniqueConstraint("session_id", "number"),
    sqlite_autoincrement=True,  # a key is never used again, so a page cannot reach another run
)
"""`steps` are the run's own: without those of the paused run that it goes on from (`carried_steps`). While a run waits
for a process, `queued` is since when, and `job` what whoever queued it wants back."""

PAGES = Table(
    "endstop_pages",
    METADATA,
    Column("run", _KEY, ForeignKey(RUNS.c.key, ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("first_seq", Integer, primary_key=True, autoincrement=False),
    Column("last_seq", Integer, nullable=False),
    Column("lines", LargeBinary, nullable=False),
)
"""A run's events. Its short key, which counts up, keeps what grows now close together in the index."""

MESSAGES = Table(
    "endstop_messages",
    METADATA,
    Column("key", _KEY, Identity(), primary_key=True),
    Column("id", Name, nullable=False, unique=True),
    Column("session_id", Name, ForeignKey(SESSIONS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("text", Words, nullable=False),
    Column("created_at", Name, nullable=False),
)

PROCESSES = Table(
    "endstop_processes",
    METADATA,
    Column("id", Name, primary_key=True),
    Column("kind", Name, nullable=False),
    Column("host", Name, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_at", Name, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    Column("version", Name, nullable=False),
    Column("about", LargeBinary, nullable=False),
)
"""Who has the store open. `until` and `endstop_runs.queued` are milliseconds since 1970 by the database's clock."""

RUNNING = text("status = 'running'")
"""Written out, so that both databases see that an index of only these rows will do."""
Index("endstop_sessions_running", SESSIONS.c.id, sqlite_where=RUNNING, postgresql_where=RUNNING)
QUEUED = text("status = 'queued'")
Index("endstop_sessions_queued", SESSIONS.c.id, sqlite_where=QUEUED, postgresql_where=QUEUED)
