"""Cursors of consumers: rows that are changed only by the one who holds the fence.

A cursor holds nothing back: what it will read is in the chain for ever. So one whose consumer is dead costs a row and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.cursor import Cursor, CursorPosition


class Cursors(Protocol):
    """Every method is one transaction.

    Raises Determinate or Indeterminate for outside failures.
    """

    def create(self, cursor: Cursor) -> None:
        """Store a new cursor.

        Raises AlreadyExists if the dataset has one of that consumer.
        """

    def get(self, dataset: DatasetId, consumer: str) -> Cursor | None:
        """The cursor, or None."""

    def of_dataset(self, dataset: DatasetId, *, space: str | None = None, limit: int) -> Sequence[Cursor]:
        """At most `limit` cursors in order of their consumers' names.

        All of them or those of one `space` (`model.subscriptions.cursor`).
        """

    def claim(
        self, dataset: DatasetId, consumer: str, *, expected: str | None, fence: str, now: Instant, lease_ms: int
    ) -> Cursor:
        """Make `fence` the fence, if the actual one is `expected`.

        With None, if its lease is over.

        Of several callers that expect one fence exactly one succeeds. Raises NotFound, LeaseLost.
        """

    def move(
        self,
        dataset: DatasetId,
        consumer: str,
        *,
        fence: str,
        at: CursorPosition,
        to: CursorPosition,
        now: Instant,
        lease_ms: int,
    ) -> Cursor | None:
        """Move from `at` (which may be `to`) and prolong the lease.

        None, and nothing changed, if it is not at `at` any more.

        Raises NotFound; LeaseLost if `fence` is not the actual one, whatever the position.
        """

    def delete(self, dataset: DatasetId, consumer: str) -> bool:
        """Delete it; whether there was one."""


def claim_refused(consumer: str) -> str:
    """The refusal of a consumer that does not hold the fence."""
    name = consumer.rpartition("/")[2]
    return f"the cursor {name} is held by another: the fence is not the one that was given last"


CLAIM_HINT = "claim it when the lease of its holder is over, and go on from what was acknowledged"
