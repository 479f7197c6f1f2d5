"""Read the rows of a dataset as known at a moment and as held at a moment.

Invariant: whatever way the rows are found, they are the same in the same order. They have all columns but offset, op and system time,
under the schema of the block; what an ill-formed changelog owes is left out. Not here: how rows are found (`time_travel`), SQL over them
(`query_data`). Source: docs/reference/time.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.projection import untimed_kind
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import not_addable, row_columns
from odfabric.errors import InvalidRequest, LimitExceeded, Place
from odfabric.formats.json_values.json_rows import parse_data_format, rows_document
from odfabric.formats.manifests.schema_rendering import parse_schema_format, render_schema
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.instant import Instant
from odfabric.model.moment import SystemMoment
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.moments import block_at, state_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.held_rows import rows_held
from odfabric.usecases.state.time_travel import TravelPorts, rows_known


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadState:
    """Which state and which of its rows.

    `as_at`: as known after a block, or after the last block at or before a time; by default after the head. `as_of`: of that, what held
    at an event time; by default all.
    """

    as_at: SystemMoment | None = None
    as_of: Instant | None = None
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

    `{block, sequenceNumber, systemTime, asOf?, source, rows, data, dataFormat, nonFiniteColumns?, schema?, schemaFormat?}`.

    Raises InvalidRequest, NotFound for a block that is not there or a time before the first, LimitExceeded, Corrupt.
    """
    data_format = parse_data_format(asked.data_format)
    schema_format = None if asked.schema_format is None else parse_schema_format(asked.schema_format)
    _check(asked, ports)
    block = block_at(entry, asked.as_at, repository=ports.repository)
    state = state_at(entry, block, repository=ports.repository)
    schema = _row_schema(state)
    travel = TravelPorts(
        repository=ports.repository,
        exchange=ports.exchange,
        index=ports.index,
        rows_max=ports.state_rows_max,
        blocks_max=ports.blocks_max,
    )
    if asked.as_of is None:
        rows, source = rows_known(entry, block, schema, ports=travel)
    else:
        check_event_time(schema, state.vocabulary.event_time, field="asOf")
        rows, source = rows_held(entry, block, state, schema, asked.as_of, ports=travel)
    skip = min(asked.skip, rows.num_rows)
    # A table without columns would believe any length.
    shown = rows.slice(skip, min(asked.limit, rows.num_rows - skip))
    answer: dict[str, object] = {
        "block": str(block.hash),
        "sequenceNumber": block.sequence_number,
        "systemTime": str(block.system_time),
        **({"asOf": str(asked.as_of)} if asked.as_of is not None else {}),
        "source": source,
        "rows": rows.num_rows,
        **rows_document(shown, data_format),
    }
    if schema_format is not None:
        answer |= {"schema": render_schema(schema, schema_format), "schemaFormat": schema_format.value}
    return answer


def check_event_time(schema: DataSchema, event_time: str, *, field: str) -> None:
    """Raises InvalidRequest if rows of this schema have no event time to be compared.

    A dataset without columns yet has no rows either.
    """
    refused = untimed_kind(schema, event_time) if schema.fields else None
    if refused is not None:
        raise InvalidRequest(
            f"the event time column `{event_time}` is of type {refused}, which is no time",
            place=Place(field=field),
            hint=f"leave out {field}, and compare the column in SQL",
        )


def _row_schema(state: ChainState) -> DataSchema:
    columns = row_columns(state, current_schema(state) or DataSchema(fields=()))
    refused = not_addable(columns)
    if refused is not None:
        raise InvalidRequest(
            f"column `{refused.name}` is of a type of which rows cannot be added up", hint="query the changelog instead"
        )
    return DataSchema(fields=columns)


def _check(asked: ReadState, ports: StatePorts) -> None:
    if asked.skip < 0 or asked.limit < 0:
        raise InvalidRequest("skip and limit must not be negative", place=Place(field="skip"))
    if asked.limit > ports.rows_max:
        raise LimitExceeded("too many rows", limit="tail_rows_max", maximum=ports.rows_max)
