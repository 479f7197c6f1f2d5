"""Alembic's entry: runs migrations on the connection, and in the transaction, that `adapters.sql.upgrade` hands over."""

from __future__ import annotations

from alembic import context

from odfabric.adapters.sql.tables.every_table import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
