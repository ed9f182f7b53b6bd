"""Images of messages that wait for a run.

The column may be null, so that processes of the version before, which share the database during a rolling upgrade, add
messages as before. Such a process passes on only the text, in which each image has a mark.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the column. No row is rewritten."""
    op.add_column("endstop_messages", sa.Column("images", sa.LargeBinary))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("endstop_messages", "images")
