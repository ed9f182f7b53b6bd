"""Run by Alembic for each migration, in the transaction that `database.migrate` has opened."""

from alembic import context

context.configure(**context.config.attributes["configure"])
context.run_migrations()
