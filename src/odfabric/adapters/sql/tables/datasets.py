"""Tables of datasets, their blocks, and what is found of them."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table, Text, UniqueConstraint

from odfabric.adapters.sql.column_types import (
    DatasetIdText,
    HashText,
    InstantNanos,
    InstantText,
    RowNumber,
    WordsText,
    folded_text,
)
from odfabric.adapters.sql.tables.schema import KEYWORD_CHARACTERS_MAX, NAME_CHARACTERS_MAX, metadata, of_dataset

datasets = Table(
    "datasets",
    metadata,
    Column("id", DatasetIdText, primary_key=True),
    Column("account", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("name", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("account_folded", folded_text(NAME_CHARACTERS_MAX), nullable=False),
    Column("name_folded", folded_text(NAME_CHARACTERS_MAX), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("created_at", InstantText, nullable=False),
    Column("sealed_key", LargeBinary),
    Column("remote_url", Text),
    UniqueConstraint("account_folded", "name_folded"),
)

heads = Table(
    "heads",
    metadata,
    of_dataset(primary_key=True),
    Column("hash", HashText, nullable=False),
    Column("sequence_number", BigInteger, nullable=False),
    Column("system_time", InstantText, nullable=False),
    Column("stored_bytes", BigInteger),
    sqlite_with_rowid=False,
)

# A projection of the chain at `head`, see `domain.people.dataset_search`; each list of words has those before it.
search_documents = Table(
    "search_documents",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    of_dataset(unique=True),
    Column("head", HashText, nullable=False),
    Column("version", Integer, nullable=False),
    Column("license", Text),
    Column("rows", BigInteger, nullable=False),
    # Last, for they are long: SQLite reads a row from its beginning.
    Column("name_words", WordsText, nullable=False),
    Column("about_words", WordsText, nullable=False),
    Column("words", WordsText, nullable=False),
    sqlite_autoincrement=True,
)
Index("search_documents_words_idx", search_documents.c.words, postgresql_using="gin").ddl_if(dialect="postgresql")

search_keywords = Table(
    "search_keywords",
    metadata,
    Column("keyword", folded_text(KEYWORD_CHARACTERS_MAX), primary_key=True),
    of_dataset(primary_key=True),
    Index(None, "dataset_id"),
    sqlite_with_rowid=False,
)

search_inputs = Table(
    "search_inputs",
    metadata,
    Column("input_id", DatasetIdText, primary_key=True),
    of_dataset(primary_key=True),
    Index(None, "dataset_id"),
    sqlite_with_rowid=False,
)

blocks = Table(
    "blocks",
    metadata,
    of_dataset(primary_key=True),
    Column("sequence_number", BigInteger, primary_key=True),
    Column("hash", HashText, nullable=False),
    Column("prev", HashText),
    Column("system_time", InstantText, nullable=False),
    Column("event_type", String(64), nullable=False),
    UniqueConstraint("dataset_id", "hash"),
    sqlite_with_rowid=False,
)

idempotency = Table(
    "idempotency",
    metadata,
    of_dataset(primary_key=True),
    Column("key_hash", LargeBinary, primary_key=True),
    Column("body_digest", LargeBinary, nullable=False),
    Column("block_hash", HashText, nullable=False),
    sqlite_with_rowid=False,
)

# Outlives the dataset: its objects are still to be collected.
removed_datasets = Table(
    "removed_datasets",
    metadata,
    Column("dataset_id", DatasetIdText, primary_key=True),
    Column("removed_at", InstantNanos, nullable=False),
    sqlite_with_rowid=False,
)
