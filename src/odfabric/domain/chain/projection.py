"""Projections in time: what was known then (AS AT), and what held then (AS OF).

Owns their meaning, record by record. A changelog is a list of records in order of offset. AS AT keeps the records of the first blocks.
AS OF keeps the records that happened by then, and leaves out a correction whose new row happens later: the old row held until then.
What is left is projected to rows: with a primary key the last record of each key, unless it withdraws its row; without one the rows
that remain when withdrawals are taken from additions. Invariant: nothing here depends on how the records are stored; whatever reads
them faster (`formats.slices.time_rows`, the engine's projection, the state index) gives the same rows. Source: docs/reference/time.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import keys_of
from odfabric.model.data_schema import DataSchema, DataType, DataTypeDate, DataTypeOption, DataTypeTimestamp
from odfabric.model.instant import Instant
from odfabric.model.operation import OperationType

_ADDING = frozenset({OperationType.APPEND, OperationType.CORRECT_TO})


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a changelog.

    `block` is the sequence number of its block; `row` is all but offset, op and system time.
    """

    block: int
    offset: int
    operation: OperationType
    event_time: Instant | None
    key: Hashable
    row: Hashable


def as_at(changelog: Iterable[Record], block: int) -> list[Record]:
    """What was known after a block."""
    return [record for record in changelog if record.block <= block]


def as_of(changelog: Sequence[Record], moment: Instant) -> list[Record]:
    """What had happened by a moment of event time, that moment included.

    A record without event time happened at no time. Half a correction never stays alone: the old row is withdrawn only if the new one
    happened by then.
    """
    kept = []
    for position, record in enumerate(changelog):
        if not _happened(record, moment):
            continue
        if record.operation is OperationType.CORRECT_FROM and position + 1 < len(changelog):
            following = changelog[position + 1]
            if _is_pair(record, following) and not _happened(following, moment):
                continue
        kept.append(record)
    return kept


def rows(changelog: Iterable[Record], *, keyed: bool) -> Counter[Hashable]:
    """The rows that a changelog leaves, each with how often it is there."""
    if not keyed:
        found: Counter[Hashable] = Counter()
        for record in changelog:
            found[record.row] += 1 if record.operation in _ADDING else -1
        return +found
    last = {record.key: record for record in changelog}
    return Counter(record.row for record in last.values() if record.operation in _ADDING)


def _happened(record: Record, moment: Instant) -> bool:
    return record.event_time is not None and record.event_time <= moment


def _is_pair(old: Record, new: Record) -> bool:
    # By offset: where records were taken out before, neighbours may be strangers.
    return new.operation is OperationType.CORRECT_TO and new.offset == old.offset + 1 and new.block == old.block


def projection_keys(state: ChainState) -> tuple[str, ...]:
    """The primary key of a dataset's rows, empty if they have none.

    All its sources merge by the same key, or there is none.
    """
    merges = [source.event.merge for source in state.push_sources]
    if state.polling_source is not None:
        merges.append(state.polling_source.event.merge)
    found = {keys_of(merge) for merge in merges}
    return next(iter(found)) if len(found) == 1 else ()


def untimed_kind(schema: DataSchema, event_time: str) -> str | None:
    """The type of an event time column that AS OF cannot compare; None if it can.

    A column that is not there has the type `Nothing`.
    """
    found = next((field.type for field in schema.fields if field.name == event_time), None)
    if found is None:
        return "Nothing"
    inner: DataType = found.inner if isinstance(found, DataTypeOption) else found
    if isinstance(inner, DataTypeTimestamp | DataTypeDate):
        return None
    return type(inner).__name__.removeprefix("DataType")
