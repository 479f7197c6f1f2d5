"""Reads heads and the block index: the part of the chain store open to all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from odfabric.model.commit import BlockRow, Head, IdempotencyRecord
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash


class ChainReader(Protocol):
    """Heads of record and the index of committed blocks.

    Bytes of blocks are in the object store.
    """

    def head(self, dataset: DatasetId) -> Head | None:
        """The newest committed block, or None for a dataset that does not exist."""

    def contains(self, dataset: DatasetId, block: Multihash) -> bool:
        """Whether the chain that ends at the current head includes this block."""

    def row(self, dataset: DatasetId, block: Multihash) -> BlockRow | None:
        """Index row of a block of the current chain, or None."""

    def rows_down(
        self, dataset: DatasetId, *, from_sequence: int | None = None, event_types: frozenset[str] | None = None
    ) -> Iterator[BlockRow]:
        """Rows newest first, lazily, of the given events only.

        From a sequence number (inclusive; default the head) down.

        Nothing for a dataset that does not exist. The iteration sees the chain as of this call, even if the head moves
        meanwhile; if the dataset is removed meanwhile it goes on or raises NotFound, but never ends early.
        """

    def idempotency(self, dataset: DatasetId, key_hash: bytes) -> IdempotencyRecord | None:
        """The record of a key that a commit of this dataset has sealed."""

    def commit_of_job(self, job_id: str) -> Multihash | None:
        """The last block that the job has committed, or None if it has not committed."""
