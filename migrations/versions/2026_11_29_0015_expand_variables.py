"""Variables and secrets of datasets. The code before this neither reads nor writes the table."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "variables",
        sa.Column("id", sa.String(256).with_variant(sa.String(256, collation="C"), "postgresql"), nullable=False),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("plain", sa.Text()),
        sa.Column("sealed", sa.LargeBinary()),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="variables_dataset_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="variables_pk"),
        sa.UniqueConstraint("dataset_id", "name", name="variables_dataset_id_name_key"),
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("variables")
