"""Values of a commit: encoded blocks, outbox messages, idempotency records, heads.

Owns the values only; the seam itself is `usecases.chain.commit` over `ports.datasets.chain_writer`.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import DatasetKind, MetadataBlock
from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.people.account import Grant
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.event import Event


@dataclass(frozen=True, slots=True)
class EncodedBlock:
    """A block together with the very bytes that hash to `hash`.

    The bytes are what is stored and served.
    """

    hash: Multihash
    data: bytes
    block: MetadataBlock


@dataclass(frozen=True, slots=True)
class Head:
    """The newest block of a dataset's chain."""

    hash: Multihash
    sequence_number: int
    system_time: Instant


@dataclass(frozen=True, slots=True)
class BlockRow:
    """Index row of one block: traversal without reading the object.

    `event_type` is the event's name, e.g. `AddData`.
    """

    hash: Multihash
    prev: Multihash | None
    sequence_number: int
    system_time: Instant
    event_type: str

    @classmethod
    def of(cls, encoded: EncodedBlock) -> BlockRow:
        """The row of a block."""
        block = encoded.block
        return cls(
            hash=encoded.hash,
            prev=block.prev_block_hash,
            sequence_number=block.sequence_number,
            system_time=block.system_time,
            event_type=type(block.event).__name__,
        )


@dataclass(frozen=True, slots=True)
class IdempotencyRecord:
    """A used key: SHA3-256 of (account, route, key), body digest, sealing block."""

    key_hash: bytes
    body_digest: bytes
    block_hash: Multihash


@dataclass(frozen=True, slots=True)
class ChainPage:
    """A stretch of a chain, oldest first, with the idempotency records of its blocks."""

    blocks: tuple[EncodedBlock, ...]
    idempotency: tuple[IdempotencyRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A dataset of this node.

    `sealed_key` is its encrypted Ed25519 private key, absent for pulled datasets.

    `alias` always has an account. `remote_url` is where a pulled dataset comes from.
    """

    id: DatasetId
    alias: DatasetAlias
    kind: DatasetKind
    created_at: Instant
    sealed_key: bytes | None = None
    remote_url: str | None = None

    @property
    def is_copy(self) -> bool:
        """Whether it is changed elsewhere only: it was pulled, and its key is not here."""
        return self.remote_url is not None and self.sealed_key is None


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """Work to be done because a commit happened.

    Written in the commit's own transaction.

    One per head move; `new_head` is None when the dataset was deleted. Or one per `event`, which has no heads.
    """

    dataset_id: DatasetId
    old_head: Multihash | None
    new_head: Multihash | None
    occurred_at: Instant
    event: Event | None = None

    @classmethod
    def of(cls, event: Event) -> OutboxMessage:
        """The message of an event that is no head move."""
        return cls(event.dataset_id, None, None, event.occurred_at, event)


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """An outbox message that is not done yet.

    Ids grow in the order of commits, within a dataset.
    """

    id: int
    message: OutboxMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitIntent:
    """What a node is about to commit where heads of record are not in its database.

    Its blocks are in the object store already. `ref_before` is the text of `refs/head` that the first commit of a dataset, the one
    with an `entry`, replaces; None if there is none. A removal has no new head: `closing` is the text that replaces `refs/head`.
    """

    message: OutboxMessage
    idempotency: tuple[IdempotencyRecord, ...] = ()
    job_ids: tuple[str, ...] = ()
    entry: CatalogEntry | None = None
    ref_before: str | None = None
    grants: tuple[Grant, ...] = ()
    audit: tuple[AuditEntry, ...] = ()
    closing: str | None = None

    @property
    def key(self) -> Multihash:
        """Identity of an intent: the new head, of a removal the hash of `closing`."""
        return (
            self.head if self.closing is None else sha3_256_multihash(hashlib.sha3_256(self.closing.encode()).digest())
        )

    @property
    def head(self) -> Multihash:
        """The head as it is to be."""
        assert self.message.new_head is not None
        return self.message.new_head
