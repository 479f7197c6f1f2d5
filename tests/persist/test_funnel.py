"""What many threads ask of one shard is one version, and each gets its own answer."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from odfabric_persist import state as transitions
from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings, Shard, WriteHandle
from odfabric_persist.errors import (
    Determinate,
    Expired,
    Indeterminate,
    LocationError,
    UpperMismatch,
    UsageError,
)
from odfabric_persist.funnel import Funnel, FunnelLimits
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus, Version
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.unreliable import Fault, Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.machine import folded
from odfabric_persist.rows import DIFF
from odfabric_persist.state import State
from tests.persist.scenario import CODEC, listed, updates_of
from tests.support.waiting import wait_until


class Slow(MemoryConsensus):
    """A register that answers when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        self.asked.set()
        assert self.open.wait(20)
        return super().compare_and_set(key, expected, new)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as made:
        yield made


@pytest.fixture
def consensus() -> Slow:
    return Slow()


@pytest.fixture
def shard(consensus: Slow) -> Shard:
    return opened(MemoryBlob(), consensus)


def opened(blob: Blob, consensus: Consensus, **settings: Any) -> Shard:
    """The shard as one process has it."""
    known = PersistSettings(**settings)
    return PersistClient(blob, consensus, known, now_ms=lambda: 1000, wait=lambda _: None).open("s", CODEC)


def rows_of(*keys: str) -> pa.Table:
    """Rows without times."""
    return pa.table({"key": pa.array(keys, pa.string()), DIFF: pa.array([1] * len(keys), pa.int64())})


def together(
    pool: ThreadPoolExecutor, consensus: Slow, shard: Shard, acts: Sequence[Callable[[], Any]]
) -> list[Future[Any]]:
    """All at once: they come while another command is on its way."""
    writer = shard.open_writer("first")
    consensus.open.clear()
    consensus.asked.clear()
    working = [pool.submit(writer.heartbeat)]
    # Not sooner: a fault that is planned for the next call would be its own.
    assert consensus.asked.wait(20)
    for count, act in enumerate(acts, 1):
        working.append(pool.submit(act))
        wait_until(lambda count=count: shard.machine.funnel.waiting == count, what="a command in the queue")
    consensus.open.set()
    for one in working:
        one.exception(20)
    working[0].result()
    return working[1:]


def test_commands_that_come_together_are_one_version_and_each_has_its_own_outcome(
    pool: ThreadPoolExecutor, consensus: Slow, shard: Shard
) -> None:
    writers = [shard.open_writer(f"w{number}") for number in range(3)]
    reader = shard.open_reader("r")
    before = shard.newest()

    def fail() -> State:
        return shard.machine.apply(lambda _: {}["a mistake"])

    acts = [
        lambda: writers[0].compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="t"),
        lambda: writers[1].compare_and_append(updates_of([["b", 0, 1]]), 0, 1),
        lambda: writers[2].compare_and_append(updates_of([["c", 1, 1]]), 1, 3),
        lambda: writers[0].compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="t"),
        lambda: reader.downgrade_since(2),
        lambda: WriteHandle(shard, "nobody").heartbeat(),
        fail,
    ]
    done = together(pool, consensus, shard, acts)
    assert done[0].result() == 1
    mismatch = done[1].exception()
    assert isinstance(mismatch, UpperMismatch)
    assert mismatch.current == 1, "judged on what those before it made"
    assert done[2].result() == 3
    assert done[3].result() == 3, "the same write again: how far the shard is by then"
    assert done[4].result() == 2
    assert isinstance(done[5].exception(), Expired)
    assert isinstance(done[6].exception(), KeyError)
    after = shard.newest()
    # The first writer of `together` is registered, then its command goes alone.
    assert after.seqno == before.seqno + 3
    assert after.walltime_ms == before.walltime_ms + 3, "time on the wall grows with versions, not with commands"
    assert (after.writers["w0"].last_token, after.upper, after.since) == ("t", 3, 2)
    assert [(batch.lower, batch.upper) for batch in after.batches] == [(0, 1), (1, 3)]
    assert listed(shard.snapshot(2)) == [["a", 2, 1], ["c", 2, 1]]
    replayed = list(shard.machine.states_from(0))
    assert replayed[-1] == after


def test_refusals_alone_make_no_version_and_are_not_judged_on_what_is_old(
    pool: ThreadPoolExecutor, consensus: Slow, shard: Shard
) -> None:
    writer = shard.open_writer("w")
    other = opened(shard.machine.blob, consensus)
    other.machine.newest()
    WriteHandle(shard, "w").compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
    late = WriteHandle(other, "w")
    with pytest.raises(UpperMismatch) as caught:
        late.compare_and_append(updates_of([["b", 5, 1]]), 5, 6)
    assert caught.value.current == 1
    before = shard.newest().seqno
    acts = [lambda: writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)] * 3
    for one in together(pool, consensus, shard, acts):
        assert isinstance(one.exception(), UpperMismatch)
    assert shard.newest().seqno == before + 2


