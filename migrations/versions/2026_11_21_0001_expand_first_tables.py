"""First tables: chains and catalog, marks of commits, outbox, subscriptions and deliveries, jobs.

Written out, not taken from the code's own tables: those change, this does not.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_FOLDED = sa.String(100).with_variant(sa.String(100, collation="C"), "postgresql")
_DATASET_ID = sa.String(69)
_HASH = sa.String(80)
_INSTANT = sa.String(48)
_ID = sa.String(128)
_NAME = sa.String(100)


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    _create_datasets()
    _create_chains()
    _create_outbox()
    _create_deliveries()
    _create_jobs()
    _create_job_indexes()


def downgrade() -> None:
    """Back to nothing."""
    limit_migration(lock_s=5, statement_s=60)
    for table in (
        "jobs",
        "deliveries",
        "subscriptions",
        "outbox",
        "job_commits",
        "idempotency",
        "blocks",
        "heads",
        "datasets",
    ):
        op.drop_table(table)


def _create_datasets() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", _DATASET_ID, nullable=False),
        sa.Column("account", _NAME, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("account_folded", _FOLDED, nullable=False),
        sa.Column("name_folded", _FOLDED, nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("sealed_key", sa.LargeBinary()),
        sa.Column("remote_url", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="datasets_pk"),
        sa.UniqueConstraint("account_folded", "name_folded", name="datasets_account_folded_name_folded_key"),
    )


def _of_dataset(table: str) -> tuple[sa.Column[str], sa.ForeignKeyConstraint]:
    return (
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=f"{table}_dataset_id_fk", ondelete="CASCADE"),
    )


def _create_chains() -> None:
    op.create_table(
        "heads",
        *_of_dataset("heads"),
        sa.Column("hash", _HASH, nullable=False),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("system_time", _INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", name="heads_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "blocks",
        *_of_dataset("blocks"),
        sa.Column("sequence_number", sa.BigInteger(), nullable=False),
        sa.Column("hash", _HASH, nullable=False),
        sa.Column("prev", _HASH),
        sa.Column("system_time", _INSTANT, nullable=False),
        sa.Column("event_type", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "sequence_number", name="blocks_pk"),
        sa.UniqueConstraint("dataset_id", "hash", name="blocks_dataset_id_hash_key"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "idempotency",
        *_of_dataset("idempotency"),
        sa.Column("key_hash", sa.LargeBinary(), nullable=False),
        sa.Column("body_digest", sa.LargeBinary(), nullable=False),
        sa.Column("block_hash", _HASH, nullable=False),
        sa.PrimaryKeyConstraint("dataset_id", "key_hash", name="idempotency_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "job_commits",
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.Column("block_hash", _HASH, nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="job_commits_pk"),
        sqlite_with_rowid=False,
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.Column("old_head", _HASH),
        sa.Column("new_head", _HASH),
        sa.Column("occurred_at", _INSTANT, nullable=False),
        sa.Column("done_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("id", name="outbox_pk"),
        sqlite_autoincrement=True,
    )
    _create_partial_index("outbox_not_done_idx", "outbox", ["id"], where="done_at IS NULL")


def _create_deliveries() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("position", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", _ID, nullable=False),
        *_of_dataset("subscriptions"),
        sa.Column("account", _NAME, nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _INSTANT, nullable=False),
        sa.Column("created_at_head", _HASH, nullable=False),
        sa.Column("after_message", sa.BigInteger(), nullable=False),
        sa.Column("last_sequence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="subscriptions_pk"),
        sa.UniqueConstraint("id", name="subscriptions_id_key"),
        sqlite_autoincrement=True,
    )
    op.create_index("subscriptions_dataset_id_position_idx", "subscriptions", ["dataset_id", "position"])
    op.create_table(
        "deliveries",
        sa.Column("id", _ID, nullable=False),
        sa.Column("subscription_id", _ID, nullable=False),
        sa.Column("dataset_id", _DATASET_ID, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("old_head", _HASH),
        sa.Column("new_head", _HASH),
        sa.Column("occurred_at", _INSTANT, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_attempt_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger()),
        sa.Column("worker", _ID),
        sa.Column("last_status_code", sa.Integer()),
        sa.Column("last_error", sa.Text()),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="deliveries_pk"),
        sa.UniqueConstraint("subscription_id", "sequence", name="deliveries_subscription_id_sequence_key"),
    )
    op.create_index(
        "deliveries_subscription_id_status_sequence_idx", "deliveries", ["subscription_id", "status", "sequence"]
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("position", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", _ID, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("account", _NAME, nullable=False),
        sa.Column("dataset_id", _DATASET_ID),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("dedup_key", sa.String(256)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("progress", sa.Text()),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("leased_until", sa.BigInteger()),
        sa.Column("worker", _ID),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="jobs_pk"),
        sa.UniqueConstraint("id", name="jobs_id_key"),
        sqlite_autoincrement=True,
    )


def _create_job_indexes() -> None:
    unfinished = "status IN ('queued', 'running')"
    _create_partial_index("jobs_unfinished_dedup_key_idx", "jobs", ["dedup_key"], where=unfinished, unique=True)
    _create_partial_index(
        "jobs_running_dataset_id_idx", "jobs", ["dataset_id"], where="status = 'running'", unique=True
    )
    _create_partial_index("jobs_unfinished_dataset_id_idx", "jobs", ["dataset_id", "position"], where=unfinished)
    _create_partial_index("jobs_unfinished_idx", "jobs", ["position"], where=unfinished)


def _create_partial_index(name: str, table: str, columns: list[str], *, where: str, unique: bool = False) -> None:
    condition = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
