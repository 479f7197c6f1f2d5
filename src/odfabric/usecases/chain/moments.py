"""From a moment of system time to a block, and to what the chain said there.

Invariant: a moment means a block of the chain that ends at the given head, so a query that is pinned reads nothing newer. Schema, vocabulary
and sources are those of the block. Source: docs/reference/time.md.
"""

from __future__ import annotations

from odfabric.domain.chain.state import ChainState
from odfabric.errors import InvalidRequest, NotFound, Place
from odfabric.model.commit import BlockRow, CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.metadata import (
    AddPushSource,
    DisablePollingSource,
    DisablePushSource,
    SetDataSchema,
    SetPollingSource,
    SetVocab,
)
from odfabric.model.moment import SystemMoment
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.block_reference import named_block, no_block
from odfabric.usecases.chain.repository import Repository

_READING_CHANGES_BY = frozenset(
    event.__name__
    for event in (AddPushSource, DisablePollingSource, DisablePushSource, SetDataSchema, SetPollingSource, SetVocab)
)
"""Events that change how rows are read: columns, names of system columns, keys."""


def block_at(
    entry: CatalogEntry, moment: SystemMoment | None, *, repository: Repository, head: Multihash | None = None
) -> BlockRow:
    """The block that a moment means, at or before `head` (None: the head of record).

    Raises NotFound for a block that is not in the chain and a time before it, InvalidRequest for a block after `head`.
    """
    chains = repository.chains
    newest = repository.head(entry.id).hash if head is None else head
    last = chains.row(entry.id, newest)
    if last is None:
        raise no_block(entry, newest)
    if moment is None:
        return last
    if isinstance(moment, Instant):
        return _last_at(entry, moment, last, repository)
    try:
        found = named_block(entry, moment, repository=repository)
    except NotFound as error:
        if isinstance(moment, int):  # somebody may have meant a year
            error.hint = f"{error.hint}; a time is written 2026-01-31T12:00:00Z"
        raise
    if found.sequence_number > last.sequence_number:
        raise InvalidRequest(
            f"block {found.sequence_number} of {entry.alias} is after block {last.sequence_number}, up to which it is read",
            place=Place(field="asAt"),
            hint="name an older block, or pin the dataset to a newer one",
        )
    return found


def state_at(entry: CatalogEntry, block: BlockRow, *, repository: Repository) -> ChainState:
    """What the chain says of columns and keys at a block. Raises NotFound, Corrupt.

    The state of the head serves for every block since which neither has changed; its other members are those of the head.
    """
    head, state = repository.current(entry.id)
    if block.hash == head.hash:
        return state
    newer = next(repository.chains.rows_down(entry.id, event_types=_READING_CHANGES_BY), None)
    if newer is None or newer.sequence_number <= block.sequence_number:
        return state
    return repository.state(entry.id, block.hash)


def _last_at(entry: CatalogEntry, moment: Instant, head: BlockRow, repository: Repository) -> BlockRow:
    """The last block at or before a moment: system times never decrease along a chain."""
    low, high, found, first = 0, head.sequence_number, None, head
    while low <= high:
        middle = (low + high) // 2
        row = next(iter(repository.chains.rows_down(entry.id, from_sequence=middle)), None)
        if row is None:
            raise NotFound("dataset", str(entry.alias))
        if row.system_time <= moment:
            low, found = middle + 1, row
        else:
            high, first = middle - 1, row
    if found is None:
        raise NotFound(
            "state",
            f"at {moment}",
            hint=f"{entry.alias} came later: give {first.system_time}, the time of its first block, or a later one",
        )
    return found
