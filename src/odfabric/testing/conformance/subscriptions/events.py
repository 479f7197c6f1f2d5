"""Contract of Outbox and Subscriptions for events of no single dataset.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.model.identity import KeyAccountId
from odfabric.model.subscriptions.event import ALL_EVENTS, Event, EventType
from odfabric.model.subscriptions.subscription import Subscription, delivery_id, event_delivery_id
from odfabric.testing.conformance.examples import NOW, GrowingChain, StoragePorts, entry_of, new_chain

SECRET = bytes(range(224, 256))


def subscription_of(chain: GrowingChain, name: str = "s1") -> Subscription:
    """A subscription from the present head on, not stored yet."""
    assert chain.head is not None
    return Subscription(
        id=name,
        dataset_id=chain.id,
        account="local",
        url="https://receiver.example/hook?a=1",
        created_at=NOW,
        created_at_head=chain.head,
    )


def wide_subscription(chain: GrowingChain, name: str, events: frozenset[EventType]) -> Subscription:
    """One of the whole node, not stored yet."""
    return replace(subscription_of(chain, name), dataset_id=None, created_at_head=None, events=events)


def fan_out_all(storage: StoragePorts) -> int:
    """Fan out all that is pending; returns how many deliveries that made."""
    return sum(storage.outbox.fan_out(pending.id, now=NOW) for pending in storage.outbox.pending(limit=1000))


class EventsContract:
    """Fan-out of events to subscriptions of a dataset, an account and the node."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_events_reach_each_scope_once_and_by_type(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        fan_out_all(storage)
        storage.subscriptions.create(subscription_of(chain, "s1"), secret=SECRET)
        node = wide_subscription(chain, "n1", ALL_EVENTS)
        some = wide_subscription(chain, "n2", frozenset({EventType.INFO_CHANGED}))
        foreign = replace(wide_subscription(chain, "a1", ALL_EVENTS), scope_account=KeyAccountId(bytes(32)))
        for each in (node, some, foreign):
            storage.subscriptions.create(each, secret=SECRET)
        assert list(storage.subscriptions.of_node(limit=10)) == [node, some]
        assert list(storage.subscriptions.of_account(KeyAccountId(bytes(32)), limit=10)) == [foreign]
        chain.grow()
        other.grow()
        first, second = storage.outbox.pending(limit=10)
        assert storage.outbox.wanted(first) == ALL_EVENTS
        changed = Event(
            type=EventType.INFO_CHANGED,
            dataset_id=chain.id,
            alias=entry_of("flights").alias,
            occurred_at=first.message.occurred_at,
            detail={"change": "SetInfo", "n": [1, None]},
        )
        assert storage.outbox.fan_out(first.id, now=NOW, derived=[changed]) == 4
        assert storage.outbox.fan_out(first.id, now=NOW, derived=[changed]) == 0
        assert storage.outbox.fan_out(second.id, now=NOW) == 1
        logs = {
            name: [(each.sequence, each.event) for each in storage.deliveries.of_subscription(name, limit=10)][::-1]
            for name in ("s1", "n1", "n2", "a1")
        }
        assert logs == {"s1": [(1, None)], "n1": [(1, None), (2, changed), (3, None)], "n2": [(1, changed)], "a1": []}
        (moved,) = storage.deliveries.of_subscription("s1", limit=10)
        assert moved.new_head is not None
        assert moved.id == delivery_id("s1", moved.new_head)
        (named,) = storage.deliveries.of_subscription("n2", limit=10)
        assert named.id == event_delivery_id("n2", first.id, EventType.INFO_CHANGED)
        due = storage.deliveries.lease_due("w", now=NOW, lease_ms=1000, limit=10)
        assert {each.subscription_id for each in due} == {"s1", "n1", "n2"}
