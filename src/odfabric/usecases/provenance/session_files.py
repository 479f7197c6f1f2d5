"""Slices of datasets as files of one session of the exchange, each fetched once.

Also records of a slice by their offsets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.errors import Corrupt
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.formats.json_values.json_rows import DataFormat, rows_to_json
from odfabric.formats.parquet.column_bounds import column_bounds
from odfabric.formats.slices.slice_parquet import SliceReader, open_slice
from odfabric.model.engine import SliceFile
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record as its slice has it; `values` without system columns."""

    offset: int
    op: OperationType
    values: Mapping[str, JsonValue]


class SessionFiles:
    """Files below `folder`, a session of the exchange."""

    def __init__(self, folder: Path, *, repository: Repository, exchange: Exchange) -> None:
        self.folder = folder
        self._repository = repository
        self._exchange = exchange
        self._paths: dict[tuple[DatasetId, Multihash], Path] = {}
        self._answers = 0

    def relative(self, path: Path) -> str:
        """A path as the engine knows it."""
        return path.relative_to(self._exchange.root).as_posix()

    def new_answer(self) -> Path:
        """Where the next answer of the engine goes."""
        self._answers += 1
        return self.folder / f"answer-{self._answers}"

    def slices(self, dataset: DatasetId, slices: Iterable[DataSlice]) -> tuple[SliceFile, ...]:
        """Slices as the engine is given them. Raises Corrupt."""
        return tuple(
            SliceFile(
                path=self.relative(self._path(dataset, data.physical_hash)),
                offsets=OffsetRange.from_wire(data.offset_interval),
            )
            for data in slices
        )

    def records(
        self, dataset: DatasetId, data: DataSlice, offsets: Iterable[int], vocabulary: DatasetVocabulary
    ) -> Mapping[int, StoredRecord]:
        """Records of a slice by offset. Raises Corrupt if it has other offsets."""
        found: dict[int, StoredRecord] = {}
        begin = OffsetRange.from_wire(data.offset_interval).begin
        with open_slice(self._path(dataset, data.physical_hash), vocabulary) as reader:
            places = np.unique(np.fromiter(offsets, np.int64))
            table = reader.rows_of(places - begin)
            if table.column(vocabulary.offset).to_pylist() != places.tolist():
                message = f"data object {data.physical_hash} of {dataset} has other offsets than its block says"
                raise Corrupt(message, object_name=str(data.physical_hash), hint="`odf verify` says what is wrong")
            rows = rows_to_json(table, DataFormat.JSON_AOS)
            assert isinstance(rows, list)
            for offset, row in zip(places.tolist(), rows, strict=True):
                assert isinstance(row, dict)
                found[offset] = _record(offset, row, vocabulary)
        return found

    def table(self, dataset: DatasetId, data: DataSlice, vocabulary: DatasetVocabulary) -> pa.Table:
        """All records of a slice. Raises Corrupt."""
        rows = OffsetRange.from_wire(data.offset_interval).rows
        with open_slice(self._path(dataset, data.physical_hash), vocabulary) as reader:
            return reader.rows_at(skip=0, limit=rows)

    def opened(
        self, dataset: DatasetId, data: DataSlice, vocabulary: DatasetVocabulary
    ) -> AbstractContextManager[SliceReader]:
        """A slice for reading in part. Raises Corrupt."""
        return open_slice(self._path(dataset, data.physical_hash), vocabulary)

    def least_and_greatest(self, dataset: DatasetId, data: DataSlice, column: str) -> tuple[object, object] | None:
        """Bounds of a column by the statistics of the slice.

        None if they are not known for all records. Raises Corrupt.
        """
        return column_bounds(self._path(dataset, data.physical_hash), column)

    def _path(self, dataset: DatasetId, name: Multihash) -> Path:
        path = self._paths.get((dataset, name))
        if path is None:
            path = self.folder / f"{dataset.multibase}-{name}"
            self._repository.materialize_slice(dataset, name, path)
            self._paths[dataset, name] = path
        return path


def _record(offset: int, row: Mapping[str, JsonValue], vocabulary: DatasetVocabulary) -> StoredRecord:
    given = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    op = row[vocabulary.operation_type]
    assert isinstance(op, int)
    values = {name: value for name, value in row.items() if name not in given}
    return StoredRecord(offset, OperationType(op), values)
