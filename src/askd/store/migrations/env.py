"""How Alembic reaches the database: through the connection that askd.store.migrations.upgrade hands over."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
with context.begin_transaction():
    context.run_migrations()
