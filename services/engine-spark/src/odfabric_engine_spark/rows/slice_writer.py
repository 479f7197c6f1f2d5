"""Write a data slice from Spark.

Owns the way from a frame of changelog rows to the one file of a slice: order, offsets, system time, types, nulls. Small results
come through memory, large ones through sorted scratch files (`result_rows`); both give the same bytes. Invariant: what is
written is exactly the schema that was asked for, or nothing is written; texts that are added are UTF-8, which Spark does not make
sure of. Source: specification, "Data Slice".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import Column, DataFrame

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import OFFSET_TYPE, TIMESTAMP_TYPE
from odfabric.model.instant import NANOS_PER_SECOND, SECONDS_PER_DAY, Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.null_counts import NullCounts
from odfabric_engine_spark.spark.frames.result_rows import batches_of
from odfabric_engine_spark.spark.frames.select_columns import quoted, selected

_OFFSET_MAX = (1 << 63) - 1
_TRANSFORM_LIMIT = "transform_output_bytes_max"
SINGLE_TASK_BYTES_MAX = 4 * 1024 * 1024
"""Size up to which one task does all the work: a shuffle costs more than it saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceShape:
    """What a slice looks like.

    `schema` has all columns in order, the system columns first.
    """

    schema: pa.Schema
    vocabulary: DatasetVocabulary
    system_time: Instant
    next_offset: int

    @property
    def given(self) -> list[str]:
        """Columns that the frame has; offset and system time are added."""
        return [name for name in self.schema.names if name not in (self.vocabulary.offset, self.vocabulary.system_time)]


@dataclass(frozen=True, slots=True)
class WrittenSlice:
    """A slice file's contents: `offsets`, greatest event time, records by kind.

    `offsets` are None if it has no rows, the event time if there is none.
    """

    offsets: OffsetRange | None
    max_event_time: Instant | None
    operations: Mapping[int, int]


def write_slice(
    call: EngineCall,
    frame: DataFrame,
    shape: SliceShape,
    *,
    order: Sequence[Column],
    output: Path,
    bytes_estimate: int,
) -> WrittenSlice:
    """Writes the rows of `frame`, sorted by `order` (a total one), to `output`.

    Also a file without rows.

    `bytes_estimate` only chooses the first way to try. Raises InvalidData for nulls in required columns, IncompatibleSchema.
    """
    rows = selected(frame, [quoted(name) for name in (*shape.given, *_hidden(frame, shape))])
    small = bytes_estimate <= call.settings.collected_bytes_max
    batches = batches_of(
        call,
        (lambda: _in_one_partition(rows, order, bytes_estimate)) if small else None,
        lambda: rows.orderBy(*order),
    )
    return write_batches(call, batches, shape, output=output)


def write_transformed(
    call: EngineCall, batches: Iterable[pa.RecordBatch], shape: SliceShape, *, output: Path
) -> WrittenSlice:
    """`write_batches` for what a query made of its input, of any size.

    Raises LimitExceeded where that is too much.
    """
    return write_batches(call, _bounded(batches, call.settings.transform_output_bytes_max), shape, output=output)


def _bounded(batches: Iterable[pa.RecordBatch], bytes_max: int) -> Iterator[pa.RecordBatch]:
    """Ends before the batch with which all would have more bytes."""
    size = 0
    for batch in batches:
        size += batch.nbytes
        if size > bytes_max:
            message = "the transform makes more rows than one may write"
            raise LimitExceeded(message, limit=_TRANSFORM_LIMIT, maximum=bytes_max)
        yield batch


