"""The rows that held at an event time, by what is known after a block.

Invariant: both ways to them give the same rows, and neither reads a slice of which all records happened later. One way reads the records up
to the block. The other takes the rows that are known, and puts in the place of each that happens later the row of its key before: the
slices with records that happen later have it, as the first half of a correction. It is taken where those slices hold fewer records.
Source: docs/reference/time.md; ADR 0083.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfabric.domain.chain.projection import projection_keys
from odfabric.domain.chain.state import ChainState
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import Changes, Records, in_order, repeated
from odfabric.formats.slices.time_rows import (
    LeftOut,
    changes_of_keys,
    happened,
    last_rows,
    left_out,
    split_by_all_keys,
    split_by_moment,
)
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import DataSlice
from odfabric.model.offsets import OffsetRange
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.replay import net_rows, records_of
from odfabric.usecases.state.time_travel import TravelPorts, rows_indexed, slices_until

LATER_SHARE_MAX = 0.25
"""Rows are found from those that are known if at most this part of the records lies in slices with later ones."""


@dataclass(frozen=True, slots=True)
class TimedSlices:
    """Slices at a moment, oldest first.

    `held`: some record may have happened by then. `later`: some record may not have. A slice may be both.
    """

    held: tuple[DataSlice, ...]
    later: tuple[DataSlice, ...]

    @property
    def all(self) -> tuple[DataSlice, ...]:
        """Every slice, in no order."""
        return tuple({each.physical_hash: each for each in self.held + self.later}.values())


def slices_at(
    dataset: DatasetId,
    slices: Iterable[DataSlice],
    event_time: str,
    moment: Instant,
    *,
    repository: Repository,
) -> TimedSlices:
    """What the statistics of slices say of their event times. Raises Corrupt."""
    held: list[DataSlice] = []
    later: list[DataSlice] = []
    for data in slices:
        bounds = repository.slice_times(dataset, data.physical_hash, event_time)
        if bounds is None or bounds.first <= moment.millis:
            held.append(data)
        if bounds is None or bounds.last > moment.millis:
            later.append(data)
    return TimedSlices(tuple(held), tuple(later))


def rows_held(
    entry: CatalogEntry,
    block: BlockRow,
    state: ChainState,
    schema: DataSchema,
    moment: Instant,
    *,
    ports: TravelPorts,
) -> tuple[pa.Table, str]:
    """The rows that held at a moment, by what is known after a block.

    With them whether they come from `index` or `chain`.

    In order of key. `state` is that of the block, `schema` has the columns of its rows, one of which is the event time.
    """
    timed = timed_slices(entry, block, state, moment, ports=ports) if schema.fields else TimedSlices((), ())
    reading = _Reading.of(entry, state, schema, moment, timed, ports)
    found = reading.from_known(block, schema)
    rows, source = (reading.from_records(), "chain") if found is None else (found, "index")
    return in_order(rows, reading.keys), source


def timed_slices(
    entry: CatalogEntry, block: BlockRow, state: ChainState, moment: Instant, *, ports: TravelPorts
) -> TimedSlices:
    """The slices up to a block at a moment.

    `state` is that of the block. Raises Corrupt, and as `slices_until`.
    """
    return slices_at(
        entry.id,
        slices_until(entry, block.hash, ports),
        state.vocabulary.event_time,
        moment,
        repository=ports.repository,
    )


def rows_held_indexed(
    entry: CatalogEntry,
    block: BlockRow,
    state: ChainState,
    schema: DataSchema,
    moment: Instant,
    timed: TimedSlices,
    *,
    ports: TravelPorts,
) -> pa.Table | None:
    """As `rows_held` in no order, by the rows that are known.

    None if that is not certain, or reading the records is less work. Raises LimitExceeded, Corrupt.
    """
    return _Reading.of(entry, state, schema, moment, timed, ports).from_known(block, schema)


@dataclass(frozen=True, slots=True)
class _Reading:
    """One answer being made. `keys` are empty where rows are counted."""

    entry: CatalogEntry
    state: ChainState
    columns: pa.Schema
    keys: tuple[str, ...]
    moment: Instant
    timed: TimedSlices
    ports: TravelPorts

    @classmethod
    def of(
        cls,
        entry: CatalogEntry,
        state: ChainState,
        schema: DataSchema,
        moment: Instant,
        timed: TimedSlices,
        ports: TravelPorts,
    ) -> _Reading:
        columns = data_schema_to_arrow(schema, encodings=False)
        keys = projection_keys(state)
        if not columns.names or not set(keys) <= set(columns.names):
            keys = ()
        return cls(entry, state, columns, keys, moment, timed, ports)

    def from_records(self) -> pa.Table:
        """The rows by all records that had happened."""
        changes = (self._happened(data) for data in self.timed.held)
        if self.keys:
            return last_rows(changes, self.columns, self.keys, rows_max=self.ports.rows_max)
        rows, counts = net_rows((), changes, self.columns, rows_max=self.ports.rows_max)
        return repeated(rows, counts)

    def from_known(self, block: BlockRow, schema: DataSchema) -> pa.Table | None:
        """The rows by those that are known.

        None if that is not certain, or if reading the records is less work.
        """
        if not self.keys or _records(self.timed.later) > LATER_SHARE_MAX * _records(self.timed.all):
            return None
        rows = rows_indexed(self.entry, block, schema, self.keys, ports=self.ports)
        if rows is None:
            return None
        out: list[LeftOut] = []
        for data in self.timed.later:
            found = left_out(self._read(data), self._event_time, self.moment, self.keys)
            if found is None:
                return None
            out.append(found)
        held, later = split_by_moment(rows, self._event_time, self.moment)
        entries = (each.entries for each in out)
        before = last_rows(entries, self.columns, self.keys, rows_max=self.ports.rows_max)
        before, _ = split_by_all_keys(before, later, self.keys)
        withdrawn = pa.concat_tables([self.columns.empty_table(), *(each.withdrawn for each in out)])
        _, unknown = split_by_all_keys(withdrawn, held, self.keys)
        _, before = split_by_all_keys(before, unknown, self.keys)
        return pa.concat_tables([held, before, *self._searched(unknown)])

    def _searched(self, unknown: pa.Table) -> Sequence[pa.Table]:
        """The rows of keys of which rows that happen later were withdrawn.

        Between two records that happen later such a key may have had others.
        """
        found = []
        for data in reversed(self.timed.held):
            if not unknown.num_rows:
                break
            changes = changes_of_keys(self._happened(data), unknown, self.keys)
            found.append(last_rows([changes], self.columns, self.keys, rows_max=self.ports.rows_max))
            _, unknown = split_by_all_keys(unknown, changes.rows, self.keys)
        return found

    def _happened(self, data: DataSlice) -> Changes:
        return happened(self._read(data), self._event_time, self.moment)

    def _read(self, data: DataSlice) -> Records:
        ports = self.ports
        vocabulary = self.state.vocabulary
        return next(
            iter(
                records_of(
                    self.entry.id,
                    [data],
                    self.columns,
                    vocabulary,
                    repository=ports.repository,
                    exchange=ports.exchange,
                )
            )
        )

    @property
    def _event_time(self) -> str:
        return self.state.vocabulary.event_time


def _records(slices: Iterable[DataSlice]) -> int:
    return sum(OffsetRange.from_wire(data.offset_interval).rows for data in slices)
