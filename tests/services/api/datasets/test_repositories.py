"""Repositories, pushes and uploads of objects over REST."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import httpx
import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.remote_nodes import HttpRemoteNodes
from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.identity import Name
from odfabric.model.jobs.job import Job
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
SHELF = "file:///shelf/"


@pytest.fixture(scope="module", autouse=True)
def readings(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROWS])))
    assert isinstance(job, Job)
    memory.finish(job)


@pytest.fixture
def shelf(client: httpx.Client) -> Iterator[str]:
    assert client.post("/accounts/me/repositories", json={"name": "shelf", "url": SHELF}).status_code == 201
    yield "shelf"
    assert client.delete("/accounts/me/repositories/shelf").status_code == 204


def test_repositories_come_and_go(client: httpx.Client) -> None:
    for path, shared in (("/accounts/me/repositories", False), ("/admin/repositories", True)):
        made = client.post(path, json={"name": "Attic", "url": "s3://bucket/x"})
        assert (made.status_code, made.json()["shared"], made.json()["url"]) == (201, shared, "s3://bucket/x/")
        again = client.post(path, json={"name": "attic", "url": "s3://bucket/y"})
        assert (again.status_code, again.json()["code"]) == (409, "already-exists")
    listed = client.get("/accounts/me/repositories").json()["repositories"]
    assert [(each["name"], each["shared"]) for each in listed] == [("Attic", False), ("Attic", True)]
    for path in ("/accounts/me/repositories/attic", "/admin/repositories/attic"):
        assert client.delete(path).status_code == 204
        assert client.delete(path).status_code == 404


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ipfs://abc", "unsupported-protocol"),
        ("https://user:pw@node.example/", "invalid-request"),
        ("https://node.example/?x", "invalid-request"),
        ("nothing", "invalid-request"),
    ],
)
def test_urls_that_are_no_repositories_are_refused(client: httpx.Client, url: str, code: str) -> None:
    answer = client.post("/accounts/me/repositories", json={"name": "shelf", "url": url})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, code, "url")


def test_strangers_see_and_change_nothing(stranger: httpx.Client) -> None:
    asked = [
        stranger.get("/accounts/me/repositories"),
        stranger.post("/accounts/me/repositories", json={"name": "x", "url": SHELF}),
        stranger.delete("/accounts/me/repositories/shelf"),
        stranger.get("/accounts/me/repositories/shelf/datasets"),
        stranger.post("/admin/repositories", json={"name": "x", "url": SHELF}),
        stranger.delete("/admin/repositories/x"),
    ]
    assert {answer.status_code for answer in asked} == {401}
    hidden = [
        stranger.post("/local/readings/push"),
        stranger.get("/local/readings/aliases"),
        stranger.put("/local/readings/data/f1620" + "0" * 64, content=b"x"),
    ]
    assert {answer.status_code for answer in hidden} == {404}


def test_a_push_is_a_job_and_is_remembered(backend: NodeBackend, client: httpx.Client, shelf: str) -> None:
    sent = backend.sharing.push("readings", to=None, force=False)
    assert (sent["to"], sent["objects"], sent["upToDate"]) == ("shelf/local/readings", 1, False)
    assert backend.sharing.push("readings", to="shelf/local/readings", force=False)["upToDate"] is True
    assert backend.sharing.aliases("readings") == [{"kind": "push", "target": "shelf/local/readings"}]
    assert [each["alias"] for each in backend.sharing.search("shelf", "READ")] == ["shelf/local/readings"]
    with pytest.raises(JobFailed) as refused:  # it is here already, under its own name
        backend.pull("copy", url="shelf/local/readings", recursive=False)
    assert refused.value.document["code"] == "already-exists"


def test_an_alias_is_forgotten_once(backend: NodeBackend, shelf: str) -> None:
    backend.sharing.push("readings", to="shelf", force=False)
    backend.sharing.forget_alias("readings", "shelf/local/readings")
    with pytest.raises(JobFailed) as refused:
        backend.sharing.forget_alias("readings", "shelf/local/readings")
    assert refused.value.document["code"] == "not-found"


def test_a_push_without_a_place_says_what_to_do(backend: NodeBackend) -> None:
    with pytest.raises(JobFailed) as refused:
        backend.sharing.push("readings", to=None, force=False)
    assert refused.value.document["code"] == "empty-repository-list"
    with pytest.raises(JobFailed) as refused:
        backend.sharing.push("readings", to="https://node.example/x", force=False)
    assert refused.value.document["code"] == "unsupported-protocol"
    assert "odf+https://" in str(refused.value.document["hint"])


def test_a_remote_name_is_resolved_before_the_job(client: httpx.Client) -> None:
    answer = client.post("/local/copy/pull", json={"url": "nowhere/bob/flights"})
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


class TestUploads:
    def test_bytes_are_kept_if_they_hash_to_their_name(self, client: httpx.Client, memory: MemoryNode) -> None:
        data = b"rows" * 1000
        name = "f1620" + hashlib.sha3_256(data).hexdigest()
        for folder in ("data", "checkpoints"):
            answer = client.put(f"/local/readings/{folder}/{name}", content=data)
            assert (answer.status_code, answer.content) == (200, b"")
            assert client.put(f"/local/readings/{folder}/{name}", content=data).status_code == 200
            # Nobody is given it before a chain names it.
            assert client.get(f"/local/readings/{folder}/{name}").status_code == 404
            (key,) = [key for key in memory.objects.keys("") if key.endswith(f"{folder}/{name}")]
            assert memory.objects.read_bytes(key, size_max=1 << 20) == data

    @pytest.mark.parametrize("folder", ["data", "checkpoints"])
    def test_other_bytes_are_refused(self, client: httpx.Client, memory: MemoryNode, folder: str) -> None:
        name = "f1620" + "0" * 64
        answer = client.put(f"/local/readings/{folder}/{name}", content=b"something else")
        assert (answer.status_code, answer.json()["code"]) == (422, "corrupted-source")
        assert not [key for key in memory.objects.keys("") if key.endswith(name)]

    def test_the_length_must_be_announced(self, client: httpx.Client) -> None:
        answer = client.put("/local/readings/data/f1620" + "0" * 64, content=iter([b"x"]))
        assert (answer.status_code, answer.json()["field"]) == (400, "content-length")

    def test_blocks_and_refs_are_not_uploaded(self, client: httpx.Client) -> None:
        assert client.put(f"/local/readings/blocks/f1620{'0' * 64}", content=b"x").status_code == 405
        assert client.put("/local/readings/refs/head", content=b"x").json()["code"] == "invalid-request"


def test_a_node_answers_what_its_peers_ask(client: httpx.Client, memory: MemoryNode) -> None:
    entry, token = (
        memory.node.datasets.resolve(parse_dataset_alias("readings")),
        client.headers["authorization"].split()[1],
    )
    with Egress(allow=["127.0.0.0/8"]) as egress:
        ours = HttpRemoteNodes(egress, token_of=lambda url: token)
        url = f"odf+{client.base_url}"
        assert ours.has_accounts(url)
        assert ours.own_account(url) == Name("local")
        assert ours.name_of(url, entry.id) == Name("readings")
        (found,) = ours.search(url, "", limit=5)
        assert (found.alias, found.id, found.kind) == ("local/readings", str(entry.id), "Root")
