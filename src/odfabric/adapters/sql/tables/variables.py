"""The table of variables of datasets."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, LargeBinary, Table, Text, UniqueConstraint

from odfabric.adapters.sql.column_types import DatasetIdText, InstantNanos, folded_text
from odfabric.adapters.sql.tables.schema import metadata

VARIABLE_ID_CHARACTERS_MAX = 256

variables = Table(
    "variables",
    metadata,
    # Dataset and name in one text, which names the row to a rotation of the node's key.
    Column("id", folded_text(VARIABLE_ID_CHARACTERS_MAX), primary_key=True),
    Column("dataset_id", DatasetIdText, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False),
    Column("name", Text, nullable=False),
    # Either of the two: what is sealed is a secret.
    Column("plain", Text),
    Column("sealed", LargeBinary),
    Column("changed_at", InstantNanos, nullable=False),
    UniqueConstraint("dataset_id", "name"),
)
