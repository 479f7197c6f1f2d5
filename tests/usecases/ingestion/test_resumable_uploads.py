"""Uploads in chunks: offsets, breaks, hashes, limits, and what is left behind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import (
    Changed,
    Determinate,
    InvalidData,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    UnsupportedMediaType,
)
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.staging import STAGING_PREFIX
from odfabric.wiring.composed.resumable import ResumableVerbs
from tests.usecases.manifests import ROOT

ROWS = b"".join(
    json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A" * day}).encode() + b"\n"
    for day in range(1, 20)
)


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


class Client:
    """One person with a file."""

    def __init__(self, memory: MemoryNode, entry: CatalogEntry | None = None) -> None:
        self.memory = memory
        self.entry = entry or memory.add(ROOT)
        self.by = memory.node.operator

    @property
    def verbs(self) -> ResumableVerbs:
        return ResumableVerbs(self.memory.node)

    def begin(self, size: int = len(ROWS)) -> str:
        return self.verbs.begin(self.entry, size, by=self.by).id

    def offset(self, upload: str) -> int:
        return self.verbs.find(self.entry, upload, by=self.by).offset

    def append(self, upload: str, *pieces: bytes, offset: int) -> int:
        return self.verbs.append(self.entry, upload, iter(pieces), offset=offset, by=self.by).offset

    def finish(
        self, upload: str, data: bytes = ROWS, *, media_type: str | None = None, key: str | None = None
    ) -> object:
        push = PushData(dataset=self.entry.id, body=iter(()), media_type=media_type, idempotency_key=key)
        digest = f"sha-256={hashlib.sha256(data).hexdigest()}"
        return self.verbs.finish(push, self.entry, upload, digest, by=self.by)

    def rows(self) -> int:
        link = next(iter(self.memory.node.datasets.log(self.entry, limit=1)))
        data = getattr(link.block.event, "new_data", None)
        return 0 if data is None else data.offset_interval.end + 1

    def staged(self) -> list[str]:
        return list(self.memory.objects.keys(STAGING_PREFIX))


@settings(max_examples=12, deadline=None)
@given(cuts=st.lists(st.integers(1, len(ROWS) - 1), max_size=6), size=st.integers(1, 200))
def test_any_cutting_into_chunks_gives_the_same_push(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], size: int
) -> None:
    client = Client(MemoryNode(tmp_path_factory.mktemp("node")))
    upload, offset = client.begin(), 0
    for end in sorted({*cuts, len(ROWS)}):
        pieces = [ROWS[at : min(at + size, end)] for at in range(offset, end, size)]
        offset = client.append(upload, *pieces, offset=offset)
        assert offset == end
    job = client.finish(upload)
    assert isinstance(job, Job)
    assert client.memory.finish(job).status is JobStatus.SUCCEEDED
    assert client.rows() == 19
    assert [key.rpartition("/")[2] for key in client.staged()] == ["about", "done"]


def test_what_has_arrived_before_a_break_is_kept(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    assert client.append(upload, ROWS[:100], ROWS[100:150], offset=0) == 150
    assert client.append(upload, b"", offset=150) == 150
    with pytest.raises(Changed) as caught:
        client.append(upload, ROWS[100:200], offset=100)
    assert caught.value.hint == "go on at Upload-Offset: 150"
    assert client.append(upload, ROWS[150:], offset=150) == len(ROWS)
    assert isinstance(client.finish(upload), Job)


def test_a_failure_while_a_chunk_is_stored_leaves_none_of_it(memory: MemoryNode) -> None:
    def broken() -> Iterator[bytes]:
        yield ROWS[:100]
        raise Determinate("no")

    client = Client(memory)
    upload = client.begin()
    with pytest.raises(Determinate):
        client.verbs.append(client.entry, upload, broken(), offset=0, by=client.by)
    assert client.offset(upload) == 0


def test_of_two_chunks_at_one_offset_the_first_is_there(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    inner: list[int] = []

    def slow() -> Iterator[bytes]:
        yield ROWS[:300]
        inner.append(client.append(upload, ROWS[:100], offset=0))

    assert client.verbs.append(client.entry, upload, slow(), offset=0, by=client.by).offset == 100
    assert inner == [100]


def test_another_hash_is_refused_and_the_upload_is_gone(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS, offset=0)
    with pytest.raises(InvalidData, match="not the announced digest"):
        client.finish(upload, ROWS + b" ")
    with pytest.raises(NotFound):
        client.offset(upload)
    assert client.staged() == []


@pytest.mark.parametrize("digest", ["", "md5=" + "0" * 32, "sha-256=xyz", "sha-256=" + "0" * 63])
def test_what_is_no_digest_is_refused(memory: MemoryNode, digest: str) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS, offset=0)
    push = PushData(dataset=client.entry.id, body=iter(()))
    with pytest.raises(InvalidRequest):
        client.verbs.finish(push, client.entry, upload, digest, by=client.by)
    sha3 = f"sha3-256={hashlib.sha3_256(ROWS).hexdigest()}"
    assert isinstance(client.verbs.finish(push, client.entry, upload, sha3, by=client.by), Job)


def test_missing_and_surplus_bytes_are_refused(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS[:-1], offset=0)
    with pytest.raises(InvalidRequest, match="1 bytes are missing"):
        client.finish(upload)
    with pytest.raises(InvalidRequest, match="more bytes"):
        client.append(upload, b"xy", offset=len(ROWS) - 1)
    assert client.append(upload, ROWS[-1:], offset=len(ROWS) - 1) == len(ROWS)


def test_a_refused_push_keeps_the_upload_for_another_try(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS, offset=0)
    before = client.staged()
    with pytest.raises(UnsupportedMediaType):
        client.finish(upload, media_type="image/png")
    assert client.staged() == before
    assert isinstance(client.finish(upload), Job)


def test_finishing_again_is_the_same_push(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS, offset=0)
    first, second = client.finish(upload), client.finish(upload)
    assert isinstance(first, Job)
    assert isinstance(second, Job)
    assert first.id == second.id
    memory.work()
    assert client.finish(upload).id == first.id  # type: ignore[attr-defined]
    assert client.rows() == 19
    with pytest.raises(Changed):
        client.append(upload, b"x", offset=len(ROWS))


def test_uploads_of_others_are_not_there(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    elsewhere = Client(memory, memory.add(ROOT.replace("readings", "elsewhere")))
    with pytest.raises(NotFound):
        elsewhere.offset(upload)
    for text in ("", "../about", "0" * 32, upload.upper() + "g"):
        with pytest.raises(NotFound):
            client.offset(text)


def test_limits(memory: MemoryNode) -> None:
    memory.settings = memory.settings.model_copy(
        update={"upload_bytes_max": 1000, "upload_chunk_bytes_max": 100, "uploads_per_account_max": 2}
    )
    memory.restart()
    client = Client(memory)
    with pytest.raises(InvalidRequest):
        client.begin(0)
    with pytest.raises(LimitExceeded, match="too large"):
        client.begin(1001)
    first, _ = client.begin(1000), client.begin(1000)
    with pytest.raises(LimitExceeded, match="2 uploads"):
        client.begin(1000)
    assert client.append(first, b"x" * 100, offset=0) == 100
    with pytest.raises(LimitExceeded, match="chunk"):
        client.append(first, b"x" * 101, offset=100)
    client.verbs.drop(client.entry, first, by=client.by)
    assert client.begin(1000)


def test_abandoned_uploads_go_away(memory: MemoryNode) -> None:
    client = Client(memory)
    upload = client.begin()
    client.append(upload, ROWS[:100], offset=0)
    memory.clock.advance(int(memory.settings.staged_lifetime_s * 1000) + 1)
    with pytest.raises(NotFound):
        client.offset(upload)
    memory.node.background.keep_house()
    assert client.staged() == []


@pytest.mark.parametrize(("fault", "key"), [(Fault.BEFORE, None), (Fault.AFTER, None), (Fault.AFTER, "once")])
def test_finishing_survives_a_fault_at_any_call(tmp_path: Path, fault: Fault, key: str | None) -> None:
    """After a fault at any call of the finish, the next process pushes once."""
    plan = FaultPlan()
    for number in range(-1, 100):
        if number >= len(plan.calls) and number >= 0:
            return
        memory = MemoryNode(tmp_path / str(number + 1))
        client = Client(memory)
        upload = client.begin()
        client.append(upload, ROWS, offset=0)
        by = client.by
        memory.restart(plan if number < 0 else FaultPlan.single(number, fault))
        with suppress(Exception):
            client.finish(upload, key=key)
        memory.restart()
        client.by = replace(by)
        client.finish(upload, key=key)
        memory.work()
        assert client.rows() == 19, plan.calls[number]
    raise AssertionError("the plan never ended")


def test_a_begun_upload_is_found_by_dataset_size_and_digest(memory: MemoryNode) -> None:
    client = Client(memory)
    digest = f"sha-256={hashlib.sha256(ROWS).hexdigest()}"

    def begin(size: int = len(ROWS), named: str = digest, entry: CatalogEntry = client.entry) -> str:
        return client.verbs.begin(entry, size, by=client.by, digest=named).id

    upload = begin()
    client.append(upload, ROWS[:10], offset=0)
    assert begin() == upload
    assert client.offset(begin()) == 10
    other = memory.add(ROOT.replace("name: readings", "name: others"))
    begun = {begin(size=7), begin(named="sha-256=" + "0" * 64), begin(entry=other), client.begin()}
    assert upload not in begun
    assert len(begun) == 4
    client.append(upload, ROWS[10:], offset=10)
    client.finish(upload)
    assert begin() != upload
    with pytest.raises(InvalidRequest, match="not a digest"):
        begin(named="md5=1")
