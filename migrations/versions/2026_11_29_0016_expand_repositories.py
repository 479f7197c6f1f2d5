"""Repositories elsewhere, and aliases of datasets there. The code before this neither reads nor writes the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "repositories",
        sa.Column("id", sa.String(320).with_variant(sa.String(320, collation="C"), "postgresql"), nullable=False),
        sa.Column("account_id", sa.String(128)),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"], name="repositories_account_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="repositories_pk"),
    )
    op.create_table(
        "remote_aliases",
        sa.Column("id", sa.String(64).with_variant(sa.String(64, collation="C"), "postgresql"), nullable=False),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name="remote_aliases_dataset_id_fk", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="remote_aliases_pk"),
    )
    op.create_index("remote_aliases_dataset_id_idx", "remote_aliases", ["dataset_id"])


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("remote_aliases")
    op.drop_table("repositories")
