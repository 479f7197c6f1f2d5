"""The answer file of a derivation: one row for each input record and cell.

Owns its columns and their order. Invariant: rows are sorted by all columns, nulls first, so the rows about one record are one range.
Source: proto/odfabric/engine/v1/engine.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.errors import InvalidData, Place
from odfabric.formats.parquet.parquet_reading import open_parquet
from odfabric.model.provenance import CellRole, ProvenanceKind

PROVENANCE_SCHEMA = pa.schema(
    [
        pa.field("record", pa.int64(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("term", pa.int32(), nullable=False),
        pa.field("input", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("column", pa.string()),
        pa.field("output_column", pa.string()),
        pa.field("role", pa.int8()),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceRow:
    """One input record, or one of its cells, behind a record of the output."""

    record: int
    kind: ProvenanceKind
    input: int
    offset: int
    term: int = 0
    column: str | None = None
    output_column: str | None = None
    role: CellRole | None = None


def write_provenance_rows(path: Path, rows: Iterable[ProvenanceRow]) -> int:
    """Write rows in their order; how many there are."""
    values = sorted(map(_values, rows), key=lambda row: tuple((each is not None, each or 0) for each in row))
    columns: list[tuple[object, ...]] = list(zip(*values, strict=True)) or [()] * len(PROVENANCE_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, PROVENANCE_SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=PROVENANCE_SCHEMA), path)
    return len(values)


def read_provenance_rows(path: Path, *, begin: int, end: int) -> Iterator[ProvenanceRow]:
    """Rows `[begin, end)` of a file. Raises InvalidData for other columns."""
    first = 0
    with open_parquet(path) as file:
        names = file.schema_arrow.names
        if names != PROVENANCE_SCHEMA.names:
            raise InvalidData("the engine's answer has other columns", place=Place(file=path.name))
        for batch in file.iter_batches():
            last = first + batch.num_rows
            if last > begin and first < end:
                piece = batch.slice(max(0, begin - first), min(last, end) - max(first, begin))
                yield from map(_row, zip(*(column.to_pylist() for column in piece.columns), strict=True))
            first = last
            if first >= end:
                return


def _values(row: ProvenanceRow) -> tuple[int | str | None, ...]:
    role = None if row.role is None else int(row.role)
    return (row.record, int(row.kind), row.term, row.input, row.offset, row.column, row.output_column, role)


def _row(values: tuple[Any, ...]) -> ProvenanceRow:
    record, kind, term, number, offset, column, output_column, role = values
    return ProvenanceRow(
        record=record,
        kind=ProvenanceKind(kind),
        term=term,
        input=number,
        offset=offset,
        column=column,
        output_column=output_column,
        role=None if role is None else CellRole(role),
    )
