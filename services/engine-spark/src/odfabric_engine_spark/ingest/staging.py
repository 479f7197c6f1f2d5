"""Batches of Arrow rows into a scratch file, in bounded memory.

Owns the scratch files between our own parsers and Spark. Invariant: rows keep their order by the column `ROW`, which is
written here, and a file holds what the parser gave, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.frames.exact_filters import with_exact_filters
from odfabric_engine_spark.spark.frames.plain_rows import PlainRows
from odfabric_engine_spark.spark.frames.read_rows import ROW
from odfabric_engine_spark.spark.frames.spark_path import spark_path
from odfabric_engine_spark.spark.frames.spark_types import spark_schema

_VECTOR_ROWS = 4_096
"""Rows that Spark reads at once without an option."""

_ROW_FIELD = pa.field(ROW, pa.int64(), nullable=False)


@dataclass(frozen=True, slots=True)
class Staged:
    """Rows in a scratch file: how many, and their size in memory."""

    make_frame: Callable[[], DataFrame]
    plain: PlainRows
    rows: int
    bytes: int

    @property
    def frame(self) -> DataFrame:
        """The rows in Spark, made when it is first asked for."""
        return self.make_frame()


class StagingWriter:
    """Writes batches of one schema, each row with its position."""

    def __init__(self, call: EngineCall, schema: pa.Schema, name: str) -> None:
        self._call = call
        # Nulls where none may be are counted over all rows and refused by the reader.
        self._schema = pa.schema([*(field.with_nullable(True) for field in schema), _ROW_FIELD])
        self._file: Path = call.scratch / f"{name}.parquet"
        self._writer = pq.ParquetWriter(
            self._file, self._schema, compression="snappy", use_dictionary=False, write_page_checksum=True
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self.rows = 0
        self.bytes = 0

    def write(self, columns: Sequence[pa.Array]) -> None:
        """Appends rows, given as one array for each column."""
        self._call.progress("read", self.rows)
        count = len(columns[0])
        positions = pa.array(np.arange(self.rows, self.rows + count, dtype=np.int64))
        batch = pa.RecordBatch.from_arrays([*columns, positions], schema=self._schema)
        self.rows += count
        self.bytes += batch.nbytes
        self._waiting.append(batch)
        self._waiting_rows += count
        self._waiting_bytes += batch.nbytes
        settings = self._call.settings
        if self._waiting_rows >= settings.batch_rows or self._waiting_bytes >= settings.batch_bytes:
            self._write_group()

    def finish(self, *, largest_row_bytes: int = 0) -> Staged:
        """Close the file and give Spark its rows, with how many fit into memory at once."""
        self._write_group()
        self._writer.close()
        make_frame = cache(lambda: self._frame(largest_row_bytes))
        names = tuple(self._schema.names[:-1])
        plain = PlainRows(self._file, names, self._call.settings.batch_bytes)
        return Staged(make_frame, plain, self.rows, self.bytes)

    def _frame(self, largest_row_bytes: int) -> DataFrame:
        session = self._call.session
        if largest_row_bytes:
            rows = max(1, min(_VECTOR_ROWS, self._call.settings.batch_bytes // largest_row_bytes))
            session.conf.set("spark.sql.parquet.columnarReaderBatchSize", str(rows))
        return with_exact_filters(session.read.schema(spark_schema(self._schema)).parquet(spark_path(self._file)))

    def _write_group(self) -> None:
        # Arrow's writer keeps a row group in memory until it is complete: it is made of what is in memory anyway.
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=max(1, self._waiting_rows))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0
