"""Alembic's entry: migrates the database that the environment names."""

from alembic import context

from library.database import engine

with engine().connect() as connection:
    context.configure(connection=connection, transactional_ddl=False)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
