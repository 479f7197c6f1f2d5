"""Uploads whose parts go to the object store: plan, resumption, hashes, leftovers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData, InvalidRequest, NotFound, UnsupportedMediaType
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.ports.datasets.part_uploads import PARTS_MAX
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.sent_parts import PartsPlan, PartToSend
from odfabric.usecases.ingestion.staging import STAGING_PREFIX
from odfabric.wiring.composed.resumable import ResumableVerbs
from tests.usecases.manifests import ROOT

LINE = b'{"event_time": "2026-01-01T00:00:00Z", "city": "' + b"A" * 1000 + b'"}\n'
ROWS = LINE * 11_000
DIGEST = f"sha-256={hashlib.sha256(ROWS).hexdigest()}"
PART = 5 * 1024 * 1024


@given(size=st.integers(1, 64 * 1024**4), part=st.integers(PART, 5 * 1024**3))
def test_parts_are_the_file_and_no_more_than_a_store_takes(size: int, part: int) -> None:
    plan = PartsPlan("key", "upload", size, max(part, -(-size // PARTS_MAX)))
    assert 1 <= plan.count <= PARTS_MAX
    last = plan.bytes_of(plan.count)
    assert 0 < last <= plan.part_bytes
    assert (plan.count - 1) * plan.part_bytes + last == size
    assert plan.count == 1 or plan.bytes_of(1) == plan.part_bytes


class Client:
    """One person with a file."""

    def __init__(self, memory: MemoryNode) -> None:
        self.memory = memory
        memory.node.settings = memory.node.settings.model_copy(
            update={"upload_part_bytes": PART, "upload_part_links_max": 2}
        )
        self.verbs, self.entry, self.by = ResumableVerbs(memory.node), memory.add(ROOT), memory.node.operator

    def begin(self, digest: str | None = None) -> str:
        return self.verbs.begin(self.entry, len(ROWS), by=self.by, digest=digest, in_parts=True).id

    def listed(self, upload: str, first: int = 1) -> list[PartToSend]:
        return list(self.verbs.parts(self.entry, upload, first=first, by=self.by)[1])

    def send(self, part: PartToSend) -> str:
        return self.memory.parts.put(str(part.url), ROWS[part.offset : part.offset + part.size])

    def send_all(self, upload: str) -> dict[int, str]:
        return {part.number: part.tag or self.send(part) for first in (1, 3) for part in self.listed(upload, first)}

    def finish(self, upload: str, tags: dict[int, str], **push: str) -> object:
        wanted = push.pop("digest", DIGEST)
        pushed = PushData(dataset=self.entry.id, body=iter(()), media_type="application/x-ndjson")
        return self.verbs.finish(replace(pushed, **push), self.entry, upload, wanted, by=self.by, tags=tags)  # type: ignore[arg-type]

    def worked(self, job: Job) -> JobStatus:
        self.memory.work()
        return self.memory.node.jobs.get(job.id, by=self.by).status

    def left(self) -> list[str]:
        objects = self.memory.objects
        return [key for prefix in (STAGING_PREFIX, "parts-of-uploads/") for key in objects.keys(prefix)]


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(MemoryNode(tmp_path))


def test_parts_become_one_push(client: Client) -> None:
    upload = client.begin()
    assert [(part.number, part.offset, part.size) for part in client.listed(upload)] == [(1, 0, PART), (2, PART, PART)]
    assert [part.size for part in client.listed(upload, 3)] == [len(ROWS) - 2 * PART]
    tags = client.send_all(upload)
    assert client.verbs.find(client.entry, upload, by=client.by).complete
    job = client.finish(upload, tags)
    assert isinstance(job, Job)
    again = client.finish(upload, tags)
    assert isinstance(again, Job)
    assert again.id == job.id
    assert client.worked(job) is JobStatus.SUCCEEDED
    client.verbs.drop(client.entry, upload, by=client.by)
    assert client.left() == []


def test_what_is_there_is_not_sent_again(client: Client) -> None:
    upload = client.begin(DIGEST)
    client.send(client.listed(upload)[1])
    assert client.begin(DIGEST) == upload
    first, second = client.listed(upload)
    assert (first.tag, second.url) == (None, None)
    assert client.verbs.find(client.entry, upload, by=client.by).offset == 0
    client.send(first)
    assert client.verbs.find(client.entry, upload, by=client.by).offset == 2 * PART
    # Who does not ask for parts does not get an upload that has some.
    assert client.verbs.begin(client.entry, len(ROWS), by=client.by, digest=DIGEST).plan is None


def test_parts_that_are_missing_are_named(client: Client) -> None:
    upload = client.begin()
    tags = client.send_all(upload)
    for wrong in ({}, {**tags, 2: "0" * 32}, {1: tags[1], 3: tags[3]}):
        with pytest.raises(InvalidRequest, match=r"part \d of 3") as refused:
            client.finish(upload, wrong)
        assert refused.value.place.field == "parts"
    assert isinstance(client.finish(upload, tags), Job)


def test_another_file_is_refused_and_gone(client: Client) -> None:
    upload = client.begin()
    tags = client.send_all(upload)
    with pytest.raises(InvalidData, match="not the announced digest"):
        client.finish(upload, tags, digest="sha3-256=" + "0" * 64)
    assert [key for key in client.left() if not key.endswith("/about")] == []


def test_a_refused_push_keeps_what_was_uploaded(client: Client) -> None:
    upload = client.begin()
    tags = client.send_all(upload)
    with pytest.raises(UnsupportedMediaType):
        client.finish(upload, tags, media_type="image/png")
    assert isinstance(client.finish(upload, tags), Job)


def test_a_key_makes_a_repetition_harmless(client: Client) -> None:
    """The process died before it noted the job: the body of the job is not removed."""
    upload = client.begin()
    tags = client.send_all(upload)
    first = client.finish(upload, tags, idempotency_key="one")
    (done,) = [key for key in client.left() if key.endswith("/done")]
    client.memory.objects.delete(done)
    again = client.finish(upload, tags, idempotency_key="one")
    assert isinstance(first, Job)
    assert isinstance(again, Job)
    assert again.id == first.id
    assert client.worked(first) is JobStatus.SUCCEEDED


def test_chunks_and_parts_are_not_mixed(client: Client) -> None:
    upload = client.begin()
    with pytest.raises(InvalidRequest, match="object store"):
        client.verbs.append(client.entry, upload, iter([b"x"]), offset=0, by=client.by)
    chunked = client.verbs.begin(client.entry, 10, by=client.by).id
    with pytest.raises(InvalidRequest, match="no parts"):
        client.listed(chunked)


def test_what_is_given_up_or_abandoned_goes_away(client: Client) -> None:
    dropped, left = client.begin(), client.begin()
    for upload in (dropped, left):
        client.send(client.listed(upload)[0])
    client.verbs.drop(client.entry, dropped, by=client.by)
    with pytest.raises(NotFound):
        client.listed(dropped)
    background, clock = client.memory.node.background, client.memory.clock
    background.remove_leftovers()
    assert len(client.listed(left)) == 2
    lifetime_ns = int(client.memory.node.settings.staged_lifetime_s * NANOS_PER_SECOND)
    clock.set(Instant(clock.now().epoch_ns + lifetime_ns + NANOS_PER_SECOND))
    background.remove_leftovers()
    assert client.left() == []
