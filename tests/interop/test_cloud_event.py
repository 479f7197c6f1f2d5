"""Bodies of webhooks as CloudEvents 1.0."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.webhooks.cloud_event import EVENT_BYTES_MAX, head_move_event, other_event
from odfabric.model.identity import DatasetAlias, DatasetId, Name
from odfabric.model.instant import Instant
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.model.subscriptions.event import Event, EventType
from odfabric.model.subscriptions.subscription import Delivery, DeliveryStatus

NOW = Instant.parse("2026-03-01T12:00:00.123Z")
ALIAS = DatasetAlias(Name("local"), Name("flights.hourly"))
DELIVERY = Delivery(
    id="ab" * 32,
    subscription_id="sub1",
    dataset_id=DatasetId(bytes(32)),
    sequence=7,
    old_head=Multihash(SHA3_256, bytes(32)),
    new_head=Multihash(SHA3_256, bytes([255]) * 32),
    occurred_at=NOW,
    status=DeliveryStatus.PENDING,
    attempts=1,
    next_attempt_at=NOW,
)


def test_the_bytes_of_an_event() -> None:
    assert head_move_event(DELIVERY, alias=ALIAS, source="https://node.example/").decode() == (
        '{"specversion":"1.0","id":"' + "ab" * 32 + '","source":"https://node.example/",'
        '"type":"dev.odfabric.dataset.head-moved","subject":"local/flights.hourly","time":"2026-03-01T12:00:00.123Z",'
        '"datacontenttype":"application/json","data":{"datasetId":"did:odf:fed01' + "00" * 32 + '",'
        '"alias":"local/flights.hourly","subscriptionId":"sub1","sequence":7,'
        '"oldHead":"f1620' + "00" * 32 + '","newHead":"f1620' + "ff" * 32 + '",'
        '"links":{"rows":"/local/flights.hourly/state?asOfBlock=f1620'
        + "ff" * 32
        + '","verify":"/local/flights.hourly/verify"}}}'
    )


def test_all_attempts_have_the_same_body() -> None:
    later = dataclasses.replace(
        DELIVERY, attempts=5, next_attempt_at=Instant(0), last_error="late", last_status_code=500
    )
    assert head_move_event(DELIVERY, alias=ALIAS, source="x:y") == head_move_event(later, alias=ALIAS, source="x:y")


def test_the_first_head() -> None:
    first = json.loads(head_move_event(dataclasses.replace(DELIVERY, old_head=None), alias=ALIAS, source="x:y"))
    assert first["data"]["oldHead"] is None
    assert first["type"] == "dev.odfabric.dataset.head-moved"


def test_an_event_that_is_no_head_move() -> None:
    gone = Event(
        type=EventType.DATASET_DELETED, dataset_id=DELIVERY.dataset_id, alias=ALIAS, occurred_at=DELIVERY.occurred_at
    )
    last = json.loads(other_event(DELIVERY, gone, source="x:y"))
    assert (last["type"], last["subject"]) == ("dev.odfabric.dataset.deleted", str(ALIAS))
    assert last["data"] == {
        "datasetId": str(DELIVERY.dataset_id),
        "alias": str(ALIAS),
        "subscriptionId": DELIVERY.subscription_id,
        "sequence": DELIVERY.sequence,
    }


@given(st.text(min_size=1, max_size=100), st.integers(1, 2**63))
def test_any_source_and_sequence_come_back(source: str, sequence: int) -> None:
    body = head_move_event(dataclasses.replace(DELIVERY, sequence=sequence), alias=ALIAS, source=source)
    event = json.loads(body)
    assert (event["source"], event["data"]["sequence"]) == (source, sequence)
    assert body.isascii()
    assert b"\n" not in body


def test_the_largest_event_is_far_below_the_limit() -> None:
    name = Name("x" * 100)
    assert len(head_move_event(DELIVERY, alias=DatasetAlias(name, name), source="https://" + "h" * 2000)) < 4000
    with pytest.raises(ValueError, match="at most"):
        head_move_event(DELIVERY, alias=ALIAS, source="x" * EVENT_BYTES_MAX)
