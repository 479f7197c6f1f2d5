"""Small bodies of jobs: durable with the row, in one transaction.

A new table, which the code before this does not use: it finds the bodies of jobs that it queued itself among the staged objects.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "job_bodies",
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="job_bodies_pk"),
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("job_bodies")
