"""Add the index of the runs that wait, if there is none: it replaces the one of queued sessions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

WAITS = sa.text("queued IS NOT NULL")


def upgrade() -> None:
    """Add the index. While it is built nothing can be written to the table."""
    op.create_index(
        "endstop_runs_queued",
        "endstop_runs",
        ["queued"],
        sqlite_where=WAITS,
        postgresql_where=WAITS,
        if_not_exists=True,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_index("endstop_runs_queued", "endstop_runs")
