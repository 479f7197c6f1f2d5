"""What can be searched of datasets, as last derived from their chains.

The catalog finds by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.domain.people.dataset_search import SearchDocument
from odfabric.model.identity import DatasetId


class SearchDocuments(Protocol):
    """One document a dataset at most; it goes with the dataset.

    Raises Determinate or Indeterminate for outside failures.
    """

    def put(self, document: SearchDocument) -> bool:
        """Store or replace a document.

        False, with nothing stored, unless its head is the head of the dataset.
        """

    def behind(self, *, version: int, after: DatasetId | None = None, limit: int) -> Sequence[DatasetId]:
        """At most `limit` datasets whose document is missing or outdated.

        Without a document of their head and of at least this version, in order of ids, after `after`.
        """
