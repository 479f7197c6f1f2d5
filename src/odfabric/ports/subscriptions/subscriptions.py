"""Subscriptions and their deliveries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from odfabric.model.identity import AccountId, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.people.audit import AuditEntry
from odfabric.model.subscriptions.subscription import (
    NOTHING_AVOIDED,
    Avoided,
    Delivery,
    DeliveryAttempt,
    Subscription,
    SubscriptionState,
)


class Subscriptions(Protocol):
    """Subscriptions of datasets, accounts and the node.

    Deleting one drops its pending deliveries. They go with their dataset or account.
    """

    def create(self, subscription: Subscription, *, secret: bytes, audit: Sequence[AuditEntry] = ()) -> None:
        """Store it, with its secret and its audit entries.

        It gets exactly the moves of the head away from `created_at_head` and later ones, one of an account or of the
        node the events of all transactions that commit after this one.

        Raises NotFound if the dataset does not exist, AlreadyExists for a known id, HeadMoved if `created_at_head` is not the
        head now (the caller looks again), Determinate, Indeterminate.
        """

    def get(self, subscription_id: str) -> Subscription | None:
        """The subscription, or None."""

    def secrets(self, subscription_id: str, *, now: Instant) -> Sequence[bytes]:
        """Secrets that sign at `now`: the present one, then the previous while valid.

        None if there is no subscription.

        Raises Corrupt for one that cannot be opened.
        """

    def set_secret(
        self, subscription_id: str, secret: bytes, *, old_until: Instant, audit: Sequence[AuditEntry] = ()
    ) -> bool:
        """Give it another secret.

        The present one signs too until `old_until`, one before that not any more. Whether it existed.
        """

    def drop_old_secrets(self, *, now: Instant) -> int:
        """Remove old secrets that sign no more at `now`; how many."""

    def set_state(
        self,
        subscription_id: str,
        state: SubscriptionState,
        *,
        now: Instant,
        reason: str | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> bool:
        """Change its state; whether it existed in another one, else nothing is written.

        From another state to `active`: it fails no more, and attempts at its pending deliveries start at 1 again, due at `now`.
        """

    def note_test(self, subscription_id: str, *, proven: bool, audit: Sequence[AuditEntry] = ()) -> bool:
        """Note a test of its receiver; whether it existed.

        `proven`: the receiver has accepted something quickly.
        """

    def of_dataset(self, dataset: DatasetId, *, limit: int) -> Sequence[Subscription]:
        """Subscriptions of one dataset, oldest first."""

    def of_account(self, account: AccountId, *, limit: int) -> Sequence[Subscription]:
        """Subscriptions of a whole account, oldest first."""

    def of_node(self, *, limit: int) -> Sequence[Subscription]:
        """Subscriptions of the whole node, oldest first."""

    def counted(self) -> Mapping[SubscriptionState, int]:
        """How many there are in each state; a state that none is in may be left out."""

    def delete(self, subscription_id: str, *, audit: Sequence[AuditEntry] = ()) -> bool:
        """Delete it and drop its pending deliveries.

        Whether it existed, without which no audit entry is written.
        """


class Deliveries(Protocol):
    """Deliveries as leased rows.

    Within a subscription they go out in sequence order, one at a time.
    """

    def lease_due(
        self, worker: str, *, now: Instant, lease_ms: int, limit: int, avoided: Avoided = NOTHING_AVOIDED
    ) -> Sequence[Delivery]:
        """Lease due pending deliveries, at most one per active subscription.

        Its lowest sequence, hidden from others for the lease.

        Subscriptions that are avoided give none. A subscription with a lower sequence that is not due yet, or leased, gives none. Attempts grow by one. What was last written more than
        `lease_ms` after `now` is of a clock that was ahead and has been set back: it is due, and its lease has expired.
        """

    def record_success(
        self,
        delivery_id: str,
        *,
        now: Instant,
        status_code: int,
        attempt: DeliveryAttempt | None = None,
        attempts_kept: int = 0,
    ) -> None:
        """Delivered. Nothing changes if the delivery is not pending any more.

        An `attempt` is logged; of its subscription the newest `attempts_kept` stay. The subscription does not fail (any more), and is
        proven.
        """

    def record_failure(
        self,
        delivery_id: str,
        *,
        now: Instant,
        status_code: int | None,
        error: str,
        next_attempt_at: Instant | None,
        attempt: DeliveryAttempt | None = None,
        attempts_kept: int = 0,
    ) -> None:
        """Try again at `next_attempt_at`, or give up for good if None.

        Nothing changes if it is not pending any more.

        An `attempt` is logged as a success is. A subscription that did not fail before fails since `now`.
        """

    def get(self, delivery_id: str) -> Delivery | None:
        """The delivery, or None."""

    def attempts(self, delivery_id: str, *, limit: int) -> Sequence[DeliveryAttempt]:
        """Logged attempts of a delivery, newest first."""

    def replay(
        self,
        subscription_id: str,
        *,
        now: Instant,
        delivery_id: str | None = None,
        from_sequence: int | None = None,
        audit: Sequence[AuditEntry] = (),
    ) -> int:
        """Make a subscription's deliveries pending, due `now`, attempts from 1; how many.

        One delivery, or all from a sequence on, or all that failed. One that is pending and not being sent is due at `now`. Without any, or
        without the subscription, nothing is written.
        """

    def of_subscription(self, subscription_id: str, *, limit: int) -> Sequence[Delivery]:
        """The delivery log, newest first."""
