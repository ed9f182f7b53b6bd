"""Metadata that a caller stored with a session, for the functions of its runs.

The column may be null, so that processes of the version before, which share the database during a rolling upgrade, add
sessions as before.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column. No row is rewritten."""
    op.add_column("endstop_sessions", sa.Column("metadata", sa.LargeBinary))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("endstop_sessions", "metadata")
