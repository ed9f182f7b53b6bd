"""Where sessions and their records are kept: SQLite, PostgreSQL, or a process's memory."""
