"""Derivative datasets of a repository, and what each is computed from.

Invariant: only datasets that the reader of the repository may read are met.
"""

from __future__ import annotations

from collections.abc import Iterator

from odfabric.domain.chain.state import ChainState, last_input_offset_of
from odfabric.domain.people.dataset_search import Narrowing
from odfabric.errors import NotFound
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.usecases.chain.repository import Repository

PAGE_ENTRIES = 1000


def possible_readers(dataset: DatasetId, repository: Repository) -> Iterator[CatalogEntry]:
    """Derivatives that may have it for an input, in order of names.

    None is missing, and `inputs_at` says which do.
    """
    narrowed = Narrowing(may_read=dataset)
    after: DatasetAlias | None = None
    while page := repository.catalog.page(narrowed, after=after, limit=PAGE_ENTRIES):
        yield from page
        after = page[-1].alias


def inputs_at(entry: CatalogEntry, head: Head, repository: Repository) -> tuple[DatasetId, ...]:
    """The inputs that the transform in force at `head` names by identity, each once.

    None of a dataset that was deleted meanwhile.
    """
    try:
        state = repository.state(entry.id, head.hash)
    except NotFound:
        return ()
    return inputs_of_state(state)


def inputs_of_state(state: ChainState) -> tuple[DatasetId, ...]:
    """The inputs that the transform in force names by identity, each once."""
    declared = state.transform.event.inputs if state.transform else ()
    refs = (parse_dataset_ref(each.dataset_ref) for each in declared)
    return tuple(dict.fromkeys(ref for ref in refs if isinstance(ref, DatasetId)))


def records_read(source: DatasetId, state: ChainState) -> int:
    """How many records of an input the runs of a derivative dataset have read so far."""
    runs = state.execute_transform.event.query_inputs if state.execute_transform else ()
    progress = next((each for each in runs if each.dataset_id == source), None)
    last = None if progress is None else last_input_offset_of(progress)
    return 0 if last is None else last + 1
