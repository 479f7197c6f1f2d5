"""The outbox: head moves whose consequences are not drawn yet. Rows are written by the commit seam."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from odfabric.model.commit import PendingMessage
from odfabric.model.instant import Instant


class Outbox(Protocol):
    """Messages in commit order. Handling is at least once; handlers are idempotent."""

    def pending(self, *, limit: int) -> Sequence[PendingMessage]:
        """The oldest unfinished messages."""

    def fan_out(self, message_id: int, *, now: Instant, skipped: Collection[str] = ()) -> int:
        """In one transaction: make one delivery per subscription of the dataset that is older than the commit, mark the message
        done, and return how many deliveries were made. A message that is done already, or unknown, makes none.

        The delivery's id is `model.subscription.delivery_id`, its sequence the next of the subscription; it is due at `now`.
        Subscriptions of `skipped` get none, and use no number. Where a subscription skips moves (`only_with_data`), the `old_head` of a
        delivery is the `new_head` of its last one, or the head from which it began, so the interval covers what was skipped.

        Raises Determinate if an older message of the dataset is not done: subscribers see head moves in order.
        """
