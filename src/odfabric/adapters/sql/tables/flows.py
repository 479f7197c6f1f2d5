"""Tables of flows and their runs."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from odfabric.adapters.sql.column_types import DatasetIdText, InstantNanos, RowNumber
from odfabric.adapters.sql.tables.schema import ID_CHARACTERS_MAX, NAME_CHARACTERS_MAX, metadata, of_dataset

flows = Table(
    "flows",
    metadata,
    Column("id", String(ID_CHARACTERS_MAX), primary_key=True),
    of_dataset(),
    Column("kind", String(16), nullable=False),
    Column("owner", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("rule", Text, nullable=False),
    Column("is_default", Boolean, nullable=False),
    Column("paused", Boolean, nullable=False),
    Column("stop", Text),
    Column("failures", Integer, nullable=False),
    Column("next_at", InstantNanos),
    Column("last_at", InstantNanos),
    Column("version", BigInteger, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("updated_at", InstantNanos, nullable=False),
    UniqueConstraint("dataset_id", "kind"),
    Index(None, "next_at"),
)

flow_runs = Table(
    "flow_runs",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("id", String(ID_CHARACTERS_MAX), nullable=False, unique=True),
    Column("flow_id", String(ID_CHARACTERS_MAX), ForeignKey("flows.id", ondelete="CASCADE"), nullable=False),
    Column("dataset_id", DatasetIdText, nullable=False),
    Column("wave", BigInteger, nullable=False),
    Column("causes", Text, nullable=False),
    Column("cause_count", BigInteger, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("job_id", String(ID_CHARACTERS_MAX)),
    Column("result", Text),
    Column("error", Text),
    Column("version", BigInteger, nullable=False),
    Column("due_at", InstantNanos, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("updated_at", InstantNanos, nullable=False),
    Column("started_at", InstantNanos),
    Column("ended_at", InstantNanos),
    Index("flow_runs_flow_id_idx", "flow_id", "position"),
    sqlite_autoincrement=True,
)

_RUN_UNFINISHED = text("status IN ('waiting', 'running')")
_UNFINISHED_ONLY: Any = {"sqlite_where": _RUN_UNFINISHED, "postgresql_where": _RUN_UNFINISHED}
Index("flow_runs_unfinished_flow_id_idx", flow_runs.c.flow_id, flow_runs.c.status, unique=True, **_UNFINISHED_ONLY)
Index("flow_runs_unfinished_idx", flow_runs.c.position, **_UNFINISHED_ONLY)
