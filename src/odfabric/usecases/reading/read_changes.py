"""What a consumer reads at a position: a baseline, changes, or a reset.

A portion of a baseline, of the changes of one block, or that everything has to be read again.

Invariant: what is read at a position never changes, because positions are block numbers and rows of blocks: a consumer that is given
something again is given the same, byte for byte, and one that stores the position together with its data has every change exactly
once. A chain that is another than the one a position belongs to is told by a reset, never passed over. Every slice is hashed on the
way. Source: ADR 0015; docs/engine.md#columns-of-inputs-and-output.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from odfabric.domain.subscriptions.cursor import baseline_at, changes_after, event_id
from odfabric.errors import Corrupt, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.json_values.json_rows import DataFormat, rows_to_json
from odfabric.model.commit import BlockRow
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.subscriptions.cursor import CursorMode, CursorPosition
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.reading.slice_rows import SliceRows
from odfabric.usecases.state.net_state import NetStates

ANCESTOR_BLOCKS_MAX = 10_000
"""Blocks of a chain that is gone among which the last common one is looked for."""

_DATA_EVENTS = frozenset({"AddData", "ExecuteTransform"})
_WINDOW_BLOCKS, _WINDOW_BLOCKS_MAX = 64, 4096

Event: TypeAlias = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Rows of one fetch, and bytes of their JSON; one row is always given."""

    rows_max: int
    bytes_max: int


