"""Shard maintenance by any client: when it is due, who does it, its cost.

`ODF_PERSIST_COMMITS` sets how many commits the measurement makes (2,000 by default; the figures of the design are for 10,000).
"""

from __future__ import annotations

import os
from math import log2

import pytest

from odfabric_persist import state as transitions
from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.encoding import encode_rollup
from odfabric_persist.errors import Corrupt
from odfabric_persist.keys import PART
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.metered import Meter, MeteredBlob, MeteredConsensus
from odfabric_persist.maintenance import WORK, MaintenanceLimits, is_due
from odfabric_persist.state import Batch, Part, State
from tests.persist.scenario import CODEC, listed, updates_of

COMMITS = int(os.environ.get("ODF_PERSIST_COMMITS", "2000"))


SHARD = "index/" + "f" * 64
"""As long as names are in use."""


class Clock:
    now_ms = 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def client(clock: Clock) -> PersistClient:
    limits = BatchLimits(inline_bytes_max=0)
    settings = PersistSettings(limits=limits)
    return PersistClient(MemoryBlob(), MemoryConsensus(), settings, now_ms=lambda: clock.now_ms, wait=lambda _: None)


@pytest.fixture
def shard(client: PersistClient) -> Shard:
    return client.open("s", CODEC)


def commit(shard: Shard, count: int, *, start: int = 0) -> None:
    writer = shard.open_writer("w")
    for number in range(start, start + count):
        writer.compare_and_append(updates_of([[f"k{number}", number, 1]]), number, number + 1)


def test_nothing_is_done_before_it_is_due(shard: Shard) -> None:
    commit(shard, 15)
    seqno = shard.newest().seqno
    assert not is_due(shard.newest(), MaintenanceLimits())
    assert shard.maintain().merges == 0
    assert shard.newest().seqno == seqno
    commit(shard, 1, start=15)
    assert shard.maintain().merges == 1
    assert [batch.level for batch in shard.newest().batches] == [1]
    assert not shard.newest().claims


def test_who_claimed_the_work_is_left_to_it_until_the_time_is_out(shard: Shard, clock: Clock) -> None:
    commit(shard, 16)
    shard.change(lambda state: transitions.take_claim(state, WORK, "other", claim_ms=1000, now_ms=clock.now_ms))
    assert shard.maintain().claimed_by == "other"
    assert len(shard.newest().batches) == 16
    clock.now_ms = 1000
    assert shard.maintain().merges == 1


def test_a_rollup_is_written_in_time_and_what_it_makes_useless_goes(shard: Shard) -> None:
    commit(shard, 300)
    done = shard.maintain()
    assert done.rollup is not None
    assert done.collected.truncated == done.rollup
    live = shard.machine.consensus.scan("s", 0, 10_000)
    assert live[0].seqno == done.rollup
    assert shard.maintain().rollup is None


def test_a_reader_that_died_holds_nothing_for_longer_than_its_lease(shard: Shard, clock: Clock) -> None:
    shard.open_reader("dead")
    commit(shard, 200)
    clock.now_ms = shard.settings.reader_lease_ms
    assert shard.maintain().collected.truncated is None
    clock.now_ms += 1
    assert shard.maintain().collected.truncated is not None
    assert not shard.newest().readers


def test_a_finalized_shard_is_cleared_once(shard: Shard) -> None:
    commit(shard, 20)
    shard.finalize()
    assert shard.maintain().collected.parts == 20
    seqno = shard.newest().seqno
    done = shard.maintain()
    assert (done.rollup, shard.newest().seqno) == (None, seqno)
    assert not [entry for entry in shard.machine.blob.list("") if PART in entry.key]


def test_what_a_reader_holds_is_collected_when_it_lets_go(shard: Shard) -> None:
    reader = shard.open_reader()
    commit(shard, 200)
    assert shard.maintain().collected.truncated is None
    reader.downgrade_since(100)
    assert shard.maintain().collected.truncated is not None


