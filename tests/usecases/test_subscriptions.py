"""Subscriptions that are paused, tried, disabled, given another secret.

Deliveries that are logged and replayed.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.errors import AccessDenied, Determinate, Indeterminate, InvalidRequest, NotFound, OdfError
from odfabric.formats.webhooks import reference_webhook, webhook_signature
from odfabric.formats.webhooks.reference_webhook import ReferenceMessage
from odfabric.formats.webhooks.webhook_signature import SIGNATURE_HEADER
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job
from odfabric.model.people.audit import AuditKind
from odfabric.model.subscriptions.subscription import (
    DeliveryStatus,
    FailureKind,
    SubscriptionFormat,
    SubscriptionState,
    WebhookResponse,
)
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.subscriptions.change_subscription import Replay
from odfabric.wiring import Node
from tests.usecases.manifests import ROOT

URL = "https://receiver.test/hook"
DAY_MS = 24 * 3600 * 1000
OTHER_SECRET = bytes(range(32))


class Followed:
    """A node with one dataset and one subscription."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.entry: CatalogEntry = self.memory.add(ROOT)
        self.node = self.memory.node
        self.node.background.relay_outbox()
        self.made = self.node.webhooks.subscribe(self.entry, url=URL, secret=None, by=self.node.operator)
        self.id = self.made.subscription.id
        self.by = self.node.operator

    def push(self, *days: int) -> None:
        """Commits, one for each day."""
        for day in days:
            row = json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode()
            job = self.node.requests.push(PushData(dataset=self.entry.id, body=iter([row])))
            assert isinstance(job, Job)
            self.memory.finish(job)
        self.node.background.relay_outbox()

    def deliver(self, *, rounds: int = 5) -> None:
        """What is due, as long as there is something."""
        for _ in range(rounds):
            for delivery in self.node.background.due_deliveries("test", limit=8):
                self.node.background.deliver(delivery)

    def sequences(self) -> list[int]:
        """Numbers of the events that have arrived."""
        return [json.loads(each.body)["data"].get("sequence") for each in self.memory.webhooks.received]

    def state(self) -> SubscriptionState:
        return self.node.webhooks.get(self.entry, self.id, by=self.by).state

    def audited(self) -> list[AuditKind]:
        """What the audit says of subscriptions, oldest first."""
        kinds = [logged.stored.entry.kind for logged in self.memory.store.audit_log]
        return [kind for kind in kinds if kind.value.startswith("subscription.")]

    def log(self) -> list[tuple[int, DeliveryStatus]]:
        return [
            (each.sequence, each.status)
            for each in self.node.webhooks.deliveries(self.entry, self.id, by=self.node.operator)
        ][::-1]


@pytest.fixture
def followed(tmp_path: Path) -> Followed:
    return Followed(tmp_path)


def test_what_is_paused_waits_and_goes_out_in_order_after_it(followed: Followed) -> None:
    webhooks = followed.node.webhooks
    assert webhooks.pause(followed.entry, followed.id, by=followed.by).state is SubscriptionState.PAUSED
    webhooks.pause(followed.entry, followed.id, by=followed.by)
    followed.push(1, 2)
    followed.deliver()
    assert followed.sequences() == []
    assert webhooks.resume(followed.entry, followed.id, by=followed.by).state is SubscriptionState.ACTIVE
    followed.deliver()
    assert followed.sequences() == [1, 2]
    kinds = [AuditKind.SUBSCRIPTION_CREATED, AuditKind.SUBSCRIPTION_PAUSED, AuditKind.SUBSCRIPTION_RESUMED]
    assert followed.audited() == kinds


