"""Changelogs for index tests: slices of operations, and their sums row by row.

Owns the oracle: a multiset of Python rows. Invariant: it shares nothing with what is tested but the slice files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, new_slice_schema
from odfabric.model.identity import DatasetId
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.state_index import IndexDefinition, IndexedSlice, IndexMode
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.testing.chains import example_id
from odfabric.testing.chains import physical_hash as hash_of_text

A, R, C_FROM, C_TO = OperationType.APPEND, OperationType.RETRACT, OperationType.CORRECT_FROM, OperationType.CORRECT_TO

Change: TypeAlias = tuple[OperationType, str | None, float | None]
"""What happens, to which key, with which value."""

COLUMNS = pa.schema(
    [pa.field("event_time", TIMESTAMP_TYPE), pa.field("key", pa.string()), pa.field("value", pa.float64())]
)
SLICE_COLUMNS = new_slice_schema(list(COLUMNS)[1:], vocabulary=DatasetVocabulary())


@dataclass
class Changelog:
    """A chain's data blocks. Between two of them there may be blocks without data."""

    objects: ObjectStore
    folder: Path
    name: str = "indexed"
    slices: list[IndexedSlice] = field(default_factory=list)
    changes: list[tuple[int, Change]] = field(default_factory=list)
    next_number: int = 3
    next_offset: int = 0

    @property
    def dataset(self) -> DatasetId:
        """Its dataset."""
        return example_id(self.name)

    def definition(
        self, mode: IndexMode = IndexMode.STATE, *, epoch: str = "first", without: str | None = None
    ) -> IndexDefinition:
        """An index of it; `without` a column that its schema did not have yet."""
        columns = COLUMNS if mode is IndexMode.STATE else pa.schema([COLUMNS.field("key")])
        columns = pa.schema([one for one in columns if one.name != without])
        return IndexDefinition(
            dataset=self.dataset,
            epoch=hashlib.sha3_256(f"{epoch} {mode.value}".encode()).hexdigest()[:32],
            mode=mode,
            keys=("key",),
            columns=arrow_to_data_schema(columns),
            vocabulary=DatasetVocabulary(),
        )

    def add(self, *changes: Change, blocks_before: int = 0) -> IndexedSlice:
        """A block with these changes, after some without data."""
        number = self.next_number + blocks_before
        path = self.folder / f"slice-{self.name}-{number}"
        write_changes(path, changes, self.next_offset)
        name, _ = physical_hash(path)
        self.objects.put_file(data_key(self.dataset, name), path)
        offsets = OffsetRange(self.next_offset, self.next_offset + len(changes))
        one = IndexedSlice(
            sequence_number=number,
            block_hash=hash_of_text(f"block {self.name} {number}"),
            physical_hash=name,
            offsets=offsets,
        )
        self.slices.append(one)
        self.changes += [(number, change) for change in changes]
        self.next_number, self.next_offset = number + 1, offsets.end
        return one

    def net(self, number: int, mode: IndexMode = IndexMode.STATE) -> Counter[tuple[str, ...]]:
        """What the changes up to a block add up to, rows as texts."""
        found: Counter[tuple[str, ...]] = Counter()
        for at, (operation, key, value) in self.changes:
            if at <= number and mode is IndexMode.KEYS:
                found[(repr(key),)] = 1
            elif at <= number:
                found[_shown(key, value)] += 1 if operation in (A, C_TO) else -1
        return Counter({row: count for row, count in found.items() if count})


def rows_of(tables: Iterable[pa.Table]) -> Counter[tuple[str, ...]]:
    """Rows of tables, as the changelog shows them."""
    found: Counter[tuple[str, ...]] = Counter()
    for table in tables:
        for row in table.to_pylist():
            found[_shown(row["key"], row["value"]) if "value" in row else (repr(row["key"]),)] += 1
    return found


def _shown(key: str | None, value: float | None) -> tuple[str, ...]:
    return (repr(key), repr(value))


def write_changes(
    path: Path, changes: Sequence[Change], offset: int, *, event_times: Sequence[int] | None = None
) -> None:
    """A slice file of these changes, the first of which has this offset.

    `event_times` are in milliseconds since 1970, by default 0.
    """
    with SliceWriter(path, SLICE_COLUMNS) as writer:
        writer.write(_batch(changes, offset, event_times or [0] * len(changes)))


def _batch(changes: Sequence[Change], offset: int, event_times: Sequence[int]) -> pa.RecordBatch:
    count = len(changes)
    columns: list[Any] = [
        pa.array(range(offset, offset + count), pa.int64()),
        pa.array([int(operation) for operation, _, _ in changes], pa.int32()),
        pa.array([0] * count, pa.int64()).cast(TIMESTAMP_TYPE),
        pa.array(event_times, pa.int64()).cast(TIMESTAMP_TYPE),
        pa.array([key for _, key, _ in changes], pa.string()),
        pa.array([value for _, _, value in changes], pa.float64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SLICE_COLUMNS)


def well_formed(
    wishes: Iterable[tuple[str | None, float | None]], present: dict[str | None, float | None]
) -> list[Change]:
    """Changes that bring keys to wished values, a NaN meaning that the key should go.

    `present` is kept up to date.
    """
    changes: list[Change] = []
    for key, value in wishes:
        gone = value is not None and value != value
        if key in present:
            old = present.pop(key)
            changes.append((R if gone else C_FROM, key, old))
            if not gone:
                changes.append((C_TO, key, value))
        elif not gone:
            changes.append((A, key, value))
        if not gone:
            present[key] = value
    return changes
