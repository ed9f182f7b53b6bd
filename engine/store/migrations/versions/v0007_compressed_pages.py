"""Compressed pages of events.

The column may be null, so that processes of the version before, which share the database during a rolling upgrade,
write pages as before. As long as there is such a process no page is compressed: it could not read it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from endstop.store.page_codec import expand_page

revision = "0007"
down_revision = "0006"

PAGES = sa.table(
    "endstop_pages",
    *(sa.column(name, sa.Integer) for name in ("run", "first_seq", "size")),
    sa.column("lines", sa.LargeBinary),
)


def upgrade() -> None:
    """Add the column. No row is rewritten."""
    op.add_column("endstop_pages", sa.Column("size", sa.Integer))


def downgrade() -> None:
    """Expand the pages, and drop the column."""
    connection = op.get_bind()
    for row in connection.execute(sa.select(PAGES).where(PAGES.c.size.is_not(None))):
        its = sa.update(PAGES).where(PAGES.c.run == row.run, PAGES.c.first_seq == row.first_seq)
        connection.execute(its.values(lines=expand_page(bytes(row.lines), row.size)))
    op.drop_column("endstop_pages", "size")
