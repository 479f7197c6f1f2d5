"""Keys of datasets over REST: rotated, exported, imported, never in the clear."""

from __future__ import annotations

import json

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.errors import InvalidRequest
from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.heads.key_document import read_key_document
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.audit import AuditKind
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.manifests import ROOT

PASSPHRASE = "correct horse battery"
KEY = "/local/readings/key"


@pytest.fixture(scope="module", autouse=True)
def made(memory: MemoryNode) -> None:
    memory.add(ROOT)


def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.node.datasets.resolve(parse_dataset_alias("local/readings"))


def private(memory: MemoryNode) -> bytes:
    return memory.node.heads.export(entry(memory), by=memory.node.operator).private


def test_rotate(client: httpx.Client, memory: MemoryNode) -> None:
    before = client.get("/local/readings/heads").json()
    answer = client.post(f"{KEY}/rotate")
    after = client.get("/local/readings/heads").json()
    assert (answer.status_code, answer.json()["signer"]) == (200, after["signer"])
    assert after["handOvers"][0]["signer"] == before["signer"] != after["signer"]
    newest = memory.node.ports.audit.page(limit=1000)[-1].entry
    assert (newest.kind, newest.dataset) == (AuditKind.DATASET_KEY_ROTATED, entry(memory).id)


def test_a_key_is_exported_sealed_and_imported(client: httpx.Client, memory: MemoryNode) -> None:
    answer = client.post(f"{KEY}/export", json={"passphrase": PASSPHRASE})
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert "private" not in answer.json()
    assert memory.node.ports.audit.page(limit=1000)[-1].entry.kind is AuditKind.DATASET_KEY_EXPORTED
    key = private(memory)
    assert read_key_document(entry(memory).id, answer.content, passphrase=PASSPHRASE) == key
    body = {"document": answer.text, "passphrase": PASSPHRASE}
    imported = client.post(f"{KEY}/import", json=body)
    assert imported.json()["signer"] == client.get("/local/readings/heads").json()["signer"]
    assert memory.node.ports.audit.page(limit=1000)[-1].entry.kind is AuditKind.DATASET_KEY_IMPORTED
    wrong = client.post(f"{KEY}/import", json={**body, "passphrase": "another one"})
    assert (wrong.status_code, wrong.json()["field"]) == (400, "passphrase")
    audit = json.dumps([str(each.entry) for each in memory.node.ports.audit.page(limit=100)])
    assert key.hex() not in audit
    assert PASSPHRASE not in audit


def test_a_key_in_the_clear_is_not_taken(client: httpx.Client, memory: MemoryNode) -> None:
    heads = memory.node.heads
    document = heads.document(entry(memory), heads.export(entry(memory), by=memory.node.operator), passphrase=None)
    answer = client.post(f"{KEY}/import", json={"document": document.decode(), "passphrase": PASSPHRASE})
    assert (answer.status_code, answer.json()["field"]) == (400, "document")
    assert "passphrase" in answer.json()["hint"]


def test_a_key_before_the_last_hand_over_is_not_taken(client: httpx.Client) -> None:
    old = client.post(f"{KEY}/export", json={"passphrase": PASSPHRASE}).text
    client.post(f"{KEY}/rotate")
    answer = client.post(f"{KEY}/import", json={"document": old, "passphrase": PASSPHRASE})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert "last hand-over" in answer.json()["hint"]


def test_the_command_line_on_a_node(backend: NodeBackend, memory: MemoryNode) -> None:
    heads = backend.heads
    signer = heads.rotate("local/readings")
    assert signer == shown_key(memory.node.core.heads.writer.end(entry(memory).id).signer)
    heads.import_("local/readings", heads.export("local/readings", passphrase=PASSPHRASE), passphrase=PASSPHRASE)
    with pytest.raises(InvalidRequest, match="only sealed"):
        heads.export("local/readings", passphrase=None)
