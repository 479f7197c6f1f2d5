"""Columns that a subscription follows, and whether its events carry rows. The code before this makes neither."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.add_column("subscriptions", sa.Column("move_columns", sa.Text()))
    op.add_column("subscriptions", sa.Column("with_rows", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_column("subscriptions", "with_rows")
    op.drop_column("subscriptions", "move_columns")