def test_a_group_is_folded_from_one_version_to_the_next() -> None:
    state = State("s", 7, "c", 5000)
    commands = [lambda state, name=name: transitions.open_reader(state, name, now_ms=1000) for name in ("a", "b", "a")]
    after, outcomes = folded(state, commands)
    assert (after.seqno, after.walltime_ms) == (8, 5001)
    assert [reader.seqno for reader in after.readers.values()] == [8, 8]
    assert [one.seqno for one in outcomes if isinstance(one, State)] == [8, 8, 8]
    assert isinstance(outcomes[0], State)
    assert set(outcomes[0].readers) == {"a"}
    assert folded(state, [lambda state: state]) == (state, [state])


def test_what_the_store_does_to_a_group_everybody_in_it_is_told(pool: ThreadPoolExecutor) -> None:
    faults, consensus = Faults(), Slow()
    shard = opened(MemoryBlob(), UnreliableConsensus(consensus, faults), attempts_max=1)
    writer = shard.open_writer("w")

    def lose() -> None:
        faults.next("consensus.compare_and_set", Fault.DETERMINATE)
        writer.heartbeat()

    done = together(pool, consensus, shard, [lose, writer.heartbeat, writer.heartbeat])
    errors = [one.exception() for one in done]
    assert all(isinstance(error, LocationError) for error in errors)
    assert len({id(error) for error in errors}) == 3, "one exception raised in several threads"
    faults.stop()
    writer.heartbeat()


def test_who_is_interrupted_while_it_works_for_others_lets_them_know() -> None:
    started, go = threading.Event(), threading.Event()

    def work(group: Sequence[str]) -> Sequence[str | Exception]:
        if "first" in group:
            started.set()
            assert go.wait(20)
        if "interrupted" in group:
            raise KeyboardInterrupt
        return list(group)

    funnel: Funnel[str, str] = Funnel(work, FunnelLimits(group_max=2))
    with ThreadPoolExecutor(5) as pool:
        first = pool.submit(funnel.ask, "first")
        assert started.wait(20)
        others = []
        for count, asked in enumerate(("interrupted", "with it", "after it"), 1):
            others.append(pool.submit(funnel.ask, asked))
            wait_until(lambda count=count: funnel.waiting == count, what="the queue")
        go.set()
        assert first.result(20) == "first"
        assert isinstance(others[0].exception(20), KeyboardInterrupt)
        assert isinstance(others[1].exception(20), Indeterminate)
        assert others[2].result(20) == "after it"


class Interrupted(BaseException):
    """As a signal raises it."""


@pytest.mark.parametrize("its_turn", [False, True])
def test_who_is_interrupted_while_it_waits_blocks_nobody(its_turn: bool) -> None:
    go, main = threading.Event(), threading.get_ident()

    def work(group: Sequence[str]) -> Sequence[str | Exception]:
        if "first" in group:
            assert go.wait(20)
        return list(group)

    def interrupt(*_: object) -> None:
        if its_turn:
            go.set()
            first.result(20)
        raise Interrupted

    funnel: Funnel[str, str] = Funnel(work, FunnelLimits())
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(3) as pool:
            first = pool.submit(funnel.ask, "first")
            wait_until(lambda: funnel.at_work, what="the first")

            def signal_when_it_waits() -> None:
                wait_until(lambda: funnel.waiting == 1, what="the one that waits")
                signal.pthread_kill(main, signal.SIGUSR1)

            signalling = pool.submit(signal_when_it_waits)
            with pytest.raises(Interrupted):
                funnel.ask("interrupted")
            signalling.result(20)
            go.set()
            assert first.result(20) == "first"
            assert pool.submit(funnel.ask, "next").result(20) == "next"
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_the_queue_and_the_groups_are_bounded(pool: ThreadPoolExecutor) -> None:
    go, groups = threading.Event(), []

    def work(group: Sequence[int]) -> Sequence[int | Exception]:
        assert go.wait(20)
        groups.append(len(group))
        return list(group)

    funnel: Funnel[int, int] = Funnel(work, FunnelLimits(waiting_max=6, wait_s_max=0.05, group_max=2))
    asked = [pool.submit(funnel.ask, number) for number in range(6)]
    wait_until(lambda: funnel.waiting == 5, what="the queue")
    with pytest.raises(Determinate, match="too many"):
        funnel.ask(7)
    go.set()
    assert [one.result(20) for one in asked] == list(range(6))
    assert sum(groups) == 6
    assert max(groups) == 2


