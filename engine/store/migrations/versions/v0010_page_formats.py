"""Formats of pages of events that a process may join with.

A process of an older version, which joins without naming a format, has format 1. Once every member reads the newest
format, the older ones are deleted from the table (`leases.settle_page_format`). From then on the database refuses such
a process, also one that was evicted while it slept and did not notice the upgrade: it could not read the pages.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

FORMATS = (1, 2, 3)
REFUSES = "restart_this_process_as_the_newer_version"
"""Name of the foreign key. PostgreSQL's error quotes it to an older process that tries to join: it says what to do."""


def upgrade() -> None:
    """Add table and column. SQLite copies the table of processes, which has a row for each process."""
    formats = op.create_table(
        "endstop_page_formats", sa.Column("format", sa.Integer, primary_key=True, autoincrement=False)
    )
    op.bulk_insert(formats, [{"format": number} for number in FORMATS])
    with op.batch_alter_table("endstop_processes") as processes:
        processes.add_column(sa.Column("pages", sa.Integer, nullable=False, server_default="1"))
        processes.create_foreign_key(REFUSES, "endstop_page_formats", ["pages"], ["format"])


def downgrade() -> None:
    """Drop both."""
    with op.batch_alter_table("endstop_processes") as processes:
        processes.drop_constraint(REFUSES, type_="foreignkey")
        processes.drop_column("pages")
    op.drop_table("endstop_page_formats")
