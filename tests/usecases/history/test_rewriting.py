"""Reset, compaction and watermarks: what is kept, what is lost, who hears."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.chain.state import ChainState
from odfabric.errors import HeadMoved, InvalidRequest, NotFound
from odfabric.formats.identifiers.dataset_layout import DATA, object_key
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import CompactRequest, PullRequest
from odfabric.model.metadata import AddData
from odfabric.model.people.audit import AuditKind
from odfabric.model.rewrite import RewriteKind
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.commit_result import CommitResult
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED, ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


def push(memory: MemoryNode, entry: CatalogEntry, day: int, *, rows: int = 2, key: str | None = None) -> dict[str, Any]:
    body = b"".join(
        json.dumps({"event_time": f"2026-01-{day:02}T00:00:0{n}Z", "city": f"c{day}", "value": n}).encode() + b"\n"
        for n in range(rows)
    )
    found = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body]), idempotency_key=key))
    if isinstance(found, CommitResult):
        return found.to_value()
    return finished(memory, found)


def finished(memory: MemoryNode, job: Job) -> dict[str, Any]:
    done = memory.finish(job)
    assert done.status is JobStatus.SUCCEEDED, done.error
    result: dict[str, Any] = json.loads(done.result or "{}")
    return result


def compact(memory: MemoryNode, entry: CatalogEntry, **wishes: Any) -> dict[str, Any]:
    return finished(memory, memory.node.history.compact(entry, CompactRequest(dataset=entry.id, **wishes)))


def pull(memory: MemoryNode, entry: CatalogEntry, **wishes: Any) -> Job:
    return memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias, **wishes)))


def state_of(memory: MemoryNode, entry: CatalogEntry) -> ChainState:
    return memory.node.repository.current(entry.id)[1]


def slices(memory: MemoryNode, entry: CatalogEntry) -> list[Any]:
    links = list(memory.node.datasets.log(entry, limit=1000))[::-1]
    return [
        link.block.event.new_data
        for link in links
        if isinstance(link.block.event, AddData) and link.block.event.new_data is not None
    ]


def rows(memory: MemoryNode, entry: CatalogEntry, folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in slices(memory, entry):
        path = folder / str(one.physical_hash)
        if not path.exists():
            memory.objects.materialize(object_key(entry.id, DATA, one.physical_hash), path)
        with open_slice(path, state_of(memory, entry).vocabulary) as reader:
            for batch in reader.batches():
                found += batch.to_pylist()
    return found


def verified(memory: MemoryNode, entry: CatalogEntry) -> None:
    report = finished(memory, memory.node.requests.verify(entry, VerifyOptions()))
    assert report == {"ok": True, "errors": []}


def test_compaction_keeps_rows_offsets_and_state(memory: MemoryNode, entry: CatalogEntry, tmp_path: Path) -> None:
    for day in range(1, 6):
        push(memory, entry, day)
    memory.node.history.set_watermark(entry, Instant.parse("2027-01-01T00:00:00Z"), force=True)
    before, state = rows(memory, entry, tmp_path), state_of(memory, entry)
    done = compact(memory, entry)
    assert (done["blocksBefore"], done["blocksAfter"], done["rows"]) == (9, 4, 10)
    assert rows(memory, entry, tmp_path) == before
    after = state_of(memory, entry)
    assert after.head is not None
    assert str(after.head) == done["head"]
    assert (after.watermark, after.source_state, after.last_offset) == (
        state.watermark,
        state.source_state,
        state.last_offset,
    )
    verified(memory, entry)
    assert push(memory, entry, 7)["offsets"] == {"start": 10, "end": 11}
    verified(memory, entry)
    assert compact(memory, entry)["blocksAfter"] == 4
    assert compact(memory, entry)["upToDate"] is True


def test_slices_stay_below_the_limits(memory: MemoryNode, entry: CatalogEntry, tmp_path: Path) -> None:
    for day in range(1, 6):
        push(memory, entry, day)
    before = rows(memory, entry, tmp_path)
    compact(memory, entry, slice_records_max=4)
    assert [one.offset_interval.end - one.offset_interval.start + 1 for one in slices(memory, entry)] == [4, 4, 2]
    assert rows(memory, entry, tmp_path) == before
    assert compact(memory, entry, slice_records_max=5)["upToDate"] is True
    verified(memory, entry)


def test_keys_that_were_pushed_before_a_compaction_are_known(memory: MemoryNode, entry: CatalogEntry) -> None:
    for day in (1, 2, 3):
        push(memory, entry, day, key=f"k{day}")
    done = compact(memory, entry)
    assert push(memory, entry, 2, key="k2")["head"] == done["head"]
    assert state_of(memory, entry).last_offset == 5


def test_who_compacts_is_audited_and_recorded(memory: MemoryNode, entry: CatalogEntry) -> None:
    push(memory, entry, 1)
    push(memory, entry, 2)
    old = memory.node.repository.head(entry.id).hash
    done = compact(memory, entry)
    logged = [each.entry for each in memory.node.ports.audit.page(limit=100)]
    (audited,) = [each for each in logged if each.kind is AuditKind.HISTORY_REPLACED]
    assert audited.detail == {"oldHead": str(old), "newHead": done["head"], "kind": "compacted"}
    assert audited.actor.name == "local"
    (recorded,) = memory.node.history.rewrites(entry)
    assert (recorded.kind, recorded.old_head, str(recorded.new_head)) == (RewriteKind.COMPACTED, old, done["head"])


def test_without_rows_the_rest_of_the_chain_stays(memory: MemoryNode, entry: CatalogEntry) -> None:
    push(memory, entry, 1)
    done = compact(memory, entry, metadata_only=True)
    assert (done["blocksAfter"], done["rows"]) == (3, 0)
    after = state_of(memory, entry)
    assert (after.last_offset, len(after.push_sources)) == (None, 1)
    assert push(memory, entry, 2)["offsets"] == {"start": 0, "end": 1}
    verified(memory, entry)


def test_a_reset_moves_the_head_that_was_seen(memory: MemoryNode, entry: CatalogEntry) -> None:
    history = memory.node.history
    push(memory, entry, 1)
    target = memory.node.repository.head(entry.id).hash
    push(memory, entry, 2)
    seen = memory.node.repository.head(entry.id).hash
    push(memory, entry, 3)
    with pytest.raises(HeadMoved):
        history.reset(entry, target, expected=seen)
    now = memory.node.repository.head(entry.id).hash
    done = history.reset(entry, target, expected=now)
    assert (done.blocks, done.rows, done.head) == (2, 4, target)
    assert memory.node.repository.head(entry.id).hash == target
    assert push(memory, entry, 4)["offsets"] == {"start": 2, "end": 3}
    verified(memory, entry)
    with pytest.raises(NotFound):
        history.reset(entry, now, expected=memory.node.repository.head(entry.id).hash)
    with pytest.raises(NotFound):
        history.reset(entry, 99, expected=memory.node.repository.head(entry.id).hash)
    assert history.reset(entry, 0, expected=memory.node.repository.head(entry.id).hash).blocks == 4


def test_a_watermark_goes_forwards_only(memory: MemoryNode, entry: CatalogEntry) -> None:
    history, later = memory.node.history, Instant.parse("2026-06-01T00:00:00Z")
    push(memory, entry, 1)
    assert history.set_watermark(entry, later, force=True).moved
    head = memory.node.repository.head(entry.id)
    for at in (later, Instant.parse("2026-01-02T00:00:00Z")):
        again = history.set_watermark(entry, at, force=True)
        assert (again.moved, again.watermark) == (False, later)
    assert memory.node.repository.head(entry.id) == head
    derived = memory.add(DERIVED)
    with pytest.raises(InvalidRequest, match="computed"):
        history.set_watermark(derived, later)
    with pytest.raises(InvalidRequest, match="computed"):
        history.compact(derived, CompactRequest(dataset=derived.id))


def test_a_derivative_of_a_rewritten_input_says_so_and_is_recomputed(memory: MemoryNode, entry: CatalogEntry) -> None:
    derived = memory.add(DERIVED)
    push(memory, entry, 1)
    push(memory, entry, 2)
    assert pull(memory, derived).status is JobStatus.SUCCEEDED
    assert memory.node.history.rewritten_inputs(derived) == []
    compact(memory, entry)
    (found,) = memory.node.history.rewritten_inputs(derived)
    assert (found.dataset, found.rewrite and found.rewrite.kind) == (entry.id, RewriteKind.COMPACTED)
    assert "local/readings was compacted at" in found.message
    push(memory, entry, 3)
    head = memory.node.repository.head(derived.id)
    stopped = pull(memory, derived)
    assert stopped.status is JobStatus.FAILED
    assert "--recompute" in (stopped.error or "")
    assert memory.node.repository.head(derived.id) == head
    assert (
        finished(
            memory, memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias, recompute=True))
        )["rows"]
        == 6
    )
    assert memory.node.history.rewritten_inputs(derived) == []
    assert state_of(memory, derived).last_offset == 5
    verified(memory, derived)


def test_a_watermark_far_ahead_takes_force_and_the_right(memory: MemoryNode, entry: CatalogEntry) -> None:
    """Nothing brings it back, and every row until then would come late."""
    history, ahead_s = memory.node.history, memory.settings.watermark_ahead_s_max
    push(memory, entry, 1)
    head = memory.node.repository.head(entry.id)
    now = memory.clock.now()
    with pytest.raises(InvalidRequest, match="never goes back") as refused:
        history.set_watermark(entry, Instant.parse("9999-12-31T23:59:59Z"))
    assert refused.value.place is not None
    assert (refused.value.place.field, "--force" in str(refused.value.hint)) == ("watermark", True)
    with pytest.raises(InvalidRequest):
        history.set_watermark(entry, later_by(now, ahead_s + 60.0))
    assert memory.node.repository.head(entry.id) == head
    assert history.set_watermark(entry, later_by(now, ahead_s - 60.0)).moved
    assert history.set_watermark(entry, Instant.parse("2030-01-01T00:00:00Z"), force=True).moved


def later_by(now: Instant, seconds: float) -> Instant:
    return Instant(now.epoch_ns + int(seconds) * NANOS_PER_SECOND)
