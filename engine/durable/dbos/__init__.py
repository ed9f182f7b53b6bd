"""Runs kept and queued by DBOS: a library, whose only server is a database, PostgreSQL or a file of SQLite.

`docs/workers.md` says when.
"""

from .queue import Dbos

__all__ = ["Dbos"]
