"""Webhooks are signed with the node's key: made once, published, changeable."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.adapters.memory.node.sealing import MemorySealing
from odfabric.adapters.memory.node.signing_keys import MemorySigningKeys
from odfabric.adapters.sealed.rows import SealedSigningKeys
from odfabric.formats.webhooks.message_signature import content_digest
from odfabric.model.people.signing_key import SigningKey
from odfabric.model.subscriptions.subscription import DeliveryAttempt, FailureKind, SubscriptionFormat
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node
from tests.usecases.manifests import ROOT

URL = "https://receiver.test/hook?a=1"
READINGS = "local/readings"
DAY_MS = 24 * 3600 * 1000
COVERED = ["@method", "@target-uri", "content-digest", "content-type", "webhook-id"]


def test_webhooks_of_both_formats_are_signed(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    entry, node = memory.add(ROOT), memory.node
    node.background.relay_outbox()
    ours = node.webhooks.subscribe(entry, url=URL, secret=None, by=node.operator)
    theirs = node.webhooks.subscribe(entry, by=node.operator, url=URL, secret=None, format=SubscriptionFormat.REFERENCE)
    row = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": "A"}).encode()
    node.requests.push(PushData(dataset=entry.id, body=iter([row])))
    memory.work()
    for delivery in node.background.due_deliveries("test", limit=8):
        node.background.deliver(delivery)
    for made in (ours, theirs):
        node.webhooks.test(entry, made.subscription.id, by=node.operator)
    delivered, tried = memory.webhooks.received[:2], memory.webhooks.received[2:]
    assert [signers(each.headers) for each in tried] == [["odfabric"], ["sig1", "odfabric"]]
    # Two that are due at once go out in the order of their ids.
    assert sorted(signers(each.headers) for each in delivered) == [["odfabric"], ["sig1", "odfabric"]]
    for received in memory.webhooks.received:
        check(memory, received.headers, received.body)


def test_the_log_of_deliveries_shows_no_signature(tmp_path: Path) -> None:
    memory, tried = one_try(tmp_path)
    assert tried.request_headers["signature"] == "odfabric=..."
    assert tried.request_headers["signature-input"].startswith("odfabric=(")
    (sent,) = memory.webhooks.received
    assert sent.headers["signature"].removeprefix("odfabric=:")[:20] not in str(tried)


def test_the_key_is_made_once_and_outlives_the_process(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    (first,) = memory.node.webhooks.signature.published()
    memory.restart()
    assert memory.node.webhooks.signature.published() == [first]
    memory.add(ROOT)
    assert memory.node.webhooks.signature.published() == [first]


def test_the_old_public_key_is_published_for_a_while_after_a_new_one_signs(tmp_path: Path) -> None:
    memory, _ = one_try(tmp_path)
    (old,) = memory.node.webhooks.signature.published()
    new = memory.node.webhooks.signature.renew()
    (before,) = memory.webhooks.received
    again(memory)
    _, after = memory.webhooks.received
    assert (key_id(before.headers), key_id(after.headers)) == (old.id, new.id)
    for received in memory.webhooks.received:
        check(memory, received.headers, received.body)
    memory.clock.advance(29 * DAY_MS)
    memory.node.background.keep_house()
    assert [key.id for key in memory.node.webhooks.signature.published()] == [new.id, old.id]
    memory.clock.advance(2 * DAY_MS)
    memory.node.background.keep_house()
    assert [key.id for key in memory.node.webhooks.signature.published()] == [new.id]


def test_another_key_file_is_a_failed_attempt_that_is_repeated(tmp_path: Path) -> None:
    memory, _ = one_try(tmp_path)
    sealing = MemorySealing(SeededEntropy(7))
    stored = MemorySigningKeys(memory.store)
    SealedSigningKeys(stored, sealing).add(SigningKey(id="k", public=bytes(32), made_at=START), private=bytes(32))
    use_keys(memory, SealedSigningKeys(stored, MemorySealing(SeededEntropy(8))))
    failed = again(memory)
    assert (failed.failure, failed.error) == (
        FailureKind.NODE,
        "the node cannot open the secret of this subscription, or its own key",
    )
    assert len(memory.webhooks.received) == 1
    use_keys(memory, SealedSigningKeys(stored, sealing))
    assert again(memory).failure is None


def use_keys(memory: MemoryNode, keys: SigningKeys) -> None:
    """Let the node use these signing keys."""
    memory.node = Node(replace(memory.node.ports, signing_keys=keys), memory.settings)


def one_try(folder: Path) -> tuple[MemoryNode, DeliveryAttempt]:
    """A node whose only receiver was tried, and how that went."""
    memory = MemoryNode(folder)
    entry = memory.add(ROOT)
    memory.node.background.relay_outbox()
    memory.node.webhooks.subscribe(entry, url=URL, secret=None, by=memory.node.operator)
    return memory, again(memory)


def again(memory: MemoryNode) -> DeliveryAttempt:
    """Try the receiver."""
    node = memory.node
    (entry,) = [stored.entry for stored in memory.store.datasets.values() if str(stored.entry.alias) == READINGS]
    (subscription,) = node.webhooks.seen(entry, by=node.operator)
    return node.webhooks.test(entry, subscription.id, by=node.operator)


def signers(headers: Mapping[str, str]) -> list[str]:
    """Members of both fields of signatures."""
    names = re.findall(r"(?:^|, )([a-z0-9]+)=:", headers["signature"])
    assert re.findall(r"(?:^|, )([a-z0-9]+)=\(", headers["signature-input"]) == names
    return names


def key_id(headers: Mapping[str, str]) -> str:
    found = re.search(r'odfabric=\([^)]*\);.*keyid="([^"]+)"', headers["signature-input"])
    assert found
    return found[1]


def check(memory: MemoryNode, headers: Mapping[str, str], body: bytes) -> None:
    """What a receiver does with the published keys. Raises InvalidSignature."""
    keys = {key.id: key.public for key in memory.node.webhooks.signature.published()}
    parameters = headers["signature-input"].partition("odfabric=")[2]
    signature = base64.b64decode(headers["signature"].partition("odfabric=:")[2].removesuffix(":"))
    assert headers["content-digest"] == content_digest(body)
    values = {"@method": "POST", "@target-uri": URL, **headers}
    assert re.findall(r'"([^"]+)"', parameters.partition(")")[0]) == COVERED
    base = "\n".join([*(f'"{name}": {values[name]}' for name in COVERED), f'"@signature-params": {parameters}'])
    public = Ed25519PublicKey.from_public_bytes(keys[key_id(headers)])
    public.verify(signature, base.encode())
    with pytest.raises(InvalidSignature):
        public.verify(signature, base.replace("POST", "PUT").encode())
