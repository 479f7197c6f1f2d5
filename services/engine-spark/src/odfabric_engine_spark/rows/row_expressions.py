"""Evaluate expressions over rows.

Owns evaluating them: a plain column, or a member of one, is taken as it is; anything else is computed by Spark, where an
expression that fails gives null, for the query itself may never evaluate it for that row. Invariant: equal rows have equal
values, in every transaction. Not here: what the values are for (`scan_keys`, `late_data`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.rows.row_mapping import Place, place_of
from odfabric_engine_spark.spark.catalyst.plan_nodes import (
    Attribute,
    Catalyst,
    Expression,
    analysed,
    expr_id,
    output_of,
)
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge, collected

_PIECE_ROWS = 1_000_000
"""Rows that are handed to Spark at once."""
_MICROS = pa.timestamp("us", "UTC")


@dataclass(frozen=True, slots=True)
class RowExpressions:
    """Expressions over rows that have the given columns, known by position.

    `places` are those of the plain ones.
    """

    catalyst: Catalyst
    columns: tuple[Attribute, ...]
    expressions: tuple[Expression, ...]
    places: tuple[Place | None, ...]

    @classmethod
    def of(cls, catalyst: Catalyst, columns: Sequence[Attribute], expressions: Sequence[Expression]) -> RowExpressions:
        """Made once per query."""
        positions = {expr_id(column): position for position, column in enumerate(columns)}
        places = tuple(place_of(each, positions) for each in expressions)
        return cls(catalyst, tuple(columns), tuple(expressions), places)

    def evaluate(self, rows: pa.Table) -> list[pa.Array]:
        """The value of each expression for each row."""
        missing = [each for each, place in zip(self.expressions, self.places, strict=True) if place is None]
        computed = iter(self._computed(missing, rows) if missing else ())
        return [next(computed) if place is None else place.of(rows) for place in self.places]

    def _computed(self, expressions: Sequence[Expression], rows: pa.Table) -> list[pa.Array]:
        begins = range(0, rows.num_rows, _PIECE_ROWS)
        pieces = [self._by_spark(expressions, rows.slice(begin, _PIECE_ROWS)) for begin in begins]
        if not pieces:
            return [pa.nulls(0) for _ in expressions]
        return [pa.concat_arrays(values) for values in zip(*pieces, strict=True)]

    def _by_spark(self, expressions: Sequence[Expression], rows: pa.Table) -> list[pa.Array]:
        catalyst = self.catalyst
        source = analysed(local_rows(catalyst.session, rows))
        scan = catalyst.logical.Project(catalyst.as_columns(output_of(source), self.columns), source)
        tried = [
            catalyst.named(catalyst.expressions.TryEval(expression), f"value{index}")
            for index, expression in enumerate(expressions)
        ]
        try:
            found = collected(catalyst.data_frame(catalyst.logical.Project(catalyst.seq(tried), scan)))
        except ResultTooLarge:
            middle = rows.num_rows // 2
            if not middle:
                raise
            halves = (self._by_spark(expressions, each) for each in (rows.slice(0, middle), rows.slice(middle)))
            return [pa.concat_arrays(both) for both in zip(*halves, strict=True)]
        return [one_array(column) for column in found.columns]


def micros_of(column: pa.Array) -> pa.Array:
    """Instants as microseconds after the epoch; a date is its midnight."""
    if types.is_date32(column.type):
        column = column.cast(_MICROS)
    return column.cast(_MICROS).view(pa.int64()) if types.is_timestamp(column.type) else column.cast(pa.int64())
