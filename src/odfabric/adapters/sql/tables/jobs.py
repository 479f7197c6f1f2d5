"""Tables of jobs, and of what they are about to commit or have committed."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    literal_column,
    text,
)

from odfabric.adapters.sql.column_types import DatasetIdText, HashText, InstantNanos, InstantText, RowNumber
from odfabric.adapters.sql.tables.schema import ID_CHARACTERS_MAX, NAME_CHARACTERS_MAX, metadata

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


def is_unfinished(status: ColumnElement[str]) -> ColumnElement[bool]:
    """The literal condition of the partial indexes: parameters would not match it."""
    return status.in_([literal_column("'queued'"), literal_column("'running'")])
