"""Input scans: which columns and which rows of the interval are read.

Owns reading by scan, and the consolidation of an interval: rows that the same interval withdraws are left out. That is tried
once when an expression fails, for the failing row may be the one that a correction takes back. Invariant: both ways give the
same net rows. Source: docs/engine.md#rows-that-fail.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric.model.engine import TransformRequestInput
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric_engine_spark.arrays.array_types import Mask
from odfabric_engine_spark.arrays.parallel_columns import joined
from odfabric_engine_spark.plan.column_lineage import Scan
from odfabric_engine_spark.plan.input_tables import InputTable, scan_alias
from odfabric_engine_spark.rows.input_rows import InputRows
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Catalyst,
    Expression,
    Plan,
    children,
    expr_id,
    items,
    output_of,
    simple_name,
)

_DIGEST_BYTES = 16
_PIECE_ROWS = 65_536
_PIECE_BYTES = 64 << 20


class ScanRows:
    """The new rows of a transaction, by scan."""

    def __init__(
        self,
        scans: Sequence[Scan],
        needed: Sequence[frozenset[str]],
        *,
        tables: Mapping[str, InputTable],
        inputs: Sequence[TransformRequestInput],
        call: EngineCall,
        consolidated: bool,
    ) -> None:
        """With `consolidated` all rows of the interval are read before the first is given."""
        self._scans = scans
        self._needed = needed
        self._tables = tables
        self._inputs = {one.query_alias: one for one in inputs}
        self._call = call
        self._kept = [self._survivors(scan) for scan in scans] if consolidated else None

    @property
    def consolidated(self) -> bool:
        """Whether rows that the interval withdraws are left out."""
        return self._kept is not None

    def offsets(self, scan: int) -> OffsetRange:
        """The interval of a scan."""
        return self._inputs[self._scans[scan].alias].offsets

    def pieces(
        self, scan: int, *, rows_max: int, bytes_max: int, offsets: OffsetRange | None = None
    ) -> Iterator[pa.Table]:
        """Rows of an interval in pieces of so many rows and bytes at most.

        About so many bytes, offsets and operations included.

        Raises as InputRows.
        """
        interval = self.offsets(scan) if offsets is None else offsets
        rows = self._open(scan, interval)
        begin = interval.begin
        while begin < interval.end:
            piece = rows.take(min(rows_max, interval.end - begin), bytes_max=bytes_max)
            first, begin = begin - self.offsets(scan).begin, begin + piece.num_rows
            if self._kept is not None:
                piece = piece.filter(pa.array(self._kept[scan][first : first + piece.num_rows]))
            yield piece

    def together(self, scan: int, pieces: Sequence[pa.Table], columns: Sequence[str] | None = None) -> pa.Table:
        """Pieces of a scan as one table, all columns or some.

        Without any it has the columns and no row.
        """
        tables = [self._tables[self._scans[scan].alias].no_rows, *pieces]
        return joined(tables if columns is None else [table.select(columns) for table in tables])

    def _open(self, scan: int, offsets: OffsetRange) -> InputRows:
        alias = self._scans[scan].alias
        slices = self._inputs[alias].slices
        return InputRows(self._tables[alias], offsets, slices, needed=self._needed[scan], call=self._call)

    def _survivors(self, scan: Scan) -> Mask:
        """Which rows remain; of several equal ones the last do."""
        names = self._tables[scan.alias].vocabulary
        system = {names.offset, names.operation_type, names.system_time}
        positions: dict[bytes, list[int]] = defaultdict(list)
        weights: list[int] = []
        offsets = self._inputs[scan.alias].offsets
        rows = self._open(scan.position, offsets)
        begin = 0
        while begin < len(offsets):
            piece = rows.take(min(_PIECE_ROWS, len(offsets) - begin), bytes_max=_PIECE_BYTES)
            data = [name for name in piece.column_names if name not in system]
            encoded = row_bytes([one_array(piece.column(name)) for name in data]).to_pylist()
            for row, value in enumerate(encoded, begin):
                positions[hashlib.blake2b(value, digest_size=_DIGEST_BYTES).digest()].append(row)
            weights += weights_of(one_array(piece.column(names.operation_type)).to_numpy()).tolist()
            begin += piece.num_rows
        kept = np.zeros(len(offsets), dtype=bool)
        for found in positions.values():
            net = sum(weights[row] for row in found)
            same_sign = [row for row in found if weights[row] * net > 0]
            kept[same_sign[len(same_sign) - abs(net) :]] = True
        return kept


def weights_of(operations: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """1 for rows that are added, -1 for rows that are withdrawn."""
    weights = np.ones(len(operations), dtype=np.int32)
    other = operations != OperationType.APPEND
    if other.any():
        weights[other & (operations != OperationType.CORRECT_TO)] = -1
    return weights


def columns_needed(catalyst: Catalyst, plan: Plan, results: Sequence[Expression]) -> list[frozenset[str]]:
    """Columns of each scan that expressions over a plan need, from left to right.

    The columns are given by name.
    """
    pruned = catalyst.settled(catalyst.logical.Project(catalyst.seq(results), plan), "ColumnPruning")
    found: list[frozenset[str]] = []
    _collect_needed(pruned, found)
    return found


def _collect_needed(node: Plan, found: list[frozenset[str]]) -> None:
    for child in children(node):
        if scan_alias(child) is None:
            _collect_needed(child, found)
            continue
        output = {expr_id(attribute): str(attribute.name()) for attribute in output_of(child)}
        if simple_name(node) == "Project":
            used = {expr_id(attribute) for attribute in items(node.references().toSeq())}
            found.append(frozenset(output[column] for column in used if column in output))
        else:
            found.append(frozenset(output.values()))
