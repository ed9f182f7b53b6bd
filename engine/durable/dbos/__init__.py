"""A durable engine on DBOS, a library that needs only a database: PostgreSQL or a SQLite file.

`docs/guides/workers.md` says when to use it.
"""

from .queue import Dbos

__all__ = ["Dbos"]
