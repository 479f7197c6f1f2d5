"""The tables of the node.

Owns names, columns and constraints as the code uses them; `migrations` make the same shape, which a test compares. Invariants that the
database keeps: one head and one name per dataset, one block per number and per hash, one record per idempotency key, one commit per job,
one unfinished job per dedup key, one running job per dataset, gap-free numbers at most once per subscription, one flow of a kind per
dataset, one waiting and one running run per flow, one account per name, one role per account and object, one count per refusal.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    false,
    literal_column,
    text,
)

from odfabric.adapters.sql.column_types import (
    ACCOUNT_ID_CHARACTERS_MAX,
    AccountIdText,
    DatasetIdsText,
    DatasetIdText,
    EventTypesText,
    HashText,
    InstantNanos,
    InstantText,
    RowNumber,
    ScopesText,
    WordsText,
    folded_text,
)

SCHEMA_REVISION = "0018"
"""The newest migration that this code needs."""

NAME_CHARACTERS_MAX = 100
ID_CHARACTERS_MAX = 128
CONSUMER_CHARACTERS_MAX = 256
OBJECT_CHARACTERS_MAX = 160
KEYWORD_CHARACTERS_MAX = 100

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ix": "%(table_name)s_%(column_0_N_name)s_idx",
    }
)


def _consumer_text() -> String:
    return String(CONSUMER_CHARACTERS_MAX).with_variant(String(NAME_CHARACTERS_MAX), "sqlite")


def _of_dataset(*, primary_key: bool = False, unique: bool | None = None, nullable: bool = False) -> Column[object]:
    reference = ForeignKey("datasets.id", ondelete="CASCADE")
    return Column("dataset_id", DatasetIdText, reference, primary_key=primary_key, unique=unique, nullable=nullable)


def _of_account(*, nullable: bool = False) -> Column[object]:
    return Column("account_id", AccountIdText, ForeignKey("accounts.id", ondelete="CASCADE"), nullable=nullable)


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
    _of_dataset(primary_key=True),
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
    _of_dataset(unique=True),
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
    _of_dataset(primary_key=True),
    Index(None, "dataset_id"),
    sqlite_with_rowid=False,
)

search_inputs = Table(
    "search_inputs",
    metadata,
    Column("input_id", DatasetIdText, primary_key=True),
    _of_dataset(primary_key=True),
    Index(None, "dataset_id"),
    sqlite_with_rowid=False,
)

blocks = Table(
    "blocks",
    metadata,
    _of_dataset(primary_key=True),
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
    _of_dataset(primary_key=True),
    Column("key_hash", LargeBinary, primary_key=True),
    Column("body_digest", LargeBinary, nullable=False),
    Column("block_hash", HashText, nullable=False),
    sqlite_with_rowid=False,
)

# Marks of jobs outlive their dataset: a job that is run again must still learn that it has committed.
job_commits = Table(
    "job_commits",
    metadata,
    Column("job_id", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("dataset_id", DatasetIdText, nullable=False),
    Column("block_hash", HashText, nullable=False),
    sqlite_with_rowid=False,
)

# Before the dataset, if it is a new one. `document` is JSON: what the columns before it do not tell.
commit_intents = Table(
    "commit_intents",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("new_head", HashText, nullable=False, unique=True),
    Column("old_head", HashText),
    Column("dataset_id", DatasetIdText, nullable=False),
    Column("occurred_at", InstantText, nullable=False),
    Column("document", Text, nullable=False),
    sqlite_autoincrement=True,
)

# A job is about to commit once.
commit_intent_jobs = Table(
    "commit_intent_jobs",
    metadata,
    Column("job_id", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("new_head", HashText, nullable=False),
    Index(None, "new_head"),
    sqlite_with_rowid=False,
)

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

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("id", String(ID_CHARACTERS_MAX), nullable=False, unique=True),
    # None for those of a whole account, which is `scope_account`, and of the node.
    _of_dataset(nullable=True),
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

# Outlives the dataset: its objects are still to be collected.
removed_datasets = Table(
    "removed_datasets",
    metadata,
    Column("dataset_id", DatasetIdText, primary_key=True),
    Column("removed_at", InstantNanos, nullable=False),
    sqlite_with_rowid=False,
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

jobs = Table(
    "jobs",
    metadata,
    Column("position", RowNumber, primary_key=True, autoincrement=True),
    Column("id", String(ID_CHARACTERS_MAX), nullable=False, unique=True),
    Column("kind", String(32), nullable=False),
    Column("account", String(NAME_CHARACTERS_MAX), nullable=False),
    Column("dataset_id", DatasetIdText),
    Column("request", Text, nullable=False),
    Column("dedup_key", String(256)),
    Column("status", String(16), nullable=False),
    Column("progress", Text),
    Column("result", Text),
    Column("error", Text),
    Column("attempts", Integer, nullable=False),
    Column("due_at", InstantNanos, nullable=False),
    Column("leased_until", InstantNanos),
    Column("worker", String(ID_CHARACTERS_MAX)),
    Column("fence", BigInteger, nullable=False),
    Column("created_at", InstantNanos, nullable=False),
    Column("updated_at", InstantNanos, nullable=False),
    # The dataset that the job names without waiting in its queue.
    Column("about_id", DatasetIdText),
    sqlite_autoincrement=True,
)

# Small bodies of jobs, apart from the rows that are listed and polled; they go when their job has ended.
job_bodies = Table(
    "job_bodies",
    metadata,
    Column("job_id", String(ID_CHARACTERS_MAX), primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

_UNFINISHED = text("status IN ('queued', 'running')")
_RUNNING = text("status = 'running'")
Index(
    "jobs_unfinished_dedup_key_idx",
    jobs.c.dedup_key,
    unique=True,
    sqlite_where=_UNFINISHED,
    postgresql_where=_UNFINISHED,
)
Index("jobs_running_dataset_id_idx", jobs.c.dataset_id, unique=True, sqlite_where=_RUNNING, postgresql_where=_RUNNING)
Index(
    "jobs_unfinished_dataset_id_idx",
    jobs.c.dataset_id,
    jobs.c.position,
    sqlite_where=_UNFINISHED,
    postgresql_where=_UNFINISHED,
)
_ABOUT = text("about_id IS NOT NULL")
Index("jobs_about_id_idx", jobs.c.about_id, jobs.c.position, sqlite_where=_ABOUT, postgresql_where=_ABOUT)
Index("jobs_unfinished_idx", jobs.c.position, sqlite_where=_UNFINISHED, postgresql_where=_UNFINISHED)


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
    _of_account(),
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
    _of_account(),
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
    _of_account(),
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
    _of_account(nullable=True),
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
    _of_account(nullable=True),
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


def is_unfinished(status: ColumnElement[str]) -> ColumnElement[bool]:
    """The literal condition of the partial indexes: parameters would not match it."""
    return status.in_([literal_column("'queued'"), literal_column("'running'")])


flows = Table(
    "flows",
    metadata,
    Column("id", String(ID_CHARACTERS_MAX), primary_key=True),
    _of_dataset(),
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
