"""What Outbox, Subscriptions and Deliveries promise, as tests.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.errors import AlreadyExists, Determinate, HeadMoved, NotFound
from odfabric.model.commit import PendingMessage
from odfabric.model.instant import Instant
from odfabric.model.subscriptions.subscription import (
    SLOW_MS,
    Avoided,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    FailureKind,
    MoveOptions,
    Subscription,
    SubscriptionFormat,
    SubscriptionState,
    delivery_id,
)
from odfabric.testing.conformance.examples import (
    NOW,
    GrowingChain,
    StoragePorts,
    entry_of,
    later,
    new_chain,
)
from odfabric.testing.conformance.subscriptions.events import SECRET, EventsContract, fan_out_all, subscription_of
from odfabric.testing.conformance.together import THREADS, outcomes_of_threads

LEASE_MS = 1000
OTHER_SECRET, THIRD_SECRET = bytes(range(32)), bytes(range(32, 64))


def subscribe(storage: StoragePorts, chain: GrowingChain, name: str = "s1") -> Subscription:
    """The same, stored."""
    subscription = subscription_of(chain, name)
    storage.subscriptions.create(subscription, secret=SECRET)
    return subscription


def attempt_of(number: int, *, duration_ms: int = 120) -> DeliveryAttempt:
    """An attempt with everything that can be kept."""
    return DeliveryAttempt(
        number=number,
        at=later(number),
        duration_ms=duration_ms,
        status_code=503,
        failure=FailureKind.STATUS,
        error="the receiver answered 503",
        request_headers={"webhook-id": "d1", "content-type": "x/y"},
        request_body=b'{"a":"\xff"}',
        response="busy <b>\u00e9",
    )


def lease(storage: StoragePorts, *, now: Instant = NOW, limit: int = 100, worker: str = "w") -> list[Delivery]:
    """Deliveries that are due."""
    return list(storage.deliveries.lease_due(worker, now=now, lease_ms=LEASE_MS, limit=limit))


class SubscriptionsContract(EventsContract):
    """Subscriptions and fan-out."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_what_was_stored_is_read(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        # Ids of which the order is not the order of creation.
        made = [subscribe(storage, chain, name) for name in ("zz", "aa", "mm")]
        made.append(replace(subscription_of(chain, "kk"), format=SubscriptionFormat.REFERENCE))
        storage.subscriptions.create(made[-1], secret=SECRET)
        subscribe(storage, other, "other")
        assert storage.subscriptions.get("aa") == made[1]
        assert storage.subscriptions.get("nothing") is None
        assert [storage.subscriptions.secrets(name, now=NOW) for name in ("aa", "nothing")] == [[SECRET], []]
        assert list(storage.subscriptions.of_dataset(chain.id, limit=10)) == made
        assert list(storage.subscriptions.of_dataset(chain.id, limit=2)) == made[:2]
        assert list(storage.subscriptions.of_dataset(entry_of("nothing").id, limit=2)) == []

    def test_what_cannot_be_subscribed_to(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        subscription = subscribe(storage, chain)
        with pytest.raises(AlreadyExists):
            storage.subscriptions.create(replace(subscription, url="https://other.example"), secret=b"other" * 8)
        with pytest.raises(NotFound):
            storage.subscriptions.create(
                replace(subscription, id="s2", dataset_id=entry_of("nothing").id), secret=SECRET
            )
        chain.grow()
        with pytest.raises(HeadMoved) as moved:
            storage.subscriptions.create(replace(subscription, id="s2"), secret=SECRET)
        assert moved.value.actual == str(chain.head)
        assert list(storage.subscriptions.of_dataset(chain.id, limit=10)) == [subscription]

    def test_deleting_tells_whether_there_was_one(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        subscribe(storage, chain)
        assert storage.subscriptions.delete("s1")
        assert not storage.subscriptions.delete("s1")
        assert storage.subscriptions.get("s1") is None
        assert storage.subscriptions.secrets("s1", now=NOW) == []
        assert list(storage.subscriptions.of_dataset(chain.id, limit=10)) == []

    def test_the_old_secret_signs_until_its_time_is_over(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        subscribe(storage, chain)
        assert storage.subscriptions.set_secret("s1", OTHER_SECRET, old_until=later(10))
        assert storage.subscriptions.secrets("s1", now=later(9)) == [OTHER_SECRET, SECRET]
        assert storage.subscriptions.secrets("s1", now=later(10)) == [OTHER_SECRET]
        found = storage.subscriptions.get("s1")
        assert found is not None
        assert found.old_secret_until == later(10)
        assert storage.subscriptions.drop_old_secrets(now=later(9)) == 0
        assert storage.subscriptions.secrets("s1", now=later(9)) == [OTHER_SECRET, SECRET]
        assert storage.subscriptions.drop_old_secrets(now=later(10)) == 1
        assert storage.subscriptions.secrets("s1", now=later(9)) == [OTHER_SECRET]
        assert not storage.subscriptions.set_secret("nothing", SECRET, old_until=NOW)

    def test_only_one_old_secret_signs(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        subscribe(storage, chain)
        storage.subscriptions.set_secret("s1", OTHER_SECRET, old_until=later(10))
        storage.subscriptions.set_secret("s1", THIRD_SECRET, old_until=later(10))
        assert storage.subscriptions.secrets("s1", now=NOW) == [THIRD_SECRET, OTHER_SECRET]

    def test_a_state_has_a_reason_and_changes_once(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        made = subscribe(storage, chain)
        disabled = SubscriptionState.DISABLED
        assert storage.subscriptions.set_state("s1", disabled, now=NOW, reason="away")
        assert storage.subscriptions.counted() == {disabled: 1}
        assert storage.subscriptions.get("s1") == replace(made, state=disabled, state_reason="away")
        assert not storage.subscriptions.set_state("s1", disabled, now=NOW, reason="another")
        assert not storage.subscriptions.set_state("nothing", disabled, now=NOW)
        assert storage.subscriptions.set_state("s1", SubscriptionState.ACTIVE, now=NOW)
        assert storage.subscriptions.get("s1") == made

    def test_who_passes_a_test_is_proven(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        made = subscribe(storage, chain)
        assert storage.subscriptions.note_test("s1", proven=False)
        assert storage.subscriptions.get("s1") == made
        assert storage.subscriptions.note_test("s1", proven=True)
        assert storage.subscriptions.get("s1") == replace(made, proven=True)
        assert not storage.subscriptions.note_test("nothing", proven=True)

    def test_each_move_after_the_subscription_is_delivered_once(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains, blocks=3), new_chain(storage.chains, "weather")
        subscribe(storage, chain, "s1")
        subscribe(storage, chain, "s2")
        subscribe(storage, other, "s3")
        blocks = chain.grow(2)
        *older, message = storage.outbox.pending(limit=10)
        assert [storage.outbox.fan_out(each.id, now=NOW) for each in older] == [0, 0]
        assert storage.outbox.fan_out(message.id, now=later(5)) == 2
        assert storage.outbox.fan_out(message.id, now=later(6)) == 0
        assert storage.outbox.pending(limit=10) == []
        (delivery,) = storage.deliveries.of_subscription("s2", limit=10)
        assert delivery == Delivery(
            id=delivery_id("s2", blocks[-1].hash),
            subscription_id="s2",
            dataset_id=chain.id,
            sequence=1,
            old_head=chain.blocks[2].hash,
            new_head=blocks[-1].hash,
            occurred_at=message.message.occurred_at,
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=later(5),
        )
        assert len(storage.deliveries.of_subscription("s1", limit=10)) == 1
        assert storage.deliveries.of_subscription("s3", limit=10) == []

    @pytest.mark.parametrize(
        "options",
        [MoveOptions(only_with_data=True), MoveOptions(columns=frozenset({"b,", '"a"'}), with_rows=True)],
        ids=["data", "columns"],
    )
    def test_the_next_event_covers_moves_that_were_skipped(self, storage: StoragePorts, options: MoveOptions) -> None:
        chain = new_chain(storage.chains)
        subscribe(storage, chain, "all")
        storage.subscriptions.create(replace(subscription_of(chain, "some"), moves=options), secret=SECRET)
        found = storage.subscriptions.get("some")
        assert found is not None
        assert found.moves == options
        fan_out_all(storage)
        began, heads = chain.head, []
        for skipped in (["some"], [], ["some", "nothing"], ["some"], []):
            chain.grow()
            heads.append(chain.head)
            (pending,) = storage.outbox.pending(limit=10)
            assert storage.outbox.fan_out(pending.id, now=NOW, skipped=skipped) == 2 - ("some" in skipped)
        made = storage.deliveries.of_subscription("some", limit=10)[::-1]
        assert [(each.sequence, each.old_head, each.new_head) for each in made] == [
            (1, began, heads[1]),
            (2, heads[1], heads[4]),
        ]
        each_move = storage.deliveries.of_subscription("all", limit=10)[::-1]
        assert [each.old_head for each in each_move] == [began, *heads[:4]]

    def test_an_unknown_message_makes_nothing(self, storage: StoragePorts) -> None:
        assert storage.outbox.fan_out(7, now=NOW) == 0
        assert storage.outbox.fan_out(-1, now=NOW) == 0

    def test_commits_before_the_subscription_are_not_delivered_even_if_told_later(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        chain.grow()
        subscribe(storage, chain)
        chain.grow()
        assert fan_out_all(storage) == 1
        (delivery,) = storage.deliveries.of_subscription("s1", limit=10)
        assert (delivery.old_head, delivery.new_head) == (chain.blocks[1].hash, chain.blocks[2].hash)

    def test_numbers_are_free_of_gaps_and_the_log_is_newest_first(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        subscribe(storage, chain, "old")
        for _ in range(3):
            chain.grow()
        fan_out_all(storage)
        subscribe(storage, chain, "young")
        for _ in range(2):
            chain.grow()
        fan_out_all(storage)
        log = storage.deliveries.of_subscription("old", limit=10)
        assert [delivery.sequence for delivery in log] == [5, 4, 3, 2, 1]
        assert [delivery.new_head for delivery in log] == [block.hash for block in reversed(chain.blocks[1:])]
        assert [d.sequence for d in storage.deliveries.of_subscription("young", limit=10)] == [2, 1]
        assert [d.sequence for d in storage.deliveries.of_subscription("old", limit=2)] == [5, 4]

    def test_a_younger_move_is_not_told_before_an_older_one(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        fan_out_all(storage)
        subscribe(storage, chain)
        chain.grow()
        chain.grow()
        other.grow()
        first, second, foreign = storage.outbox.pending(limit=10)
        assert storage.outbox.fan_out(foreign.id, now=NOW) == 0
        with pytest.raises(Determinate):
            storage.outbox.fan_out(second.id, now=NOW)
        assert storage.deliveries.of_subscription("s1", limit=10) == []
        assert storage.outbox.pending(limit=10) == [first, second]
        assert storage.outbox.fan_out(first.id, now=NOW) == storage.outbox.fan_out(second.id, now=NOW) == 1

    def test_of_racing_relays_one_makes_the_deliveries(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        fan_out_all(storage)
        for number in range(3):
            subscribe(storage, chain, f"s{number}")
        chain.grow()
        (message,) = storage.outbox.pending(limit=10)
        outcomes = outcomes_of_threads(lambda _: storage.outbox.fan_out(message.id, now=NOW))
        assert sorted(map(str, outcomes)) == ["0"] * (THREADS - 1) + ["3"]
        for number in range(3):
            assert [d.sequence for d in storage.deliveries.of_subscription(f"s{number}", limit=10)] == [1]

    def test_commits_and_relays_at_once_leave_no_gap(self, storage: StoragePorts) -> None:
        chains = [new_chain(storage.chains, f"dataset-{number}") for number in range(4)]
        fan_out_all(storage)
        for number, chain in enumerate(chains):
            subscribe(storage, chain, f"s{number}")

        def act(number: int) -> int:
            if number < len(chains):
                for _ in range(5):
                    chains[number].grow()
                return 0
            return sum(_told(storage, pending) for _ in range(5) for pending in storage.outbox.pending(limit=100))

        made = outcomes_of_threads(act, count=8)
        total = sum(outcome for outcome in made if isinstance(outcome, int)) + fan_out_all(storage)
        assert total == 20
        for number, chain in enumerate(chains):
            log = storage.deliveries.of_subscription(f"s{number}", limit=100)
            assert [(d.sequence, d.new_head) for d in reversed(log)] == [
                (at, block.hash) for at, block in enumerate(chain.blocks[1:], start=1)
            ]

    def test_a_removed_dataset_drops_what_is_pending(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains), new_chain(storage.chains, "weather")
        subscribe(storage, chain)
        subscribe(storage, other, "s2")
        chain.grow()
        other.grow()
        fan_out_all(storage)
        chain.grow()
        chain.remove()
        assert fan_out_all(storage) == 0
        assert storage.outbox.pending(limit=10) == []
        assert storage.subscriptions.get("s1") is None
        assert [d.status for d in storage.deliveries.of_subscription("s1", limit=10)] == [DeliveryStatus.DROPPED]
        assert [d.subscription_id for d in lease(storage)] == ["s2"]

    def test_a_dataset_made_again_does_not_tell_of_its_former_life(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains, blocks=3)
        chain.grow()
        chain.remove()
        again = GrowingChain(storage.chains, chain.entry)
        again.grow(label="again")
        subscribe(storage, again)
        again.grow(label="again")
        assert fan_out_all(storage) == 1
        (delivery,) = storage.deliveries.of_subscription("s1", limit=10)
        assert delivery.new_head == again.head


class DeliveriesContract:
    """Leasing and recording."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    @pytest.fixture
    def waiting(self, storage: StoragePorts) -> StoragePorts:
        """Three deliveries each for subscriptions s1 and s2 of a dataset, due at `NOW`."""
        chain = new_chain(storage.chains)
        for name in ("s1", "s2"):
            subscribe(storage, chain, name)
        for _ in range(3):
            chain.grow()
        assert fan_out_all(storage) == 6
        return storage

    def test_the_first_of_each_subscription_is_leased_and_hidden(self, waiting: StoragePorts) -> None:
        leased = lease(waiting)
        assert sorted((d.subscription_id, d.sequence, d.attempts) for d in leased) == [("s1", 1, 1), ("s2", 1, 1)]
        assert lease(waiting) == lease(waiting, now=later(LEASE_MS - 1)) == []
        again = lease(waiting, now=later(LEASE_MS))
        assert sorted((d.subscription_id, d.sequence, d.attempts) for d in again) == [("s1", 1, 2), ("s2", 1, 2)]

    def test_nothing_is_due_before_its_time(self, waiting: StoragePorts) -> None:
        assert lease(waiting, now=later(-1)) == []

    def test_a_clock_that_was_ahead_holds_nothing_up(self, waiting: StoragePorts) -> None:
        ahead = later(10 * LEASE_MS)
        first, second = lease(waiting, now=ahead)
        waiting.deliveries.record_failure(
            first.id, now=ahead, status_code=None, error="away", next_attempt_at=later(12 * LEASE_MS)
        )
        assert lease(waiting, now=later(9 * LEASE_MS)) == []
        assert sorted(each.id for each in lease(waiting)) == sorted([first.id, second.id])

    def test_no_more_are_leased_than_asked_for(self, waiting: StoragePorts) -> None:
        assert len(lease(waiting, limit=1)) == len(lease(waiting, limit=1)) == 1
        assert lease(waiting, limit=1) == []

    def test_the_longest_due_goes_first(self, waiting: StoragePorts) -> None:
        first, second = lease(waiting)
        self.fail(waiting, first, again_at=later(10))
        self.fail(waiting, second, again_at=later(5))
        assert [d.id for d in lease(waiting, now=later(20))] == [second.id, first.id]

    def test_after_success_comes_the_next_number(self, waiting: StoragePorts) -> None:
        for sequence in (1, 2, 3):
            (delivery,) = [d for d in lease(waiting, now=later(sequence * LEASE_MS)) if d.subscription_id == "s1"]
            assert delivery.sequence == sequence
            waiting.deliveries.record_success(delivery.id, now=NOW, status_code=204)
        assert [d.subscription_id for d in lease(waiting, now=later(9 * LEASE_MS))] == ["s2"]
        last = waiting.deliveries.of_subscription("s1", limit=1)[0]
        assert (last.status, last.last_status_code, last.last_error) == (DeliveryStatus.DELIVERED, 204, None)

    def test_a_failed_one_holds_back_the_later_ones_of_its_subscription_only(self, waiting: StoragePorts) -> None:
        first, second = sorted(lease(waiting), key=lambda delivery: delivery.subscription_id)
        self.fail(waiting, first, again_at=later(500))
        waiting.deliveries.record_success(second.id, now=NOW, status_code=200)
        assert [(d.subscription_id, d.sequence) for d in lease(waiting, now=later(100))] == [("s2", 2)]
        (again,) = lease(waiting, now=later(500))
        assert (again.id, again.attempts, again.last_status_code, again.last_error) == (first.id, 2, 503, "busy")

    def test_giving_up_lets_the_next_one_go(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        self.fail(waiting, first, again_at=None)
        assert [(d.subscription_id, d.sequence) for d in lease(waiting, now=later(1))] == [("s1", 2)]
        log = waiting.deliveries.of_subscription("s1", limit=10)
        assert [d.status.value for d in log] == ["pending", "pending", "failed"]

    def test_what_is_final_stays_so(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        waiting.deliveries.record_success(first.id, now=NOW, status_code=200)
        before = waiting.deliveries.of_subscription("s1", limit=10)
        self.fail(waiting, first, again_at=later(1))
        self.fail(waiting, first, again_at=None)
        waiting.deliveries.record_success(first.id, now=NOW, status_code=299)
        waiting.deliveries.record_success("nothing", now=NOW, status_code=200)
        assert waiting.deliveries.of_subscription("s1", limit=10) == before

    def test_deleting_the_subscription_drops_what_is_pending(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        waiting.deliveries.record_success(first.id, now=NOW, status_code=200)
        waiting.subscriptions.delete("s1")
        assert [d.subscription_id for d in lease(waiting, now=later(LEASE_MS))] == ["s2"]
        log = waiting.deliveries.of_subscription("s1", limit=10)
        assert [d.status.value for d in log] == ["dropped", "dropped", "delivered"]
        waiting.deliveries.record_success(log[0].id, now=NOW, status_code=200)
        assert waiting.deliveries.of_subscription("s1", limit=10) == log

    def test_of_racing_workers_one_gets_each_delivery(self, waiting: StoragePorts) -> None:
        outcomes = outcomes_of_threads(lambda number: lease(waiting, worker=f"w{number}"))
        leased = [delivery for outcome in outcomes if isinstance(outcome, list) for delivery in outcome]
        assert sorted((d.subscription_id, d.sequence, d.attempts) for d in leased) == [("s1", 1, 1), ("s2", 1, 1)]

    def test_what_is_paused_waits_and_goes_out_in_order(self, waiting: StoragePorts) -> None:
        first, _ = sorted(lease(waiting), key=lambda delivery: delivery.subscription_id)
        self.fail(waiting, first, again_at=later(500))
        waiting.subscriptions.set_state("s1", SubscriptionState.PAUSED, now=NOW)
        assert [d.subscription_id for d in lease(waiting, now=later(9 * LEASE_MS))] == ["s2"]
        waiting.subscriptions.set_state("s1", SubscriptionState.ACTIVE, now=later(100))
        for sequence in (1, 2, 3):
            (delivery,) = [d for d in lease(waiting, now=later(100)) if d.subscription_id == "s1"]
            assert (delivery.sequence, delivery.attempts) == (sequence, 1)
            waiting.deliveries.record_success(delivery.id, now=later(100), status_code=204)

    def test_a_subscription_fails_from_its_first_failure_to_its_next_success(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        assert self.standing(waiting) == (None, False, False)
        self.record(waiting, first, slow=True, failed_at=later(1))
        self.record(waiting, first, slow=False, failed_at=later(2))
        assert self.standing(waiting) == (later(1), False, False)
        self.record(waiting, first, slow=True, failed_at=later(3))
        assert self.standing(waiting) == (later(1), True, False)
        self.record(waiting, first, slow=False, failed_at=None)
        assert self.standing(waiting) == (None, False, True)
        self.record(waiting, first, slow=False, failed_at=later(4))
        assert self.standing(waiting) == (None, False, True), "what is final changes nothing"

    def test_resuming_ends_the_time_of_failure(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        self.record(waiting, first, slow=False, failed_at=later(1))
        waiting.subscriptions.set_state("s1", SubscriptionState.DISABLED, now=later(2), reason="away")
        assert self.standing(waiting)[0] == later(1)
        waiting.subscriptions.set_state("s1", SubscriptionState.ACTIVE, now=later(3))
        assert self.standing(waiting)[0] is None

    def test_the_newest_attempts_of_a_subscription_are_kept(self, waiting: StoragePorts) -> None:
        first, other = sorted(lease(waiting), key=lambda delivery: delivery.subscription_id)
        made = [attempt_of(number) for number in (1, 2, 3)]
        for each in made:
            waiting.deliveries.record_failure(
                first.id,
                now=NOW,
                status_code=503,
                error="busy",
                next_attempt_at=NOW,
                attempt=each,
                attempts_kept=2,
            )
        waiting.deliveries.record_success(other.id, now=NOW, status_code=204, attempt=made[0], attempts_kept=2)
        assert list(waiting.deliveries.attempts(first.id, limit=10)) == [made[2], made[1]]
        assert list(waiting.deliveries.attempts(first.id, limit=1)) == [made[2]]
        assert list(waiting.deliveries.attempts(other.id, limit=10)) == [made[0]]
        waiting.subscriptions.delete("s1")
        assert list(waiting.deliveries.attempts(first.id, limit=10)) == []
        assert list(waiting.deliveries.attempts(other.id, limit=10)) == [made[0]]

    def test_no_attempts_are_kept_if_none_are_wanted(self, waiting: StoragePorts) -> None:
        first = lease(waiting)[0]
        waiting.deliveries.record_success(first.id, now=NOW, status_code=204, attempt=attempt_of(1), attempts_kept=0)
        assert list(waiting.deliveries.attempts(first.id, limit=10)) == []

    def test_one_delivery_is_replayed(self, waiting: StoragePorts) -> None:
        ended = self.finish_all(waiting, failing={2})
        again = later(8 * LEASE_MS)
        assert waiting.deliveries.replay("s1", now=again, delivery_id=ended[0].id) == 1
        found = waiting.deliveries.get(ended[0].id)
        assert found is not None
        assert (found.status, found.attempts, found.next_attempt_at) == (DeliveryStatus.PENDING, 0, again)
        assert [d.id for d in lease(waiting, now=again) if d.subscription_id == "s1"] == [ended[0].id]
        assert waiting.deliveries.replay("s1", now=again, delivery_id=ended[0].id) == 0, "it is being sent"
        assert waiting.deliveries.replay("s2", now=again, delivery_id=ended[0].id) == 0
        assert waiting.deliveries.get("nothing") is None

    def test_all_from_a_sequence_on_are_replayed_in_order(self, waiting: StoragePorts) -> None:
        ended = self.finish_all(waiting, failing=set())
        assert waiting.deliveries.replay("s1", now=NOW, from_sequence=2) == 2
        for delivery in ended[1:]:
            (due,) = [d for d in lease(waiting, now=later(8 * LEASE_MS)) if d.subscription_id == "s1"]
            assert due.id == delivery.id
            waiting.deliveries.record_success(due.id, now=NOW, status_code=204)

    def test_all_that_failed_are_replayed(self, waiting: StoragePorts) -> None:
        ended = self.finish_all(waiting, failing={1, 3})
        assert waiting.deliveries.replay("s1", now=NOW) == 2
        log = waiting.deliveries.of_subscription("s1", limit=10)
        assert [(d.id, d.status.value) for d in reversed(log)] == [
            (ended[0].id, "pending"),
            (ended[1].id, "delivered"),
            (ended[2].id, "pending"),
        ]
        assert waiting.deliveries.replay("s1", now=NOW) == 0

    def test_nothing_of_a_subscription_that_is_gone_is_replayed(self, waiting: StoragePorts) -> None:
        waiting.subscriptions.delete("s1")
        assert waiting.deliveries.replay("s1", now=NOW, from_sequence=1) == 0
        log = waiting.deliveries.of_subscription("s1", limit=10)
        assert {d.status for d in log} == {DeliveryStatus.DROPPED}

    @pytest.mark.parametrize(
        ("avoided", "left"),
        [
            (Avoided(receivers=frozenset({"receiver.example:443"})), set()),
            (Avoided(receivers=frozenset({"receiver.example:80"})), {"s1", "s2"}),
            (Avoided(accounts=frozenset({"local"})), set()),
            (Avoided(accounts=frozenset({"other"})), {"s1", "s2"}),
            (Avoided(doubtful_accounts=frozenset({"local"})), {"s1"}),
            (Avoided(doubtful_datasets=frozenset({entry_of("flights").id})), {"s1"}),
            (Avoided(doubtful=True), {"s1"}),
            (Avoided(slow=True), {"s1", "s2"}),
        ],
    )
    def test_who_is_avoided_gets_nothing(self, waiting: StoragePorts, avoided: Avoided, left: set[str]) -> None:
        waiting.subscriptions.note_test("s1", proven=True)
        found = waiting.deliveries.lease_due("w", now=NOW, lease_ms=LEASE_MS, limit=10, avoided=avoided)
        assert {d.subscription_id for d in found} == left

    def test_the_slow_are_avoided_even_if_they_are_proven(self, waiting: StoragePorts) -> None:
        first = next(d for d in lease(waiting) if d.subscription_id == "s1")
        waiting.deliveries.record_success(
            first.id, now=NOW, status_code=204, attempt=attempt_of(1, duration_ms=SLOW_MS), attempts_kept=1
        )
        for avoided in (Avoided(slow=True), Avoided(doubtful=True)):
            found = waiting.deliveries.lease_due("w", now=later(1), lease_ms=LEASE_MS, limit=10, avoided=avoided)
            assert found == []
        assert [d.sequence for d in lease(waiting, now=later(1))] == [2]

    def standing(self, storage: StoragePorts) -> tuple[Instant | None, bool, bool]:
        """Since when s1 fails, whether it is slow, whether it is proven."""
        found = storage.subscriptions.get("s1")
        assert found is not None
        return found.failing_since, found.slow, found.proven

    def record(self, storage: StoragePorts, delivery: Delivery, *, slow: bool, failed_at: Instant | None) -> None:
        """An attempt that took long or not, and failed or not."""
        attempt = attempt_of(1, duration_ms=SLOW_MS if slow else 1)
        if failed_at is None:
            storage.deliveries.record_success(delivery.id, now=NOW, status_code=204, attempt=attempt, attempts_kept=1)
            return
        storage.deliveries.record_failure(
            delivery.id,
            now=failed_at,
            status_code=503,
            error="busy",
            next_attempt_at=later(9),
            attempt=attempt,
            attempts_kept=1,
        )

    def finish_all(self, storage: StoragePorts, *, failing: set[int]) -> list[Delivery]:
        """The deliveries of s1, all ended; those with the sequences `failing` have failed."""
        ended: list[Delivery] = []
        for round_ in range(3):
            for delivery in lease(storage, now=later(round_ * LEASE_MS)):
                if delivery.subscription_id == "s1" and delivery.sequence in failing:
                    self.fail(storage, delivery, again_at=None)
                else:
                    storage.deliveries.record_success(delivery.id, now=NOW, status_code=204)
                if delivery.subscription_id == "s1":
                    ended.append(delivery)
        return ended

    def fail(self, storage: StoragePorts, delivery: Delivery, *, again_at: Instant | None) -> None:
        """Record a failed attempt."""
        storage.deliveries.record_failure(delivery.id, now=NOW, status_code=503, error="busy", next_attempt_at=again_at)


def _told(storage: StoragePorts, pending: PendingMessage) -> int:
    try:
        return storage.outbox.fan_out(pending.id, now=NOW)
    except Determinate:
        # Another relay has listed an older message and not reported it yet; this one comes again.
        return 0
