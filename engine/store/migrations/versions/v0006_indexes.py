"""Add indexes: to list sessions by status or agent, to delete old sessions, and to find the runs that wait.

While they are built nothing can be written to the two tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

LISTED = (("status",), ("agent",), ("owner", "status"))
DELETABLE = sa.text("status IN ('completed', 'exhausted', 'failed', 'cancelled') AND parent IS NULL")
WAITS = sa.text("queued IS NOT NULL")
QUEUED = sa.text("status = 'queued'")


def upgrade() -> None:
    """Add the indexes. That of runs replaces the one of queued sessions."""
    for columns in LISTED:
        op.create_index(f"endstop_sessions_{'_'.join(columns)}", "endstop_sessions", [*columns, "created_at", "id"])
    op.create_index(
        "endstop_sessions_ended",
        "endstop_sessions",
        ["updated_at", "id"],
        sqlite_where=DELETABLE,
        postgresql_where=DELETABLE,
    )
    op.create_index("endstop_runs_queued", "endstop_runs", ["queued"], sqlite_where=WAITS, postgresql_where=WAITS)
    op.drop_index("endstop_sessions_queued", "endstop_sessions")


def downgrade() -> None:
    """Restore the indexes of the version before."""
    op.create_index("endstop_sessions_queued", "endstop_sessions", ["id"], sqlite_where=QUEUED, postgresql_where=QUEUED)
    op.drop_index("endstop_runs_queued", "endstop_runs")
    op.drop_index("endstop_sessions_ended", "endstop_sessions")
    for columns in LISTED:
        op.drop_index(f"endstop_sessions_{'_'.join(columns)}", "endstop_sessions")
