"""Tables of subscriptions, their deliveries and cursors."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from odfabric.adapters.sql.column_types import (
    AccountIdText,
    DatasetIdText,
    EventTypesText,
    HashText,
    InstantNanos,
    InstantText,
    RowNumber,
)
from odfabric.adapters.sql.tables.schema import ID_CHARACTERS_MAX, NAME_CHARACTERS_MAX, metadata, of_dataset

CONSUMER_CHARACTERS_MAX = 256


def _consumer_text() -> String:
    return String(CONSUMER_CHARACTERS_MAX).with_variant(String(NAME_CHARACTERS_MAX), "sqlite")


subscriptions = Table(
    "subscriptions",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("id", String(ID_CHARACTERS_MAX), nullable=False, unique=True),
    # None for those of a whole account, which is `scope_account`, and of the node.
    of_dataset(nullable=True),
    Column("account", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", LargeBinary, nullable=False),
    Column("created_at", InstantText, nullable=False),
    Column("created_at_head", HashText),
    Column("after_message", BigInteger, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("state", String(16), nullable=False, server_default="active"),
    Column("state_reason", Text),
    Column("failing_since", InstantNanos),
    Column("old_secret", LargeBinary),
    Column("old_secret_until", InstantNanos),
    Column("receiver", Text, nullable=False, server_default=""),
    Column("slow", Boolean, nullable=False, server_default=false()),
    Column("proven", Boolean, nullable=False, server_default=false()),
    Column("format", String(16), nullable=False, server_default="cloudevents"),
    Column("scope_account", AccountIdText),
    Column("events", EventTypesText, nullable=False, server_default=" dataset.head-moved "),
    Column("only_with_data", Boolean, nullable=False, server_default=false()),
    Column("move_columns", Text),
    Column("with_rows", Boolean, nullable=False, server_default=false()),
    Index(None, "dataset_id", "position"),
    sqlite_autoincrement=True,
)

# The log of deliveries outlives its subscription.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("subscription_id", String(ID_CHARACTERS_MAX), nullable=False),
    Column("dataset_id", DatasetIdText, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("old_head", HashText),
    Column("new_head", HashText),
    Column("occurred_at", InstantText, nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", InstantNanos, nullable=False),
    Column("leased_until", InstantNanos),
    Column("worker", String(ID_CHARACTERS_MAX)),
    Column("last_status_code", Integer),
    Column("last_error", Text),
    Column("updated_at", InstantNanos, nullable=False),
    Column("event", Text),
    UniqueConstraint("subscription_id", "sequence"),
    Index(None, "subscription_id", "status", "sequence"),
)

# Goes with the subscription: answers of receivers are its owner's.
delivery_attempts = Table(
    "delivery_attempts",
    metadata,
    Column("id", RowNumber, primary_key=True, autoincrement=True),
    Column("subscription_id", String(ID_CHARACTERS_MAX), nullable=False),
    Column("delivery_id", String(ID_CHARACTERS_MAX), nullable=False),
    Column("number", Integer, nullable=False),
    Column("at", InstantNanos, nullable=False),
    Column("duration_ms", BigInteger, nullable=False),
    Column("status_code", Integer),
    Column("failure", String(16)),
    Column("error", Text),
    Column("request_headers", Text, nullable=False),
    Column("request_body", LargeBinary, nullable=False),
    Column("response", Text, nullable=False),
    Index(None, "subscription_id", "id"),
    Index(None, "delivery_id", "id"),
    sqlite_autoincrement=True,
)

# Outlives the dataset: a consumer is informed that what it read is another chain.
cursors = Table(
    "cursors",
    metadata,
    Column("dataset_id", DatasetIdText, primary_key=True),
    # With the account before the name; SQLite keeps texts of any length under the type that they had first.
    Column("consumer", _consumer_text(), primary_key=True),
    Column("mode", String(16), nullable=False),
    Column("next_sequence", BigInteger, nullable=False),
    Column("next_row", BigInteger, nullable=False),
    Column("epoch", HashText, nullable=False),
    Column("fence", String(64), nullable=False),
    Column("lease_until", InstantNanos, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("updated_at", InstantNanos, nullable=False),
    sqlite_with_rowid=False,
)
