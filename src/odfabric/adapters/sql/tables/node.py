"""Tables of the node itself: its outbox, signing keys, roles and duties."""

from __future__ import annotations

from sqlalchemy import Column, Index, LargeBinary, String, Table, Text, text

from odfabric.adapters.sql.column_types import DatasetIdText, HashText, InstantNanos, InstantText, RowNumber
from odfabric.adapters.sql.tables.schema import ID_CHARACTERS_MAX, metadata

outbox = Table(
    "outbox",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("dataset_id", DatasetIdText, nullable=False),
    Column("old_head", HashText),
    Column("new_head", HashText),
    Column("occurred_at", InstantText, nullable=False),
    Column("done_at", InstantNanos),
    Column("event", Text),
    sqlite_autoincrement=True,
)
_NOT_DONE = text("done_at IS NULL")
Index("outbox_not_done_idx", outbox.c.id, sqlite_where=_NOT_DONE, postgresql_where=_NOT_DONE)

signing_keys = Table(
    "signing_keys",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("id", String(ID_CHARACTERS_MAX), nullable=False, unique=True),
    Column("public_key", LargeBinary, nullable=False),
    Column("private_key", LargeBinary),
    Column("made_at", InstantNanos, nullable=False),
    Column("retired_at", InstantNanos),
    sqlite_autoincrement=True,
)

roles = Table(
    "roles",
    metadata,
    Column("role", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("holder", String(ID_CHARACTERS_MAX), nullable=False),
    Column("leased_until", InstantNanos, nullable=False),
    sqlite_with_rowid=False,
)

duties = Table(
    "duties",
    metadata,
    Column("duty", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("worker", String(ID_CHARACTERS_MAX), nullable=False),
    Column("at", InstantNanos, nullable=False),
    Column("error", Text),
    Column("failing_since", InstantNanos),
    sqlite_with_rowid=False,
)
