"""The writer of head logs and what publishes them, together: what a commit needs."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.catalog import Catalog
from odfabric.usecases.heads.head_writer import HeadWriter
from odfabric.usecases.heads.publish_log import LogPublisher


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSigning:
    """Signs moves and publishes the log."""

    writer: HeadWriter
    publisher: LogPublisher
    catalog: Catalog

    def follow(self, dataset: DatasetId) -> None:
        """Bring the log to the head of record, and publish it.

        Raises Determinate, Indeterminate.
        """
        self.writer.catch_up(dataset)
        entry = self.catalog.by_id(dataset)
        if entry is not None:
            self.publisher.publish(entry)
