"""Appending rows as they were read, without Spark.

Owns when and how that is done: rows that no query changes and no history is compared with are sorted by event time and written. Invariant: the
slice has the bytes that Spark's way gives it (`merge.strategies`, Append). In memory is what Spark might collect; more rows are written
only where they are in order already. Source: specification, "Merge Strategies".
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from odfabric.model.instant import SECONDS_PER_DAY, Instant
from odfabric.model.operation import OperationType
from odfabric_engine_spark.rows.slice_writer import SliceShape, WrittenSlice, write_batches
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.plain_rows import NotPlain, PlainRows, with_column
from odfabric_engine_spark.spark.frames.read_rows import InputRows

_MILLIS_PER_DAY = SECONDS_PER_DAY * 1000


def append_plain(
    rows: InputRows, shape: SliceShape, event_time: Instant, call: EngineCall, *, output: Path
) -> WrittenSlice | None:
    """Writes the rows as appended ones, `event_time` where they have none.

    None if it needs Spark. Raises as `write_slice`.
    """
    if rows.plain is None or any(_has_map(item.type) for item in rows.schema):
        return None
    name = shape.vocabulary.event_time
    kind = rows.schema.field(name).type
    filled = rows.plain.changed(with_column(name, lambda times: pc.fill_null(times, _scalar(event_time, kind))))
    try:
        if rows.bytes > call.settings.collected_bytes_max:
            batches = filled.batches() if _is_ordered(filled, name, call) else None
        else:
            batches = _ordered(list(filled.batches()), name)
    except NotPlain:
        return None
    if batches is None:
        return None
    return write_batches(call, _appended(batches, shape.vocabulary.operation_type), shape, output=output)


def _has_map(arrow: pa.DataType) -> bool:
    return bool(types.is_map(arrow)) or any(_has_map(arrow.field(index).type) for index in range(arrow.num_fields))


def _scalar(instant: Instant, kind: pa.DataType) -> pa.Scalar:
    if types.is_date(kind):
        return pa.scalar(instant.millis // _MILLIS_PER_DAY, pa.int32()).cast(kind)
    return pa.scalar(instant.millis, kind)


def _numbers(times: pa.Array) -> np.ndarray:
    numbers: np.ndarray = times.cast(pa.int32() if types.is_date(times.type) else pa.int64()).to_numpy()
    return numbers


def _is_ordered(rows: PlainRows, name: str, call: EngineCall) -> bool:
    """Whether event times never fall. Raises NotPlain."""
    last = None
    for batch in rows.batches():
        call.check()
        times = _numbers(batch.column(name))
        if len(times):
            if (last is not None and times[0] < last) or (times[1:] < times[:-1]).any():
                return False
            last = times[-1]
    return True


def _ordered(batches: list[pa.RecordBatch], name: str) -> Iterator[pa.RecordBatch]:
    """The rows by event time; rows of one time in the order in which they came."""
    times = [_numbers(batch.column(name)) for batch in batches]
    whole = np.concatenate(times) if times else np.array([])
    if not (whole[1:] < whole[:-1]).any():
        yield from batches
        return
    table = pa.Table.from_batches(batches)
    yield from table.take(pa.array(np.argsort(whole, kind="stable"))).to_batches()


def _appended(batches: Iterator[pa.RecordBatch], operation_type: str) -> Iterator[pa.RecordBatch]:
    kind = pa.scalar(OperationType.APPEND.value, pa.int32())
    for batch in batches:
        yield batch.append_column(operation_type, pa.repeat(kind, batch.num_rows))
