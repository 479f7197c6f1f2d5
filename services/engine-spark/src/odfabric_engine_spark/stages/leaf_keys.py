"""Keys of rows that come in at a leaf, and when these rows close.

Owns the evaluation of key expressions over rows. A plain column is taken as it is; anything else is computed by Spark, where an
expression that fails gives null: the query itself may never evaluate it for that row. Invariant: equal rows have equal keys, in
every transaction. Source: incremental method, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric_engine_spark.catalyst import (
    Attribute,
    Catalyst,
    Expression,
    analysed,
    expr_id,
    is_attribute,
    items,
    simple_name,
)
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.local_rows import local_rows
from odfabric_engine_spark.result_rows import arrow_of
from odfabric_engine_spark.stages.key_hash import key_hashes
from odfabric_engine_spark.stages.values import StageLeaf
from odfabric_engine_spark.state.run import Hashes

_PIECE_ROWS = 1_000_000
_MICROS = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class LeafKeys:
    """The key of one leaf: expressions over its row; no expression means that all rows have one key."""

    catalyst: Catalyst
    columns: tuple[Attribute, ...]
    expressions: tuple[Expression, ...]
    closes: tuple[Expression, ...]

    @classmethod
    def of(cls, catalyst: Catalyst, leaf: StageLeaf, expressions: Sequence[Expression]) -> LeafKeys:
        """Of a leaf under the components of its island."""
        return cls(catalyst, leaf.columns, tuple(expressions), tuple(leaf.closes))

    def evaluate(self, rows: pa.Table) -> tuple[Hashes, pa.Array | None]:
        """Hashes of the keys, and microseconds at which rows close (null: never), None if the leaf does not wait."""
        if rows.num_rows > _PIECE_ROWS:
            return self._in_pieces(rows)
        wanted = [*self.expressions, *self.closes]
        plain = [self._plain(expression, rows) for expression in wanted]
        if any(column is None for column in plain) and rows.num_rows:
            computed = iter(
                self._computed([w for w, column in zip(wanted, plain, strict=True) if column is None], rows)
            )
            plain = [next(computed) if column is None else column for column in plain]
        columns = [pa.nulls(0) if column is None else column for column in plain]
        hashes = key_hashes(columns[: len(self.expressions)], rows.num_rows)
        if not self.closes:
            return hashes, None
        return hashes, _micros(columns[-1])

    def _in_pieces(self, rows: pa.Table) -> tuple[Hashes, pa.Array | None]:
        begins = range(0, rows.num_rows, _PIECE_ROWS)
        found = [self.evaluate(rows.slice(begin, _PIECE_ROWS)) for begin in begins]
        closes = [each for _, each in found if each is not None]
        return np.concatenate([hashes for hashes, _ in found]), pa.concat_arrays(closes) if closes else None

    def _plain(self, expression: Expression, rows: pa.Table) -> pa.Array | None:
        """A column of the rows, or a member of one."""
        if simple_name(expression) == "GetStructField":
            whole = self._plain(expression.child(), rows)
            return None if whole is None else pc.struct_field(whole, int(expression.ordinal()))
        if not is_attribute(expression):
            return None
        ids = [expr_id(column) for column in self.columns]
        return one_array(rows.column(ids.index(expr_id(expression))))

    def _computed(self, expressions: Sequence[Expression], rows: pa.Table) -> list[pa.Array]:
        catalyst = self.catalyst
        source = analysed(local_rows(catalyst.session, rows))
        have = items(source.output())
        named = [
            catalyst.named(value, str(column.name()), like=column)
            for value, column in zip(have, self.columns, strict=True)
        ]
        leaf = catalyst.logical.Project(catalyst.seq(named), source)
        tried = [
            catalyst.named(catalyst.expressions.TryEval(expression), f"key{index}")
            for index, expression in enumerate(expressions)
        ]
        found = arrow_of(catalyst.data_frame(catalyst.logical.Project(catalyst.seq(tried), leaf)))
        return [one_array(column) for column in found.columns]


def _micros(column: pa.Array) -> pa.Array:
    """An instant as microseconds; a date is its midnight."""
    if types.is_date32(column.type):
        column = column.cast(_MICROS)
    return column.cast(_MICROS).view(pa.int64()) if types.is_timestamp(column.type) else column.cast(pa.int64())
