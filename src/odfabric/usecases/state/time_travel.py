"""The rows of a dataset at a block.

Invariant: every way to the rows gives the same ones. The state at a block is the nearest state that the index keeps with the records
between the two added or taken back, or the sum of all records before it, whichever reads fewer records. Not here: event times
(`held_rows`). Source: docs/reference/time.md; ADR 0015; ADR 0071.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import NoIndex, index_definition, row_columns
from odfabric.errors import Corrupt, External, LimitExceeded, NotFound
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import Changes, in_order, repeated
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.state_index import IndexDefinition, IndexFrontier, IndexMode
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.index_state import usable_frontier
from odfabric.usecases.state.replay import applied, changes_of, net_rows, slices_up

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TravelPorts:
    """What reading rows in time works with. `rows_max` bounds the rows that are left."""

    repository: Repository
    exchange: Exchange
    index: StateIndex | None
    rows_max: int
    blocks_max: int


@dataclass(frozen=True, slots=True)
class _Way:
    """A state to begin with, and the slices between it and the block, oldest first.

    `back` if the block is before the state.
    """

    base: Sequence[pa.Table]
    slices: Sequence[DataSlice]
    back: bool = False


def rows_known(entry: CatalogEntry, block: BlockRow, schema: DataSchema, *, ports: TravelPorts) -> tuple[pa.Table, str]:
    """Net rows after a block in order of key, and whether by `index` or `chain`.

    `schema` has the columns of rows at the block.
    """
    known, keys, source = rows_unordered(entry, block, schema, ports=ports)
    return in_order(known, [key for key in keys if key in known.column_names]), source


def rows_unordered(
    entry: CatalogEntry, block: BlockRow, schema: DataSchema, *, ports: TravelPorts
) -> tuple[pa.Table, tuple[str, ...], str]:
    """As `rows_known` in no order, with the keys."""
    _, present = ports.repository.current(entry.id)
    definition = index_definition(present)
    keys = definition.keys if isinstance(definition, IndexDefinition) else ()
    way = _way_from_index(definition, block, ports)
    if way is not None:
        return _indexed(entry, way, keys, present, schema, ports), keys, "index"
    columns = _columns_of_today(present)
    changes = _changes(entry, slices_until(entry, block.hash, ports), columns, present, ports)
    rows, counts = net_rows((), changes, columns, rows_max=ports.rows_max)
    return _as_wanted(repeated(rows, counts), schema), keys, "chain"


def rows_indexed(
    entry: CatalogEntry,
    block: BlockRow,
    schema: DataSchema,
    keys: Sequence[str],
    *,
    ports: TravelPorts,
    first: int | None = None,
) -> pa.Table | None:
    """As `rows_unordered` from the index of the rows of `keys`.

    `first`: any so many rows suffice, where the index has the state at the block. The same question is answered with the same ones.

    None if there is none, if it cannot help, or if reading all records is less work. Raises LimitExceeded, Corrupt.
    """
    _, present = ports.repository.current(entry.id)
    definition = index_definition(present)
    if not isinstance(definition, IndexDefinition) or definition.keys != tuple(keys):
        return None
    way = _way_from_index(definition, block, ports, first)
    return None if way is None else _indexed(entry, way, definition.keys, present, schema, ports)


def _indexed(
    entry: CatalogEntry,
    way: _Way,
    keys: tuple[str, ...],
    present: ChainState,
    schema: DataSchema,
    ports: TravelPorts,
) -> pa.Table:
    columns = _columns_of_today(present)
    changes = _changes(entry, way.slices, columns, present, ports)
    changes = _taken_back(changes) if way.back else changes
    rows, counts = applied(way.base, changes, columns, keys, rows_max=ports.rows_max)
    return _as_wanted(repeated(rows, counts), schema)


def _columns_of_today(present: ChainState) -> pa.Schema:
    """The columns of the index.

    A block has the same or fewer, and of the others only nulls.
    """
    columns = row_columns(present, current_schema(present) or DataSchema(fields=()))
    return data_schema_to_arrow(DataSchema(fields=columns), encodings=False)


def _changes(
    entry: CatalogEntry, slices: Iterable[DataSlice], columns: pa.Schema, present: ChainState, ports: TravelPorts
) -> Iterator[Changes]:
    return changes_of(
        entry.id, slices, columns, present.vocabulary, repository=ports.repository, exchange=ports.exchange
    )


def _as_wanted(rows: pa.Table, schema: DataSchema) -> pa.Table:
    wanted = data_schema_to_arrow(schema, encodings=False)
    return rows.select(wanted.names).cast(wanted)


def slices_until(entry: CatalogEntry, block: Multihash, ports: TravelPorts) -> Sequence[DataSlice]:
    """All slices up to a block, oldest first. Raises as `slices_up`."""
    return slices_up(entry.id, block, after=None, repository=ports.repository, blocks_max=ports.blocks_max)


def _taken_back(changes: Iterable[Changes]) -> Iterator[Changes]:
    """What undoes changes: every record holds the whole row that it added or withdrew."""
    for one in changes:
        yield Changes(one.rows, pc.negate(one.diffs), one.offsets)


def _way_from_index(
    definition: IndexDefinition | NoIndex, block: BlockRow, ports: TravelPorts, first: int | None = None
) -> _Way | None:
    """The way from a state of the index.

    None if the index cannot help, or reading all records is less work.
    """
    index = ports.index
    if not isinstance(definition, IndexDefinition) or definition.mode is not IndexMode.STATE or index is None:
        return None
    try:
        frontier = usable_frontier(definition, repository=ports.repository, index=index)
        if frontier is None or (frontier.violation is not None and block.sequence_number >= frontier.upper):
            return None
        if block.sequence_number < frontier.since:
            return _back_from(definition, block, frontier, index, ports)
        if first is not None and block.sequence_number < frontier.upper:
            return _Way(list(_first(index.rows_at(definition, block.sequence_number), first)), ())
        number = min(block.sequence_number, frontier.upper - 1)
        base = list(_few(index.rows_at(definition, number), ports.rows_max))
    except (Corrupt, External, NotFound) as error:
        _log.info("the index of %s does not tell a state: %s", definition.dataset, error)
        return None
    if block.sequence_number < frontier.upper:
        return _Way(base, ())
    return _Way(base, _between(definition, block.hash, frontier.block_hash, ports))


def _back_from(
    definition: IndexDefinition, block: BlockRow, frontier: IndexFrontier, index: StateIndex, ports: TravelPorts
) -> _Way | None:
    """The way back from the oldest state that the index keeps.

    None if that reads more records than there are before the block.
    """
    if frontier.since - block.sequence_number > block.sequence_number:
        return None  # not worth finding out: most of the chain is after the block
    oldest = next(ports.repository.chains.rows_down(definition.dataset, from_sequence=frontier.since), None)
    if oldest is None or oldest.sequence_number != frontier.since:
        return None
    slices = _between(definition, oldest.hash, block.hash, ports)
    if slices:
        before = slices[0].offset_interval.start
        taken_back = slices[-1].offset_interval.end + 1 - before
        if taken_back + frontier.rows > before:
            return None
    return _Way(list(_few(index.rows_at(definition, frontier.since), ports.rows_max)), slices, back=True)


def _between(
    definition: IndexDefinition, head: Multihash, after: Multihash | None, ports: TravelPorts
) -> Sequence[DataSlice]:
    return slices_up(definition.dataset, head, after=after, repository=ports.repository, blocks_max=ports.blocks_max)


def _first(tables: Iterator[pa.Table], count: int) -> Iterator[pa.Table]:
    """So many rows; tables after them are not made."""
    for rows in tables:
        yield rows.slice(0, count)
        count -= rows.num_rows
        if count <= 0:
            return


def _few(tables: Iterable[pa.Table], rows_max: int) -> Iterator[pa.Table]:
    """The tables, while their rows are few enough to be sorted for an answer."""
    count = 0
    for rows in tables:
        count += rows.num_rows
        if count > rows_max:
            raise LimitExceeded(f"the state has more than {rows_max} rows", limit="state_rows_max", maximum=rows_max)
        yield rows
