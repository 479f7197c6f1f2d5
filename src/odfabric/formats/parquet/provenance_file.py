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


class ProvenanceRows:
    """An answer file for reading by ranges of rows.

    The row group that was read last is kept, since answers ask record by record.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: tuple[int, pa.Table] | None = None

    def between(self, begin: int, end: int) -> Iterator[ProvenanceRow]:
        """Rows `[begin, end)`. Raises InvalidData for other columns."""
        if begin >= end:
            return
        with open_parquet(self._path) as file:
            if file.schema_arrow.names != PROVENANCE_SCHEMA.names:
                raise InvalidData("the engine's answer has other columns", place=Place(file=self._path.name))
            first = 0
            for group in range(file.num_row_groups):
                last = first + file.metadata.row_group(group).num_rows
                if last > begin and first < end:
                    piece = self._group(file, group).slice(max(0, begin - first), min(last, end) - max(first, begin))
                    yield from map(_row, zip(*(column.to_pylist() for column in piece.columns), strict=True))
                if last >= end:
                    return
                first = last

    def _group(self, file: pq.ParquetFile, number: int) -> pa.Table:
        if self._kept is None or self._kept[0] != number:
            self._kept = number, file.read_row_group(number)
        return self._kept[1]


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
