"""Tables of remote repositories and aliases."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from odfabric.adapters.sql.column_types import AccountIdText, DatasetIdText, InstantNanos, folded_text
from odfabric.adapters.sql.tables.schema import NAME_CHARACTERS_MAX, metadata

ALIAS_ID_CHARACTERS_MAX = 64
REPOSITORY_ID_CHARACTERS_MAX = 320

repositories = Table(
    "repositories",
    metadata,
    # Account, empty for the node, and folded name in one text: names are unique in each.
    Column("id", folded_text(REPOSITORY_ID_CHARACTERS_MAX), primary_key=True),
    Column("account_id", AccountIdText, ForeignKey("accounts.id", ondelete="CASCADE")),
    Column("name", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("url", Text, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
)

remote_aliases = Table(
    "remote_aliases",
    metadata,
    # Digest of dataset, kind and target: a target may be longer than an index takes.
    Column("id", folded_text(ALIAS_ID_CHARACTERS_MAX), primary_key=True),
    Column("dataset_id", DatasetIdText, ForeignKey("datasets.id", ondelete="CASCADE"), nullable=False, index=True),
    Column("kind", String(16), nullable=False),
    Column("target", Text, nullable=False),
)
