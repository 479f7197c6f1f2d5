"""Preview the last rows of a dataset, without an engine.

Invariant: only as many of the newest slices are read as the asked rows need, each hashed on the way. Source: docs/openapi.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import Corrupt, IncompatibleSchema, InvalidRequest, LimitExceeded, Place
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.json_values.json_rows import parse_data_format, rows_document
from odfabric.formats.manifests.schema_rendering import parse_schema_format, render_schema
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.moment import SystemMoment
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.moments import block_at, state_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.corrected_records import CorrectionPorts, corrected_records


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTail:
    """Which rows, counted from the end, in which form, and with which columns.

    All columns if None. With `corrects` the answer says what corrections and withdrawals among them are about. `as_at`: as known after a block, or after the last block at or before a time; by default after the head.
    """

    skip: int
    limit: int
    data_format: str
    schema_format: str | None
    columns: frozenset[str] | None = None
    as_at: SystemMoment | None = None
    corrects: bool = False


def read_tail(
    entry: CatalogEntry,
    asked: ReadTail,
    *,
    repository: Repository,
    exchange: Exchange,
    rows_max: int,
    corrections_rows_max: int,
) -> dict[str, object]:
    """Rows in order of offset.

    Raises InvalidRequest, LimitExceeded, NotFound, Corrupt.

    `{block?, data, dataFormat, nonFiniteColumns?, schema?, schemaFormat?, corrects?}`; the block where the caller asks for a moment. Links
    of `corrects` are looked for among `corrections_rows_max` records.
    """
    data_format = parse_data_format(asked.data_format)
    schema_format = parse_schema_format(asked.schema_format) if asked.schema_format is not None else None
    if asked.skip < 0 or asked.limit < 0:
        raise InvalidRequest("skip and limit must not be negative", place=Place(field="skip"))
    if asked.limit > rows_max:
        raise LimitExceeded("too many rows", limit="tail_rows_max", maximum=rows_max)
    block = block_at(entry, asked.as_at, repository=repository)
    state = state_at(entry, block, repository=repository)
    schema = _chosen(current_schema(state) or DataSchema(fields=()), asked)
    with exchange.session() as folder:
        pieces = list(_newest(entry, block.hash, state.vocabulary, asked, folder, repository))
    target = _target(schema, pieces)
    table = pa.concat_tables([_aligned(piece, target) for piece in pieces[::-1]] or [target.empty_table()])
    answer: dict[str, object] = {} if asked.as_at is None else {"block": str(block.hash)}
    answer |= rows_document(table, data_format)
    if schema_format is not None:
        answer |= {"schema": render_schema(schema, schema_format), "schemaFormat": schema_format.value}
    if asked.corrects:
        ports = CorrectionPorts(repository=repository, exchange=exchange, rows_max=corrections_rows_max)
        records = _operations(table, state.vocabulary)
        linked = corrected_records(entry, records, block.hash, state.vocabulary, ports=ports)
        answer["corrects"] = {str(offset): about for offset, about in linked.items()}
    return answer


def _operations(table: pa.Table, vocabulary: DatasetVocabulary) -> dict[int, OperationType]:
    """Operations by offset; nothing where the dataset has no columns yet."""
    if table.num_rows == 0:
        return {}
    offsets, ops = (table.column(name).to_pylist() for name in (vocabulary.offset, vocabulary.operation_type))
    return {offset: OperationType(op) for offset, op in zip(offsets, ops, strict=True)}


def _chosen(schema: DataSchema, asked: ReadTail) -> DataSchema:
    if asked.columns is None:
        return schema
    return DataSchema(fields=tuple(field for field in schema.fields if field.name in asked.columns))


def _newest(
    entry: CatalogEntry,
    head: Multihash,
    vocabulary: DatasetVocabulary,
    asked: ReadTail,
    folder: Path,
    repository: Repository,
) -> Iterator[pa.Table]:
    """The asked rows slice by slice, newest slice first, each in order of offset."""
    to_skip, to_take = asked.skip, asked.limit
    columns = None if asked.columns is None else asked.columns | {vocabulary.offset}
    for data in data_slices_down(repository.blocks(entry.id), head):
        if to_take == 0:
            return
        offsets = OffsetRange.from_wire(data.offset_interval)
        rows = offsets.rows
        if to_skip >= rows:
            to_skip -= rows
            continue
        end = rows - to_skip
        begin = max(0, end - to_take)
        path = folder / str(data.physical_hash)
        repository.materialize(entry.id, DATA, data.physical_hash, path)
        with open_slice(path, vocabulary) as reader:
            piece = reader.rows_at(skip=begin, limit=end - begin, columns=columns)
        if reader.rows != rows or piece.column(vocabulary.offset)[0].as_py() != offsets.begin + begin:
            message = f"data object {data.physical_hash} of {entry.id} does not hold the rows that its block says"
            raise Corrupt(message, object_name=str(data.physical_hash), hint="`odf verify` says what is wrong")
        yield piece
        to_skip, to_take = 0, to_take - (end - begin)


def _target(schema: DataSchema, pieces: Sequence[pa.Table]) -> pa.Schema:
    """The columns to show.

    Hints on their layout are left out, for not every cast can follow them.

    A column that no row has is nulls of no type: nulls of a fixed length would take as much memory as values.
    """
    known = {name for piece in pieces for name in piece.column_names}
    columns = data_schema_to_arrow(schema, encodings=False)
    return pa.schema([field if field.name in known else pa.field(field.name, pa.null()) for field in columns])


def _aligned(piece: pa.Table, target: pa.Schema) -> pa.Table:
    """Rows of an older slice under the current schema. Raises IncompatibleSchema.

    Columns that were added later are null.
    """
    columns = []
    # By position: Arrow looks for a name among all columns, which is slow where there are a thousand.
    positions = {name: position for position, name in enumerate(piece.column_names)}
    for field in target:
        if field.name not in positions:
            columns.append(pa.nulls(piece.num_rows, field.type))
            continue
        try:
            columns.append(piece.column(positions[field.name]).cast(field.type))
        except pa.ArrowException as error:
            message = f"Column `{field.name}` of an older slice does not fit the schema in force: {error}"
            raise IncompatibleSchema(message, place=Place(field=field.name)) from error
    return pa.table(columns, names=target.names)
