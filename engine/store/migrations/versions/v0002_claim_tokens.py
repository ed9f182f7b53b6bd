"""The token of a session's latest claim.

The default lets processes of the version before, which share the database during a rolling upgrade, add sessions as
before: they name no token, and a session that nobody has claimed under one has token 0.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column. With a constant default PostgreSQL and SQLite rewrite no row."""
    op.add_column("endstop_sessions", sa.Column("token", sa.BigInteger, nullable=False, server_default="0"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("endstop_sessions", "token")
