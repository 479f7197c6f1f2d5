"""A stage without state: each row is mapped alone, its weight goes with it.

Owns the weight as a hidden column. Invariant: how rows are cut into pieces does not change the net result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.catalyst import Attribute, Catalyst, Expression, Plan
from odfabric_engine_spark.incremental.binding import bind, projection
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.classify import arrow_type
from odfabric_engine_spark.local_rows import local_rows
from odfabric_engine_spark.stages.delta import Delta, added_up
from odfabric_engine_spark.stages.query import LinearStage

_WEIGHT = pa.field("__odf_weight", pa.int64(), nullable=False)


def run_linear(catalyst: Catalyst, stage: LinearStage, deltas: Sequence[Delta], call: EngineCall) -> Delta:
    """What the result changes by. What Spark raises on an expression passes through."""
    named = output_columns(catalyst, stage.output)
    parts = [added_up(part) for part in mapped(catalyst, stage.plan, named, deltas, call)]
    return parts[0] if len(parts) == 1 else added_up(Delta.joined(parts))


def mapped(
    catalyst: Catalyst, plan: Plan, named: Sequence[Expression], deltas: Sequence[Delta], call: EngineCall
) -> Iterator[Delta]:
    """Expressions over a row-wise plan, each row with its weight, in pieces that fit into memory; at least one piece."""
    rows_max = call.settings.stage_rows_max
    if sum(map(len, deltas)) <= rows_max:
        yield _mapped(catalyst, plan, named, deltas)
        return
    for leaf, delta in enumerate(deltas):
        for begin in range(0, len(delta), rows_max):
            call.check()
            given = [other.slice(0, 0) for other in deltas]
            given[leaf] = delta.slice(begin, rows_max)
            yield _mapped(catalyst, plan, named, given)


def stage_schema(columns: Sequence[Attribute]) -> pa.Schema:
    """Columns of a relation between stages, known by position."""
    return pa.schema([pa.field(f"c{index}", arrow_type(column)) for index, column in enumerate(columns)])


def output_columns(catalyst: Catalyst, output: Sequence[Attribute]) -> list[Expression]:
    """Columns by position, as relations between stages know them."""
    return [catalyst.named(column, f"c{index}") for index, column in enumerate(output)]


def _mapped(catalyst: Catalyst, plan: Plan, named: Sequence[Expression], deltas: Sequence[Delta]) -> Delta:
    frames = [_frame(catalyst, delta) for delta in deltas]
    table = projection(catalyst, bind(catalyst, plan, frames), named).toArrow()
    weights = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta(pa.Table.from_arrays(table.columns[:-1], names=table.column_names[:-1]), weights)


def _frame(catalyst: Catalyst, delta: Delta) -> DataFrame:
    return local_rows(catalyst.session, delta.rows.append_column(_WEIGHT, pa.array(delta.weights)))
