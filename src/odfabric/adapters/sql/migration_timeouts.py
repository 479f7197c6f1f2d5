"""How long a migration may wait and run where the database can bound it."""

from __future__ import annotations

from alembic import op


def limit_migration(*, lock_s: int, statement_s: int) -> None:
    """Give up rather than queue, and block others, behind a long transaction.

    Nothing on SQLite.
    """
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"SET LOCAL lock_timeout = '{lock_s}s'")
        op.execute(f"SET LOCAL statement_timeout = '{statement_s}s'")
