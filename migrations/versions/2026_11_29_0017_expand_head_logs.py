"""Logs of head moves, and what was seen of those elsewhere. The code before this neither reads nor writes the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "head_log",
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("sequence_number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hash", sa.String(80), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="head_log_dataset_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("dataset_id", "sequence_number", name="head_log_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "heads_seen",
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.String(80), nullable=False),
        sa.Column("log", sa.String(80), nullable=False),
        sa.Column("signer", sa.LargeBinary(), nullable=False),
        sa.Column("signed_at", sa.BigInteger(), nullable=False),
        sa.Column("seen_at", sa.BigInteger(), nullable=False),
        sa.Column("place", sa.Text(), nullable=False),
        sa.Column("line", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", name="heads_seen_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("heads_seen")
    op.drop_table("head_log")
