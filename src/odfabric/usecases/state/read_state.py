"""Read the net rows as of a block or time.

From the index when it can tell them, else from the chain.

Invariant: both ways give the same rows in the same order. Rows have all columns but offset, op and system time, under the schema that is
in force now; what an ill-formed changelog owes is left out. Not here: SQL over it (`query_data`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import index_definition, not_addable, row_columns
from odfabric.errors import Corrupt, External, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.json_values.json_rows import parse_data_format, rows_document
from odfabric.formats.manifests.schema_rendering import parse_schema_format, render_schema
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import in_order, repeated
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.instant import Instant
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.state_index import IndexDefinition, IndexMode
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.index_state import usable_frontier
from odfabric.usecases.state.replay import changes_of, net_rows, slices_up

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Which state and which of its rows.

    After a block, or the last block at or before a time, by default after the head.
    """

    as_of_block: Multihash | None = None
    as_at: Instant | None = None
    skip: int = 0
    limit: int
    data_format: str = "JsonAoS"
    schema_format: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatePorts:
    """What reading a state works with.

    `rows_max` bounds one answer, `state_rows_max` the state that is sorted for it.
    """

    repository: Repository
    exchange: Exchange
    index: StateIndex | None
    rows_max: int
    state_rows_max: int
    blocks_max: int


def read_state(entry: CatalogEntry, asked: ReadState, *, ports: StatePorts) -> dict[str, object]:
    """The state's rows in order of key, and its block.

    `{block, sequenceNumber, systemTime, source, rows, data, dataFormat, nonFiniteColumns?, schema?, schemaFormat?}`.

    Raises InvalidRequest, NotFound for a block that is not there or a time before the first, LimitExceeded, Corrupt.
    """
    data_format = parse_data_format(asked.data_format)
    schema_format = None if asked.schema_format is None else parse_schema_format(asked.schema_format)
    _check(asked, ports)
    _, state = ports.repository.current(entry.id)
    block = _block(entry, asked, state, ports)
    columns = row_columns(state, current_schema(state) or DataSchema(fields=()))
    refused = not_addable(columns)
    if refused is not None:
        raise InvalidRequest(
            f"column `{refused.name}` is of a type of which rows cannot be added up", hint="query the changelog instead"
        )
    schema = DataSchema(fields=columns)
    rows, source = _rows(entry, state, block, data_schema_to_arrow(schema, encodings=False), ports)
    skip = min(asked.skip, rows.num_rows)
    # A table without columns would believe any length.
    shown = rows.slice(skip, min(asked.limit, rows.num_rows - skip))
    answer: dict[str, object] = {
        "block": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.system_time),
        "source": source,
        "rows": rows.num_rows,
        **rows_document(shown, data_format),
    }
    if schema_format is not None:
        answer |= {"schema": render_schema(schema, schema_format), "schemaFormat": schema_format.value}
    return answer


def _check(asked: ReadState, ports: StatePorts) -> None:
    if asked.as_of_block is not None and asked.as_at is not None:
        raise InvalidRequest("a state is as of a block or as at a time, not both", place=Place(field="asAt"))
    if asked.skip < 0 or asked.limit < 0:
        raise InvalidRequest("skip and limit must not be negative", place=Place(field="skip"))
    if asked.limit > ports.rows_max:
        raise LimitExceeded("too many rows", limit="tail_rows_max", maximum=ports.rows_max)


def _block(entry: CatalogEntry, asked: ReadState, state: ChainState, ports: StatePorts) -> BlockRow:
    chains = ports.repository.chains
    wanted = asked.as_of_block if asked.as_of_block is not None else state.head
    assert wanted is not None
    found = chains.row(entry.id, wanted)
    if found is None:
        raise NotFound("block", str(wanted), hint=f"it is not in the chain of {entry.alias}")
    return found if asked.as_at is None else _block_at(entry, asked.as_at, found, ports)


def _block_at(entry: CatalogEntry, moment: Instant, head: BlockRow, ports: StatePorts) -> BlockRow:
    """The last block at or before a moment: system times never decrease along a chain."""
    low, high, found = 0, head.sequence_number, None
    while low <= high:
        middle = (low + high) // 2
        row = next(iter(ports.repository.chains.rows_down(entry.id, from_sequence=middle)), None)
        if row is None:
            raise NotFound("dataset", str(entry.alias))
        if row.system_time <= moment:
            low, found = middle + 1, row
        else:
            high = middle - 1
    if found is None:
        raise NotFound("state", f"at {moment}", hint=f"{entry.alias} came later")
    return found


def _rows(
    entry: CatalogEntry, state: ChainState, block: BlockRow, columns: pa.Schema, ports: StatePorts
) -> tuple[pa.Table, str]:
    definition = index_definition(state)
    base: Sequence[pa.Table] | None = None
    keys: tuple[str, ...] = ()
    after: Multihash | None = None
    if isinstance(definition, IndexDefinition):
        keys = definition.keys
        if definition.mode is IndexMode.STATE and ports.index is not None:
            base, after = _from_index(definition, block, ports.index, ports)
    slices: Iterable[DataSlice] = ()
    if base is None or after is not None:
        slices = slices_up(entry.id, block.hash, after=after, repository=ports.repository, blocks_max=ports.blocks_max)
    changes = changes_of(
        entry.id, slices, columns, state.vocabulary, repository=ports.repository, exchange=ports.exchange
    )
    rows, counts = net_rows(base or (), changes, columns, rows_max=ports.state_rows_max)
    return in_order(repeated(rows, counts), keys), "chain" if base is None else "index"


def _few(tables: Iterable[pa.Table], rows_max: int) -> Iterator[pa.Table]:
    """The tables, while their rows are few enough to be sorted for an answer."""
    count = 0
    for rows in tables:
        count += rows.num_rows
        if count > rows_max:
            raise LimitExceeded(f"the state has more than {rows_max} rows", limit="state_rows_max", maximum=rows_max)
        yield rows


def _from_index(
    definition: IndexDefinition, block: BlockRow, index: StateIndex, ports: StatePorts
) -> tuple[Sequence[pa.Table] | None, Multihash | None]:
    """Rows of the index, and the block after which slices are missing.

    None: none are missing; no rows if it cannot tell.
    """
    try:
        frontier = usable_frontier(definition, repository=ports.repository, index=index)
        if frontier is None or (frontier.violation is not None and block.sequence_number >= frontier.upper):
            return None, None
        number = min(block.sequence_number, frontier.upper - 1)
        rows = list(_few(index.rows_at(definition, number), ports.state_rows_max))
    except (Corrupt, External, NotFound) as error:
        _log.info("the index of %s does not tell a state: %s", definition.dataset, error)
        return None, None
    return rows, frontier.block_hash if block.sequence_number >= frontier.upper else None
