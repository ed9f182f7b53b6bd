"""Sessions, their runs, the runs' events, the messages that no run has received, and the processes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
RUNNING = sa.text("status = 'running'")
QUEUED = sa.text("status = 'queued'")


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "endstop_sessions",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("owner", NAME, nullable=False),
        sa.Column("agent", NAME, nullable=False),
        sa.Column("title", sa.LargeBinary, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("stop_reason", NAME),
        sa.Column("created_at", NAME, nullable=False),
        sa.Column("updated_at", NAME, nullable=False),
        sa.Column("run_id", NAME),
        sa.Column("runs", sa.Integer, nullable=False),
        sa.Column("questions", sa.LargeBinary, nullable=False),
        sa.Column("holder", NAME),
        sa.Column("trouble", sa.LargeBinary),
    )
    op.create_index("endstop_sessions_newest", "endstop_sessions", ["created_at", "id"])
    op.create_index("endstop_sessions_owner", "endstop_sessions", ["owner", "created_at", "id"])
    op.create_table(
        "endstop_runs",
        sa.Column("key", KEY, sa.Identity(), primary_key=True),
        sa.Column("id", NAME, nullable=False, unique=True),
        sa.Column("session_id", NAME, sa.ForeignKey("endstop_sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("status", NAME, nullable=False),
        sa.Column("stop_reason", NAME),
        sa.Column("prompt", sa.LargeBinary),
        sa.Column("started_at", NAME, nullable=False),
        sa.Column("updated_at", NAME, nullable=False),
        sa.Column("finished_at", NAME),
        sa.Column("carried_steps", sa.Integer, nullable=False),
        sa.Column("steps", sa.Integer, nullable=False),
        sa.Column("outcome", sa.LargeBinary),
        sa.Column("resumed_at", sa.LargeBinary, nullable=False),
        sa.Column("cancel", NAME),
        sa.Column("queued", sa.BigInteger),
        sa.Column("job", sa.LargeBinary),
        sa.UniqueConstraint("session_id", "number"),
        sqlite_autoincrement=True,
    )
    run = sa.ForeignKey("endstop_runs.key", ondelete="CASCADE")
    op.create_table(
        "endstop_pages",
        sa.Column("run", KEY, run, primary_key=True, autoincrement=False),
        sa.Column("first_seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("last_seq", sa.Integer, nullable=False),
        sa.Column("lines", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "endstop_messages",
        sa.Column("key", KEY, sa.Identity(), primary_key=True),
        sa.Column("id", NAME, nullable=False, unique=True),
        sa.Column("session_id", NAME, sa.ForeignKey("endstop_sessions.id", ondelete="CASCADE"), nullable=False),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.Column("created_at", NAME, nullable=False),
    )
    op.create_index("ix_endstop_messages_session_id", "endstop_messages", ["session_id"])
    op.create_table(
        "endstop_processes",
        sa.Column("id", NAME, primary_key=True),
        sa.Column("kind", NAME, nullable=False),
        sa.Column("host", NAME, nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("started_at", NAME, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("lease_ms", sa.BigInteger, nullable=False),
        sa.Column("version", NAME, nullable=False),
        sa.Column("about", sa.LargeBinary, nullable=False),
    )
    for name, chosen in (("running", RUNNING), ("queued", QUEUED)):
        index = f"endstop_sessions_{name}"
        op.create_index(index, "endstop_sessions", ["id"], sqlite_where=chosen, postgresql_where=chosen)


def downgrade() -> None:
    """Drop the tables."""
    for table in ("endstop_processes", "endstop_messages", "endstop_pages", "endstop_runs", "endstop_sessions"):
        op.drop_table(table)
