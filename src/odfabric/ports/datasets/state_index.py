"""Current-state indexes: derived from chains, rebuilt at will, never waited for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from odfabric.model.identity import DatasetId
from odfabric.model.state_index import IndexDefinition, IndexedSlice, IndexFrontier


class StateIndex(Protocol):
    """Indexes by definition.

    Any number of processes may work on one at once and see the same.

    The content of an index up to a block is fixed by the chain, so anyone who brings it there first has done it for all. Raises Corrupt
    if something that an index wrote, or a slice that it refers to, is damaged or gone; Determinate or Indeterminate.

    A definition of the same epoch with further columns gives them to the index: they are null in what it has. One that lacks columns
    that the index has is older than somebody else's: Determinate.
    """

    def frontier(self, index: IndexDefinition) -> IndexFrontier | None:
        """How far it is, None if there is none. Makes nothing."""

    def extend(self, index: IndexDefinition, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        """Take in the next data blocks, oldest first.

        What others took in meanwhile is passed over. The new frontier.

        Those that are not in yet continue it without a gap. If they do not, it was dropped since somebody looked how far it is:
        Determinate, and nothing is taken in. An index of net rows judges every change: before the first one that is not well-formed
        it stops for good, and says so by `violation`.
        """

    def maintain(self, index: IndexDefinition, *, since: int) -> IndexFrontier | None:
        """Give states before block number `since` up, and make reading cheap again.

        `since` never goes back.

        None if there is no index (any more): it makes none.
        """

    def rows_at(self, index: IndexDefinition, sequence_number: int) -> Iterator[pa.Table]:
        """The net rows (or keys) after this block, each once, in no order.

        They are those of all data blocks up to it, so it must be before `upper` and not before `since`; else NotFound.
        """

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None = None) -> int:
        """Give up all indexes of a dataset (but one), whatever their definition and state.

        How many. What reads them finds none.
        """
