"""Blocks of an input from what `engine.Engine` says: slices and pairs of times.

Owns the mapping of pairs (system time of a block, its watermark) to the steps in which a transaction is read. Invariant: where
blocks cannot be distinguished, because their system times are equal, rows come before watermarks, so that none is late by
mistake. Not here: rows between the first and the last of a slice, of which only kinds of change are looked at; the others are checked when
they are read. Source: docs/engine.md#steps-and-slicing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import InvalidData, Place
from odfabric.formats.parquet.parquet_reading import arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE
from odfabric.model.engine import SliceFile, TransformStep
from odfabric.model.engine_contract import Watermark
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder

_NO_SLICE = "file-no-slice"


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A slice, and the system time of its last row in milliseconds.

    That of its block, or an older one if it was compacted.
    """

    slice: SliceFile
    system_ms: int


def read_block(path: str, vocabulary: DatasetVocabulary, exchange: ExchangeFolder) -> DataBlock:
    """What the first and the last row of a slice say.

    Raises InvalidData for a file that is no slice, or has a kind of change that is none.
    """
    with open_parquet(exchange.input(path)) as file:
        rows = file.metadata.num_rows
        schema = arrow_schema_of(file)
        needed = (vocabulary.offset, vocabulary.system_time, vocabulary.event_time)
        if rows == 0 or not set(needed) <= set(schema.names):
            message = "not a data slice: it lacks rows, offsets, system times or event times"
            raise InvalidData(message, place=Place(file=path, rule=_NO_SLICE))
        filled = [at for at in range(file.num_row_groups) if file.metadata.row_group(at).num_rows]
        begin = _values(file, vocabulary.offset, filled[0])[0]
        system_time = _values(file, vocabulary.system_time, filled[-1])[-1]
        if vocabulary.operation_type in schema.names:
            _check_operations(path, file, vocabulary.operation_type)
    if not types.is_integer(begin.type) or not types.is_timestamp(system_time.type):
        raise InvalidData("offset or system time of a slice has a wrong type", place=Place(file=path, rule=_NO_SLICE))
    if not begin.is_valid or not system_time.is_valid:
        raise InvalidData("offset or system time of a slice is null", place=Place(file=path, rule=_NO_SLICE))
    offset = begin.as_py()
    millis = pa.array([system_time]).cast(TIMESTAMP_TYPE, safe=False).cast(pa.int64())[0].as_py()
    return DataBlock(SliceFile(path=path, offsets=OffsetRange(offset, offset + rows)), millis)


def _values(file: pq.ParquetFile, name: str, row_group: int) -> pa.ChunkedArray:
    """A column of a row group that has rows."""
    return pa.Table.from_batches(list(batches_of(file, [name], row_groups=[row_group]))).column(0)


def _check_operations(path: str, file: pq.ParquetFile, name: str) -> None:
    """Refuse unknown operations, which would silently be taken for known ones."""
    rows = 0
    for batch in batches_of(file, [name]):
        kinds = batch.column(0)
        if not types.is_integer(kinds.type):
            place = Place(file=path, field=name, rule=_NO_SLICE)
            raise InvalidData(f"the column {name} of a slice is not of integers", place=place)
        known = pc.is_in(kinds, value_set=pa.array(list(map(int, OperationType))).cast(kinds.type))
        if not pc.all(known, min_count=0).as_py():
            at = pc.index(known, False).as_py()
            message = f"{kinds[at].as_py()} is no operation type"
            place = Place(file=path, field=name, row=rows + at + 1, rule=_NO_SLICE)
            raise InvalidData(message, place=place, hint="0 to 3 are")
        rows += batch.num_rows


def steps_of_blocks(
    blocks: Sequence[DataBlock], marks: Sequence[Watermark], offsets: OffsetRange
) -> Iterator[TransformStep]:
    """Steps over the interval `offsets` of an input, oldest first."""
    last = offsets.begin - 1 if offsets.begin else None
    data_at: dict[int, list[DataBlock]] = {}
    marks_at: dict[int, list[Instant]] = {}
    for block in blocks:
        data_at.setdefault(block.system_ms, []).append(block)
    for mark in marks:
        marks_at.setdefault(_millis(mark.system_time), []).append(mark.event_time)
    for system_ms in sorted({*data_at, *marks_at}):
        data, found = data_at.get(system_ms, []), marks_at.get(system_ms, [])
        paired = len(data) == len(found)
        time = Instant.from_millis(system_ms)
        for number, block in enumerate(data):
            last = min(block.slice.offsets.end, offsets.end) - 1
            yield TransformStep(system_time=time, last_offset=last, watermark=found[number] if paired else None)
        for watermark in () if paired else found:
            yield TransformStep(system_time=time, last_offset=last, watermark=watermark)


def _millis(instant: Instant) -> int:
    return instant.epoch_ns // NANOS_PER_MILLI
