"""Derivative datasets of a repository, and what each is computed from.

Invariant: only datasets that the reader of the repository may read are met.
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.errors import NotFound
from odfabric.formats.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import DatasetKind
from odfabric.usecases.repository import Repository

PAGE_ENTRIES = 1000


def derivatives(repository: Repository) -> Iterator[CatalogEntry]:
    """All of them, in order of names."""
    after: DatasetAlias | None = None
    while page := repository.catalog.page(kind=DatasetKind.DERIVATIVE, after=after, limit=PAGE_ENTRIES):
        yield from page
        after = page[-1].alias


def inputs_at(entry: CatalogEntry, head: Head, repository: Repository) -> tuple[DatasetId, ...]:
    """The inputs that the transform in force at `head` names by identity, each once; none of a dataset that was deleted meanwhile."""
    try:
        state = repository.state(entry.id, head.hash)
    except NotFound:
        return ()
    declared = state.transform.event.inputs if state.transform else ()
    refs = (parse_dataset_ref(each.dataset_ref) for each in declared)
    return tuple(dict.fromkeys(ref for ref in refs if isinstance(ref, DatasetId)))
