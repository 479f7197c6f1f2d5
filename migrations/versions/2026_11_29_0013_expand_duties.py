"""Reports of the node's own duties. The code before this neither reads nor writes the table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "duties",
        sa.Column("duty", sa.String(128), nullable=False),
        sa.Column("worker", sa.String(128), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("failing_since", sa.BigInteger()),
        sa.PrimaryKeyConstraint("duty", name="duties_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("duties")
