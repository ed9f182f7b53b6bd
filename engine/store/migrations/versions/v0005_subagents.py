"""The session whose call runs a session: sub-agents are sessions, too.

The column is null for all others, and processes of the version before, which share the database during a rolling
upgrade, add sessions without it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Add the column and its index. No row is rewritten."""
    op.add_column("endstop_sessions", sa.Column("parent", NAME))
    is_subagent = sa.text("parent IS NOT NULL")
    op.create_index(
        "endstop_sessions_parent",
        "endstop_sessions",
        ["parent"],
        sqlite_where=is_subagent,
        postgresql_where=is_subagent,
    )


def downgrade() -> None:
    """Drop both."""
    op.drop_index("endstop_sessions_parent", "endstop_sessions")
    op.drop_column("endstop_sessions", "parent")
