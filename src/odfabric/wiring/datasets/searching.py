"""What keeps search up to date, bound to a node's ports."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.search_documents import SearchDocuments
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.search_documents import catch_up, follow_dataset


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchVerbs:
    """The verbs on documents of search."""

    repository: Repository
    documents: SearchDocuments

    def follow(self, dataset: DatasetId) -> None:
        """A dataset has changed."""
        follow_dataset(dataset, repository=self.repository, documents=self.documents)

    def catch_up(self) -> int:
        """Derive what is missing or behind; how many datasets."""
        return catch_up(repository=self.repository, documents=self.documents)
