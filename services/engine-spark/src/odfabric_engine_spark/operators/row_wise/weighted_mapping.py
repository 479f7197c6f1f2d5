"""A stage without state: each row is mapped alone and keeps its weight.

Owns the weight as a hidden column. Invariant: how rows are cut into pieces does not change the net result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.plan.partitioning.stages import LinearStage
from odfabric_engine_spark.rows.delta import Delta
from odfabric_engine_spark.rows.row_batches import in_pieces
from odfabric_engine_spark.rows.row_mapping import RowMapping
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Expression

_WEIGHT = pa.field("__odf_weight", pa.int64(), nullable=False)


def linear_mapping(catalyst: Catalyst, stage: LinearStage) -> RowMapping:
    """What a stage makes of each row."""
    return RowMapping.of(catalyst, stage.plan, output_columns(catalyst, stage.output))


def run_linear(mapping: RowMapping, deltas: Sequence[Delta], call: EngineCall, size: TransactionSize) -> Delta:
    """What the result changes by; equal rows may come more than once.

    Raises LimitExceeded. What Spark raises on an expression passes through.
    """
    return Delta.joined_within(mapped(mapping, deltas, call), size)


def mapped(mapping: RowMapping, deltas: Sequence[Delta], call: EngineCall) -> Iterator[Delta]:
    """Each row mapped, with its weight, in pieces that fit into memory.

    At least one piece.
    """
    rows_max = call.settings.stage_rows_max // mapping.copies
    return in_pieces(deltas, partial(_mapped, mapping), call, rows_max=rows_max)


def output_columns(catalyst: Catalyst, output: Sequence[Attribute]) -> list[Expression]:
    """Columns by position, as relations between stages know them."""
    return [catalyst.named(column, f"c{index}") for index, column in enumerate(output)]


def _mapped(mapping: RowMapping, deltas: Sequence[Delta]) -> Delta:
    scans = [delta.rows.append_column(_WEIGHT, pa.array(delta.weights)) for delta in deltas]
    table = mapping.table(scans)
    weights = one_array(table.column(table.num_columns - 1)).to_numpy().astype(np.int64)
    return Delta(pa.Table.from_arrays(table.columns[:-1], names=table.column_names[:-1]), weights)
