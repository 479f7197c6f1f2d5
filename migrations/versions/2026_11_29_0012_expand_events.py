"""Events beside head moves, and subscriptions of an account and of the node, which have no dataset.

The code before this takes an event in the outbox for a removal and sends a delivery of one as such: replace all workers before anybody
subscribes to more than head moves.
"""

from __future__ import annotations

import re

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_OPTIONAL = {"dataset_id": sa.String(69), "created_at_head": sa.String(80)}


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.add_column("outbox", sa.Column("event", sa.Text()))
    op.add_column("deliveries", sa.Column("event", sa.Text()))
    op.add_column("subscriptions", sa.Column("scope_account", sa.String(128)))
    op.add_column(
        "subscriptions", sa.Column("events", sa.Text(), nullable=False, server_default=" dataset.head-moved ")
    )
    _set_optional(True)


def downgrade() -> None:
    """Back to the old shape. Subscriptions without a dataset go, with what is not delivered; so do events that are no head moves."""
    limit_migration(lock_s=5, statement_s=60)
    op.execute("DELETE FROM delivery_attempts WHERE delivery_id IN (SELECT id FROM deliveries WHERE event IS NOT NULL)")
    op.execute("DELETE FROM deliveries WHERE event IS NOT NULL")
    op.execute("DELETE FROM outbox WHERE event IS NOT NULL")
    op.execute("DELETE FROM subscriptions WHERE dataset_id IS NULL")
    _set_optional(False)
    op.drop_column("subscriptions", "events")
    op.drop_column("subscriptions", "scope_account")
    op.drop_column("deliveries", "event")
    op.drop_column("outbox", "event")


def _set_optional(optional: bool) -> None:
    if op.get_bind().dialect.name == "sqlite":
        _make_again(optional)
        return
    for name, type_ in _OPTIONAL.items():
        op.alter_column("subscriptions", name, existing_type=type_, nullable=optional)


def _make_again(optional: bool) -> None:
    """SQLite cannot alter a column: the table is made again from its own definition, so that columns of other releases stay."""
    bind = op.get_bind()
    rows = bind.exec_driver_sql(
        "SELECT type, sql FROM sqlite_master WHERE tbl_name = 'subscriptions' AND sql IS NOT NULL"
    )
    found = [(row.type, row.sql) for row in rows]
    (table,) = (sql for kind, sql in found if kind == "table")
    last = bind.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'subscriptions'").scalar_one_or_none()
    bind.exec_driver_sql("CREATE TABLE subscriptions_kept AS SELECT * FROM subscriptions")
    bind.exec_driver_sql("DROP TABLE subscriptions")
    bind.exec_driver_sql(_with_nulls(table) if optional else _without_nulls(table))
    bind.exec_driver_sql("INSERT INTO subscriptions SELECT * FROM subscriptions_kept")
    bind.exec_driver_sql("DROP TABLE subscriptions_kept")
    for _, sql in (each for each in found if each[0] == "index"):
        bind.exec_driver_sql(sql)
    if last is not None:
        bind.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = 'subscriptions'")
        bind.exec_driver_sql(f"INSERT INTO sqlite_sequence (name, seq) VALUES ('subscriptions', {int(last)})")


def _with_nulls(sql: str) -> str:
    for name in _OPTIONAL:
        sql = re.sub(rf"(\b{name} VARCHAR\(\d+\)) NOT NULL", r"\1", sql)
    return sql


def _without_nulls(sql: str) -> str:
    for name in _OPTIONAL:
        sql = re.sub(rf"(\b{name} VARCHAR\(\d+\))(?! NOT NULL)", r"\1 NOT NULL", sql)
    return sql
