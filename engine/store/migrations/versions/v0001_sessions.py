"""Sessions, their runs, the runs' events and the messages that no run has heard."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
RUNNING = sa.text("status = 'running'")


def upgrade() -> None:
    """Make the tables."""
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
    for table in ("endstop_sessions", "endstop_runs"):
        op.create_index(f"{table}_running", table, ["id"], sqlite_where=RUNNING, postgresql_where=RUNNING)


def downgrade() -> None:
    """Drop them."""
    for table in ("endstop_messages", "endstop_pages", "endstop_runs", "endstop_sessions"):
        op.drop_table(table)
