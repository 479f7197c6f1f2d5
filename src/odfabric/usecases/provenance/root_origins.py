"""Where in their files or pushes records of roots were, block by block.

Not here: what can be known of a place (`domain.provenance.place_in_source`).
"""

from __future__ import annotations

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.provenance.place_in_source import PlaceInSource, Source, place_in_source
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.operation import OperationType
from odfabric.usecases.chain.moments import state_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles


class RootOrigins:
    """Answers of one trace; each block is looked at once."""

    def __init__(self, repository: Repository, files: SessionFiles) -> None:
        self._repository, self._files = repository, files
        self._known: dict[Multihash, tuple[Source | None, bool]] = {}

    def place(self, offset: int, op: OperationType, dataset: DatasetId, link: ChainLink) -> PlaceInSource | None:
        """The place of a record; None for a block that is not of a source.

        Raises Corrupt.
        """
        event = link.block.event
        if not isinstance(event, AddData) or event.new_data is None:
            return None
        if link.hash not in self._known:
            self._known[link.hash] = self._look(dataset, link.hash, event.new_data)
        source, one_event_time = self._known[link.hash]
        return place_in_source(offset, op, event, source, one_event_time=one_event_time)

    def _look(self, dataset: DatasetId, block: Multihash, data: DataSlice) -> tuple[Source | None, bool]:
        entry = self._repository.resolve(dataset)
        row = self._repository.chains.row(dataset, block)
        if row is None:
            return None, False
        state = state_at(entry, row, repository=self._repository)
        bounds = self._files.least_and_greatest(dataset, data, state.vocabulary.event_time)
        return _source(state), bounds is not None and bounds[0] == bounds[1]


def _source(state: ChainState) -> Source | None:
    """The source in force.

    None if there are several ways to read: a push without a key does not say by which source it came.
    """
    if state.polling_source is not None:
        return state.polling_source.event
    sources = [each.event for each in state.push_sources]
    ways = {(each.merge, each.preprocess) for each in sources}
    return sources[0] if len(ways) == 1 else None
