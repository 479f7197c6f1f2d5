"""Partial aggregates as bytes between Spark tasks.

Owns their bytes: one Arrow batch with keys, steps and statistics, of which a multiset is a list; or with rows. Invariant: what arrives is what was sent.
Not here: who sends them (`spark_tasks`), what they are (`group_sums`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.arrays.byte_hash import byte_hashes
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import GroupValues
from odfabric_engine_spark.operators.aggregate.accumulators.count_and_sum import StatisticValue, Values
from odfabric_engine_spark.operators.aggregate.accumulators.count_distinct import DistinctStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.min_and_max import ExtremeStatistic
from odfabric_engine_spark.operators.aggregate.accumulators.multisets import multiset_of
from odfabric_engine_spark.operators.aggregate.accumulators.percentile import PercentileStatistic
from odfabric_engine_spark.operators.aggregate.group_sums import PartialSums
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape
from odfabric_engine_spark.plan.group_keys import key_fields


def sums_to_bytes(sums: PartialSums) -> bytes:
    """Sums whose keys have one step each."""
    if len(sums.groups) != len(sums.keys):
        raise ValueError("a key has sums of several steps")
    arrays = [sums.keys, *sums.key_columns.values(), pa.array(sums.steps)]
    for statistic in sums.values.statistics:
        multiset = multiset_of(statistic)
        arrays += statistic.arrays() if multiset is None else [_as_lists(multiset)]
    return rows_to_bytes(pa.Table.from_arrays(arrays, names=[str(at) for at in range(len(arrays))]))


def sums_from_bytes(data: bytes, shape: GroupShape) -> PartialSums:
    """The way back."""
    columns: Iterator[pa.Array] = map(one_array, rows_from_bytes(data).columns)
    keys = next(columns)
    key_columns = {field.name: next(columns) for field in key_fields(shape.columns)}
    steps: Longs = next(columns).to_numpy()
    statistics: list[StatisticValue] = []
    for statistic in shape.accumulators.statistics:
        if isinstance(statistic, DistinctStatistic | ExtremeStatistic | PercentileStatistic):
            statistics.append(statistic.in_hand(_from_lists(next(columns))))
        else:
            statistics.append(statistic.load([next(columns) for _ in statistic.fields], len(keys)))
    return PartialSums(keys, byte_hashes(keys), key_columns, np.arange(len(keys)), steps, GroupValues(statistics))


def rows_to_bytes(rows: pa.Table) -> bytes:
    """Rows as they are."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def rows_from_bytes(data: bytes) -> pa.Table:
    """The way back."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def _as_lists(statistic: Values) -> pa.Array:
    pairs = pa.StructArray.from_arrays([statistic.values, pa.array(statistic.counts)], ["value", "count"])
    begins, _ = statistic.bounds()
    return pa.LargeListArray.from_arrays(pa.array(np.append(begins, len(pairs))), pairs)


def _from_lists(lists: pa.LargeListArray) -> Values:
    ends = lists.offsets.to_numpy()
    pairs = lists.values
    groups = np.repeat(np.arange(len(lists), dtype=np.int64), np.diff(ends))
    return Values(len(lists), groups, pairs.field("value"), pairs.field("count").to_numpy())
