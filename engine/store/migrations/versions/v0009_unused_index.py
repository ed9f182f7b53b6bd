"""Drop the index of queued sessions, if it is there: that of the runs that wait has replaced it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"

QUEUED = sa.text("status = 'queued'")


def upgrade() -> None:
    """Drop the index."""
    op.drop_index("endstop_sessions_queued", "endstop_sessions", if_exists=True)


def downgrade() -> None:
    """Add it."""
    op.create_index("endstop_sessions_queued", "endstop_sessions", ["id"], sqlite_where=QUEUED, postgresql_where=QUEUED)
