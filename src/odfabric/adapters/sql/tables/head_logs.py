"""Tables of head logs and of heads seen elsewhere."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, LargeBinary, Table, Text

from odfabric.adapters.sql.column_types import DatasetIdText, HashText, InstantNanos
from odfabric.adapters.sql.tables.schema import metadata

head_log = Table(
    "head_log",
    metadata,
    Column("dataset_id", DatasetIdText, ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    Column("sequence_number", BigInteger, primary_key=True, autoincrement=False),
    Column("hash", HashText, nullable=False),
    Column("line", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

# Of datasets elsewhere, also of those that are not here, or not any more: what was seen is not to be forgotten.
heads_seen = Table(
    "heads_seen",
    metadata,
    Column("dataset_id", DatasetIdText, primary_key=True),
    Column("sequence_number", BigInteger, nullable=False),
    Column("head", HashText, nullable=False),
    Column("log", HashText, nullable=False),
    Column("signer", LargeBinary, nullable=False),
    Column("signed_at", InstantNanos, nullable=False),
    Column("seen_at", InstantNanos, nullable=False),
    Column("place", Text, nullable=False),
    Column("line", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)
