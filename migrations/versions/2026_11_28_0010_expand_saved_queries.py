"""Saved queries of accounts. The code before this neither reads nor writes the table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "saved_queries",
        sa.Column("id", sa.String(128).with_variant(sa.String(128, collation="C"), "postgresql"), nullable=False),
        sa.Column("account_id", sa.String(128), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("sql", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"], ["accounts.id"], name="saved_queries_account_id_fk", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="saved_queries_pk"),
        sa.UniqueConstraint("account_id", "name", name="saved_queries_account_id_name_key"),
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("saved_queries")
