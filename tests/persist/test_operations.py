"""Inspecting a location: shards, blobs and why, leaks, damage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import pytest

from odfabric_persist.batch import BatchLimits, write_batch
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.collect import link_rollup
from odfabric_persist.compact import apply, compact
from odfabric_persist.errors import Corrupt, UsageError
from odfabric_persist.inspect import existing, inspect
from odfabric_persist.keys import PART, parse_key, part_key, rollup_key
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.probe import probe
from odfabric_persist.location.unreliable import Fault, Faults, UnreliableConsensus
from odfabric_persist.rows import RowCodec
from odfabric_persist.state import changed
from odfabric_persist.usage import LEAKED_AFTER_MS, Standing, audit, remove_leaked
from odfabric_persist.verify import verify
from tests.persist.scenario import CODEC, OTHER_CODEC, listed, updates_of

HOUR_MS = 60 * 60 * 1000


@dataclass
class Place:
    """A location with a clock."""

    blob: MemoryBlob
    consensus: MemoryConsensus
    now_ms: int = 0

    def shard(self, name: str = "s", codec: RowCodec = CODEC, *, inline: int = 0) -> Shard:
        settings = PersistSettings(limits=BatchLimits(inline_bytes_max=inline))
        client = PersistClient(self.blob, self.consensus, settings, now_ms=lambda: self.now_ms, wait=lambda _: None)
        return client.open(name, codec, resolve=lambda name: updates_of([[name, 3, 1]]))


@pytest.fixture
def place() -> Place:
    return Place(MemoryBlob(), MemoryConsensus())


@pytest.fixture
def shard(place: Place) -> Shard:
    shard = place.shard()
    writer = shard.open_writer("w")
    shard.open_reader("r").downgrade_since(1)
    shard.open_critical("c").compare_and_downgrade_since(0, 7, 1)
    for number in range(3):
        writer.compare_and_append(updates_of([[f"k{number}", number, 1]]), number, number + 1)
    writer.append_references([("elsewhere", 1)], 3, 4)
    return shard


def test_a_shard_is_shown_whatever_its_columns(place: Place, shard: Shard) -> None:
    place.shard("other", OTHER_CODEC)
    report = inspect(existing(place.blob, place.consensus, "s"))
    assert (report.shard, report.codec, report.since, report.upper, report.finalized) == ("s", CODEC.name, 1, 4, False)
    assert (report.seqno, report.oldest_seqno, report.rollups) == (shard.newest().seqno, 1, (1,))
    assert report.version_bytes == sum(len(one.data) for one in place.consensus.scan("s", 0, 100))
    assert [(one.lower, one.upper, one.rows, one.blobs, one.external) for one in report.batches] == [
        *((number, number + 1, 1, 1, 0) for number in range(3)),
        (3, 4, 1, 0, 1),
    ]
    assert (set(report.writers), report.readers["r"]["since"], report.criticals["c"]["opaque"]) == ({"w"}, 1, 7)
    assert report.rows == 4
    assert inspect(existing(place.blob, place.consensus, "other")).codec == OTHER_CODEC.name
    with pytest.raises(UsageError, match="unknown-shard"):
        existing(place.blob, place.consensus, "nobody")
    assert list(place.consensus.keys()) == ["other", "s"], "looking made a shard"


def test_names_of_blobs_tell_shard_kind_and_time() -> None:
    for name, is_part in ((part_key("a/b", 1234), True), (rollup_key("a/b", 77, 1234), False)):
        found = parse_key(name)
        assert found is not None
        assert (found.shard, found.is_part, found.written_ms) == ("a/b", is_part, 1234)
    for foreign in ("readme", "s/part-7", "s/part-00000000000g-0123456789abcdef", part_key("s", 1)[2:]):
        assert parse_key(foreign) is None


def test_what_lies_there_is_counted_by_why_it_does(place: Place, shard: Shard) -> None:
    probe(place.consensus)
    write_batch(shard.parts, updates_of([["lost", 9, 1]]), 9, 10)
    place.now_ms = LEAKED_AFTER_MS + 1
    write_batch(shard.parts, updates_of([["soon", 9, 1]]), 9, 10)
    place.blob.set("notes.txt", b"of somebody else")
    found = audit(place.blob, place.consensus, now_ms=place.now_ms)
    foreign, usage = found.shards
    assert (foreign.shard, dict(foreign.blobs)) == ("", {Standing.FOREIGN: 1})
    assert dict(usage.blobs) == {Standing.CURRENT: 4, Standing.LEAKED: 1, Standing.YOUNG: 1}
    assert usage.bytes[Standing.CURRENT] == sum(
        entry.size for entry in place.blob.list("s/") if entry.key in shard.newest().blob_keys
    )
    assert usage.dollars_per_month == pytest.approx(sum(usage.bytes.values()) / 2**30 * 0.023)
    (leaked,) = remove_leaked(place.blob, place.consensus, now_ms=place.now_ms)
    assert leaked == found.leaked[0]
    assert place.blob.get("notes.txt") is not None
    assert not audit(place.blob, place.consensus, now_ms=place.now_ms).leaked
    assert not verify(shard.machine).problems


def test_what_only_old_versions_name_is_no_leak(place: Place, shard: Shard) -> None:
    shard.finalize()
    place.now_ms = 2 * LEAKED_AFTER_MS
    (usage,) = audit(place.blob, place.consensus, now_ms=place.now_ms).shards
    assert dict(usage.blobs) == {Standing.CURRENT: 1, Standing.REFERENCED: 3}
    assert list(remove_leaked(place.blob, place.consensus, now_ms=place.now_ms)) == []


def test_blobs_of_a_shard_that_cannot_be_read_are_never_leaked(place: Place, shard: Shard) -> None:
    for key in shard.newest().rollups.values():
        place.blob.delete(key)
    place.now_ms = 2 * LEAKED_AFTER_MS
    (usage,) = audit(place.blob, place.consensus, now_ms=place.now_ms).shards
    assert "gone" in usage.problem
    assert set(usage.blobs) == {Standing.FOREIGN}
    assert list(remove_leaked(place.blob, place.consensus, now_ms=place.now_ms)) == []


def test_a_shard_whose_blobs_are_all_gone_is_listed(place: Place, shard: Shard) -> None:
    for entry in list(place.blob.list("")):
        place.blob.delete(entry.key)
    (usage,) = audit(place.blob, place.consensus, now_ms=0).shards
    assert (usage.shard, usage.problem != "") == (shard.machine.shard, True)


def test_a_shard_that_was_never_finished_making_leaves_a_leak(place: Place) -> None:
    place.blob.set(rollup_key("half", 1, 0), b"{}")
    usage = audit(place.blob, place.consensus, now_ms=2 * HOUR_MS, leaked_after_ms=HOUR_MS)
    assert [entry.size for entry in usage.leaked] == [2]


def test_a_sound_shard_verifies(shard: Shard) -> None:
    for _ in range(3):
        shard.maintain()
    found = verify(shard.machine)
    assert found.problems == []
    assert (found.parts, found.external, found.rows, found.versions) == (3, 1, 4, shard.newest().seqno)


def test_damage_is_found_and_named(place: Place, shard: Shard) -> None:
    first, second, _ = sorted(key for key in shard.newest().blob_keys if PART in key)
    place.blob.delete(first)
    place.blob.set(second, b"not what was written")
    problems = verify(existing(place.blob, place.consensus, "s")).problems
    assert sorted(problems) == sorted([f"{first} is gone", f"{second}: a part is not what was written"])
    (rollup,) = shard.newest().rollups.values()
    place.blob.set(rollup, (place.blob.get(rollup) or b"").replace(b'"walltime_ms":[0]', b'"walltime_ms":[9]'))
    assert any("goes back" in one for one in verify(existing(place.blob, place.consensus, "s")).problems)
    place.blob.set(rollup, b"{}")
    with pytest.raises(Corrupt):
        existing(place.blob, place.consensus, "s")


def test_a_rollup_that_is_not_what_the_versions_come_to_is_found(place: Place, shard: Shard) -> None:
    first = link_rollup(shard.machine)
    shard.open_writer("later")
    second = link_rollup(shard.machine)
    assert second > first
    key = shard.newest().rollups[second]
    place.blob.set(key, (place.blob.get(key) or b"").replace(b"writers/later", b"writers/other"))
    assert verify(place.shard("s").machine).problems, "read from the younger rollup, the versions differ"
    place.blob.set(key, b"{}")
    (problem,) = verify(shard.machine).problems
    assert problem.startswith(f"rollup {key}: ")


def test_a_part_that_only_old_versions_name_is_missed_while_they_can_be_read(place: Place, shard: Shard) -> None:
    batches = shard.newest().batches
    shard.open_reader("slow")
    assert apply(shard.parts, batches, compact(shard.parts, batches, 0, 4, 1))
    old = sorted(batches[0].blob_keys)[0]
    place.blob.delete(old)
    found = verify(shard.machine).problems
    assert found
    assert all(old in problem for problem in found)
    for name in ("slow", "r"):
        shard.expire(reader=name)
    link_rollup(shard.machine)
    assert verify(shard.machine).problems == [], "a collection may be half done"


def test_making_a_shard_leaves_one_rollup_whatever_happens_to_the_answer(place: Place) -> None:
    faults = Faults()
    faults.next("consensus.compare_and_set", Fault.INDETERMINATE_AFTER)
    ticks = count()
    consensus = UnreliableConsensus(place.consensus, faults)
    client = PersistClient(place.blob, consensus, now_ms=lambda: next(ticks), wait=lambda _: None)
    shard = client.open("s", CODEC)
    assert [entry.key for entry in place.blob.list("")] == list(shard.newest().rollups.values())


def test_a_part_with_other_rows_than_said_is_found(shard: Shard) -> None:
    part = replace(shard.newest().batches[0].parts[0], rows=5)
    state = shard.newest()
    wrong = replace(state.batches[0], runs=((part,),))
    shard.machine.apply(lambda state: changed(state, 0, batches=(wrong, *state.batches[1:])))
    assert verify(shard.machine).problems == [f"{part.key} has 1 rows, 5 are said to be there"]


def test_small_parts_in_the_state_are_verified_too(place: Place) -> None:
    shard = place.shard("small", inline=4096)
    shard.open_writer().compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
    assert (verify(shard.machine).parts, verify(shard.machine).problems) == (1, [])
    assert listed(shard.snapshot(0)) == [["a", 0, 1]]
    (usage,) = audit(place.blob, place.consensus, now_ms=0).shards
    assert usage.inline_bytes == shard.newest().inline_bytes > 0
