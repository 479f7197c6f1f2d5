"""Blob and Consensus: every adapter keeps the contract, alone and in a race."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_persist.errors import Corrupt, Determinate, Indeterminate, LocationError, UsageError
from odfabric_persist.location.blob import Blob, BlobEntry, check_key
from odfabric_persist.location.cached import CachedBlob
from odfabric_persist.location.consensus import SEQNO_MAX, Consensus, Version
from odfabric_persist.location.folder_blob import LEFTOVER_S, FolderBlob
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredBlob, MeteredConsensus
from odfabric_persist.location.probe import PROBE_KEY, probe
from odfabric_persist.location.sqlite_consensus import SqliteConsensus
from odfabric_persist.location.unreliable import Fault, Faults, UnreliableBlob, UnreliableConsensus
from tests.persist.cases import steps

OpenBlob: TypeAlias = Callable[[str], Blob]
OpenConsensus: TypeAlias = Callable[[], Consensus]
RACERS = 4
ROUNDS = 500


@pytest.mark.parametrize("listed", steps("blob_conformance"))
def test_blob_conformance(open_blob: OpenBlob, listed: list[dict[str, Any]]) -> None:
    handles: dict[str, Blob] = {}
    for number, step in enumerate(listed):
        found = _blob_step(step, handles, open_blob)
        if step["result"] != "any":
            assert found == step["result"], f"step {number}: {step}"


def _blob_step(step: dict[str, Any], handles: dict[str, Blob], open_blob: OpenBlob) -> object:
    if step["op"] == "open":
        handles[step["h"]] = open_blob(step["path"])
        return "ok"
    blob = handles[step["h"]]
    match step["op"]:
        case "get":
            value = blob.get(step["key"])
            return None if value is None else value.decode()
        case "set":
            blob.set(step["key"], step["value"].encode())
            return "ok"
        case "delete":
            return blob.delete(step["key"])
        case "list":
            return [entry.key for entry in blob.list(step["prefix"])]
        case "restore":
            blob.restore(step["key"])
            return "ok"
        case "restore-then-get":
            try:
                blob.restore(step["key"])
            except Determinate:
                assert blob.get(step["key"]) is None
            else:
                assert blob.get(step["key"]) == b"data"
            return step["result"]
    raise AssertionError(f"a step that this test does not know: {step}")


@pytest.mark.parametrize("listed", steps("consensus_conformance"))
def test_consensus_conformance(open_consensus: OpenConsensus, listed: list[dict[str, Any]]) -> None:
    first, second = open_consensus(), open_consensus()
    for number, step in enumerate(listed):
        try:
            # What one handle did, another must see at once.
            found = _consensus_step(step, (first, second)[number % 2])
        except UsageError:
            found = "error"
        assert found == step["result"], f"step {number}: {step}"


def _consensus_step(step: dict[str, Any], consensus: Consensus) -> object:
    match step["op"]:
        case "head":
            head = consensus.head(step["key"])
            return None if head is None else _shown(head)
        case "scan":
            return [_shown(one) for one in consensus.scan(step["key"], step["from"], step.get("limit", 1 << 20))]
        case "truncate":
            return consensus.truncate(step["key"], step["seqno"])
        case "cas":
            new = Version(step["seqno"], step["data"].encode())
            return consensus.compare_and_set(step["key"], step["expected"], new)
        case "list-keys":
            return list(consensus.keys())
    raise AssertionError(f"a step that this test does not know: {step}")


def _shown(version: Version) -> list[object]:
    return [version.seqno, version.data.decode()]


def test_a_zombie_cannot_bring_a_truncated_version_back(open_consensus: OpenConsensus) -> None:
    consensus = open_consensus()
    for seqno in range(4):
        assert consensus.compare_and_set("k", seqno - 1 if seqno else None, Version(seqno, b""))
    assert consensus.truncate("k", 3) == 3
    assert not consensus.compare_and_set("k", None, Version(0, b"zombie"))
    assert not consensus.compare_and_set("k", 0, Version(1, b"zombie"))
    assert [one.seqno for one in consensus.scan("k", 0, 9)] == [3]


def test_the_largest_number_is_the_end(open_consensus: OpenConsensus) -> None:
    consensus = open_consensus()
    assert consensus.compare_and_set("k", None, Version(SEQNO_MAX, b"\0\xff"))
    assert consensus.head("k") == Version(SEQNO_MAX, b"\0\xff")
    with pytest.raises(UsageError, match="invalid-seqno"):
        consensus.compare_and_set("k", SEQNO_MAX, Version(SEQNO_MAX + 1, b""))


@pytest.mark.parametrize(
    "key",
    ["", "/a", "a/", "a//b", "..", "a/../b", "./a", ".hidden", "a/.b", "a\0b", "a\\b", "a\nb", "x" * 201, "\ud800"],
)
def test_keys_that_not_every_store_could_hold_are_refused(open_blob: OpenBlob, key: str) -> None:
    blob = open_blob("path0")
    for act in (blob.get, blob.delete, blob.restore, lambda key: blob.set(key, b"")):
        with pytest.raises(UsageError, match="invalid-key"):
            act(key)
    assert list(blob.list("")) == []


@given(st.text())
def test_a_key_that_passes_stays_below_the_root(key: str) -> None:
    try:
        check_key(key)
    except UsageError:
        return
    assert os.path.normpath(f"/base/{key}") == f"/base/{key}"


def test_a_reader_meets_the_old_value_or_the_new_one(tmp_path: Path) -> None:
    blob = FolderBlob(tmp_path)
    values = [bytes([number]) * 100_000 for number in range(4)]
    blob.set("a/k", values[0])
    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(lambda value=value: [blob.set("a/k", value) for _ in range(20)]) for value in values[1:]]
        while not all(writer.done() for writer in writers):
            assert blob.get("a/k") in values
            assert [entry.key for entry in blob.list("")] == ["a/k"]
        for writer in writers:
            writer.result()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["k"]


def test_what_is_no_file_is_no_value(tmp_path: Path) -> None:
    blob = FolderBlob(tmp_path / "store")
    blob.set("a/b", b"1")
    (tmp_path / "secret").write_text("s")
    (tmp_path / "store" / "link").symlink_to(tmp_path / "secret")
    assert blob.get("a") is None
    assert blob.get("a/b/c") is None
    assert blob.delete("a/b/c") is None
    with pytest.raises(LocationError):
        blob.get("link")
    assert list(blob.list("")) == [BlobEntry("a/b", 1)]
    with pytest.raises(LocationError):
        blob.set("a", b"a folder is in its place")
    assert blob.get("a/b") == b"1"


def test_unfinished_files_are_swept_after_a_day(tmp_path: Path) -> None:
    blob = FolderBlob(tmp_path)
    blob.set("a/k", b"1")
    old, young = tmp_path / "a" / ".unfinished-old", tmp_path / "a" / ".unfinished-young"
    for path in (old, young):
        path.write_bytes(b"half")
    changed = old.stat().st_mtime - LEFTOVER_S - 60
    os.utime(old, (changed, changed))
    assert blob.sweep() == 1
    assert young.exists()
    assert blob.get("a/k") == b"1"


def test_a_full_or_closed_folder_is_told_apart_from_a_lost_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = FolderBlob(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr("odfabric_persist.location.folder_blob.os.fsync", fail)
        with pytest.raises(Determinate, match="No space"):
            blob.set("k", b"1")
    with monkeypatch.context() as lost:
        lost.setattr("odfabric_persist.location.folder_blob.os.replace", fail)
        with pytest.raises(Indeterminate):
            blob.set("k", b"1")
    assert blob.get("k") is None
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_of_versions_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "versions.db"
    path.write_bytes(b"this is not a database, though it is long enough to look at" * 100)
    with pytest.raises(Corrupt, match="SQLITE_NOTADB"):
        SqliteConsensus(path)


def test_acknowledged_versions_are_on_the_disk(tmp_path: Path) -> None:
    consensus = SqliteConsensus(tmp_path / "versions.db")
    with sqlite3.connect(tmp_path / "versions.db") as other:
        assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()
    assert consensus._connection.execute("PRAGMA synchronous").fetchone() == (2,), (
        "FULL: WAL alone may lose the last commits"
    )
    consensus.close()


def test_a_cache_is_bounded_and_forgets_what_changes() -> None:
    meter = Meter()
    cached = CachedBlob(MeteredBlob(MemoryBlob(), meter), bytes_max=800)
    for number in range(12):
        cached.set(f"k{number}", bytes(100))
    for number in range(12):
        assert cached.get(f"k{number}") == bytes(100)
    assert cached.size == 800
    reads = meter.calls["blob.get"]
    assert cached.get("k11") == bytes(100)
    assert meter.calls["blob.get"] == reads
    assert cached.get("k0") == bytes(100)
    assert meter.calls["blob.get"] == reads + 1
    cached.set("k11", b"new")
    assert cached.get("k11") == b"new"
    cached.delete("k11")
    assert cached.get("k11") is None
    cached.set("large", bytes(101))
    cached.get("large")
    assert cached.size <= 800


def test_calls_bytes_and_dollars_are_counted() -> None:
    meter = Meter()
    blob, consensus = MeteredBlob(MemoryBlob(), meter), MeteredConsensus(MemoryConsensus(), meter)
    for number in range(1000):
        blob.set(f"k{number}", b"1234")
    blob.get("k1")
    blob.get("absent")
    consensus.compare_and_set("k", None, Version(0, b"123"))
    assert (meter.calls["blob.set"], meter.bytes["blob.set"]) == (1000, 4000)
    assert (meter.calls["blob.get"], meter.bytes["blob.get"]) == (2, 4)
    assert (meter.calls["consensus.compare_and_set"], meter.bytes["consensus.compare_and_set"]) == (1, 3)
    assert meter.dollars == pytest.approx(0.005 + 2 * 0.0004 / 1000)


@pytest.mark.parametrize("fault", list(Fault))
def test_faults_are_what_a_store_could_do(fault: Fault) -> None:
    store, faults = MemoryConsensus(), Faults()
    consensus = UnreliableConsensus(store, faults)
    faults.next("consensus.compare_and_set", fault)
    with pytest.raises(Determinate if fault is Fault.DETERMINATE else Indeterminate):
        consensus.compare_and_set("k", None, Version(0, b""))
    assert (store.head("k") is not None) == (fault is Fault.INDETERMINATE_AFTER)
    assert consensus.head("k") == store.head("k")


def test_the_same_seed_gives_the_same_faults() -> None:
    def outcomes(seed: int) -> list[str]:
        blob = UnreliableBlob(MemoryBlob(), Faults(seed=seed, chance=0.5))
        found = []
        for number in range(100):
            try:
                blob.set(f"k{number}", b"")
                found.append("done")
            except LocationError as error:
                found.append(type(error).__name__)
        return found

    assert outcomes(1) == outcomes(1) != outcomes(2)
    assert set(outcomes(1)) == {"done", "Determinate", "Indeterminate"}


class Careless(MemoryConsensus):
    """Looks like a register, and ignores the condition once there is a version."""

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        head = self.head(key)
        if head is None:
            return super().compare_and_set(key, None, new)
        return super().compare_and_set(key, head.seqno, Version(head.seqno + 1, new.data))


def test_a_store_that_ignores_conditions_is_refused(open_consensus: OpenConsensus) -> None:
    consensus = open_consensus()
    for _ in range(3):
        probe(consensus)
    assert list(consensus.keys()) == [PROBE_KEY]
    assert len(consensus.scan(PROBE_KEY, 0, 99)) == 1
    with pytest.raises(UsageError, match="conditions-ignored"):
        probe(Careless())


def test_many_probe_one_store_at_once(open_consensus: OpenConsensus) -> None:
    with ThreadPoolExecutor(RACERS) as pool:
        for done in [pool.submit(probe, open_consensus()) for _ in range(2 * RACERS)]:
            done.result()


def test_files_are_no_more_open_than_usual(tmp_path: Path) -> None:
    blob = FolderBlob(tmp_path)
    blob.set("k", b"1")
    assert stat.S_IMODE((tmp_path / "k").stat().st_mode) & 0o133 == 0
