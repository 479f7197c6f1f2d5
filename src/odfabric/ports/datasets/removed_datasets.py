"""Deleted datasets whose objects are still there.

Marked by `ChainWriter.remove`, in the transaction that deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant


class RemovedDatasets(Protocol):
    """The marks.

    A dataset that is created again has none. Raises Determinate or Indeterminate for outside failures.
    """

    def removed_at(self, dataset: DatasetId) -> Instant | None:
        """When the dataset was deleted, or None if it was not or nothing of it is left."""

    def removed_before(self, time: Instant, *, limit: int) -> Sequence[DatasetId]:
        """At most `limit` datasets that were deleted before `time`, longest ago first."""

    def forget(self, dataset: DatasetId) -> None:
        """Take the mark off: nothing of the dataset is left. No mark is success."""
