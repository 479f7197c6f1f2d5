"""Bytes of each dataset, in the row of its head; NULL until somebody has measured them.

The code before this neither reads nor writes the column. On PostgreSQL names of consumers get room for the account before them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.add_column("heads", sa.Column("stored_bytes", sa.BigInteger()))
    if op.get_bind().dialect.name == "postgresql":  # SQLite does not look at lengths
        op.alter_column("cursors", "consumer", type_=sa.String(256))


def downgrade() -> None:
    """Back to the old shape. Cursors of accounts other than the first have names that the old one does not hold."""
    limit_migration(lock_s=5, statement_s=60)
    if op.get_bind().dialect.name == "postgresql":
        op.execute("DELETE FROM cursors WHERE length(consumer) > 100")
        op.alter_column("cursors", "consumer", type_=sa.String(100))
    op.drop_column("heads", "stored_bytes")
