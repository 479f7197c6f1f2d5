"""Webhooks in the reference's form, by its published vector."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace

from odfabric.formats.identifiers.did import parse_account_id, parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.webhooks.reference_webhook import ReferenceMessage, head_move_body, headers, signing_key
from odfabric.model.instant import NANOS_PER_SECOND, Instant

DATASET = "did:odf:fed012696ad2e129e1ba4ab4ea75002ae4bfa39aee2a6cc86455bdc3726dbec32893e"
OWNER = "did:odf:fed012417a52e129b1d138fea35547fac4d69e72e03a7ccf6a2afe3b8a6b833c3bf9e"
NEW = "f1620b9413ae36dc3e1d1e23aa759e0e403c402b880c70d2f9aebf205ee5ac47fc3e9"
OLD = "f162050afd60a64bfc475e68c3202cdb229cbe6a75cb00d8c41ee832bde7e1c45eab5"
OLD_BODY = (
    f'{{"blockRef":"head","datasetId":"{DATASET}","newHash":"{NEW}","oldHash":"{OLD}",'
    f'"ownerAccountId":"{OWNER}","version":"1"}}'
)
MESSAGE = ReferenceMessage(
    id="ab" * 32,
    subscription_id="sub1",
    event_type="DATASET.REF.UPDATED",
    attempt=1,
    url="https://example.com/webhook",
    sent_at=Instant(1747176960 * NANOS_PER_SECOND),
    body=OLD_BODY.encode(),
)


def test_the_published_vector() -> None:
    sent = headers(MESSAGE, key=b"test_secret")
    assert sent["content-digest"] == "sha-256=:BA2bN3rMDmEBxxu0hmTrkJjzPOVTtU1Co6fM1L+8tDg=:"
    assert sent["signature"] == "sig1=:coS90CuAAmr2mVsp2/k9rm8q2D8KCPT2uJmlKcYTgZE=:"
    assert sent["signature-input"] == (
        'sig1=(@method @path @authority "x-webhook-timestamp" "content-digest")'
        ';keyid="default";alg="hmac-sha256";created=1747176960'
    )
    assert sent["x-webhook-timestamp"] == "1747176960"


def test_what_is_signed_makes_the_signature() -> None:
    signatures = {
        headers(message, key=key)["signature"]
        for message in (
            MESSAGE,
            replace(MESSAGE, url="https://example.com/other"),
            replace(MESSAGE, url="https://example.org/webhook"),
            replace(MESSAGE, body=b"{}"),
            replace(MESSAGE, sent_at=Instant(0)),
        )
        for key in (b"test_secret", signing_key(bytes(32)))
    }
    assert len(signatures) == 10
    other_query = replace(MESSAGE, url="https://example.com/webhook?a=1")
    assert headers(other_query, key=b"test_secret")["signature"] == headers(MESSAGE, key=b"test_secret")["signature"]


def test_all_attempts_have_one_delivery_id() -> None:
    first, again = headers(MESSAGE, key=b"k"), headers(replace(MESSAGE, attempt=2), key=b"k")
    assert uuid.UUID(first["x-webhook-delivery-id"]) == uuid.UUID(again["x-webhook-delivery-id"])
    assert (first["x-webhook-delivery-attempt"], again["x-webhook-delivery-attempt"]) == ("1", "2")


def test_the_body_has_sorted_members() -> None:
    body = head_move_body(
        parse_dataset_id(DATASET),
        parse_account_id(OWNER),
        old_head=parse_multihash(OLD),
        new_head=parse_multihash(NEW),
        is_breaking_change=False,
    )
    assert body.decode() == (
        f'{{"block_ref":"head","dataset_id":"{DATASET}","is_breaking_change":false,"new_hash":"{NEW}","old_hash":"{OLD}",'
        f'"owner_account_id":"{OWNER}","version":2}}'
    )
    first = head_move_body(
        parse_dataset_id(DATASET),
        parse_account_id(OWNER),
        old_head=None,
        new_head=parse_multihash(NEW),
        is_breaking_change=True,
    )
    assert "old_hash" not in json.loads(first)
    assert json.loads(first)["is_breaking_change"] is True


def test_the_secret_of_this_form_is_hexadecimal() -> None:
    assert signing_key(bytes(range(32))).decode() == bytes(range(32)).hex()
