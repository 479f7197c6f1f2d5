"""Rows that need no query engine: Arrow batches from a scratch file of ours.

They come with what becomes of each of them.

Owns the second form of rows that have been read, beside the Spark frame. Invariant: both forms have the same rows in the same order with the
same values; what only Spark can judge raises NotPlain, and Spark does it. Not here: when rows are written from this form (`plain_append`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.formats.parquet.parquet_reading import batches_of

Change: TypeAlias = Callable[[pa.RecordBatch], pa.RecordBatch]
"""What becomes of a batch. Raises NotPlain."""


class NotPlain(Exception):
    """A value that only the way through Spark can judge."""


@dataclass(frozen=True, slots=True)
class PlainRows:
    """The rows of `file` in its order, without hidden columns, after `changes`.

    Batches have about `bytes_max` bytes.
    """

    file: Path
    columns: tuple[str, ...]
    bytes_max: int
    changes: tuple[Change, ...] = ()

    def changed(self, change: Change) -> PlainRows:
        """The same rows after one more change."""
        return replace(self, changes=(*self.changes, change))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows from the beginning. Raises NotPlain."""
        # Rows of strangers were checked before they were written here.
        with pq.ParquetFile(self.file, pre_buffer=False) as file:
            for batch in batches_of(file, bytes_max=self.bytes_max):
                rows = batch.select(list(range(len(self.columns))))
                for change in self.changes:
                    rows = change(rows)
                yield rows


def renamed(names: dict[str, str]) -> Change:
    """Columns under other names."""
    return lambda batch: batch.rename_columns([names.get(name, name) for name in batch.schema.names])


def with_column(name: str, make: Callable[[pa.Array], pa.Array]) -> Change:
    """Another array in the place of the column `name`."""

    def change(batch: pa.RecordBatch) -> pa.RecordBatch:
        index = batch.schema.get_field_index(name)
        return batch.set_column(index, name, make(batch.column(index)))

    return change
