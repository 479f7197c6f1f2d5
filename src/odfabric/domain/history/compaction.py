"""Compaction: which slices become one, and what their block says.

Owns the division of a chain into batches and the event of a batch. Invariants: rows, offsets and the state of the chain after each batch are
those of the chain before; what blocks say besides (idempotency keys, polled files, counts) is said by the block that takes their place.
Not here: reading and writing rows (`usecases.history.compact_dataset`). Source: specification, "Data Slice"; ADR 0073.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from odfabric.domain.chain.block_attributes import as_extra, attributes_of
from odfabric.domain.chain.walk import ChainLink
from odfabric.domain.ingestion.idempotency import ATTRIBUTE as KEYS
from odfabric.domain.ingestion.idempotency import (
    STATE_KIND,
    IdempotencyEntry,
    idempotency_records,
    sealed_attributes,
    sealed_state,
)
from odfabric.domain.ingestion.row_changes import CHANGES, REJECTED, added_up, changes_value, rejected_rows, row_changes
from odfabric.domain.sources.polled_content import ATTRIBUTE as POLLED
from odfabric.domain.sources.polled_content import POLLED_BEFORE, polled_before_value
from odfabric.model.engine import RowChanges
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform, MetadataEvent, OffsetInterval, SourceState

SAID_MAX = 1000
"""Idempotency keys and polled files that one block repeats at most: a block has a limited size."""

LINKED_OBJECTS = "opendatafabric.org/linkedObjects"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionLimits:
    """Size of the slices that compaction makes: bytes and records."""

    slice_bytes_max: int
    slice_records_max: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Neighbouring AddData blocks that become one, oldest first."""

    links: tuple[ChainLink, ...]

    @property
    def events(self) -> tuple[AddData, ...]:
        """Their events."""
        return tuple(link.block.event for link in self.links if isinstance(link.block.event, AddData))

    @property
    def slices(self) -> tuple[DataSlice, ...]:
        """Their slices, oldest first."""
        return tuple(event.new_data for event in self.events if event.new_data is not None)

    @property
    def interval(self) -> OffsetInterval:
        """Offsets of all their rows. Raises ValueError without any."""
        if not self.slices:
            raise ValueError("a batch without rows")
        return OffsetInterval(start=self.slices[0].offset_interval.start, end=self.slices[-1].offset_interval.end)

    def event(self, new_data: DataSlice | None) -> AddData:
        """What the one block says, `new_data` being the rows of all."""
        first, last = self.events[0], self.events[-1]
        if len(self.links) == 1:
            # Its block gets another time: when a file of a folder was read has to be said by itself now.
            files = polled_before_value([self.links[0].block])
            extra = as_extra({**attributes_of(last.extra), POLLED_BEFORE: files}) if files else last.extra
            return replace(last, new_data=new_data, extra=extra)
        keys = _keys(self.links)
        return AddData(
            prev_checkpoint=first.prev_checkpoint,
            prev_offset=first.prev_offset,
            new_data=new_data,
            new_checkpoint=last.new_checkpoint,
            new_watermark=last.new_watermark,
            new_source_state=_state(last.new_source_state, keys),
            extra=as_extra(_attributes(self.links, keys)),
        )


Step: TypeAlias = Batch | MetadataEvent
"""A batch, or an event that stays as it is."""


def compaction_steps(links: Iterable[ChainLink], limits: CompactionLimits) -> Iterator[Step]:
    """The chain after its seed as batches and events that stay, oldest first.

    `links` are those after the seed, oldest first. Only AddData blocks with nothing between them are in one batch.
    """
    batch: list[ChainLink] = []
    for link in links:
        if not isinstance(link.block.event, AddData):
            if batch:
                yield Batch(tuple(batch))
                batch = []
            yield link.block.event
        elif batch and not _fits(batch, link, limits):
            yield Batch(tuple(batch))
            batch = [link]
        else:
            batch.append(link)
    if batch:
        yield Batch(tuple(batch))


def metadata_steps(links: Iterable[ChainLink]) -> Iterator[MetadataEvent]:
    """The events after the seed without rows: all but AddData and ExecuteTransform."""
    return (link.block.event for link in links if not isinstance(link.block.event, AddData | ExecuteTransform))


def _fits(batch: Sequence[ChainLink], link: ChainLink, limits: CompactionLimits) -> bool:
    together = Batch((*batch, link))
    slices = together.slices
    # A batch without rows, or with those of one slice, makes no slice.
    if len(slices) > 1:
        records = slices[-1].offset_interval.end - slices[0].offset_interval.start + 1
        if records > limits.slice_records_max or sum(each.size for each in slices) > limits.slice_bytes_max:
            return False
    keys = sum(map(len, map(_records, together.links)))
    if keys + len(together.links) > SAID_MAX:
        return False
    state = together.events[-1].new_source_state
    return not keys or (state is not None and state.kind == STATE_KIND)


def _records(link: ChainLink) -> list[IdempotencyEntry]:
    return [IdempotencyEntry(one.key_hash, one.body_digest) for one in idempotency_records(link.hash, link.block)]


def _keys(links: Sequence[ChainLink]) -> list[IdempotencyEntry]:
    return list(dict.fromkeys(entry for link in links for entry in _records(link)))


def _state(last: SourceState | None, keys: Sequence[IdempotencyEntry]) -> SourceState | None:
    """The newest state; of keyed pushes one that seals the keys of all."""
    return sealed_state(keys, source_name=last.source_name) if keys and last is not None else last


def _attributes(links: Sequence[ChainLink], keys: Sequence[IdempotencyEntry]) -> dict[str, object]:
    """Attributes of all: sums of counts, lists after each other, of others the newest."""
    found = [attributes_of(link.block.event.extra) for link in links if isinstance(link.block.event, AddData)]
    merged: dict[str, object] = {}
    for attributes in found:
        for name, value in attributes.items():
            merged[name] = _joined(merged.get(name), value)
    for name in (KEYS, POLLED):
        if name not in found[-1]:
            merged.pop(name, None)
    if any(CHANGES in attributes for attributes in found):
        merged[CHANGES] = changes_value(_changes(links, found))
    rejected = [one for one in map(rejected_rows, found) if one is not None]
    if rejected:
        merged[REJECTED] = {"rows": sum(one.rows for one in rejected), "dataset": rejected[-1].dataset}
    linked = [attributes[LINKED_OBJECTS] for attributes in found if isinstance(attributes.get(LINKED_OBJECTS), dict)]
    if linked:
        merged[LINKED_OBJECTS] = _sums(linked)
    files = polled_before_value([link.block for link in links])
    return {**merged, **sealed_attributes(keys), **({POLLED_BEFORE: files} if files else {})}


def _joined(before: object, value: object) -> object:
    if isinstance(before, list) and isinstance(value, list):
        return [*before, *(each for each in value if each not in before)]
    return value


def _changes(links: Sequence[ChainLink], found: Sequence[Mapping[str, Any]]) -> RowChanges:
    events = Batch(tuple(links)).events
    counted = [
        row_changes(attributes, records=0 if event.new_data is None else _rows(event.new_data))
        for attributes, event in zip(found, events, strict=True)
    ]
    total = counted[0]
    for one in counted[1:]:
        total = added_up(total, one)
    return total


def _rows(data: DataSlice) -> int:
    return data.offset_interval.end - data.offset_interval.start + 1


def _sums(counters: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counters:
        for name, value in each.items():
            if isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return total