class ChangeReader:
    """Reads at positions."""

    def __init__(self, *, repository: Repository, states: NetStates, slices: SliceRows, limits: FetchLimits) -> None:
        self._repository = repository
        self._states = states
        self._slices = slices
        self._limits = limits

    def rows_max(self, asked: int | None) -> int:
        """How many rows a fetch gives that asked for so many.

        Raises InvalidRequest, LimitExceeded.
        """
        if asked is not None and asked < 1:
            raise InvalidRequest("a fetch has at least one row", place=Place(field="limit"))
        if asked is not None and asked > self._limits.rows_max:
            raise LimitExceeded("too many rows", limit="fetch_rows_max", maximum=self._limits.rows_max)
        return asked or self._limits.rows_max

    def read(
        self, dataset: DatasetId, position: CursorPosition, *, rows_max: int
    ) -> tuple[Event | None, CursorPosition]:
        """What there is at a position, None if nothing yet, and the position after it.

        Raises NotFound, Corrupt, LimitExceeded.
        """
        if not self.in_chain(dataset, position):
            return self._reset(dataset, position)
        read = self._baseline if position.mode is CursorMode.BASELINE else self._changes
        found = read(dataset, position, rows_max)
        # Removed and made again meanwhile, the dataset has given what follows in another chain.
        return found if self.in_chain(dataset, position) else self._reset(dataset, position)

    def in_chain(self, dataset: DatasetId, position: CursorPosition) -> bool:
        """Whether the position belongs to the chain as it is now."""
        row = self._repository.chains.row(dataset, position.epoch)
        return row is not None and row.sequence_number == position.next_sequence - 1

    def has(self, dataset: DatasetId, position: CursorPosition) -> bool:
        """Whether there is such a position in the chain as it is now.

        Raises NotFound, Corrupt.

        How many rows a baseline has is not asked, for adding it up takes long: after its last row comes an empty end.
        """
        if not self.in_chain(dataset, position):
            return False
        if position.next_row == 0 or position.mode is CursorMode.BASELINE:
            return True
        found = self._next_slice(dataset, position.next_sequence)
        if found is None or found[0].sequence_number != position.next_sequence:
            return False
        return position.next_row < _count(found[1])

    def _baseline(self, dataset: DatasetId, position: CursorPosition, rows_max: int) -> tuple[Event, CursorPosition]:
        table = self._states.rows_at(dataset, position.epoch)
        # A table without columns takes the length of any slice of it.
        wanted = max(0, min(rows_max, table.num_rows - position.next_row))
        rows = self._bounded(_as_objects(table.slice(position.next_row, wanted)))
        end = position.next_row + len(rows)
        number, last = position.next_sequence - 1, end >= table.num_rows
        after = changes_after(position.epoch, number) if last else replace(position, next_row=end)
        event: Event = {
            "id": event_id(dataset, position, after),
            "kind": "baseline",
            "block": str(position.epoch),
            "sequence": number,
            "last": last,
            "rows": rows,
        }
        return event, after

    def _changes(
        self, dataset: DatasetId, position: CursorPosition, rows_max: int
    ) -> tuple[Event | None, CursorPosition]:
        found = self._next_slice(dataset, position.next_sequence)
        if found is None:
            return None, position
        row, data = found
        assert row.prev is not None
        first = position.next_row if row.sequence_number == position.next_sequence else 0
        rows = self._bounded(self._rows(dataset, data, first, rows_max))
        end, number = first + len(rows), row.sequence_number
        last = end >= _count(data)
        here = CursorPosition(mode=CursorMode.LISTEN, next_sequence=number, next_row=first, epoch=row.prev)
        after = changes_after(row.hash, number) if last else replace(here, next_row=end)
        event: Event = {
            "id": event_id(dataset, here, after),
            "kind": "changes",
            "block": str(row.hash),
            "sequence": number,
            "systemTime": str(row.system_time),
            "last": last,
            "rows": rows,
        }
        return event, after

    def _reset(self, dataset: DatasetId, position: CursorPosition) -> tuple[Event, CursorPosition]:
        head = self._repository.head(dataset)
        after = baseline_at(head.hash, head.sequence_number)
        ancestor = self._common_ancestor(dataset, position.epoch)
        event: Event = {
            "id": event_id(dataset, position, after),
            "kind": "reset",
            "fromEpoch": str(position.epoch),
            "toEpoch": str(head.hash),
            "commonAncestor": str(ancestor) if ancestor else None,
        }
        return event, after

    def _common_ancestor(self, dataset: DatasetId, epoch: Multihash) -> Multihash | None:
        """The last block of both chains, as far as blocks of the old one are still here."""
        name: Multihash | None = epoch
        for _ in range(ANCESTOR_BLOCKS_MAX):
            if name is None or self._repository.chains.contains(dataset, name):
                return name
            try:
                name = self._repository.blocks(dataset).get(name).prev_block_hash
            except (NotFound, Corrupt):
                return None
        return None

    def _next_slice(self, dataset: DatasetId, number: int) -> tuple[BlockRow, DataSlice] | None:
        """The first block from a number on that brought rows, and their slice."""
        blocks = self._repository.blocks(dataset)
        for row in self._data_rows_up(dataset, number):
            event = blocks.get(row.hash).event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                return row, event.new_data
        return None

    def _data_rows_up(self, dataset: DatasetId, number: int) -> Iterator[BlockRow]:
        """Data blocks upwards.

        The index is read downwards, so it is read in windows that grow.
        """
        head, size = self._repository.head(dataset).sequence_number, _WINDOW_BLOCKS
        while number <= head:
            window = []
            top = min(number + size - 1, head)
            for row in self._repository.chains.rows_down(dataset, from_sequence=top, event_types=_DATA_EVENTS):
                if row.sequence_number < number:
                    break
                window.append(row)
            yield from reversed(window)
            number, size = top + 1, min(size * 8, _WINDOW_BLOCKS_MAX)

    def _rows(self, dataset: DatasetId, data: DataSlice, first: int, rows_max: int) -> list[Event]:
        _, state = self._repository.current(dataset)
        table = self._slices.rows_at(dataset, data.physical_hash, first=first, limit=rows_max, count=_count(data))
        rows = _as_objects(table)
        operation = state.vocabulary.operation_type
        return [{**row, operation: OperationType(row[operation]).word} for row in rows]  # type: ignore[arg-type]

    def _bounded(self, rows: list[Event]) -> list[Event]:
        """The first rows, as many as fit."""
        size = 0
        for number, row in enumerate(rows):
            size += len(json.dumps(row, ensure_ascii=False).encode())
            if number and size > self._limits.bytes_max:
                return rows[:number]
        return rows


def _as_objects(table: pa.Table) -> list[Event]:
    rows = rows_to_json(table, DataFormat.JSON_AOS)
    assert isinstance(rows, list)
    return [{**row} for row in rows if isinstance(row, dict)]


def _count(data: DataSlice) -> int:
    return OffsetRange.from_wire(data.offset_interval).rows