def test_a_test_answers_at_once_and_is_outside_the_sequence(followed: Followed) -> None:
    followed.push(1)
    followed.memory.webhooks.script.append(WebhookResponse(201, excerpt="hello"))
    tried = followed.node.webhooks.test(followed.entry, followed.id, by=followed.by)
    assert (tried.status_code, tried.failure, tried.response) == (201, None, "hello")
    assert tried.duration_ms >= 1
    (received,) = followed.memory.webhooks.received
    event = json.loads(received.body)
    assert event["type"] == "dev.odfabric.subscription.test"
    assert event["id"] == received.headers["webhook-id"]
    assert "sequence" not in event["data"]
    assert webhook_signature.verify(
        received.headers, received.body, secrets=[followed.made.secret], now=sent_at(received.headers)
    )
    followed.deliver()
    assert followed.log() == [(1, DeliveryStatus.DELIVERED)]
    assert followed.audited()[-1] is AuditKind.SUBSCRIPTION_TESTED


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (WebhookResponse(500), FailureKind.STATUS),
        (WebhookResponse(302), FailureKind.STATUS),
        (WebhookResponse(410), FailureKind.STATUS),
        (Determinate("no such host", stage="dns"), FailureKind.DNS),
        (Determinate("refused", stage="connect"), FailureKind.CONNECT),
        (Determinate("bad certificate", stage="tls"), FailureKind.TLS),
        (Indeterminate("too late", stage="time"), FailureKind.TIME),
        (Indeterminate("cut", stage="answer"), FailureKind.BROKEN),
        (Indeterminate("cut"), FailureKind.BROKEN),
        (AccessDenied("a private address"), FailureKind.REFUSED),
    ],
)
def test_a_failure_has_a_kind(followed: Followed, answer: WebhookResponse | OdfError, kind: FailureKind) -> None:
    followed.memory.webhooks.script.append(answer)
    tried = followed.node.webhooks.test(followed.entry, followed.id, by=followed.by)
    assert tried.failure is kind
    assert tried.error
    assert followed.state() is SubscriptionState.ACTIVE, "a test changes nothing"


def test_both_secrets_sign_until_the_overlap_is_over(followed: Followed) -> None:
    node, old = followed.node, followed.made.secret
    made = node.webhooks.rotate_secret(followed.entry, followed.id, by=followed.by, overlap_s=3600)
    assert made.secret != old
    followed.push(1)
    followed.deliver()
    followed.memory.clock.advance(3600 * 1000)
    followed.push(2)
    followed.deliver()
    both, one = followed.memory.webhooks.received
    assert len(both.headers[SIGNATURE_HEADER].split()) == 2
    assert signed_by(both.headers, both.body, old)
    assert signed_by(both.headers, both.body, made.secret)
    assert not signed_by(one.headers, one.body, old)
    assert signed_by(one.headers, one.body, made.secret)
    node.background.keep_house()
    assert node.webhooks.get(followed.entry, followed.id, by=followed.by).old_secret_until is None
    assert followed.audited()[-1] is AuditKind.SUBSCRIPTION_SECRET_ROTATED


def test_a_secret_may_be_brought_and_the_old_one_may_end_at_once(followed: Followed) -> None:
    made = followed.node.webhooks.rotate_secret(
        followed.entry, followed.id, by=followed.by, secret=OTHER_SECRET, overlap_s=0
    )
    assert made.secret == OTHER_SECRET
    followed.push(1)
    followed.deliver()
    (received,) = followed.memory.webhooks.received
    assert not signed_by(received.headers, received.body, followed.made.secret)
    assert signed_by(received.headers, received.body, OTHER_SECRET)
    for overlap_s in (-1.0, 31 * 86_400.0):
        with pytest.raises(InvalidRequest):
            followed.node.webhooks.rotate_secret(followed.entry, followed.id, by=followed.by, overlap_s=overlap_s)


def test_an_attempt_is_logged_without_secrets(followed: Followed) -> None:
    followed.push(1)
    followed.memory.webhooks.script.append(WebhookResponse(503, excerpt="<b>busy</b>"))
    followed.deliver(rounds=1)
    followed.memory.clock.advance(10_000)
    followed.deliver(rounds=1)
    (delivery,) = followed.node.webhooks.deliveries(followed.entry, followed.id, by=followed.node.operator)
    last, first = followed.node.webhooks.attempts(followed.entry, followed.id, delivery.id, by=followed.by)
    assert (first.number, first.status_code, first.failure, first.response) == (
        1,
        503,
        FailureKind.STATUS,
        "<b>busy</b>",
    )
    assert (last.number, last.status_code, last.failure, last.error) == (2, 204, None, None)
    sent = followed.memory.webhooks.received[0]
    assert first.request_body == sent.body
    assert first.request_headers["webhook-id"] == delivery.id
    assert sent.headers[SIGNATURE_HEADER].partition(",")[2] not in str(first)
    assert first.request_headers[SIGNATURE_HEADER] == "v1,..."


