"""What Alembic runs to migrate: on the connection, and in the transaction, that `migrate.py` has opened."""

from alembic import context

context.configure(**context.config.attributes["configure"])
context.run_migrations()
