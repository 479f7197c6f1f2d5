"""Intents of commits, for nodes whose heads of record lie in the objects.

New tables, which the code before this does not use: it knows no such nodes.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "commit_intents",
        sa.Column("position", number, autoincrement=True, nullable=False),
        sa.Column("new_head", sa.String(80), nullable=False),
        sa.Column("old_head", sa.String(80)),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("occurred_at", sa.String(48), nullable=False),
        sa.Column("document", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="commit_intents_pk"),
        sa.UniqueConstraint("new_head", name="commit_intents_new_head_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "commit_intent_jobs",
        sa.Column("job_id", sa.String(128), nullable=False),
        sa.Column("new_head", sa.String(80), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="commit_intent_jobs_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("commit_intent_jobs_new_head_idx", "commit_intent_jobs", ["new_head"])


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_table("commit_intent_jobs")
    op.drop_table("commit_intents")
