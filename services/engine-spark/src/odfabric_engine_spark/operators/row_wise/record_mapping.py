"""Row-wise queries: each record is mapped alone with its operation type.

Owns the pairs of corrections. Both halves of an input's `-C`, `+C` are mapped alone; equal results cancel, one left on each
side is a pair again, anything else becomes `-R` and `+A`, so a filter that keeps one half keeps the law. A query that selects
the operation itself is taken by its word. Invariant: records come in the order (branch of a UNION, offset). Source:
docs/engine.md#order-of-the-output; docs/engine.md#row-identity-and-pairs;
docs/engine.md#compatibility-with-the-reference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidData, Place
from odfabric.formats.slices.canonical_rows import one_array, table_bytes
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.arrays.equal_runs import run_starts
from odfabric_engine_spark.arrays.parallel_columns import taken
from odfabric_engine_spark.arrays.stable_order import order_by
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.rows.change_records import Operations, Records
from odfabric_engine_spark.rows.failing_rows import computed_over
from odfabric_engine_spark.rows.output_shape import OutputShape, as_output
from odfabric_engine_spark.rows.row_binding import bind, projection
from odfabric_engine_spark.rows.row_mapping import described_scans
from odfabric_engine_spark.spark.catalyst.plan_nodes import output_of
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import collected

BRANCH = "__odf_branch"
OFFSET = "__odf_offset"
OPERATION = "__odf_op"
HIDDEN = (
    pa.field(BRANCH, pa.int32(), nullable=False),
    pa.field(OFFSET, pa.int64(), nullable=False),
    pa.field(OPERATION, pa.int32(), nullable=False),
)

_FROM, _TO = int(OperationType.CORRECT_FROM), int(OperationType.CORRECT_TO)
_APPEND, _RETRACT = int(OperationType.APPEND), int(OperationType.RETRACT)


@dataclass(frozen=True, slots=True)
class Images:
    """What records were mapped to, in order of branch and offset.

    `operations` are those of the records.
    """

    branches: Longs
    offsets: Longs
    operations: Longs
    rows: pa.Table

    def __len__(self) -> int:
        return len(self.offsets)

    def split(self, at: int) -> tuple[Images, Images]:
        """The images before a position, and those from it on."""
        return self._slice(0, at), self._slice(at, len(self))

    def _slice(self, begin: int, end: int) -> Images:
        part = slice(begin, end)
        return Images(
            self.branches[part], self.offsets[part], self.operations[part], self.rows.slice(begin, end - begin)
        )

    def then(self, later: Images) -> Images:
        """These images followed by later ones."""
        return Images(
            np.concatenate([self.branches, later.branches]),
            np.concatenate([self.offsets, later.offsets]),
            np.concatenate([self.operations, later.operations]),
            pa.concat_tables([self.rows, later.rows]),
        )


def images(query: LinearQuery, shape: OutputShape, scan_rows: Sequence[pa.Table]) -> Images:
    """Maps rows of each scan, whose last columns are `HIDDEN`.

    Raises FailedRows, ResultTooLarge.
    """

    def mapped(scans: Sequence[pa.Table]) -> pa.Table:
        session, any_rows = query.catalyst.session, any(map(len, scans))
        frames = [local_rows(session, rows) if len(rows) or not any_rows else None for rows in scans]
        bound = bind(query.catalyst, query.plan, frames)
        return collected(projection(query.catalyst, bound, output_of(query.plan)))

    table = computed_over(mapped, scan_rows, lambda: described_scans(query.plan))
    branches, offsets = _longs(table, BRANCH), _longs(table, OFFSET)
    operation = shape.vocabulary.operation_type if shape.op_selected else OPERATION
    if shape.op_selected:
        _check_operations(table, operation)
    rows, operations = as_output(table, shape.rows), _longs(table, operation)
    if ((branches[1:] > branches[:-1]) | ((branches[1:] == branches[:-1]) & (offsets[1:] >= offsets[:-1]))).all():
        return Images(branches, offsets, operations, rows)
    order = order_by(branches, offsets)
    return Images(branches[order], offsets[order], operations[order], taken(rows, order))


def open_pair(found: Images) -> int:
    """The position from which images may be of a pair not yet read to its end."""
    if not len(found) or found.operations[-1] != _FROM:
        return len(found)
    last = (found.branches == found.branches[-1]) & (found.offsets == found.offsets[-1])
    return int(np.nonzero(last)[0][0])


def literal_records(found: Images) -> Records:
    """Records with the operations that the query selected."""
    return Records(found.operations.astype(np.int32), found.rows)


def records(found: Images) -> Records:
    """Records with pairs corrected."""
    operations = found.operations.astype(np.int32)
    plain = np.where(operations == _FROM, _RETRACT, np.where(operations == _TO, _APPEND, operations)).astype(np.int32)
    kept = np.ones(len(found), dtype=bool)
    starts = run_starts(found.offsets, found.branches)
    counts = np.diff(np.append(starts, len(found)))
    first, second = starts[:-1], starts[1:]
    paired = (
        (operations[first] == _FROM)
        & (operations[second] == _TO)
        & (found.branches[first] == found.branches[second])
        & (found.offsets[first] + 1 == found.offsets[second])
    )
    simple = paired & (counts[:-1] == 1) & (counts[1:] == 1)
    _repair_simple(found, first[simple], second[simple], plain, kept)
    for index in np.nonzero(paired & ~simple)[0]:
        begin, middle = int(starts[index]), int(starts[index + 1])
        _repair_many(found, begin, middle, middle + int(counts[index + 1]), plain, kept)
    if kept.all():
        return Records(plain, found.rows)
    at = np.nonzero(kept)[0]
    return Records.ordered(plain[at], found.rows, at)


def _repair_simple(found: Images, first: Longs, second: Longs, operations: Operations, kept: Mask) -> None:
    """Pairs of one image each: equal images cancel, others stay a pair."""
    if not len(first):
        return
    one, other = _bytes(found, first), _bytes(found, second)
    equal = np.array([a == b for a, b in zip(one, other, strict=True)], dtype=bool)
    kept[first[equal]] = kept[second[equal]] = False
    operations[first], operations[second] = _FROM, _TO


def _repair_many(found: Images, begin: int, middle: int, end: int, operations: Operations, kept: Mask) -> None:
    """Repair an exploded pair by multisets: one left on each side is a pair."""
    one, other = np.arange(begin, middle), np.arange(middle, end)
    old, new = _bytes(found, one), _bytes(found, other)
    common = Counter(old) & Counter(new)
    for rows, values in ((one, old), (other, new)):
        cancel = Counter(common)
        for row, value in zip(rows.tolist(), values, strict=True):
            if cancel[value]:
                cancel[value] -= 1
                kept[row] = False
    left, right = one[kept[one].astype(bool)], other[kept[other].astype(bool)]
    if len(left) == len(right) == 1:
        operations[left], operations[right] = _FROM, _TO


def _bytes(found: Images, positions: Longs) -> list[bytes]:
    values: list[bytes] = table_bytes(found.rows.take(pa.array(positions))).to_pylist()
    return values


def _check_operations(table: pa.Table, name: str) -> None:
    column = one_array(table.column(name))
    values = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    for row, value in enumerate(values):
        if value not in (_APPEND, _RETRACT, _FROM, _TO):
            raise InvalidData(
                f"the query gives {value} as operation type, 0 to 3 are known", place=Place(field=name, row=row + 1)
            )


def _longs(table: pa.Table, name: str) -> Longs:
    column: Longs = one_array(table.column(name)).to_numpy().astype(np.int64)
    return column
