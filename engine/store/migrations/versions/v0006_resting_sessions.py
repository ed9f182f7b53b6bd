"""An index of the sessions that wait for a person, to count them: `Membership.overview`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add the index."""
    resting = sa.text("status IN ('awaiting_input', 'interrupted')")
    op.create_index(
        "endstop_sessions_resting",
        "endstop_sessions",
        ["status"],
        sqlite_where=resting,
        postgresql_where=resting,
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_index("endstop_sessions_resting", "endstop_sessions")
