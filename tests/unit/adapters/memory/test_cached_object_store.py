"""Copies nearby: what is asked of the far store, what is kept, and what goes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from odfabric.adapters.cached.object_store import CachedObjectStore
from odfabric.adapters.local_fs.folder_cache import FolderCache
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import NotFound
from odfabric.model.multihash import sha3_256_multihash
from odfabric.testing.conformance.examples import NOW

BLOCK_BYTES, ROWS = b"block", b"rows"
BLOCK, SLICE = (
    f"dataset/{folder}/{sha3_256_multihash(hashlib.sha3_256(data).digest())}"
    for folder, data in (("blocks", BLOCK_BYTES), ("data", ROWS))
)
REF = "dataset/refs/head"
CACHE_BYTES = 1 << 20


@pytest.fixture
def watched() -> FaultPlan:
    """Sees the calls of the far store."""
    return FaultPlan()


@pytest.fixture
def near(tmp_path: Path) -> FolderCache:
    return FolderCache(tmp_path / "cache", bytes_max=CACHE_BYTES)


@pytest.fixture
def objects(watched: FaultPlan, near: FolderCache) -> CachedObjectStore:
    return CachedObjectStore(watched.objects(MemoryObjectStore(SettableClock(NOW))), near)


def asked(watched: FaultPlan) -> list[str]:
    return [call.name for call in watched.calls]


def test_what_was_written_here_is_not_fetched_again(
    objects: CachedObjectStore, watched: FaultPlan, tmp_path: Path
) -> None:
    source = tmp_path / "slice"
    source.write_bytes(b"rows")
    objects.put_bytes(BLOCK, b"block")
    objects.put_file(SLICE, source)
    written = asked(watched)
    assert objects.read_bytes(BLOCK, size_max=10) == b"block"
    objects.materialize(SLICE, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"rows"
    with objects.open(SLICE) as stream:
        assert stream.read() == b"rows"
    assert asked(watched) == written == ["object.block.put", "object.data.put"]


def test_what_was_written_elsewhere_is_fetched_once(
    objects: CachedObjectStore, near: FolderCache, watched: FaultPlan, tmp_path: Path
) -> None:
    objects.put_bytes(BLOCK, b"block")
    objects.put_bytes(SLICE, b"rows")
    for key in list(near.keys("")):
        near.delete(key)
    before = len(asked(watched))
    for number in range(3):
        assert objects.read_bytes(BLOCK, size_max=10) == b"block"
        objects.materialize(SLICE, tmp_path / f"out-{number}")
    assert asked(watched)[before:] == ["object.block.read", "object.data.read"]


def test_refs_and_uploads_are_never_kept(objects: CachedObjectStore, near: FolderCache) -> None:
    objects.write_ref(REF, "one")
    objects.put_bytes("staging/upload", b"body")
    objects.put_bytes("dataset/info/alias", b"name")
    assert objects.read_ref(REF) == "one"
    assert objects.read_bytes("staging/upload", size_max=10) == b"body"
    assert list(near.keys("")) == []


def test_a_deleted_object_is_gone_here_too(objects: CachedObjectStore, tmp_path: Path) -> None:
    objects.put_bytes(SLICE, b"rows")
    objects.delete(SLICE)
    with pytest.raises(NotFound):
        objects.read_bytes(SLICE, size_max=10)
    with pytest.raises(NotFound):
        objects.materialize(SLICE, tmp_path / "out")


def test_a_near_store_that_fails_costs_time_only(tmp_path: Path) -> None:
    failing = FaultPlan.seeded(1, rate=1.0)
    near = failing.objects(FolderCache(tmp_path / "cache", bytes_max=CACHE_BYTES))
    objects = CachedObjectStore(MemoryObjectStore(SettableClock(NOW)), near)
    objects.put_bytes(BLOCK, b"block")
    objects.put_bytes(SLICE, b"rows")
    assert objects.read_bytes(BLOCK, size_max=10) == b"block"
    objects.materialize(SLICE, tmp_path / "out")
    with objects.open(SLICE) as stream:
        assert stream.read() == b"rows"
    objects.delete(BLOCK)
    assert failing.calls, "nothing failed"
    assert Fault.AFTER in failing.calls[0].faults or Fault.BEFORE in failing.calls[0].faults


def test_a_damaged_copy_is_replaced(objects: CachedObjectStore, tmp_path: Path) -> None:
    objects.put_bytes(BLOCK, BLOCK_BYTES)
    objects.put_bytes(SLICE, ROWS)
    for key in (BLOCK, SLICE):
        copy = tmp_path / "cache" / key
        copy.chmod(0o600)
        copy.write_bytes(b"damaged")
    assert objects.read_bytes(BLOCK, size_max=10) == BLOCK_BYTES
    objects.materialize(SLICE, tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == ROWS
    assert (tmp_path / "cache" / BLOCK).read_bytes() == BLOCK_BYTES
    assert (tmp_path / "cache" / SLICE).read_bytes() == ROWS


def test_what_was_used_longest_ago_goes(tmp_path: Path) -> None:
    near = FolderCache(tmp_path / "cache", bytes_max=1 << 40)
    for number in range(10):
        near.put_bytes(f"dataset/data/{number}", b"x" * 4096)
        os.utime(tmp_path / "cache" / f"dataset/data/{number}", (number, number))
    assert near.shrink() == 0
    near.read_bytes("dataset/data/0", size_max=4096)
    near.materialize("dataset/data/1", tmp_path / "out")
    assert FolderCache(tmp_path / "cache", bytes_max=20_000).shrink() == 6
    assert [key[-1] for key in near.keys("")] == ["0", "1", "8", "9"]
    assert (tmp_path / "out").read_bytes() == b"x" * 4096


def test_a_cache_keeps_itself_small(tmp_path: Path) -> None:
    near = FolderCache(tmp_path / "cache", bytes_max=100_000)
    for number in range(200):
        near.put_bytes(f"dataset/data/{number}", b"x" * 4096)
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) <= 110_000
