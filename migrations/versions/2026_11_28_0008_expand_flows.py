"""Flows, their runs, and roles that one process of a node holds. The code before this neither reads nor writes the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from odfabric.adapters.sql.migration_timeouts import limit_migration

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """To the new shape."""
    limit_migration(lock_s=5, statement_s=60)
    _make_flows()
    _make_runs()
    op.create_table(
        "roles",
        sa.Column("role", sa.String(128), nullable=False),
        sa.Column("holder", sa.String(128), nullable=False),
        sa.Column("leased_until", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("role", name="roles_pk"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Back to the old shape."""
    limit_migration(lock_s=5, statement_s=60)
    for name in ("roles", "flow_runs", "flows"):
        op.drop_table(name)


def _make_flows() -> None:
    op.create_table(
        "flows",
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("owner", sa.String(100), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.Column("paused", sa.Boolean(), nullable=False),
        sa.Column("stop", sa.Text()),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("next_at", sa.BigInteger()),
        sa.Column("last_at", sa.BigInteger()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="flows_dataset_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="flows_pk"),
        sa.UniqueConstraint("dataset_id", "kind", name="flows_dataset_id_kind_key"),
    )
    op.create_index("flows_next_at_idx", "flows", ["next_at"])


def _make_runs() -> None:
    op.create_table(
        "flow_runs",
        sa.Column("position", _ROW_NUMBER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(128), nullable=False),
        sa.Column("flow_id", sa.String(128), nullable=False),
        sa.Column("dataset_id", sa.String(69), nullable=False),
        sa.Column("wave", sa.BigInteger(), nullable=False),
        sa.Column("causes", sa.Text(), nullable=False),
        sa.Column("cause_count", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(128)),
        sa.Column("result", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger()),
        sa.Column("ended_at", sa.BigInteger()),
        sa.ForeignKeyConstraint(["flow_id"], ["flows.id"], name="flow_runs_flow_id_fk", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("position", name="flow_runs_pk"),
        sa.UniqueConstraint("id", name="flow_runs_id_key"),
        sqlite_autoincrement=True,
    )
    _index_unfinished("flow_runs_unfinished_flow_id_idx", "flow_id", "status", unique=True)
    _index_unfinished("flow_runs_unfinished_idx", "position")
    op.create_index("flow_runs_flow_id_idx", "flow_runs", ["flow_id", "position"])


def _index_unfinished(name: str, *columns: str, unique: bool = False) -> None:
    where = sa.text("status IN ('waiting', 'running')")
    op.create_index(name, "flow_runs", list(columns), unique=unique, sqlite_where=where, postgresql_where=where)
