"""Rows of slices in portions, for readers that come back for the next one.

Owns what is kept between two portions. Invariant: rows come from a slice that was hashed when it was read; what is kept of all slices
together stays within a number of bytes. Not here: what the rows mean to whoever reads them.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pyarrow as pa

from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository

PORTIONS_AHEAD = 16
"""A large slice is fetched and hashed once for so many portions."""


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Rows of a slice from number `first` on."""

    first: int
    rows: pa.Table

    def has(self, first: int, limit: int, count: int) -> bool:
        """Whether rows `[first, first + limit)` of a slice of `count` rows are among them."""
        return self.first <= first and min(first + limit, count) <= self.first + int(self.rows.num_rows)


class SliceRows:
    """Portions of slices."""

    def __init__(self, *, repository: Repository, exchange: Exchange, bytes_max: int) -> None:
        """`bytes_max` bounds what is kept."""
        self._repository = repository
        self._exchange = exchange
        self._bytes_max = bytes_max
        self._lock = threading.Lock()
        self._kept: dict[tuple[DatasetId, Multihash], _Stretch] = {}

    def rows_at(self, dataset: DatasetId, name: Multihash, *, first: int, limit: int, count: int) -> pa.Table:
        """At most `limit` rows of a slice of `count` rows, from number `first` on.

        Raises Corrupt.
        """
        key = (dataset, name)
        with self._lock:
            kept = self._kept.get(key)
        if kept is None or not kept.has(first, limit, count):
            kept = _Stretch(first, self._read(dataset, name, first, limit * PORTIONS_AHEAD))
            self._keep(key, kept, read_to_its_end=first + limit >= count)
        return kept.rows.slice(first - kept.first, limit)

    def _read(self, dataset: DatasetId, name: Multihash, first: int, limit: int) -> pa.Table:
        _, state = self._repository.current(dataset)
        with self._exchange.session() as folder:
            path = folder / "slice"
            self._repository.materialize(dataset, DATA, name, path)
            with open_slice(path, state.vocabulary) as reader:
                return reader.rows_at(skip=first, limit=limit)

    def _keep(self, key: tuple[DatasetId, Multihash], stretch: _Stretch, *, read_to_its_end: bool) -> None:
        with self._lock:
            self._kept.pop(key, None)
            if read_to_its_end:
                return
            self._kept[key] = stretch
            while sum(kept.rows.nbytes for kept in self._kept.values()) > self._bytes_max:
                self._kept.pop(next(iter(self._kept)))
