"""Who gets a sender: shares of the senders of one worker.

Owns the shares. Invariant: a receiver that hangs holds senders only up to the shares of its host, its account and its dataset, so that
others find one free; one that is slow or has never accepted anything is doubtful, and all doubtful ones together leave some senders to
those that have proven themselves. Pure: what is under way comes in as values. Not here: threads (the runner), rows (`ports.subscriptions.subscriptions`).
Source: docs/threat-model.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from odfabric.model.identity import DatasetId
from odfabric.model.subscriptions.subscription import Avoided, Subscription

Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderWay:
    """A delivery that holds a sender."""

    receiver: str
    account: str
    dataset: DatasetId | None
    slow: bool
    proven: bool

    @property
    def doubtful(self) -> bool:
        """Whether it may well hang."""
        return self.slow or not self.proven


def under_way(subscription: Subscription) -> UnderWay:
    """A delivery to a subscription that has just been given a sender."""
    return UnderWay(
        receiver=subscription.receiver,
        account=subscription.account,
        dataset=subscription.dataset_id,
        slow=subscription.slow,
        proven=subscription.proven,
    )


def sure(sending: Collection[UnderWay], *, senders: int) -> tuple[Avoided, int] | None:
    """Receivers that the next senders are not for, and how many those are.

    If the senders are for receivers that have proven themselves: so many that no share is passed, no matter who they all turn
    out to be for. None if there is no free sender."""
    full = avoided(sending, senders=senders)
    if full is None:
        return None
    receivers = _room((each.receiver for each in sending), full.receivers, _share(senders, 1, 8))
    accounts = _room((each.account for each in sending), full.accounts, _share(senders, 1, 2))
    return replace(full, doubtful=True), min(senders - len(sending), receivers, accounts)


def avoided(sending: Collection[UnderWay], *, senders: int) -> Avoided | None:
    """Whom the next sender is not for; None if there is no free sender."""
    if len(sending) >= senders:
        return None
    doubtful = [each for each in sending if each.doubtful]
    return Avoided(
        receivers=_full((each.receiver for each in sending), _share(senders, 1, 8)),
        accounts=_full((each.account for each in sending), _share(senders, 1, 2)),
        doubtful_accounts=_full((each.account for each in doubtful), _share(senders, 3, 8)),
        doubtful_datasets=_full((each.dataset for each in doubtful if each.dataset), _share(senders, 1, 32)),
        doubtful=len(doubtful) >= _share(senders, 3, 4),
        slow=sum(each.slow for each in sending) >= _share(senders, 1, 8),
    )


def _share(senders: int, part: int, of: int) -> int:
    return max(1, senders * part // of)


def _room(names: Iterable[Name], full: Collection[Name], maximum: int) -> int:
    """How many more the one may have that has most of those that are not full."""
    return maximum - max((count for name, count in Counter(names).items() if name not in full), default=0)


def _full(names: Iterable[Name], maximum: int) -> frozenset[Name]:
    return frozenset(name for name, count in Counter(names).items() if count >= maximum)
