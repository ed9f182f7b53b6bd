"""Where sessions and their records are kept: SQLite or PostgreSQL."""