def test_empty_batches_become_one_without_reading(shard: Shard) -> None:
    writer = shard.open_writer()
    for number in range(40):
        writer.compare_and_append(updates_of([]), number, number + 1)
    assert shard.maintain().merges == 0
    (batch,) = shard.newest().batches
    assert (batch.lower, batch.upper, batch.rows) == (0, 40, 0)


def test_a_merged_batch_takes_empty_ones_in_and_a_written_one_keeps_its_bounds() -> None:
    run = ((Part(1, 1, 0, key="k"),),)

    def joined(*batches: Batch) -> list[tuple[str, int, object]]:
        state = State("s", 5, "", 0, upper=9, batches=batches)
        after = transitions.join_empty(state, now_ms=0)
        return [(one.id, one.lower, one.upper) for one in after.batches]

    empty = [Batch(f"e{number}", number, number + 1, 0) for number in range(4)]
    # The part may hold rows at 1, which the bounds leave out: they must not come back.
    assert joined(Batch("a", 0, 1, 0, run), empty[1]) == [("a", 0, 1), ("e1", 1, 2)]
    ((name, lower, upper),) = joined(Batch("a", 0, 1, 0, run, level=1), *empty[1:])
    assert (lower, upper) == (0, 4)
    assert name not in {"a", "e1", "e2", "e3"}
    assert len(joined(*empty[:2], Batch("b", 2, 3, 0, run, level=1))) == 2


def test_two_who_maintain_at_once_lose_nothing(shard: Shard, client: PersistClient) -> None:
    commit(shard, 64)
    other = PersistClient(client.blob, client.consensus, client.settings, wait=lambda _: None).open("s", CODEC)
    other.newest()
    wanted = listed(shard.snapshot(63))
    other.machine.now_ms = lambda: 10**12  # its clock is so far ahead that no claim holds for it
    shard.change(lambda state: transitions.take_claim(state, WORK, shard.id, claim_ms=10, now_ms=0))
    other.maintain()
    shard.maintain()
    assert listed(shard.snapshot(63)) == listed(other.snapshot(63)) == wanted


def test_parts_that_are_gone_though_nobody_was_first_are_told(client: PersistClient, shard: Shard) -> None:
    commit(shard, 16)
    (part, *_) = (entry.key for entry in client.blob.list("") if PART in entry.key)
    client.blob.delete(part)
    with pytest.raises(Corrupt, match="is gone"):
        shard.maintain()


def test_many_small_commits_cost_what_the_design_says(capsys: pytest.CaptureFixture[str]) -> None:
    meter, consensus = Meter(), MemoryConsensus()
    client = PersistClient(MeteredBlob(MemoryBlob(), meter), MeteredConsensus(consensus, meter), wait=lambda _: None)
    shard = client.open(SHARD, CODEC)
    writer = shard.open_writer("w")
    written = longest = state_bytes = diff_bytes = 0
    for number in range(COMMITS):
        writer.compare_and_append(updates_of([[f"key-{number}", number, 1]]), number, number + 1)
        if number % 16 == 15:
            newest = shard.newest()
            longest = max(longest, len(newest.batches))
            state_bytes = max(state_bytes, len(encode_rollup(newest)))
            written += shard.maintain().rows_written
            diff_bytes = max(diff_bytes, *(len(one.data) for one in consensus.scan(SHARD, newest.seqno - 16, 64)))
    sets = meter.calls["blob.set"]
    figures = (
        f"{COMMITS} commits: rows written again {written / COMMITS:.2f} x, state {state_bytes} B, diff {diff_bytes} B, "
        f"{longest} batches, {sets / COMMITS:.3f} blobs a commit, {len(consensus.scan(SHARD, 0, 10**6))} live versions"
    )
    with capsys.disabled():
        print(f"\n{figures}")
    assert written <= 4 * COMMITS, figures
    assert state_bytes <= 64 * 1024, figures
    assert diff_bytes <= 1024, figures
    assert longest <= 2 * log2(COMMITS) + 16, figures
    assert sets <= COMMITS * (1 / 16 + 1 / 64), figures
    assert shard.snapshot(COMMITS - 1).num_rows == COMMITS
