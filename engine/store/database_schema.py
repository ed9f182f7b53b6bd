"""The tables of a store, for SQLAlchemy. Migrations create them; a test compares the two.

Texts of people and models are stored as UTF-8 in columns of bytes, because PostgreSQL's text cannot hold NUL; a lone
surrogate becomes a question mark, as in records. Names and ids are text, to be searched and read by people; in them NUL
and lone surrogates become U+FFFD. The lines of events are stored byte for byte.
"""

from __future__ import annotations

from itertools import chain, combinations
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
"""The table where Alembic notes the schema's version."""


class IdText(TypeDecorator[str]):
    """A name or id: searched, and sorted by code points whatever the language of the database."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """Let PostgreSQL sort by code points as SQLite does; by default it sorts by the rules of a language."""
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Replace what PostgreSQL's text cannot hold."""
        return None if value is None else storable(value)


class Utf8Text(TypeDecorator[str]):
    """A text of people or models: any characters, any length, never searched."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> bytes | None:
        """Encode as UTF-8."""
        return None if value is None else value.encode("utf-8", "replace")

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> str | None:
        """Decode from UTF-8."""
        return None if value is None else bytes(value).decode()


def storable(name: str) -> str:
    """Replace each NUL and each lone surrogate in a name with U+FFFD."""
    if "\0" not in name and (name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)):
        return name
    return "".join("\ufffd" if letter == "\0" or "\ud800" <= letter <= "\udfff" else letter for letter in name)


METADATA = MetaData()
_KEY = BigInteger().with_variant(Integer(), "sqlite")  # SQLite assigns keys only to an INTEGER

SESSIONS = Table(
    "endstop_sessions",
    METADATA,
    Column("id", IdText, primary_key=True),
    Column("owner", IdText, nullable=False),
    Column("agent", IdText, nullable=False),
    Column("title", Utf8Text, nullable=False),
    Column("status", IdText, nullable=False),
    Column("stop_reason", IdText),
    Column("created_at", IdText, nullable=False),
    Column("updated_at", IdText, nullable=False),
    Column("run_id", IdText),
    Column("runs", Integer, nullable=False),
    Column("questions", LargeBinary, nullable=False),
    Column("holder", IdText),
    Column("trouble", Utf8Text),
    Column("token", BigInteger, nullable=False, server_default="0"),
    Column("metadata", LargeBinary),
    Column("parent", IdText),
)
"""`holder` is the process that has the session, and `token` the number of its claim: each claim has a higher one."""
NEWEST = ("created_at", "id")
"""The columns by which lists are sorted."""
IS_SUBAGENT = text("parent IS NOT NULL")
Index(
    "endstop_sessions_parent",
    *(SESSIONS.c[_name] for _name in ("parent", *NEWEST)),
    sqlite_where=IS_SUBAGENT,
    postgresql_where=IS_SUBAGENT,
)
IS_ROOT = text("parent IS NULL")
FILTERS = ("owner", "status", "agent")
"""What lists can be limited to. Each combination has an index, so that a page reads no sessions but its own."""
for _columns in chain.from_iterable(combinations(FILTERS, _count) for _count in range(len(FILTERS) + 1)):
    Index(
        f"endstop_sessions_{'_'.join(_columns) or 'newest'}",
        *(SESSIONS.c[_name] for _name in (*_columns, *NEWEST)),
        sqlite_where=IS_ROOT,
        postgresql_where=IS_ROOT,
    )

RUNS = Table(
    "endstop_runs",
    METADATA,
    Column("key", _KEY, Identity(), primary_key=True),
    Column("id", IdText, nullable=False, unique=True),
    Column("session_id", IdText, ForeignKey(SESSIONS.c.id, ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("status", IdText, nullable=False),
    Column("stop_reason", IdText),
    Column("prompt", Utf8Text),
    Column("started_at", IdText, nullable=False),
    Column("updated_at", IdText, nullable=False),
    Column("finished_at", IdText),
    Column("carried_steps", Integer, nullable=False),
    Column("steps", Integer, nullable=False),
    Column("outcome", LargeBinary),
    Column("resumed_at", LargeBinary, nullable=False),
    Column("cancel", IdText),
    Column("queued", BigInteger),
    Column("job", Utf8Text),
    UniqueConstraint("session_id", "number"),
    sqlite_autoincrement=True,  # a key is never reused, so a page cannot end up in another run
)
"""`steps` does not include the steps of the paused run that a run continues (`carried_steps`). While a run is queued,
`queued` is the time at which it was, and `job` is `QueuedRun.job`."""

PAGES = Table(
    "endstop_pages",
    METADATA,
    Column("run", _KEY, ForeignKey(RUNS.c.key, ondelete="CASCADE"), primary_key=True, autoincrement=False),
    Column("first_seq", Integer, primary_key=True, autoincrement=False),
    Column("last_seq", Integer, nullable=False),
    Column("lines", LargeBinary, nullable=False),
    Column("size", Integer),
)
"""The events of runs. If `size` is not null, `lines` is compressed (`page_codec.py`), and `size` is how many bytes the
lines have. A short ascending key keeps the runs that grow now close together in the index."""

MESSAGES = Table(
    "endstop_messages",
    METADATA,
    Column("key", _KEY, Identity(), primary_key=True),
    Column("id", IdText, nullable=False, unique=True),
    Column("session_id", IdText, ForeignKey(SESSIONS.c.id, ondelete="CASCADE"), nullable=False, index=True),
    Column("text", Utf8Text, nullable=False),
    Column("created_at", IdText, nullable=False),
    Column("images", LargeBinary),
)

PAGE_FORMATS = Table("endstop_page_formats", METADATA, Column("format", Integer, primary_key=True, autoincrement=False))
"""The formats of pages that a process may join with: see `leases.settle_page_format`."""

PROCESSES = Table(
    "endstop_processes",
    METADATA,
    Column("id", IdText, primary_key=True),
    Column("kind", IdText, nullable=False),
    Column("host", IdText, nullable=False),
    Column("pid", BigInteger, nullable=False),
    Column("started_at", IdText, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("lease_ms", BigInteger, nullable=False),
    Column("version", IdText, nullable=False),
    Column("about", LargeBinary, nullable=False),
    Column(
        "pages",
        Integer,
        ForeignKey(PAGE_FORMATS.c.format, name="restart_this_process_as_the_newer_version"),
        nullable=False,
        server_default="1",
    ),
)
"""The processes that share the store. `until` and `endstop_runs.queued` are milliseconds since 1970 by the clock of
the database. `pages` is the newest format of pages that a process reads; processes of older versions name none."""

RUNNING = text("status = 'running'")
"""The condition of a partial index. It is a literal, not a parameter, so that both databases see that the index
applies to a query with it."""
Index("endstop_sessions_running", SESSIONS.c.id, sqlite_where=RUNNING, postgresql_where=RUNNING)
DELETABLE = text("status IN ('completed', 'exhausted', 'failed', 'cancelled') AND parent IS NULL")
"""The condition of sessions that may be deleted by age or number; a literal, like `RUNNING`."""
Index(
    "endstop_sessions_ended",
    SESSIONS.c.updated_at,
    SESSIONS.c.id,
    sqlite_where=DELETABLE,
    postgresql_where=DELETABLE,
)
WAITS = RUNS.c.queued.is_not(None)
Index("endstop_runs_queued", RUNS.c.queued, sqlite_where=WAITS, postgresql_where=WAITS)
