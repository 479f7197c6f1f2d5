"""Marks of deleted datasets in SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.datasets import removed_datasets
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


class SqlRemovedDatasets:
    """A RemovedDatasets."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def removed_at(self, dataset: DatasetId) -> Instant | None:
        """See the port."""
        wanted = select(removed_datasets.c.removed_at).where(removed_datasets.c.dataset_id == dataset)
        with self._database.read() as connection:
            return connection.execute(wanted).scalar_one_or_none()

    def removed_before(self, time: Instant, *, limit: int) -> Sequence[DatasetId]:
        """See the port."""
        marks = removed_datasets.c
        wanted = select(marks.dataset_id).where(marks.removed_at < time).order_by(marks.removed_at, marks.dataset_id)
        with self._database.read() as connection:
            return list(connection.execute(wanted.limit(limit)).scalars())

    def forget(self, dataset: DatasetId) -> None:
        """See the port."""
        with self._database.write() as connection:
            unmark_removed(connection, dataset)


def mark_removed(connection: Connection, dataset: DatasetId, at: Instant) -> None:
    """Mark a dataset in the transaction that deletes it."""
    insert_new(connection, removed_datasets, {"dataset_id": dataset, "removed_at": at})


def unmark_removed(connection: Connection, dataset: DatasetId) -> None:
    """Take the mark off."""
    connection.execute(delete(removed_datasets).where(removed_datasets.c.dataset_id == dataset))
