"""Blocks of an input, found again from what the contract `engine.Engine` tells of them: slices, and pairs of times.

Owns the mapping of pairs (system time of a block, its watermark) to the steps in which a transaction is read. Invariant: where
blocks cannot be told apart, because their system times are equal, rows come before watermarks, so that none is late by
mistake. Not here: rows between the first and the last of a slice, which are checked when they are read. Source: rulings on
steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyarrow import types

from odfabric.errors import InvalidData, Place
from odfabric.formats.parquet_reading import arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slice_schema import TIMESTAMP_TYPE
from odfabric.model.engine import SliceFile, TransformStep
from odfabric.model.engine_contract import Watermark
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.exchange import ExchangeFolder


@dataclass(frozen=True, slots=True)
class DataBlock:
    """A slice, and the system time of its last row in milliseconds: that of its block, or an older one if it was compacted."""

    slice: SliceFile
    system_ms: int


def read_block(path: str, vocabulary: DatasetVocabulary, exchange: ExchangeFolder) -> DataBlock:
    """What the first and the last row of a slice say. Raises InvalidData for a file that is no slice."""
    with open_parquet(exchange.input(path)) as file:
        rows = file.metadata.num_rows
        schema = arrow_schema_of(file)
        if rows == 0 or vocabulary.offset not in schema.names or vocabulary.system_time not in schema.names:
            raise InvalidData("not a data slice: it lacks rows, offsets or system times", place=Place(file=path))
        first = next(batches_of(file, [vocabulary.offset], row_groups=[0])).column(0)
        for last in batches_of(file, [vocabulary.system_time], row_groups=[file.num_row_groups - 1]):
            times = last.column(0)
    begin, system_time = first[0], times[-1]
    if not types.is_integer(begin.type) or not types.is_timestamp(system_time.type):
        raise InvalidData("offset or system time of a slice has a wrong type", place=Place(file=path))
    if not begin.is_valid or not system_time.is_valid:
        raise InvalidData("offset or system time of a slice is null", place=Place(file=path))
    offset = begin.as_py()
    millis = pa.array([system_time]).cast(TIMESTAMP_TYPE, safe=False).cast(pa.int64())[0].as_py()
    return DataBlock(SliceFile(path=path, offsets=OffsetRange(offset, offset + rows)), millis)


def steps_of_blocks(
    blocks: Sequence[DataBlock], marks: Sequence[Watermark], offsets: OffsetRange
) -> Iterator[TransformStep]:
    """Steps over the interval `offsets` of an input, oldest first."""
    last = offsets.begin - 1 if offsets.begin else None
    for system_ms in sorted({*(block.system_ms for block in blocks), *(_millis(mark.system_time) for mark in marks)}):
        data = [block for block in blocks if block.system_ms == system_ms]
        found = [mark.event_time for mark in marks if _millis(mark.system_time) == system_ms]
        paired = len(data) == len(found)
        time = Instant.from_millis(system_ms)
        for number, block in enumerate(data):
            last = min(block.slice.offsets.end, offsets.end) - 1
            yield TransformStep(system_time=time, last_offset=last, watermark=found[number] if paired else None)
        for watermark in () if paired else found:
            yield TransformStep(system_time=time, last_offset=last, watermark=watermark)


def _millis(instant: Instant) -> int:
    return instant.epoch_ns // NANOS_PER_MILLI
