"""Removed datasets, of which the objects are to be collected, and cursors of consumers.

Two new tables, which the code before this does not use. Neither refers to `datasets`: both outlive what they tell of.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_DATASET_ID = sa.String(69)


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "removed_datasets",
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", name="removed_datasets_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "cursors",
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.Column("consumer", sa.String(100), nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("next_sequence", sa.BigInteger(), nullable=False),
        sa.Column("next_row", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.String(80), nullable=False),
        sa.Column("fence", sa.String(64), nullable=False),
        sa.Column("lease_until", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "consumer", name="cursors_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("cursors")
    op.drop_table("removed_datasets")
