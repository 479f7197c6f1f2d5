"""Find the block that wrote a record.

Invariant: of a chain of n blocks about log2(n) are read, each checked against its hash.
"""

from __future__ import annotations

from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.provenance.trace import Place, RecordRef, place_of
from odfabric.errors import NotFound
from odfabric.model.commit import BlockRow
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.usecases.chain.repository import Repository

_DATA_EVENTS = frozenset({"AddData", "ExecuteTransform"})


def block_with(ref: RecordRef, repository: Repository) -> ChainLink:
    """The block of the current chain that holds the record.

    Raises NotFound for an offset that no block has.
    """
    dataset, blocks = ref.dataset, repository.blocks(ref.dataset)
    low, high = 0, repository.head(dataset).sequence_number
    while low <= high:
        middle = (low + high) // 2
        row = _data_row_down(ref, middle, repository)
        if row is None or row.sequence_number < low:
            low = middle + 1
            continue
        block = blocks.get(row.hash)
        assert isinstance(block.event, AddData | ExecuteTransform)
        match place_of(ref.offset, block.event):
            case Place.HERE:
                return ChainLink(row.hash, block)
            case Place.EARLIER:
                high = row.sequence_number - 1
            case Place.LATER:
                low = middle + 1
    _, state = repository.current(dataset)
    last = "it has no records yet" if state.last_offset is None else f"its offsets are 0 to {state.last_offset}"
    raise NotFound("record", f"{repository.resolve(dataset).alias} {ref.offset}", hint=last)


def _data_row_down(ref: RecordRef, sequence: int, repository: Repository) -> BlockRow | None:
    """The newest data block at a number or before it."""
    rows = repository.chains.rows_down(ref.dataset, from_sequence=sequence, event_types=_DATA_EVENTS)
    return next(iter(rows), None)
