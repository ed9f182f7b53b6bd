"""Add indexes: to list sessions by status or agent, and to delete old sessions.

While they are built nothing can be written to the table. Each migration locks one table, in one mode: processes that
are at work lock several, and neither would let the other go on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

LISTED = (("status",), ("agent",), ("owner", "status"))
DELETABLE = sa.text("status IN ('completed', 'exhausted', 'failed', 'cancelled') AND parent IS NULL")


def upgrade() -> None:
    """Add the indexes."""
    for columns in LISTED:
        op.create_index(f"endstop_sessions_{'_'.join(columns)}", "endstop_sessions", [*columns, "created_at", "id"])
    op.create_index(
        "endstop_sessions_ended",
        "endstop_sessions",
        ["updated_at", "id"],
        sqlite_where=DELETABLE,
        postgresql_where=DELETABLE,
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("endstop_sessions_ended", "endstop_sessions")
    for columns in LISTED:
        op.drop_index(f"endstop_sessions_{'_'.join(columns)}", "endstop_sessions")
