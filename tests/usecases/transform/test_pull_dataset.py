"""Pulling: polling, transforming, copying from elsewhere, verifying."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.errors import InvalidRequest
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.formats.webhooks import webhook_signature
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.subscriptions.subscription import DeliveryStatus, WebhookResponse
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED, POLLED, ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def row(day: int, city: str) -> str:
    return json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": city}) + "\n"


def push(memory: MemoryNode, entry: CatalogEntry, text: str) -> None:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([text.encode()])))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED


def pull(memory: MemoryNode, entry: CatalogEntry, **wishes: object) -> dict[str, object]:
    request = PullRequest(dataset=entry.id, alias=entry.alias, **wishes)  # type: ignore[arg-type]
    return finished(memory, request)


def finished(memory: MemoryNode, request: PullRequest) -> dict[str, object]:
    job = memory.finish(memory.node.requests.pull(request))
    assert job.status is JobStatus.SUCCEEDED, job.error
    value: dict[str, object] = json.loads(job.result or "")
    return value


def failure(memory: MemoryNode, request: PullRequest) -> dict[str, object]:
    job = memory.finish(memory.node.requests.pull(request))
    assert job.status is JobStatus.FAILED, job.result
    value: dict[str, object] = json.loads(job.error or "")
    return value


def verify(memory: MemoryNode, entry: CatalogEntry) -> dict[str, object]:
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
    value: dict[str, object] = json.loads(job.result or "")
    return value


def arrive(memory: MemoryNode, name: str, text: str) -> None:
    memory.files.add(f"arrivals/{name}", text.encode(), modified_at=START)


def test_polling_takes_each_file_once_in_order_of_names(memory: MemoryNode) -> None:
    entry = memory.add(POLLED)
    arrive(memory, "2.ndjson", row(2, "B"))
    arrive(memory, "1.ndjson", row(1, "A") + row(3, "C"))
    first = pull(memory, entry)
    assert (first["rows"], len(first["blocks"])) == (3, 3)  # type: ignore[arg-type]
    assert pull(memory, entry)["upToDate"] is True
    arrive(memory, "3.ndjson", row(3, "C") + row(4, "D"))
    assert pull(memory, entry)["rows"] == 1
    link = next(iter(memory.node.datasets.log(entry, limit=1)))
    assert link.block.event.new_source_state.value == "3.ndjson"  # type: ignore[union-attr]


def test_a_broken_file_keeps_what_came_before_it_and_is_retried_after_repair(memory: MemoryNode) -> None:
    entry = memory.add(POLLED)
    arrive(memory, "1.ndjson", row(1, "A"))
    arrive(memory, "2.ndjson", "oops\n")
    problem = failure(memory, PullRequest(dataset=entry.id, alias=entry.alias))
    assert (problem["code"], problem["file"], problem["line"]) == ("invalid-data", "2.ndjson", 1)
    arrive(memory, "2.ndjson", row(2, "B"))
    assert pull(memory, entry)["offsets"] == {"start": 1, "end": 1}


def test_polling_without_files_says_where_it_looked(memory: MemoryNode) -> None:
    entry = memory.add(POLLED)
    problem = failure(memory, PullRequest(dataset=entry.id, alias=entry.alias))
    assert problem["code"] == "not-found"
    assert "arrivals/*.ndjson" in str(problem["message"])


def test_a_transform_consumes_each_input_record_once(memory: MemoryNode) -> None:
    root, derived = memory.add(ROOT), memory.add(DERIVED)
    assert pull(memory, derived)["upToDate"] is True
    push(memory, root, row(1, "A") + row(2, "B"))
    assert pull(memory, derived)["rows"] == 2
    assert pull(memory, derived)["upToDate"] is True
    push(memory, root, row(3, "C"))
    assert pull(memory, derived)["offsets"] == {"start": 2, "end": 2}
    assert verify(memory, derived) == {"ok": True, "errors": []}


def test_a_recursive_pull_brings_inputs_up_to_date_first(memory: MemoryNode) -> None:
    polled = memory.add(POLLED)
    derived = memory.add(DERIVED.replace("readings", "polled"))
    arrive(memory, "1.ndjson", row(1, "A"))
    assert pull(memory, derived, recursive=True)["rows"] == 1
    assert pull(memory, polled)["upToDate"] is True


@pytest.mark.parametrize("area", ["blocks", "data", "checkpoints"])
def test_verification_names_each_broken_object(memory: MemoryNode, area: str) -> None:
    root, derived = memory.add(ROOT), memory.add(DERIVED)
    push(memory, root, row(1, "A"))
    pull(memory, derived)
    key = [key for key in memory.objects.keys(dataset_prefix(derived.id)) if f"/{area}/" in key][-1]
    data = bytearray(memory.objects.read_bytes(key, size_max=1 << 20))
    data[len(data) // 2] ^= 1
    memory.objects.delete(key)
    memory.objects.put_bytes(key, bytes(data))
    memory.restart()
    report = verify(memory, derived)
    assert report["ok"] is False
    named = {problem["object"] for problem in report["errors"]}  # type: ignore[attr-defined]
    assert key.rpartition("/")[2] in named


def test_verification_finds_a_missing_slice(memory: MemoryNode) -> None:
    root = memory.add(ROOT)
    push(memory, root, row(1, "A"))
    (key,) = memory.objects.keys(dataset_prefix(root.id) + "data/")
    memory.objects.delete(key)
    (problem,) = verify(memory, root)["errors"]  # type: ignore[misc]
    assert (problem["kind"], problem["object"]) == ("ObjectNotFound", key.rpartition("/")[2])


def test_verification_finds_a_ref_that_lags(memory: MemoryNode) -> None:
    root = memory.add(ROOT)
    before = memory.node.datasets.head(root).hash
    push(memory, root, row(1, "A"))
    memory.objects.write_ref(f"{root.id.multibase}/refs/head", str(before))
    (problem,) = verify(memory, root)["errors"]  # type: ignore[misc]
    assert problem["kind"] == "RefNotFound"


class TestCopies:
    """Two nodes: one publishes, the other copies."""

    URL = "https://elsewhere.example/alice/readings"

    @pytest.fixture
    def other(self, tmp_path: Path) -> MemoryNode:
        return MemoryNode(tmp_path / "other", seed=1)

    @pytest.fixture
    def published(self, memory: MemoryNode, other: MemoryNode) -> CatalogEntry:
        entry = other.add(ROOT)
        push(other, entry, row(1, "A"))
        memory.remotes.publish_store(self.URL, other.objects, prefix=dataset_prefix(entry.id))
        return entry

    def request(self, memory: MemoryNode) -> PullRequest:
        alias = DatasetAlias(memory.node.account, Name("copy"))
        entry = memory.node.repository.find(alias)
        return PullRequest(dataset=entry.id if entry else None, alias=alias, url=self.URL)

    def test_a_copy_has_the_same_head_and_bytes(
        self, memory: MemoryNode, other: MemoryNode, published: CatalogEntry
    ) -> None:
        assert finished(memory, self.request(memory))["rows"] == 1
        copy = memory.node.datasets.resolve(published.id)
        assert memory.node.datasets.head(copy) == other.node.datasets.head(published)
        for area in ("blocks/", "data/"):
            for key in other.objects.keys(dataset_prefix(published.id) + area):
                assert memory.objects.read_bytes(key, size_max=1 << 20) == other.objects.read_bytes(
                    key, size_max=1 << 20
                )
        assert verify(memory, copy)["ok"] is True

    def test_a_copy_follows_and_knows_when_it_is_up_to_date(
        self, memory: MemoryNode, other: MemoryNode, published: CatalogEntry
    ) -> None:
        finished(memory, self.request(memory))
        assert finished(memory, self.request(memory))["upToDate"] is True
        push(other, published, row(2, "B"))
        copy = memory.node.datasets.resolve(published.id)
        assert pull(memory, copy)["offsets"] == {"start": 1, "end": 1}

    @pytest.mark.parametrize("area", ["blocks", "data"])
    def test_a_source_with_a_damaged_object_is_refused_and_nothing_appears(
        self, memory: MemoryNode, other: MemoryNode, published: CatalogEntry, area: str
    ) -> None:
        key = next(key for key in other.objects.keys(dataset_prefix(published.id)) if f"/{area}/" in key)
        data = other.objects.read_bytes(key, size_max=1 << 20)
        other.objects.delete(key)
        other.objects.put_bytes(key, data[:-1] + bytes([data[-1] ^ 1]))
        problem = failure(memory, self.request(memory))
        assert problem["code"] == "corrupted-source"
        assert key.rpartition("/")[2] in str(problem["message"])
        assert memory.node.datasets.page(after=None, limit=10) == []

    def test_a_rewritten_source_is_not_followed(
        self, memory: MemoryNode, other: MemoryNode, published: CatalogEntry
    ) -> None:
        before = other.node.datasets.head(published).hash
        push(other, published, row(2, "B"))
        finished(memory, self.request(memory))
        other.objects.write_ref(f"{published.id.multibase}/refs/head", str(before))
        problem = failure(memory, self.request(memory))
        assert (problem["code"], str(problem["message"]).partition(":")[0]) == ("corrupted-source", "rollback")

    def test_a_copy_takes_no_pushes(self, memory: MemoryNode, published: CatalogEntry) -> None:
        finished(memory, self.request(memory))
        with pytest.raises(InvalidRequest, match="copy of"):
            memory.node.requests.push(PushData(dataset=published.id, body=iter([b""])))


def test_every_commit_is_delivered_once_in_order_and_signed(memory: MemoryNode) -> None:
    root = memory.add(ROOT)
    memory.node.background.relay_outbox()
    made = memory.node.webhooks.subscribe(root, url="https://hooks.example/x", secret=None, by=memory.node.operator)
    for day in (1, 2, 3):
        push(memory, root, row(day, "A"))
    memory.node.background.relay_outbox()
    memory.webhooks.script.extend([WebhookResponse(500), WebhookResponse(200)])
    for _ in range(5):
        memory.clock.advance(10_000)
        for delivery in memory.node.background.due_deliveries("test", limit=8):
            memory.node.background.deliver(delivery)
    log = memory.node.webhooks.deliveries(root, made.subscription.id, by=memory.node.operator)
    assert [(entry.sequence, entry.status) for entry in log] == [
        (3, DeliveryStatus.DELIVERED),
        (2, DeliveryStatus.DELIVERED),
        (1, DeliveryStatus.DELIVERED),
    ]
    sent = [json.loads(webhook.body)["data"]["sequence"] for webhook in memory.webhooks.received]
    assert sent == [1, 1, 2, 3]
    first, again = memory.webhooks.received[:2]
    assert first.body == again.body
    assert first.headers["webhook-id"] == again.headers["webhook-id"]
    for sent_at in (first, again):
        now = Instant(int(sent_at.headers["webhook-timestamp"]) * NANOS_PER_SECOND)
        assert webhook_signature.verify(sent_at.headers, sent_at.body, secrets=[made.secret], now=now)


def test_a_receiver_that_is_gone_ends_its_subscription(memory: MemoryNode) -> None:
    root = memory.add(ROOT)
    memory.node.background.relay_outbox()
    memory.node.webhooks.subscribe(root, url="https://hooks.example/x", secret=None, by=memory.node.operator)
    push(memory, root, row(1, "A"))
    memory.node.background.relay_outbox()
    memory.webhooks.script.append(WebhookResponse(410))
    for delivery in memory.node.background.due_deliveries("test", limit=8):
        memory.node.background.deliver(delivery)
    assert list(memory.node.webhooks.seen(root, by=memory.node.operator)) == []


def test_a_query_reads_the_datasets_that_it_mentions(memory: MemoryNode) -> None:
    root = memory.add(ROOT)
    push(memory, root, row(1, "A") + row(2, "B"))
    asked = QueryData(sql='SELECT * FROM "local/readings"', limit=1)
    answer = memory.node.rows.query_document(asked, QueryForm(include=("Input", "Schema"), schema_format="OdfJson"))
    assert [found["city"] for found in answer["output"]["data"]] == ["A"]  # type: ignore[index]
    (pinned,) = answer["input"]["datasets"]  # type: ignore[index]
    assert pinned == {
        "id": str(root.id),
        "alias": "local/readings",
        "blockHash": str(memory.node.datasets.head(root).hash),
    }


def test_a_pipe_step_prepares_a_file_by_a_program(memory: MemoryNode) -> None:
    memory.settings = memory.settings.model_copy(update={"prepare_programs": ("/usr/bin/spaced",)})
    memory.restart()
    piped = "\n    prepare: [{kind: Pipe, command: [spaced, x]}]\n    read:"
    entry = memory.add(POLLED.replace("\n    read:", piped, 1))
    memory.programs.by_name["spaced"] = lambda arguments, data: data.replace(arguments[0].encode(), b"{")
    arrive(memory, "1.ndjson", row(1, "A").replace("{", "x"))
    assert pull(memory, entry)["rows"] == 1

    def broken(arguments: object, data: bytes) -> bytes:
        raise ValueError("no such field")

    memory.programs.by_name["spaced"] = broken
    arrive(memory, "2.ndjson", row(2, "B"))
    problem = failure(memory, PullRequest(dataset=entry.id, alias=entry.alias))
    assert (problem["code"], problem["field"], problem["file"]) == ("invalid-data", "prepare[0].command", "2.ndjson")
    assert "no such field" in str(problem["message"])
