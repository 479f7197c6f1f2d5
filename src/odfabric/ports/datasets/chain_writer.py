"""The platform's one compare-and-set.

Only `usecases.chain.commit` may hold a ChainWriter (import contract).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from odfabric.model.commit import (
    CatalogEntry,
    ChainPage,
    EncodedBlock,
    Head,
    IdempotencyRecord,
    OutboxMessage,
)
from odfabric.model.heads.head_log import SignedMove
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Grant
from odfabric.model.people.audit import AuditEntry
from odfabric.ports.datasets.chain_reader import ChainReader


class ChainWriter(ChainReader, Protocol):
    """Moves heads. Every method is one atomic transaction, durable when it returns."""

    def append(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash | None,
        blocks: Sequence[EncodedBlock],
        message: OutboxMessage,
        idempotency: Sequence[IdempotencyRecord] = (),
        job_ids: Sequence[str] = (),
        entry: CatalogEntry | None = None,
        grants: Sequence[Grant] = (),
        audit: Sequence[AuditEntry] = (),
        moves: Sequence[SignedMove] = (),
    ) -> None:
        """Index `blocks` (oldest first), move the head to the last if it is `expected`.

        The outbox message, idempotency records, the marks that `job_ids` have committed, audit entries, `moves`, which continue the head
        log, and the catalog entry, which is given exactly when `expected` is None, with the first `grants` on it, are written in the same
        transaction, or nothing is. Grants to accounts that are gone are left out. Where nodes share heads the log follows, and `moves`
        are left out.
        Raises AlreadyExists if the entry's id or alias (ASCII case-insensitive, per account) is taken; otherwise, in this
        order, NotFound if the dataset does not exist, HeadMoved if the head is not `expected`, AlreadyExists if an
        idempotency key has a record or if one of the jobs has committed, LeaseLost if one was cancelled, Changed if `moves` do not follow
        the newest entry of the head log. In all these cases nothing was written.
        Raises Determinate (nothing written) or Indeterminate (unknown: the caller looks for its block); ValueError for a call
        that `check_appendable` refuses.
        """

    def adopt(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash | None,
        head: Head,
        pages: Iterable[ChainPage],
        message: OutboxMessage,
        entry: CatalogEntry | None = None,
    ) -> None:
        """Restore a chain, or its part after `expected`: `append` in any length.

        All pages, read one by one, the move of the head to `head` and the outbox message are one transaction; what `pages`
        raises passes through and nothing was written. A record with a key that the dataset has already is left out: the older
        block answers. Raises as `append` does, ValueError if the pages do not lead from `expected` to `head`.
        """

    def replace(
        self,
        dataset: DatasetId,
        *,
        expected: Multihash,
        onto: Multihash | None,
        blocks: Sequence[EncodedBlock],
        message: OutboxMessage,
        idempotency: Sequence[IdempotencyRecord] = (),
        audit: Sequence[AuditEntry] = (),
        moves: Sequence[SignedMove] = (),
    ) -> None:
        """Replace all that follows block `onto` by `blocks` if the head is `expected`.

        `blocks` are in order, oldest first; `onto` None: they replace the whole chain.

        Without blocks the head goes back to `onto`. Records of keys that the replaced blocks have sealed go with them, and
        `idempotency` are those that the new ones have sealed, each key once; marks of jobs stay. `moves` continue the head log.

        How many bytes the dataset stores is not known then. Raises as `append`, NotFound for an `onto` that the chain does not
        include, InvalidRequest where nodes share heads, which never go back; ValueError for blocks that do not follow `onto`.
        """

    def remove(
        self, dataset: DatasetId, *, expected: Multihash, message: OutboxMessage, audit: Sequence[AuditEntry] = ()
    ) -> None:
        """Delete all of the dataset if the head is `expected`.

        Its head, index, records, subscriptions, grants and catalog entry.

        Objects stay for the collector, deliveries that are still pending are dropped, marks of jobs stay.
        Raises HeadMoved, NotFound, Determinate, Indeterminate like `append`.
        """

    def rename(self, dataset: DatasetId, *, alias: DatasetAlias, audit: Sequence[AuditEntry] = ()) -> None:
        """Give the dataset another alias; its id, chain and rights stay.

        What it is searched by is forgotten, to be derived again.

        Raises NotFound, AlreadyExists for an alias that another dataset has, InvalidRequest where nodes share heads, whose
        names others have claimed; Determinate, Indeterminate.
        """


def check_appendable(
    *,
    expected: Multihash | None,
    blocks: Sequence[EncodedBlock],
    message: OutboxMessage,
    entry: CatalogEntry | None,
    grants: Sequence[Grant] = (),
) -> None:
    """The first check of every adapter of `append`: the call's parts fit together.

    Raises ValueError, which is a bug of the caller: blocks must follow `expected` and each other, the message must tell of
    this very move, and only the first blocks of a dataset come with an entry and with grants, on it and each to somebody else. Whether
    events are right is not judged.
    """
    if not blocks:
        raise ValueError("nothing to append")
    _check_entry(expected, entry)
    _check_grants(entry, grants)
    last = _check_links(blocks, expected, blocks[0].block.sequence_number)
    if (message.old_head, message.new_head) != (expected, last):
        raise ValueError("the outbox message tells of another move of the head")


def check_replacement(*, onto: Multihash | None, blocks: Sequence[EncodedBlock], message: OutboxMessage) -> None:
    """Raise ValueError unless the parts of a `replace` call fit each other.

    Every adapter checks this first.
    """
    if not blocks and onto is None:
        raise ValueError("a chain of no blocks")
    last = _check_links(blocks, onto, blocks[0].block.sequence_number) if blocks else onto
    if message.new_head != last:
        raise ValueError("the outbox message tells of another move of the head")


def checked_pages(
    pages: Iterable[ChainPage],
    *,
    expected: Multihash | None,
    head: Head,
    message: OutboxMessage,
    entry: CatalogEntry | None,
) -> Iterator[ChainPage]:
    """The pages of `adopt` as they come, judged as `check_appendable` does.

    The iteration ends at `head` or raises ValueError.
    """
    _check_entry(expected, entry)
    if (message.old_head, message.new_head) != (expected, head.hash):
        raise ValueError("the outbox message tells of another move of the head")
    before, number = expected, None
    for page in pages:
        number = page.blocks[0].block.sequence_number if number is None else number
        before = _check_links(page.blocks, before, number)
        number += len(page.blocks)
        yield page
    if before != head.hash or number != head.sequence_number + 1:
        raise ValueError(f"the pages end at block {before}, not at {head.hash}")


def _check_entry(expected: Multihash | None, entry: CatalogEntry | None) -> None:
    if (entry is None) != (expected is not None):
        raise ValueError("a catalog entry belongs to the first blocks of a dataset and to no others")


def _check_grants(entry: CatalogEntry | None, grants: Sequence[Grant]) -> None:
    if any(entry is None or grant.dataset != entry.id for grant in grants):
        raise ValueError("grants belong to the first blocks of their dataset and to no others")
    if len({grant.grantee for grant in grants}) < len(grants):
        raise ValueError("two grants to one grantee")


def _check_links(blocks: Sequence[EncodedBlock], before: Multihash | None, number: int) -> Multihash | None:
    for position, block in enumerate(blocks):
        if block.block.prev_block_hash != before:
            raise ValueError(f"block {block.hash} follows {block.block.prev_block_hash}, not {before}")
        if block.block.sequence_number != number + position:
            raise ValueError(f"block {block.hash} has number {block.block.sequence_number} out of turn")
        before = block.hash
    return before
