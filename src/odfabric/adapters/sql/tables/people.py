"""Tables of accounts, their rights and credentials, and of the audit log."""

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
    text,
)

from odfabric.adapters.sql.column_types import (
    ACCOUNT_ID_CHARACTERS_MAX,
    AccountIdText,
    DatasetIdsText,
    DatasetIdText,
    InstantNanos,
    RowNumber,
    ScopesText,
    folded_text,
)
from odfabric.adapters.sql.tables.schema import (
    ID_CHARACTERS_MAX,
    NAME_CHARACTERS_MAX,
    OBJECT_CHARACTERS_MAX,
    metadata,
    of_account,
)

accounts = Table(
    "accounts",
    metadata,
    Column("id", AccountIdText, primary_key=True),
    Column("name", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("name_folded", folded_text(NAME_CHARACTERS_MAX), nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("display_name", Text, nullable=False),
    Column("email", Text),
    Column("is_admin", Boolean, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("suspended_at", InstantNanos),
    Column("version", BigInteger, nullable=False),
    Column("password_hash", Text),
    Column("limits", Text, nullable=False),
)

# Who an account is to providers of OpenID Connect.
identities = Table(
    "identities",
    metadata,
    Column("issuer", folded_text(512), primary_key=True),
    Column("subject", folded_text(256), primary_key=True),
    of_account(),
    Index(None, "account_id"),
    sqlite_with_rowid=False,
)

# Memberships, of which the object is `account:<did>`, and grants, `dataset:<multibase>`. The subject is a DID, or `*` for everybody.
relations = Table(
    "relations",
    metadata,
    Column("object", folded_text(OBJECT_CHARACTERS_MAX), primary_key=True),
    Column("subject", folded_text(ACCOUNT_ID_CHARACTERS_MAX), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("version", BigInteger, nullable=False),
    Index(None, "subject", "object"),
    sqlite_with_rowid=False,
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", folded_text(ID_CHARACTERS_MAX), primary_key=True),
    of_account(),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("scopes", ScopesText, nullable=False),
    Column("datasets", DatasetIdsText),
    Column("created_at", InstantNanos, nullable=False),
    Column("created_by", AccountIdText, nullable=False),
    Column("expires_at", InstantNanos),
    Column("last_used_at", InstantNanos),
    Column("revoked_at", InstantNanos),
    Index(None, "account_id", "id"),
    Index(None, "expires_at"),
    Index(None, "revoked_at"),
)

saved_queries = Table(
    "saved_queries",
    metadata,
    Column("id", folded_text(ID_CHARACTERS_MAX), primary_key=True),
    of_account(),
    Column("name", Text, nullable=False),
    Column("sql", Text, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("changed_at", InstantNanos, nullable=False),
    UniqueConstraint("account_id", "name"),
)

invitations = Table(
    "invitations",
    metadata,
    Column("id", folded_text(ID_CHARACTERS_MAX), primary_key=True),
    Column("code_hash", LargeBinary, nullable=False, unique=True),
    Column("created_at", InstantNanos, nullable=False),
    Column("created_by", AccountIdText),
    Column("expires_at", InstantNanos, nullable=False),
    of_account(nullable=True),
    Column("name", String(NAME_CHARACTERS_MAX)),
    Column("email", Text),
    Column("is_admin", Boolean, nullable=False),
    Column("used_at", InstantNanos),
    Index(None, "account_id"),
)

device_authorisations = Table(
    "device_authorisations",
    metadata,
    Column("device_code_hash", LargeBinary, primary_key=True),
    Column("user_code", String(32), nullable=False, unique=True),
    Column("client", Text, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("expires_at", InstantNanos, nullable=False),
    Column("interval_s", Integer, nullable=False),
    Column("scopes", ScopesText, nullable=False),
    Column("decision", String(16), nullable=False),
    of_account(nullable=True),
    Column("asked_at", InstantNanos),
    Index(None, "account_id"),
)

# Refers to nothing: entries outlive what they tell of. `refusal_key` is there as long as the refusal is counted.
audit_log = Table(
    "audit_log",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("at", InstantNanos, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("actor_account", String(ACCOUNT_ID_CHARACTERS_MAX)),
    Column("actor_name", Text),
    Column("actor_token", Text),
    Column("actor_address", Text),
    Column("target", Text),
    Column("dataset_id", DatasetIdText),
    Column("outcome", String(16), nullable=False),
    Column("detail", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("last_at", InstantNanos, nullable=False),
    Column("refusal_key", LargeBinary),
    Column("is_flushed", Boolean, nullable=False),
    Index(None, "actor_account", "position"),
    Index(None, "kind", "position"),
    Index(None, "at"),
    # Texts of strangers may be longer than an ordered index takes.
    Index(None, "target", postgresql_using="hash"),
    sqlite_autoincrement=True,
)
NOT_FLUSHED = text("is_flushed IS FALSE")
COUNTED = text("refusal_key IS NOT NULL")
Index("audit_log_not_flushed_idx", audit_log.c.position, sqlite_where=NOT_FLUSHED, postgresql_where=NOT_FLUSHED)
Index(
    "audit_log_refusal_key_idx",
    audit_log.c.refusal_key,
    unique=True,
    sqlite_where=COUNTED,
    postgresql_where=COUNTED,
)