def test_only_so_many_attempts_are_kept(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.node = with_settings(followed, delivery_attempts_kept=1)
    followed.push(1, 2)
    followed.deliver()
    second, first = followed.node.webhooks.deliveries(followed.entry, followed.id, by=followed.node.operator)
    kept = [
        len(followed.node.webhooks.attempts(followed.entry, followed.id, each.id, by=followed.by))
        for each in (first, second)
    ]
    assert kept == [0, 1]


def test_a_replay_has_the_same_id_and_the_present_secret(followed: Followed) -> None:
    followed.push(1, 2, 3)
    followed.deliver()
    made = followed.node.webhooks.rotate_secret(followed.entry, followed.id, by=followed.by, overlap_s=0)
    replay = Replay(from_sequence=2)
    assert followed.node.webhooks.replay(followed.entry, followed.id, replay, by=followed.by) == 2
    followed.deliver()
    assert followed.sequences() == [1, 2, 3, 2, 3]
    _, second, _, again, _ = followed.memory.webhooks.received
    assert again.body == second.body
    assert again.headers["webhook-id"] == second.headers["webhook-id"]
    assert signed_by(again.headers, again.body, made.secret)
    assert followed.audited()[-1] is AuditKind.SUBSCRIPTION_REPLAYED


def test_one_delivery_or_all_that_failed_are_replayed(tmp_path: Path) -> None:
    followed = Followed(tmp_path)
    followed.node = with_settings(followed, subscription_failing_days_max=30)
    followed.push(1)
    fail_until_given_up(followed)
    assert followed.log() == [(1, DeliveryStatus.FAILED)]
    followed.push(2)
    followed.deliver()
    assert followed.sequences()[-1] == 2
    failed = Replay(failed=True)
    assert followed.node.webhooks.replay(followed.entry, followed.id, failed, by=followed.by) == 1
    followed.deliver()
    assert followed.sequences()[-1] == 1
    newest = followed.node.webhooks.deliveries(followed.entry, followed.id, by=followed.node.operator)[0]
    one = Replay(delivery_id=newest.id)
    assert followed.node.webhooks.replay(followed.entry, followed.id, one, by=followed.by) == 1
    followed.deliver()
    assert followed.sequences()[-2:] == [1, 2]


def test_what_cannot_be_replayed(followed: Followed) -> None:
    for wrong in ({}, {"failed": True, "from_sequence": 1}, {"from_sequence": 0}):
        with pytest.raises(InvalidRequest):
            Replay(**wrong)  # type: ignore[arg-type]
    other = followed.node.webhooks.subscribe(
        followed.entry, url=URL, secret=None, by=followed.node.operator
    ).subscription
    followed.push(1)
    foreign = followed.node.webhooks.deliveries(followed.entry, other.id, by=followed.node.operator)[0]
    for name in (foreign.id, "none"):
        with pytest.raises(NotFound):
            followed.node.webhooks.replay(followed.entry, followed.id, Replay(delivery_id=name), by=followed.by)
    with pytest.raises(NotFound):
        followed.node.webhooks.delivery(followed.entry, followed.id, foreign.id, by=followed.by)


def test_days_of_failure_disable_and_nothing_is_lost(followed: Followed) -> None:
    followed.push(1, 2)
    fail_until_given_up(followed)
    found = followed.node.webhooks.get(followed.entry, followed.id, by=followed.by)
    assert found.state is SubscriptionState.DISABLED
    assert "every attempt since 2026-01-01T" in (found.state_reason or "")
    assert "answered 500" in (found.state_reason or "")
    assert followed.audited()[-1] is AuditKind.SUBSCRIPTION_DISABLED
    followed.push(3)
    followed.memory.clock.advance(30 * DAY_MS)
    followed.memory.webhooks.received.clear()
    followed.memory.webhooks.script.clear()
    followed.deliver()
    assert followed.sequences() == []
    assert followed.node.webhooks.pause(followed.entry, followed.id, by=followed.by).state is SubscriptionState.DISABLED
    followed.node.webhooks.resume(followed.entry, followed.id, by=followed.by)
    followed.deliver()
    assert followed.sequences() == [1, 2, 3]


def test_a_success_between_failures_begins_the_days_anew(followed: Followed) -> None:
    for day in range(1, 8):
        followed.push(day)
        followed.memory.webhooks.script.append(WebhookResponse(500))
        followed.deliver(rounds=1)
        followed.memory.clock.advance(DAY_MS)
        followed.deliver(rounds=1)
    assert followed.state() is SubscriptionState.ACTIVE
    assert followed.log() == [(number, DeliveryStatus.DELIVERED) for number in range(1, 8)]


def test_an_event_tells_what_the_move_brought(followed: Followed) -> None:
    followed.push(1)
    followed.push(2)
    followed.deliver()
    facts = [json.loads(each.body)["data"] for each in followed.memory.webhooks.received]
    assert [each["offsets"] for each in facts] == [{"first": 0, "last": 0}, {"first": 1, "last": 1}]
    assert [each["records"] for each in facts] == [1, 1]
    assert facts[0]["newHead"] == facts[1]["oldHead"]
    assert [each["watermark"] for each in facts] == ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]
    assert facts[0]["links"] == {
        "rows": f"/local/readings/state?asOfBlock={facts[0]['newHead']}",
        "verify": "/local/readings/verify",
    }


