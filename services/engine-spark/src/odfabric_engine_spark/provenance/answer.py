"""The answer file: one row per witness, trigger or cell of a record.

Owns its form. Rows are sorted by all columns, so those of one record are one range, and a page of an answer is a range of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from odfabric.model.offsets import OffsetRange
from odfabric.model.provenance import (
    ANSWER_COLUMNS,
    RANGES_LISTED_MAX,
    CellRole,
    InputWitnesses,
    ProvenanceKind,
)
from odfabric_engine_spark.arrays.array_types import Longs

_SCHEMA = pa.schema(
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
_ROW_GROUP_ROWS = 65_536


@dataclass(slots=True)
class AnswerRows:
    """Rows of an answer, in any order until they are written."""

    _parts: list[pa.Table] = field(default_factory=list)

    def add(
        self,
        record: int,
        kind: ProvenanceKind,
        input_at: int,
        offsets: Longs,
        *,
        term: int = 0,
        column: str | None = None,
        output_column: str | None = None,
        role: CellRole | None = None,
    ) -> None:
        """Records of an input, or cells of one of its columns."""
        values = (record, int(kind), term, input_at, None, column, output_column, None if role is None else int(role))
        arrays = [
            pa.array(offsets, each.type)
            if each.name == "offset"
            else pa.repeat(pa.scalar(value, each.type), len(offsets))
            for value, each in zip(values, _SCHEMA, strict=True)
        ]
        self._parts.append(pa.Table.from_arrays(arrays, schema=_SCHEMA))

    def write(self, path: Path) -> tuple[int, dict[int, OffsetRange]]:
        """Writes the file; how many rows it has, and by record which."""
        rows = pa.concat_tables([_SCHEMA.empty_table(), *self._parts])
        order = pc.sort_indices(rows, sort_keys=[(name, "ascending", "at_start") for name in ANSWER_COLUMNS])
        rows = rows.take(order)
        pq.write_table(rows, path, row_group_size=_ROW_GROUP_ROWS)
        records = rows.column("record").to_numpy()
        known, begins = np.unique(records, return_index=True)
        ends = np.append(begins[1:], len(records))[: len(begins)]
        ranges = {
            int(record): OffsetRange(int(begin), int(end))
            for record, begin, end in zip(known, begins, ends, strict=True)
        }
        return len(records), ranges


def listed(found: Sequence[tuple[int, Longs]]) -> tuple[InputWitnesses, ...]:
    """The first ranges of records of inputs; offsets are ascending."""
    return tuple(_listed(at, offsets) for at, offsets in found)


def _listed(at: int, offsets: Longs) -> InputWitnesses:
    breaks = np.flatnonzero(np.diff(offsets) != 1) + 1
    begins, ends = offsets[np.r_[0, breaks]], offsets[np.r_[breaks - 1, len(offsets) - 1]]
    pairs = zip(begins[:RANGES_LISTED_MAX].tolist(), ends[:RANGES_LISTED_MAX].tolist(), strict=True)
    ranges = tuple(OffsetRange(begin, end + 1) for begin, end in pairs)
    return InputWitnesses(input=at, count=len(offsets), ranges=ranges, more=len(begins) > RANGES_LISTED_MAX)