def test_rows_of_writers_that_come_together_share_a_time(
    pool: ThreadPoolExecutor, consensus: Slow, shard: Shard
) -> None:
    writers = [shard.open_writer(f"w{number}") for number in range(4)]
    first = shard.open_writer("first")
    consensus.open.clear()
    working = [pool.submit(first.append_next, rows_of("z"), token="t")]
    wait_until(lambda: shard.next_times.funnel.at_work, what="the first rows")
    acts: list[tuple[WriteHandle, pa.Table, str]] = [
        (writers[0], rows_of("a", "b"), "t0"),
        (writers[1], rows_of("a"), "t1"),
        (WriteHandle(shard, "nobody"), rows_of("x"), "t2"),
        (writers[2], rows_of(), "t3"),
        (writers[1], rows_of("a"), "t1"),
    ]
    for count, (writer, rows, token) in enumerate(acts, 1):
        working.append(pool.submit(writer.append_next, rows, token=token))
        wait_until(lambda count=count: shard.next_times.funnel.waiting == count, what="rows in the queue")
    with pytest.raises(UsageError, match="codec-mismatch"):
        writers[3].append_next(pa.table({"other": [1]}))
    before = shard.newest().seqno
    consensus.open.set()
    assert [one.exception(20) is None for one in working] == [True, True, True, False, True, True]
    assert isinstance(working[3].exception(), Expired)
    assert [working[number].result() for number in (0, 1, 2, 4, 5)] == [0, 1, 1, 1, 1]
    state = shard.newest()
    assert state.seqno == before + 2
    assert [state.writers[f"w{number}"].last_token for number in range(3)] == ["t0", "t1", "t3"]
    assert listed(shard.snapshot(1)) == [["a", 1, 2], ["b", 1, 1], ["z", 1, 1]]
    # Who did not hear of it asks again.
    assert writers[0].append_next(rows_of("a", "b"), token="t0") == 1
    assert shard.newest().seqno == state.seqno


def test_nothing_is_written_to_a_closed_shard_and_no_blob_stays_behind() -> None:
    blob = MemoryBlob()
    shard = opened(blob, MemoryConsensus(), limits=BatchLimits(inline_bytes_max=0))
    writer, other = shard.open_writer("w"), opened(blob, shard.machine.consensus)
    assert writer.append_next(rows_of("a")) == 0
    WriteHandle(other, "w").compare_and_append(updates_of([]), 1, None)
    blobs = [entry.key for entry in blob.list("")]
    with pytest.raises(UpperMismatch) as caught:
        writer.append_next(rows_of("b"))
    assert caught.value.current is None
    assert [entry.key for entry in blob.list("")] == blobs


def at_the_next_time(writer: WriteHandle, key: str) -> int:
    return writer.append_next(rows_of(key))


def compared_until_won(writer: WriteHandle, key: str) -> int:
    upper = writer.recent_upper()
    while True:
        assert upper is not None
        try:
            writer.compare_and_append(updates_of([[key, upper, 1]]), upper, upper + 1)
        except UpperMismatch as error:
            upper = error.current
        else:
            return upper


@pytest.mark.parametrize("write", [at_the_next_time, compared_until_won])
def test_threads_of_several_processes_write_each_row_once_under_faults(
    write: Callable[[WriteHandle, str], int], pool: ThreadPoolExecutor
) -> None:
    processes, threads, each = 3, 4, 12
    faults = Faults(seed=5, chance=0.05)
    blob, consensus = MemoryBlob(), MemoryConsensus()
    shards = [
        opened(
            UnreliableBlob(blob, faults),
            UnreliableConsensus(consensus, faults),
            limits=BatchLimits(inline_bytes_max=4096 if number else 0),
            attempts_max=40,
        )
        for number in range(processes)
    ]

    def work(process: int, thread: int) -> list[tuple[str, int]]:
        writer, reader = shards[process].open_writer(), shards[process].open_reader()
        found = []
        for turn in range(each):
            key = f"{process}-{thread}-{turn}"
            found.append((key, write(writer, key)))
            reader.heartbeat()
        reader.expire()
        return found

    working = [pool.submit(work, process, thread) for process in range(processes) for thread in range(threads)]
    told = dict(pair for one in working for pair in one.result(60))
    faults.stop()
    shard = opened(blob, consensus)
    listener, heard = shard.open_reader().listen(0), listed(shard.snapshot(0))
    while (updates := listener.poll()) is not None:
        heard += listed(updates)
    assert {key: time for key, time, _ in heard} == told
    assert [diff for _, _, diff in heard] == [1] * (processes * threads * each)
    assert list(shard.machine.states_from(0))[-1] == shard.newest()


def test_one_look_serves_all_who_asked_before_it_began(pool: ThreadPoolExecutor) -> None:
    class Counting(Slow):
        """Counts looks, which take as long as it is closed."""

        looks = 0

        def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
            Counting.looks += 1
            assert self.open.wait(20)
            return super().scan(key, start, limit)

    consensus = Counting()
    shard = opened(MemoryBlob(), consensus)
    before = Counting.looks
    consensus.open.clear()
    looks = [pool.submit(shard.newest)]
    wait_until(lambda: Counting.looks == before + 1, what="the first look")
    for count in range(1, 6):
        looks.append(pool.submit(shard.newest))
        wait_until(lambda count=count: shard.machine.looks.waiting == count, what="a look in the queue")
    consensus.open.set()
    assert len({one.result(20).seqno for one in looks}) == 1
    assert Counting.looks == before + 2
