"""Keys of the rows of an input, and when these rows close.

Owns what a key is made of. Invariant: equal rows have equal keys, in every transaction, and rows that can meet too. Not here: how
expressions are evaluated (`row_expressions`). Source: docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.rows.row_expressions import RowExpressions, micros_of
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Expression
from odfabric_engine_spark.state.key_hash import key_hashes


@dataclass(frozen=True, slots=True)
class ScanKeys:
    """The key of one scan, as expressions over its row; then when the row closes.

    The first `width` expressions are the key, none if all rows have one key.

    A row in which one of the keys `matched` is null meets no other: it is a key of its own, the values of the columns `whole`. So
    rows that refer to nothing, of which a table may have millions, are not looked at for each other.
    """

    values: RowExpressions
    width: int
    matched: tuple[int, ...] = ()
    whole: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, catalyst: Catalyst, scan: StageScan, expressions: Sequence[Expression], *, matched: Sequence[int] = ()
    ) -> ScanKeys:
        """Of a scan under the components of its subplan."""
        values = RowExpressions.of(catalyst, scan.columns, (*expressions, *scan.ends))
        whole = tuple(at for at, column in enumerate(scan.columns) if can_be_key(column))
        return cls(values, len(expressions), tuple(matched) if whole else (), whole)

    def evaluate(self, rows: pa.Table) -> tuple[Hashes, pa.Array | None]:
        """Hashes of the keys, and microseconds at which rows close (null: never).

        None in place of the latter if the scan has no such instant.
        """
        found = self.values.evaluate(rows)
        hashes = key_hashes(found[: self.width], rows.num_rows)
        unmatched = self._unmatched(found)
        if len(unmatched):
            own = [one_array(rows.column(at).take(unmatched)) for at in self.whole]
            hashes[unmatched.to_numpy()] = key_hashes(own, len(unmatched))
        return hashes, micros_of(found[-1]) if len(found) > self.width else None

    def _unmatched(self, values: Sequence[pa.Array]) -> pa.Array:
        """Positions of rows that meet no other."""
        nulls = [values[at].is_null() for at in self.matched if values[at].null_count]
        return pc.indices_nonzero(reduce(pc.or_, nulls)) if nulls else pa.array([], pa.uint64())