def test_blocks_that_cannot_be_read_are_a_failure_of_the_node(followed: Followed) -> None:
    followed.push(1)
    head = followed.node.repository.head(followed.entry.id).hash
    key = next(name for name in followed.memory.objects.keys("f") if str(head) in name)
    kept = followed.memory.objects.read_bytes(key, size_max=100_000)
    followed.memory.objects.delete(key)
    followed.deliver(rounds=1)
    assert followed.sequences() == []
    (delivery,) = followed.node.webhooks.deliveries(followed.entry, followed.id, by=followed.node.operator)
    (attempt,) = followed.node.webhooks.attempts(followed.entry, followed.id, delivery.id, by=followed.by)
    assert (attempt.failure, delivery.status) == (FailureKind.NODE, DeliveryStatus.PENDING)
    followed.memory.objects.put_bytes(key, kept)
    followed.memory.clock.advance(10_000)
    followed.deliver(rounds=1)
    assert followed.sequences() == [1]


def test_a_receiver_of_the_reference_gets_its_form(followed: Followed) -> None:
    made = followed.node.webhooks.subscribe(
        followed.entry, by=followed.by, url=URL, secret=None, format=SubscriptionFormat.REFERENCE
    )
    followed.node.webhooks.unsubscribe(followed.entry, followed.id, by=followed.node.operator)
    assert made.secret_text == made.secret.hex()
    followed.push(1)
    followed.deliver()
    followed.node.webhooks.test(followed.entry, made.subscription.id, by=followed.by)
    event, tried = followed.memory.webhooks.received
    assert event.headers["content-type"] == "application/json"
    assert event.headers["x-webhook-event-type"] == "DATASET.REF.UPDATED"
    assert tried.headers["x-webhook-event-type"] == "TEST"
    body = json.loads(event.body)
    assert (body["dataset_id"], body["is_breaking_change"]) == (str(followed.entry.id), False)
    message = ReferenceMessage(
        id=event.headers["webhook-id"],
        subscription_id=made.subscription.id,
        event_type="DATASET.REF.UPDATED",
        attempt=1,
        url=URL,
        sent_at=sent_at(event.headers),
        body=event.body,
    )
    expected = reference_webhook.headers(message, key=made.secret_text.encode())
    # The signature of the node comes behind.
    for name in ("signature", "signature-input"):
        assert event.headers[name].startswith(f"{expected[name]}, odfabric=")
        assert expected[name].startswith("sig1=")
    others = {name: value for name, value in expected.items() if not name.startswith("signature")}
    assert others.items() <= event.headers.items()
    assert signed_by(event.headers, event.body, made.secret), "Standard Webhooks beside it"
    (delivery,) = followed.node.webhooks.deliveries(followed.entry, made.subscription.id, by=followed.node.operator)
    (attempt,) = followed.node.webhooks.attempts(followed.entry, made.subscription.id, delivery.id, by=followed.by)
    assert expected["signature"] not in str(attempt)
    assert attempt.request_headers["signature"] == "sig1=..., odfabric=..."


def with_settings(followed: Followed, **settings: float) -> Node:
    return Node(followed.node.ports, Settings(workspace=followed.memory.folder, **settings))  # type: ignore[arg-type]


def fail_until_given_up(followed: Followed) -> None:
    for _ in range(10):
        followed.memory.webhooks.script.append(WebhookResponse(500))
        followed.deliver(rounds=1)
        followed.memory.clock.advance(2 * DAY_MS)


def sent_at(headers: object) -> Instant:
    assert isinstance(headers, dict)
    return Instant(int(headers["webhook-timestamp"]) * NANOS_PER_SECOND)


def signed_by(headers: object, body: bytes, secret: bytes) -> bool:
    assert isinstance(headers, dict)
    try:
        webhook_signature.verify(headers, body, secrets=[secret], now=sent_at(headers))
    except OdfError:
        return False
    return True
