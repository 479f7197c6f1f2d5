"""Partial aggregates of many groups, partitioned so that each part fits.

Owns the choice between memory and files: as long as sums are few, or far fewer than their rows, they stay in memory; rows that come
when they are many, or bring many groups, go to files of scratch, by parts of their keys, and are summed up part by part. Invariant: parts together are the sums of all rows,
each key in one of them. Not here: sums of rows in memory (`group_sums`), what they do to groups (`aggregate_run`).
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from odfabric_engine_spark.arrays.ordered_threads import in_turn
from odfabric_engine_spark.operators.aggregate.group_sums import GroupedRows, Marks, PartialSums, added_up
from odfabric_engine_spark.operators.aggregate.group_versions import GroupShape
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.state.key_range import ALL_KEYS, KeyPart

_FILES_MAX = 256
"""Files that are open at once."""
_SUMS_EACH = 4
"""Sums that take about as much memory as a group that is in hand."""
_ROWS_EACH = 4
"""Rows of a group from which on its sum is worth keeping rather than its rows."""

_PARTS_EACH = 4
"""Parts that each thread takes one after the other: what is made of one of them is written while others are taken."""


class SumsByPart:
    """Sums of at most `rows` rows.

    `close` removes its files. Threads may take different parts at the same time.

    `at_once` is how many threads that many rows are worth, `size` what the values of groups, which are kept one by one, may have.
    """

    def __init__(self, shape: GroupShape, marks: Marks, *, rows: int, call: EngineCall, size: TransactionSize) -> None:
        self._shape = shape
        self._marks = marks
        self.at_once = max(min(call.settings.cores, rows // max(call.settings.stage_rows_each, 1)), 1)
        self._rows = rows
        self._call = call
        self._size = size
        self._groups_max = shape.in_hand(call.settings.groups_max)
        self._sums: list[PartialSums] = []
        self._groups = 0
        self._many = False
        self._files: _RowFiles | None = None

    def add(self, tables: Iterable[pa.Table]) -> None:
        """More rows (keys, inputs, weight, step), piece by piece.

        Raises LimitExceeded if values of groups are more than may be in hand. What `tables` raise, and OSError, passes through.
        """
        # Sums are kept in the order of their rows: values that come in the order of their times need not be sorted then.
        for found in in_turn(self.summed_or_kept, tables, at_once=self.at_once):
            self._call.check()
            if isinstance(found, PartialSums):
                self._sums.append(found)
                self._groups += len(found.keys)
                if self._groups > _SUMS_EACH * self._groups_max:
                    self._sums = [added_up(self._sums, self._shape.accumulators)]
                    self._groups = len(self._sums[0].keys)
                self._size.check(sum(each.value_bytes for each in self._sums))
                self._many = self._many or self._groups > _SUMS_EACH * self._groups_max
            else:
                self._many = True
                self._files = self._files or self.row_files(found.schema)
                self._files.add(found)

    def summed_or_kept(self, rows: pa.Table) -> PartialSums | GroupedRows:
        """The sums of rows, or the rows, where they bring too many groups."""
        grouped = GroupedRows(rows, self._shape.columns)
        self._call.check()
        many = len(grouped.keys) * _ROWS_EACH > rows.num_rows and len(grouped.keys) > self._groups_max
        return grouped if self._many or many else self._summed(grouped)

    def parts(self) -> list[KeyPart]:
        """Divide the sums once all rows have come: the parts of the keys."""
        in_memory = (1 + self._groups // self._groups_max) * (_PARTS_EACH * self.at_once if self.at_once > 1 else 1)
        count = in_memory if self._files is None else self._files.count
        return ALL_KEYS.divided(count)

    def of_part(self, part: KeyPart) -> PartialSums:
        """The sums of one of these parts."""
        self._call.check()
        own = [sums for each in self._sums if len((sums := each.of_part(part)).keys)]
        if self._files is not None:
            # A single key may have most rows of all.
            for rows in self._files.rows(part.number, self._call.settings.transform_rows_in_memory_max // self.at_once):
                self._call.check()
                own.append(self._summed(GroupedRows(rows, self._shape.columns)))
        return added_up(own or [self._shape.no_sums()], self._shape.accumulators)

    def check(self, in_hand: int = 0) -> None:
        """Raises if the call was cancelled or is out of time; LimitExceeded for memory."""
        self._call.check()
        self._size.check(in_hand)

    def close(self) -> None:
        """Nothing reads it any more."""
        if self._files is not None:
            self._files.close()

    def row_files(self, schema: pa.Schema) -> _RowFiles:
        count = min(2 + self.at_once * self._rows // self._groups_max, _FILES_MAX)
        return _RowFiles(self._call.scratch, schema, count)

    def _summed(self, grouped: GroupedRows) -> PartialSums:
        return grouped.sums(self._marks, self._shape.accumulators, end_column=self._shape.end_column)


class _RowFiles:
    """A file of rows for each of `count` parts of the keys."""

    def __init__(self, scratch: Path, schema: pa.Schema, count: int) -> None:
        self.count = count
        name = f"rows-{secrets.token_hex(8)}"
        self._schema = schema
        self._paths = [scratch / f"{name}-{number}" for number in range(count)]
        self._writers = [pa.ipc.new_stream(str(path), schema) for path in self._paths]

    def add(self, grouped: GroupedRows) -> None:
        """Rows go to their parts."""
        for number, rows in grouped.parted(self.count):
            self._writers[number].write_table(rows.cast(self._schema))

    def rows(self, number: int, rows_max: int) -> Iterator[pa.Table]:
        """The rows of a part, about so many at a time.

        Of a part without rows one table without any.
        """
        self._writers[number].close()
        with pa.memory_map(str(self._paths[number])) as file, pa.ipc.open_stream(file) as reader:
            waiting: list[pa.RecordBatch] = []
            waiting_rows, given = 0, False
            for batch in reader:
                waiting.append(batch)
                waiting_rows += batch.num_rows
                if waiting_rows >= rows_max:
                    yield pa.Table.from_batches(waiting)
                    waiting, waiting_rows, given = [], 0, True
            if waiting or not given:
                yield pa.Table.from_batches(waiting, schema=self._schema)

    def close(self) -> None:
        """Removes the files. What closing one raises passes through when all are gone."""
        with ExitStack() as closing:
            for writer, path in zip(self._writers, self._paths, strict=True):
                closing.callback(path.unlink, missing_ok=True)
                closing.callback(writer.close)
