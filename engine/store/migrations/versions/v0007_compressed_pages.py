"""Compressed pages of events.

The column may be null, so that processes of the version before, which share the database during a rolling upgrade,
write pages as before. As long as there is such a process no page is compressed: it could not read it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

COMPRESSED = sa.text("SELECT run FROM endstop_pages WHERE size IS NOT NULL LIMIT 1")


def upgrade() -> None:
    """Add the column. No row is rewritten."""
    op.add_column("endstop_pages", sa.Column("size", sa.Integer))


def downgrade() -> None:
    """Drop the column. Raises RuntimeError if a page is compressed: older versions could not read it."""
    if op.get_bind().execute(COMPRESSED).first() is not None:
        raise RuntimeError("there are compressed pages of events, which older versions cannot read")
    op.drop_column("endstop_pages", "size")
