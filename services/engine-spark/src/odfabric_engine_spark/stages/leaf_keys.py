"""Keys of rows that come in at a leaf, and when these rows close.

Owns what a key is made of. Invariant: equal rows have equal keys, in every transaction. Not here: how expressions are evaluated
(`row_expressions`). Source: incremental method, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfabric_engine_spark.catalyst import Catalyst, Expression
from odfabric_engine_spark.stages.key_hash import key_hashes
from odfabric_engine_spark.stages.row_expressions import RowExpressions, micros_of
from odfabric_engine_spark.stages.values import StageLeaf
from odfabric_engine_spark.state.run import Hashes


@dataclass(frozen=True, slots=True)
class LeafKeys:
    """The key of one leaf: the first `width` expressions over its row, none if all rows have one key; then when it closes."""

    values: RowExpressions
    width: int

    @classmethod
    def of(cls, catalyst: Catalyst, leaf: StageLeaf, expressions: Sequence[Expression]) -> LeafKeys:
        """Of a leaf under the components of its island."""
        return cls(RowExpressions.of(catalyst, leaf.columns, (*expressions, *leaf.ends)), len(expressions))

    def evaluate(self, rows: pa.Table) -> tuple[Hashes, pa.Array | None]:
        """Hashes of the keys, and microseconds at which rows close (null: never), None if the leaf has no such instant."""
        found = self.values.evaluate(rows)
        hashes = key_hashes(found[: self.width], rows.num_rows)
        return hashes, micros_of(found[-1]) if len(found) > self.width else None
