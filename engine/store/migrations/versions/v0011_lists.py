"""Indexes for lists by owner, status and agent in any combination, and of a session's sub-agents, newest first.

The indexes of lists have no sub-agents. While they are built the table can be neither read nor written.
"""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"

SORTED = ("created_at", "id")
BEFORE = ((), ("owner",), ("status",), ("agent",), ("owner", "status"))
LISTED = (*BEFORE, ("owner", "agent"), ("status", "agent"), ("owner", "status", "agent"))
IS_ROOT = sa.text("parent IS NULL")
IS_SUBAGENT = sa.text("parent IS NOT NULL")


def upgrade() -> None:
    """Replace the indexes of lists, and add three."""
    _replace(BEFORE, LISTED, ("parent", *SORTED), IS_ROOT)


def downgrade() -> None:
    """Restore the indexes of the version before."""
    _replace(LISTED, BEFORE, ("parent",), None)


def _replace(
    old: Sequence[Sequence[str]],
    new: Sequence[Sequence[str]],
    of_parent: Sequence[str],
    where: sa.TextClause | None,
) -> None:
    for name in ("endstop_sessions_parent", *map(_name, old)):
        op.drop_index(name, "endstop_sessions")
    for columns in new:
        op.create_index(
            _name(columns),
            "endstop_sessions",
            [*columns, *SORTED],
            sqlite_where=where,
            postgresql_where=where,
        )
    op.create_index(
        "endstop_sessions_parent",
        "endstop_sessions",
        list(of_parent),
        sqlite_where=IS_SUBAGENT,
        postgresql_where=IS_SUBAGENT,
    )


def _name(columns: Sequence[str]) -> str:
    return f"endstop_sessions_{'_'.join(columns) or 'newest'}"
