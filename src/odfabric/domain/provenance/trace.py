"""Tracing records through datasets, breadth first, to where branches end.

Owns the place of an offset among blocks, the grouping of records into derivations, and the budget of a trace. Invariant: each record is
visited once, at the least number of datasets from what was asked; a trace ends, and says of every branch why. Not here: chains and engines
(`usecases.provenance`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from odfabric.domain.chain.state import DataEvent
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType


@dataclass(frozen=True, slots=True, order=True)
class RecordRef:
    """A record of a dataset."""

    dataset: DatasetId
    offset: int


class Side(Enum):
    """The state of a block's inputs that explains a record: before or after the block."""

    BEFORE = "before"
    AFTER = "after"


def side_of(op: OperationType) -> Side:
    """Withdrawals are explained by what had been there, other records by what is."""
    return Side.BEFORE if op in (OperationType.RETRACT, OperationType.CORRECT_FROM) else Side.AFTER


class Place(Enum):
    """Where an offset is, seen from a block."""

    EARLIER = "earlier"
    HERE = "here"
    LATER = "later"


def place_of(offset: int, event: DataEvent) -> Place:
    """Where the record is, seen from a block with data, or with a watermark alone."""
    interval = None if event.new_data is None else OffsetRange.from_wire(event.new_data.offset_interval)
    begin = OffsetRange.after(event.prev_offset, None).begin if interval is None else interval.begin
    if offset < begin:
        return Place.EARLIER
    return Place.HERE if interval is not None and offset < interval.end else Place.LATER


class EndReason(Enum):
    """Why a branch of a trace goes no further."""

    ROOT = "root"
    """The record was ingested: there is nothing behind it but its source."""
    DEPTH = "depth"
    """So far, and no further, was asked for."""
    BUDGET = "budget"
    """More records than the trace may visit."""
    TIME = "time"
    """The trace has run as long as it may."""
    NOT_HERE = "not-here"
    """An input is not on this node."""
    REWRITTEN = "rewritten"
    """An input has another history now than the one that was read."""
    PEER_NOT_ASKED = "peer-not-asked"
    """An input is not on this node, and no other node may be asked."""
    PEER_LIMIT = "peer-limit"
    """Asking other nodes has reached a limit: nodes, hops, seconds or bytes."""
    PEER_AWAY = "peer-away"
    """The other node did not answer in time."""
    PEER_WORKS = "peer-works"
    """The other node still works on the answer: asked again, it may have it."""
    PEER_REFUSED = "peer-refused"
    """The other node does not have the records, or does not show them to this one."""
    PEER_INVALID = "peer-invalid"
    """The other node gave no answer that makes sense."""
    PEER_DIFFERS = "peer-differs"
    """The other node's answer contradicts the blocks on this one."""
    NOT_READABLE = "not-readable"
    """The caller may not read the dataset: only how many records there are is said."""
    OTHER_ENGINE = "other-engine"
    """Another engine made the record, which ours does not reproduce."""
    NOT_FOUND = "not-found"
    """The query gives no such row over these inputs."""
    TOO_LARGE = "too-large"
    """The derivation would read more rows than it may."""


@dataclass(frozen=True, slots=True)
class Group:
    """Records that one derivation explains: of one block, by one state of its inputs."""

    dataset: DatasetId
    block: Multihash
    side: Side


def grouped(found: Iterable[tuple[RecordRef, Multihash, OperationType]]) -> Mapping[Group, tuple[int, ...]]:
    """Offsets by group, both in the order in which they come first."""
    groups: dict[Group, list[int]] = {}
    for ref, block, op in found:
        groups.setdefault(Group(ref.dataset, block, side_of(op)), []).append(ref.offset)
    return {group: tuple(offsets) for group, offsets in groups.items()}


@dataclass(slots=True)
class Frontier:
    """Records of a trace: those visited, and those of the next level.

    `records_max` bounds both together.
    """

    records_max: int
    _visited: set[RecordRef] = field(default_factory=set)
    _next: list[RecordRef] = field(default_factory=list)

    def add(self, refs: Iterable[RecordRef]) -> int:
        """Visit these next, as far as nobody was there; how many the budget left out."""
        left_out = 0
        for ref in refs:
            if ref in self._visited:
                continue
            if len(self._visited) >= self.records_max:
                left_out += 1
                continue
            self._visited.add(ref)
            self._next.append(ref)
        return left_out

    def take(self) -> Sequence[RecordRef]:
        """The next level; empty at the end of the trace."""
        level, self._next = self._next, []
        return level
