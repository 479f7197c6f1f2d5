"""The net state of a dataset at a block, by reading its whole changelog.

Invariant: the rows, their columns and their order are a function of the chain up to the block alone, so any process that is asked again
gives the same. Not here: a state under the schema of today, by the index where there is one
(`usecases.state.read_state`). Source: docs/engine.md#when-rows-are-equal; ADR 0015.
"""

from __future__ import annotations

import threading

import pyarrow as pa

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state_index import not_addable, row_columns
from odfabric.errors import InvalidRequest
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import in_order, repeated
from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.replay import changes_of, net_rows, slices_up

STATES_KEPT_MAX = 2
"""Net states that a process keeps, so that a baseline which is read in portions is added up once."""


class NetStates:
    """Net states by dataset and block."""

    def __init__(self, *, repository: Repository, exchange: Exchange, rows_max: int, blocks_max: int) -> None:
        self._repository = repository
        self._exchange = exchange
        self._rows_max = rows_max
        self._blocks_max = blocks_max
        self._lock = threading.Lock()
        self._kept: dict[tuple[DatasetId, Multihash], pa.Table] = {}

    def rows_at(self, dataset: DatasetId, block: Multihash) -> pa.Table:
        """All rows after `block`, without offset, op and system time, in a stable order.

        Raises InvalidRequest if rows of this schema cannot be added up, LimitExceeded, Corrupt, NotFound.
        """
        key = (dataset, block)
        with self._lock:
            if key in self._kept:
                return self._kept[key]
            rows = self._add_up(dataset, block)
            while len(self._kept) >= STATES_KEPT_MAX:
                self._kept.pop(next(iter(self._kept)))
            self._kept[key] = rows
            return rows

    def _add_up(self, dataset: DatasetId, block: Multihash) -> pa.Table:
        state = self._repository.state(dataset, block)
        schema = current_schema(state)
        if schema is None:
            return pa.table({})
        columns = row_columns(state, schema)
        refused = not_addable(columns)
        if refused is not None:
            raise InvalidRequest(
                f"rows with the column `{refused.name}` cannot be added up to a baseline",
                hint="make the cursor from `start`, and read all changes",
            )
        arrow = data_schema_to_arrow(DataSchema(fields=columns), encodings=False)
        slices = slices_up(dataset, block, after=None, repository=self._repository, blocks_max=self._blocks_max)
        changes = changes_of(
            dataset, slices, arrow, state.vocabulary, repository=self._repository, exchange=self._exchange
        )
        rows, counts = net_rows([], changes, arrow, rows_max=self._rows_max)
        return in_order(repeated(rows, counts), ())