def write_batches(
    call: EngineCall, batches: Iterable[pa.RecordBatch], shape: SliceShape, *, output: Path
) -> WrittenSlice:
    """Writes batches of sorted rows with the columns `shape.given`.

    Raises as `write_slice`, InvalidData for bytes that are no text.
    """
    nulls = NullCounts(shape.schema)
    event_times = _Maximum()
    operations: Counter[int] = Counter()
    with SliceWriter(output, shape.schema) as writer:
        for batch in batches:
            call.progress("write", writer.rows)
            complete = _complete(batch, shape, writer.rows)
            _refuse_broken_texts(complete, shape)
            nulls.add(complete.columns, writer.rows)
            if not nulls.found:
                writer.write(complete)
            event_times.add(complete.column(shape.vocabulary.event_time))
            for counted in pc.value_counts(complete.column(shape.vocabulary.operation_type)):
                operations[counted["values"].as_py()] += counted["counts"].as_py()
        nulls.refuse(lambda _, index: Place(field=shape.schema.names[index]))
    end = shape.next_offset + writer.rows
    return WrittenSlice(OffsetRange(shape.next_offset, end) if writer.rows else None, event_times.instant, operations)


def _hidden(frame: DataFrame, shape: SliceShape) -> list[str]:
    """Columns that only the order needs."""
    known = set(shape.schema.names)
    return [name for name in frame.columns if name not in known]


def _in_one_partition(rows: DataFrame, order: Sequence[Column], bytes_estimate: int) -> DataFrame:
    single = rows.coalesce(1) if bytes_estimate <= SINGLE_TASK_BYTES_MAX else rows.repartition(1)
    return single.sortWithinPartitions(*order)


def _complete(batch: pa.RecordBatch, shape: SliceShape, rows_before: int) -> pa.RecordBatch:
    count = batch.num_rows
    start = shape.next_offset + rows_before
    if start + count > _OFFSET_MAX:
        raise LimitExceeded("there are no more offsets", limit="offset", maximum=_OFFSET_MAX)
    added = {
        shape.vocabulary.offset: pa.array(np.arange(start, start + count, dtype=np.int64), OFFSET_TYPE),
        shape.vocabulary.system_time: pa.repeat(pa.scalar(shape.system_time.millis, TIMESTAMP_TYPE), count),
    }
    columns = []
    for field in shape.schema:
        given = added.get(field.name)
        columns.append(_cast(batch.column(field.name) if given is None else given, field.type))
    # Nulls are judged by count over all batches, so this schema does not promise that there are none.
    names = [pa.field(field.name, array.type) for field, array in zip(shape.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(names))


def _refuse_broken_texts(batch: pa.RecordBatch, shape: SliceShape) -> None:
    """No reader of a slice could show them.

    Rows that are withdrawn may have some: they are in the dataset already.
    """
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if not _has_text(array.type) or _is_valid(array):
            continue
        operation = batch.column(shape.vocabulary.operation_type)
        added = pc.is_in(operation, pa.array([OperationType.APPEND, OperationType.CORRECT_TO], operation.type))
        if not _is_valid(array.filter(added)):
            raise InvalidData(
                f"column `{name}` has a text that is not UTF-8",
                place=Place(field=name),
                hint="decode(.., charset) if it is of another character set, else make_valid_utf8(..), or try_validate_utf8(..) for null",
            )


def _has_text(arrow: pa.DataType) -> bool:
    return types.is_string(arrow) or any(_has_text(arrow.field(index).type) for index in range(arrow.num_fields))


def _is_valid(array: pa.Array) -> bool:
    try:
        array.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _cast(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    # Times have been cut to milliseconds; inside lists and structs that happens here.
    return cast_array(array, arrow, safe=not types.is_nested(arrow))


class _Maximum:
    """The greatest event time over batches."""

    def __init__(self) -> None:
        self.instant: Instant | None = None

    def add(self, times: pa.Array) -> None:
        """Takes in a column of dates or timestamps.

        Other types (only in merges without an input check) have none.
        """
        if types.is_date32(times.type):
            unit_ns = SECONDS_PER_DAY * NANOS_PER_SECOND
            times = times.cast(pa.int32())
        elif types.is_timestamp(times.type):
            unit_ns = NANOS_PER_SECOND // 1000
            times = times.cast(TIMESTAMP_TYPE).cast(pa.int64())
        else:
            return
        greatest = pc.max(times).as_py()
        if greatest is not None:
            found = Instant(greatest * unit_ns)
            self.instant = found if self.instant is None else max(self.instant, found)
