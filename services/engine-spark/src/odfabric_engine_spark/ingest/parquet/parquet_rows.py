"""Rows of a Parquet file by Arrow, in bounded memory.

Owns how many rows are decoded at once, and the count of what they take: a dictionary entry of a megabyte costs a page four bytes each
time. Invariant: what is decoded at once is bounded by what the pages allow (`parquet_survey`), and no row is larger than a line may be;
a row group gives as many rows as its footer says. Not here: whether a second reader agrees (`second_reader`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import LimitExceeded, Place
from odfabric.formats.slices.array_sizes import row_sizes
from odfabric_engine_spark.ingest.parquet.parquet_statistics import GroupStatistics
from odfabric_engine_spark.ingest.parquet.parquet_survey import WORST_BATCHES, RowGroup, Survey, damaged
from odfabric_engine_spark.spark.calls.call import EngineCall


def open_strangers(path: Path, *, as_dictionaries: Sequence[str] = ()) -> pq.ParquetFile:
    """Open for reading; 96-bit timestamps as milliseconds, since nanoseconds overflow."""
    return pq.ParquetFile(
        path, coerce_int96_timestamp_unit="ms", pre_buffer=False, read_dictionary=list(as_dictionaries)
    )


READ_ERRORS = (pa.ArrowException, OSError, ValueError, OverflowError)
"""What Arrow raises over damaged files; UnicodeDecodeError among it."""


def is_of_the_system(error: BaseException) -> bool:
    """Whether the system failed, not the file.

    Arrow reports damaged content by an OSError without an errno.
    """
    return isinstance(error, OSError) and error.errno is not None


@dataclass(slots=True)
class ParquetRows:
    """The rows of one file.

    `unpacked` is what those before it and its own have taken so far; `largest` is the largest row.
    """

    path: Path
    name: str
    survey: Survey
    call: EngineCall
    unpacked: int = 0
    largest: int = 0

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Batches in order, each with the position of its first row.

        Raises InvalidData with the place of damage, LimitExceeded.
        """
        with open_strangers(self.path, as_dictionaries=self.survey.as_dictionaries) as file:
            for group in self.survey.groups:
                yield from self._of_group(file, group, list(columns))

    def _of_group(
        self, file: pq.ParquetFile, group: RowGroup, columns: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        statistics = GroupStatistics(file.schema, self.survey.footer, group.index, self.survey.leaves)
        rows = 0
        for batch in self._decoded(file, group, columns):
            try:
                for part in self._parts(batch, group.first_row + rows):
                    plain = _without_dictionaries(part)
                    statistics.add(plain)
                    yield group.first_row + rows, plain
                    rows += part.num_rows
            except pa.ArrowException as error:
                raise damaged(first_line(error), file=self.name, column=None, group=group) from None
        if rows != group.rows:
            raise damaged(f"it has {rows} rows instead of {group.rows}", file=self.name, column=None, group=group)
        for column, reason in statistics.contradictions():
            raise damaged(reason, file=self.name, column=column, group=group)

    def _at_once(self, group: RowGroup) -> int:
        settings = self.call.settings
        return max(1, min(settings.batch_rows, WORST_BATCHES * settings.batch_bytes // group.row_bytes))

    def _parts(self, batch: pa.RecordBatch, first_row: int) -> Iterator[pa.RecordBatch]:
        """The batch in pieces of at most `batch_bytes`, unless one row has more."""
        settings = self.call.settings
        sizes = sum((row_sizes(column) for column in batch.columns), np.zeros(batch.num_rows, np.int64))
        if not batch.num_rows:
            return
        largest = int(sizes.max())
        if largest > settings.line_bytes_max:
            place = Place(file=self.name, row=first_row + int((sizes > settings.line_bytes_max).argmax()) + 1)
            maximum = settings.line_bytes_max
            raise LimitExceeded("A row is too large", limit="line_bytes_max", maximum=maximum, place=place)
        self.largest = max(self.largest, largest)
        self.unpacked += int(sizes.sum())
        if self.unpacked > settings.input_unpacked_bytes_max:
            maximum = settings.input_unpacked_bytes_max
            place = Place(file=self.name, row=first_row + 1)
            raise LimitExceeded(
                "Unpacked, the rows are too large", limit="input_unpacked_bytes_max", maximum=maximum, place=place
            )
        ends = np.cumsum(sizes)
        start = 0
        while start < batch.num_rows:
            before = int(ends[start - 1]) if start else 0
            end = max(start + 1, int(np.searchsorted(ends, before + settings.batch_bytes, side="right")))
            yield batch.slice(start, end - start)
            start = end

    def _decoded(self, file: pq.ParquetFile, group: RowGroup, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Arrow's result, or an error naming the first column that fails by itself."""
        batches = file.iter_batches(self._at_once(group), row_groups=[group.index], columns=columns)
        while True:
            self.call.check()
            try:
                batch = next(batches, None)
            except READ_ERRORS as error:
                if is_of_the_system(error):
                    raise
                if len(columns) > 1:
                    for name in columns:
                        for _ in self._decoded(file, group, [name]):
                            pass
                column = columns[0] if len(columns) == 1 else None
                raise damaged(first_line(error), file=self.name, column=column, group=group) from None
            if batch is None:
                return
            yield batch


def first_line(error: BaseException) -> str:
    """What an error says, without what follows."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [column.dictionary_decode() if types.is_dictionary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
