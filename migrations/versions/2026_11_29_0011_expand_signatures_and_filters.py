"""Keys with which a node signs its requests, and filters of subscriptions. The code before this uses neither."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.create_table(
        "signing_keys",
        sa.Column("position", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("private_key", sa.LargeBinary(), nullable=True),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("retired_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("position", name="signing_keys_pk"),
        sa.UniqueConstraint("id", name="signing_keys_id_key"),
        sqlite_autoincrement=True,
    )
    op.add_column("subscriptions", sa.Column("only_with_data", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    op.drop_column("subscriptions", "only_with_data")
    op.drop_table("signing_keys")
