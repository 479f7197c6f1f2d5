"""The outbox: head moves and other events that are not fanned out yet.

Rows are written in the transactions of what they report.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from odfabric.model.commit import PendingMessage
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.event import Event, EventType


class Outbox(Protocol):
    """Messages in commit order. Handling is at least once; handlers are idempotent."""

    def pending(self, *, limit: int) -> Sequence[PendingMessage]:
        """The oldest unfinished messages."""

    def wanted(self, pending: PendingMessage) -> frozenset[EventType]:
        """Types that subscriptions receive of what this message reports."""

    def fan_out(
        self, message_id: int, *, now: Instant, derived: Sequence[Event] = (), skipped: Collection[str] = ()
    ) -> int:
        """Make a message's deliveries and mark it done in one transaction; how many.

        A head move is reported first, then the events `derived` from its blocks, which have its time. Each makes one delivery per
        subscription that is older than the message, receives its type, and is of the dataset, of the account that owns it, or of the node. A
        message that is done already, or unknown, makes none, nor does a removal. The delivery's id is `model.subscriptions.subscription.delivery_id`, or
        `event_delivery_id`; its sequence the next of the subscription; it is due at `now`.

        Subscriptions of `skipped` get no delivery of the head move, and use no number for it. Where a subscription skips moves
        (`MoveOptions.skips`), the `old_head` of a delivered move is the `new_head` of its last one, or the head from which it began, so the
        interval covers what was skipped.

        Raises Determinate if an older message of the dataset is not done: subscribers see events of a dataset in order.
        """
