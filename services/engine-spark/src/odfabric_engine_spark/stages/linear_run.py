"""A stage without state: each row is mapped alone, its weight goes with it.

Owns the weight as a hidden column. Invariant: how rows are cut into pieces does not change the net result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from odfabric_engine_spark.call import EngineCall
from odfabric_engine_spark.catalyst import Attribute, Catalyst, Expression, Plan
from odfabric_engine_spark.incremental.binding import bind, projection
from odfabric_engine_spark.incremental.canonical import one_array
from odfabric_engine_spark.incremental.classify import arrow_type
from odfabric_engine_spark.stages.delta import Delta, added_up
from odfabric_engine_spark.stages.query import LinearStage

_WEIGHT = pa.field("__odf_weight", pa.int64(), nullable=False)


def run_linear(catalyst: Catalyst, stage: LinearStage, deltas: Sequence[Delta], call: EngineCall) -> Delta:
    """What the result changes by. What Spark raises on an expression passes through."""
    rows_max = call.settings.stage_rows_max
    parts: list[Delta] = []
    for leaf, delta in enumerate(deltas):
        for begin in range(0, len(delta), rows_max):
            call.check()
            given = [other.take(np.zeros(0, dtype=np.int64)) for other in deltas]
            given[leaf] = delta.take(np.arange(begin, min(begin + rows_max, len(delta))))
            parts.append(added_up(_mapped_by_position(catalyst, stage, given)))
    if not parts:
        return Delta.none(stage_schema(stage.output))
    return parts[0] if len(parts) == 1 else added_up(Delta.joined(parts))


def _mapped_by_position(catalyst: Catalyst, stage: LinearStage, deltas: Sequence[Delta]) -> Delta:
    found = mapped(catalyst, stage.plan, output_columns(catalyst, stage.output), deltas)
    return Delta.of(found.rows.columns, found.weights)


def stage_schema(columns: Sequence[Attribute]) -> pa.Schema:
    """Columns of a relation between stages, known by position."""
    return pa.schema([pa.field(f"c{index}", arrow_type(column)) for index, column in enumerate(columns)])


def output_columns(catalyst: Catalyst, output: Sequence[Attribute]) -> list[Expression]:
    """Columns by position, as relations between stages know them."""
    return [catalyst.named(column, f"c{index}") for index, column in enumerate(output)]


def mapped(catalyst: Catalyst, plan: Plan, named: Sequence[Expression], deltas: Sequence[Delta]) -> Delta:
    """Expressions over a row-wise plan, each row with its weight."""
    frames = [_frame(catalyst, delta) for delta in deltas]
    table = projection(catalyst, bind(catalyst, plan, frames), named).toArrow()
    weights = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta(table.remove_column(table.num_columns - 1), weights)


def _frame(catalyst: Catalyst, delta: Delta) -> DataFrame:
    return catalyst.session.createDataFrame(delta.rows.append_column(_WEIGHT, pa.array(delta.weights)))
