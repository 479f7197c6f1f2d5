"""The platform's one compare-and-set. Only `usecases.commit` may hold a ChainWriter (import contract)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.commit import CatalogEntry, EncodedBlock, IdempotencyRecord, OutboxMessage
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.chain_reader import ChainReader


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
        job_id: str | None = None,
        entry: CatalogEntry | None = None,
    ) -> None:
        """Index `blocks` (oldest first) and move the head to the last one if it is still `expected`.

        The outbox message, idempotency records, the mark that `job_id` has committed and, with `expected` None, the
        catalog entry are written in the same transaction, or nothing is.
        Raises HeadMoved if the head is not `expected`; AlreadyExists if the entry's id or alias (ASCII case-insensitive,
        per account) is taken, if an idempotency key has a record, or if the job has committed; NotFound if `expected` is given
        but the dataset does not exist. In all these cases nothing was written.
        Raises Determinate (nothing written) or Indeterminate (unknown: the caller looks for its block).
        """

    def remove(self, dataset: DatasetId, *, expected: Multihash, message: OutboxMessage) -> None:
        """Delete the dataset's head, index, records, subscriptions and catalog entry if the head is `expected`.

        Objects stay for the collector. Raises HeadMoved, NotFound, Determinate, Indeterminate like `append`.
        """
