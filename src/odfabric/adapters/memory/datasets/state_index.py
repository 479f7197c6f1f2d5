"""Current-state indexes in memory: the reference in tests.

Rows are Python values here, added up one by one.

Owns nothing on disk. It is written without the kernels of other indexes, so that the two can be held against each other.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import pyarrow as pa

from odfabric.errors import Corrupt, Determinate, InvalidData, NotFound
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.operation import OperationType
from odfabric.model.state_index import (
    IndexDefinition,
    IndexedSlice,
    IndexFrontier,
    IndexMode,
    Violation,
    continue_at,
)
from odfabric.ports.datasets.object_store import ObjectStore

Row = tuple[Any, ...]
"""Names and values of a row, those that are not null."""


@dataclass
class _Content:
    """One index: changes by block, and the present row of each key."""

    columns: frozenset[str] = frozenset()
    changes: list[tuple[int, Row, int]] = field(default_factory=list)
    present: dict[Row, Row] = field(default_factory=dict)
    since: int = 0
    upper: int = 0
    block_hash: Multihash | None = None
    next_offset: int = 0
    violation: Violation | None = None


class MemoryStateIndex:
    """Implements `ports.datasets.state_index.StateIndex`."""

    def __init__(self, objects: ObjectStore) -> None:
        self._objects = objects
        self._lock = threading.RLock()
        self._contents: dict[tuple[DatasetId, str], _Content] = {}

    def frontier(self, index: IndexDefinition) -> IndexFrontier | None:
        """See the port."""
        with self._lock:
            content = self._find(index)
            return None if content is None else _frontier(content)

    def extend(self, index: IndexDefinition, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        """See the port."""
        with self._lock:
            content = self._find(index) or _Content()
            pending = [one for one in slices if one.sequence_number >= content.upper]
            if content.violation is None and not continue_at(pending, content.next_offset):
                raise Determinate("the index does not end where these blocks begin: it was dropped meanwhile")
            content = self._open(index)
            for one in pending:
                if content.violation is None:
                    self._take_in(index, content, one)
            return _frontier(content)

    def maintain(self, index: IndexDefinition, *, since: int) -> IndexFrontier | None:
        """See the port."""
        with self._lock:
            content = self._find(index)
            if content is None:
                return None
            content.since = max(content.since, since)
            return _frontier(content)

    def rows_at(self, index: IndexDefinition, sequence_number: int) -> Iterator[pa.Table]:
        """See the port."""
        with self._lock:
            content = self._find(index)
            if content is None or not content.since <= sequence_number < content.upper:
                raise NotFound("state", f"after block number {sequence_number}")
            counts: Counter[Row] = Counter()
            for time, row, diff in content.changes:
                if time <= sequence_number:
                    counts[row] += diff
        rows = [_restored(row) for row, count in counts.items() if count]
        schema = data_schema_to_arrow(index.columns)
        columns = [pa.array([row.get(one.name) for row in rows], one.type) for one in schema]
        yield pa.table(columns, schema=schema)

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None = None) -> int:
        """See the port."""
        with self._lock:
            kept = None if but is None else (but.dataset, but.epoch)
            dropped = [key for key in self._contents if key[0] == dataset and key != kept]
            for key in dropped:
                del self._contents[key]
            return len(dropped)

    def _find(self, index: IndexDefinition) -> _Content | None:
        content = self._contents.get((index.dataset, index.epoch))
        if content is not None:
            columns = frozenset(one.name for one in index.columns.fields)
            if not content.columns <= columns:
                raise Determinate("the index has further columns already")
            content.columns = columns
        return content

    def _open(self, index: IndexDefinition) -> _Content:
        self._contents.setdefault((index.dataset, index.epoch), _Content())
        found = self._find(index)
        assert found is not None
        return found

    def _take_in(self, index: IndexDefinition, content: _Content, one: IndexedSlice) -> None:
        changes: list[tuple[int, Row, int]] = []
        present = dict(content.present)
        for row, diff in self._changes(index, one):
            if index.mode is IndexMode.STATE:
                key = tuple((name, _key_value(value)) for name, value in row if name in index.keys)
                if (present.get(key) is not None) if diff > 0 else (present.get(key) != row):
                    content.violation = Violation(
                        sequence_number=one.sequence_number, block_hash=one.block_hash, key=str(key)
                    )
                    return
                if diff > 0:
                    present[key] = row
                else:
                    del present[key]
            changes.append((one.sequence_number, row, diff))
        content.changes += changes
        content.present = present
        content.upper, content.block_hash = one.sequence_number + 1, one.block_hash
        content.next_offset = one.offsets.end

    def _changes(self, index: IndexDefinition, one: IndexedSlice) -> Iterator[tuple[Row, int]]:
        names = [column.name for column in index.columns.fields]
        try:
            with self._read(index, one) as stream, open_slice(stream, index.vocabulary) as reader:
                for batch in reader.batches():
                    for record in batch.to_pylist():
                        values = ((name, _comparable(record.get(name))) for name in sorted(names))
                        row = tuple((name, value) for name, value in values if value is not None)
                        added = record[index.vocabulary.operation_type] in (
                            OperationType.APPEND,
                            OperationType.CORRECT_TO,
                        )
                        yield row, 1 if added or index.mode is IndexMode.KEYS else -1
        except InvalidData as error:
            raise Corrupt(error.message, object_name=str(one.physical_hash)) from error

    def _read(self, index: IndexDefinition, one: IndexedSlice) -> BinaryIO:
        try:
            return self._objects.open(data_key(index.dataset, one.physical_hash))
        except NotFound as error:
            raise Corrupt(f"data object {one.physical_hash} is missing", object_name=str(one.physical_hash)) from error


def _comparable(value: Any) -> Any:
    """Floats by their digits, so that rows are equal exactly if they are the same."""
    return ("float", math.copysign(1.0, value), repr(value)) if isinstance(value, float) else value


def _restored(row: Row) -> dict[str, Any]:
    return {name: float(value[2]) if isinstance(value, tuple) else value for name, value in row}


def _key_value(value: Any) -> Any:
    return 0.0 if isinstance(value, tuple) and float(value[2]) == 0 else value


def _frontier(content: _Content) -> IndexFrontier:
    return IndexFrontier(
        since=content.since,
        upper=content.upper,
        block_hash=content.block_hash,
        next_offset=content.next_offset,
        rows=len(content.changes),
        bytes=0,
        tail_slices=0,
        tail_rows=0,
        violation=content.violation,
    )
