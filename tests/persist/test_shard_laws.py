"""A shard under clients, faults, compaction, collection, against a plain list.

The nine invariants of a shard (ADR 0014): tiling, definiteness, monotony, nothing named is gone, the oldest version
has a rollup, every acknowledged append is visible exactly once, replay equals rollup, and others make progress.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from odfabric_persist import state as transitions
from odfabric_persist.batch import BatchLimits, write_batch
from odfabric_persist.client import Listener, PersistClient, PersistSettings, ReadHandle, Shard, WriteHandle
from odfabric_persist.collect import maintain
from odfabric_persist.compact import apply, compact
from odfabric_persist.encoding import decode_rollup, encode_rollup
from odfabric_persist.errors import Corrupt, NotYet, SinceError, UpperMismatch, UsageError
from odfabric_persist.keys import PART, ROLLUP
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.unreliable import Fault, Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.maintenance import MaintenanceLimits, is_due
from odfabric_persist.merge import MergeLimits
from odfabric_persist.rows import RowCodec
from odfabric_persist.tiers import FanOut
from tests.persist.scenario import CODEC, listed, updates_of

CLIENTS = 3
READERS = 2
KEYS = st.sampled_from(["a", "b", "c"])


class ShardMachine(RuleBasedStateMachine):
    """Every rule changes the shard and the model, then both must show the same."""

    @initialize(seed=st.integers(0, 2**16), inline=st.booleans(), chance=st.sampled_from([0.0, 0.1, 0.3]))
    def begin(self, seed: int, inline: bool, chance: float) -> None:
        self.blob, self.consensus = MemoryBlob(), MemoryConsensus()
        self.faults = Faults(seed=seed, chance=chance)
        self.limits = BatchLimits(part_rows=2, inline_bytes_max=4096 if inline else 0)
        merge = MergeLimits(rows_max=4, runs_max=2)
        self.limits_of_maintenance = MaintenanceLimits(rollup_every=8, fan_out=FanOut(fresh=3, above=2), merge=merge)
        self.model: list[list[Any]] = []
        self.elsewhere: dict[str, list[list[Any]]] = {}
        self.upper = 0
        self.seen: tuple[int, int, int] = (0, 0, 0)
        self.shards = [self.open() for _ in range(CLIENTS)]
        for number, shard in enumerate(self.shards):
            shard.open_writer(f"w{number}")
        self.readers = [self.shards[number].open_reader(f"r{number}") for number in range(READERS)]
        self.listener = Listener(self.shards[0], 1)
        self.heard: list[list[Any]] = []

    def open(self) -> Shard:
        client = PersistClient(
            UnreliableBlob(self.blob, self.faults),
            UnreliableConsensus(self.consensus, self.faults),
            # So many attempts that patience never ends: what is lost on purpose must not fail a rule.
            PersistSettings(limits=self.limits, attempts_max=200, maintenance=self.limits_of_maintenance),
            now_ms=lambda: 0,
            wait=lambda _: None,
        )
        return client.open("s", CODEC, resolve=lambda name: updates_of(self.elsewhere[name]))

    @rule(
        who=st.integers(0, CLIENTS - 1),
        rows=st.lists(st.tuples(KEYS, st.integers(0, 3), st.sampled_from([1, 1, 2, -1])), max_size=5),
        length=st.integers(1, 4),
    )
    def append(self, who: int, rows: list[tuple[str, int, int]], length: int) -> None:
        updates = [[key, self.upper + min(later, length - 1), diff] for key, later, diff in rows]
        writer, upper = WriteHandle(self.shards[who], f"w{who}"), self.upper + length
        assert writer.compare_and_append(updates_of(updates), self.upper, upper) == upper
        self.model += updates
        self.upper = upper

    @rule(
        who=st.integers(0, CLIENTS - 1),
        rows=st.lists(st.lists(st.tuples(KEYS, st.sampled_from([1, 2, -1])), max_size=4), min_size=1, max_size=3),
    )
    def append_references(self, who: int, rows: list[list[tuple[str, int]]]) -> None:
        references = []
        for later, one in enumerate(rows):
            name = f"block-{self.upper + later}"
            self.elsewhere[name] = [[key, self.upper + later, diff] for key, diff in one]
            references.append((name, len(one)))
        writer, upper = WriteHandle(self.shards[who], f"w{who}"), self.upper + len(rows)
        assert writer.append_references(references, self.upper, upper) == upper
        self.model += [row for name, _ in references for row in self.elsewhere[name]]
        self.upper = upper

    @rule(
        who=st.integers(0, CLIENTS - 1),
        key=KEYS,
        back=st.integers(0, 5),
        length=st.integers(0, 3),
    )
    def append_alike(self, who: int, key: str, back: int, length: int) -> None:
        """As replicas do: from an earlier time, all written since, and perhaps more."""
        lower, upper = max(0, self.upper - back), self.upper + length
        new = [[key, self.upper, 1]] if length else []
        known = [row for row in self.model if row[1] >= lower]
        writer = WriteHandle(self.shards[who], f"w{who}")
        assert writer.append(updates_of([*known, *new] if lower < upper else []), lower, upper) == upper
        self.model += new
        self.upper = upper

    @precondition(lambda self: self.upper > 0)
    @rule(who=st.integers(0, CLIENTS - 1), back=st.integers(1, 5))
    def append_too_late(self, who: int, back: int) -> None:
        expected = max(0, self.upper - back)
        writer = WriteHandle(self.shards[who], f"w{who}")
        with pytest.raises(UpperMismatch) as caught:
            writer.compare_and_append(updates_of([["late", expected, 1]]), expected, expected + 1)
        assert caught.value.current == self.upper

    @rule(who=st.integers(0, READERS - 1), since=st.integers(0, 40))
    def downgrade(self, who: int, since: int) -> None:
        # The first reader holds for the listener.
        wanted = min(since, (self.listener.frontier or 1) - 1) if who == 0 else since
        reader = ReadHandle(self.shards[who], f"r{who}", 0)
        assert reader.downgrade_since(wanted) == max(wanted, self.readers[who].since or 0)
        self.readers[who].since = max(wanted, self.readers[who].since or 0)

    @rule(who=st.integers(0, CLIENTS - 1), start=st.integers(0, 10), count=st.integers(1, 5))
    def compact(self, who: int, start: int, count: int) -> None:
        shard = self.shards[who]
        state = shard.newest()
        inputs = state.batches[start % len(state.batches) :][:count] if state.batches else ()
        if not inputs:
            return
        limits = MergeLimits(rows_max=self.upper % 7 + 1, runs_max=2)
        output = compact(shard.parts, inputs, inputs[0].lower, inputs[-1].upper, state.since, limits=limits)
        names = tuple(batch.id for batch in inputs)
        after = shard.machine.apply(lambda state: transitions.apply_merge(state, names, output, now_ms=0))
        assert output in after.batches

    @rule(who=st.integers(0, CLIENTS - 1))
    def maintain(self, who: int) -> None:
        maintain(self.shards[who].machine)

    @rule(who=st.integers(0, CLIENTS - 1))
    def do_what_is_due(self, who: int) -> None:
        shard = self.shards[who]
        done = shard.maintain()
        for as_of in range(max(self.since, self.upper - 10), self.upper):
            assert listed(shard.snapshot(as_of)) == self.expected(as_of)
        assert not done.claimed_by, "a claim was left behind"
        assert not is_due(shard.newest(), self.limits_of_maintenance) or self.held

    @property
    def held(self) -> bool:
        """Whether a reader keeps old versions, which may be removed only later."""
        state = self.shards[0].newest()
        return state.held_seqno < state.seqno

    @rule(who=st.integers(0, CLIENTS - 1))
    def restart(self, who: int) -> None:
        self.shards[who] = self.open()
        if who == 0:
            self.listener.shard = self.shards[0]

    @rule(who=st.integers(0, CLIENTS - 1), as_of=st.integers(0, 60), portions=st.integers(1, 4))
    def snapshot(self, who: int, as_of: int, portions: int) -> None:
        shard, since = self.shards[who], self.shards[who].newest().since
        assert since == self.since
        if as_of < since:
            with pytest.raises(SinceError):
                shard.snapshot(as_of)
        elif as_of >= self.upper:
            with pytest.raises(NotYet):
                shard.snapshot(as_of)
        else:
            wanted = self.expected(as_of)
            assert listed(shard.snapshot(as_of)) == wanted
            chunks = list(shard.snapshot_chunks(as_of, portions))
            assert all(0 < chunk.num_rows <= portions for chunk in chunks)
            assert [row for chunk in chunks for row in listed(chunk)] == wanted
            splits = shard.snapshot_splits(as_of, portions)
            assert len(splits) == portions
            fetched = pa.concat_tables([self.shards[-1].fetch_split(split) for split in splits])
            assert listed(CODEC.consolidated(fetched)) == wanted

    @rule()
    def listen(self) -> None:
        while (updates := self.listener.poll()) is not None:
            self.heard += listed(updates)
        assert self.listener.frontier == max(self.upper, 1)
        assert self.net(self.heard) == self.net([row for row in self.model if row[1] >= 1])

    @property
    def since(self) -> int:
        return max(0, min(reader.since or 0 for reader in self.readers))

    def expected(self, as_of: int) -> list[list[Any]]:
        net = self.net([[key, as_of, diff] for key, time, diff in self.model if time <= as_of])
        return sorted([key, time, diff] for (key, time), diff in net.items())

    @staticmethod
    def net(rows: list[list[Any]]) -> dict[tuple[str, int], int]:
        found: Counter[tuple[str, int]] = Counter()
        for key, time, diff in rows:
            found[key, time] += diff
        return {key: diff for key, diff in found.items() if diff}

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "shards"):
            return
        state = self.shards[-1].newest()
        bounds = [bound for batch in state.batches for bound in (batch.lower, batch.upper)]
        assert [0, *bounds, self.upper][::2] == [0, *bounds, self.upper][1::2], "batches do not tile"
        now = (state.since or 0, state.upper or 0, state.seqno)
        assert all(before <= after for before, after in zip(self.seen, now, strict=True)), "something went back"
        self.seen = now
        present = {entry.key for entry in self.blob.list("")}
        assert state.blob_keys <= present, "a blob that the newest version names is gone"
        replayed = list(self.shards[-1].machine.states_from(0))
        assert replayed[0].seqno in state.rollups, "the oldest version has no rollup"
        assert replayed[-1] == state == decode_rollup(encode_rollup(state))
        named = {key for one in replayed for key in one.blob_keys if ROLLUP not in key}
        assert named <= present, "a part that a live version names is gone"


TestShard = ShardMachine.TestCase
TestShard.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def shard(faults: Faults) -> Shard:
    client = PersistClient(
        UnreliableBlob(MemoryBlob(), faults),
        UnreliableConsensus(MemoryConsensus(), faults),
        PersistSettings(limits=BatchLimits(inline_bytes_max=0)),
        now_ms=lambda: 0,
        wait=lambda _: None,
    )
    return client.open("s", CODEC)


@pytest.mark.parametrize("fault", list(Fault))
def test_an_accepted_command_is_one_version_whatever_happens_to_the_answer(
    shard: Shard, faults: Faults, fault: Fault
) -> None:
    reader = shard.open_reader()
    before = shard.newest().seqno
    faults.next("consensus.compare_and_set", fault)
    reader.downgrade_since(3)
    assert shard.newest().seqno == before + 1


def test_a_repeated_token_is_the_same_write(shard: Shard) -> None:
    writer = shard.open_writer()
    assert writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="t") == 1
    before = shard.newest().seqno
    assert writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="t") == 1
    assert (shard.newest().seqno, listed(shard.snapshot(0))) == (before, [["a", 0, 1]])
    assert writer.compare_and_append(updates_of([]), 1, 2) == 2
    with pytest.raises(UpperMismatch):
        writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="t")


def test_an_outcome_that_nobody_can_know_any_more_is_said_to_be_so(shard: Shard) -> None:
    writer = shard.open_writer()
    writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1, token="lost")
    writer.compare_and_append(updates_of([]), 1, 5)
    batch = write_batch(shard.parts, updates_of([["a", 0, 1]]), 0, 1)
    with pytest.raises(UsageError, match="undecidable"):
        writer.append_batches([batch], 0, 1, token="lost", previous_unknown=True)


def test_what_nobody_needs_any_more_is_removed(shard: Shard) -> None:
    writer = shard.open_writer()
    reader = shard.open_reader()
    for upper in range(1, 9):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    reader.downgrade_since(7)
    state = shard.newest()
    output = compact(shard.parts, state.batches, 0, 8, 7)
    names = tuple(batch.id for batch in state.batches)
    shard.machine.apply(lambda state: transitions.apply_merge(state, names, output, now_ms=0))
    reader.downgrade_since(7)
    for _ in range(10):
        found = maintain(shard.machine)
        reader.downgrade_since(7)
    keys = {entry.key for entry in shard.machine.blob.list("")}
    assert {key for key in keys if PART in key} == output.blob_keys
    # A rollup leaves the state first and the store a cycle or two later.
    assert len([key for key in keys if ROLLUP in key]) <= 4
    assert found.truncated is not None
    assert listed(shard.snapshot(7)) == [["a", 7, 8]]


def test_what_was_accepted_after_all_and_merged_since_is_not_removed(shard: Shard) -> None:
    writer, reader = shard.open_writer(), shard.open_reader()
    writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
    writer.compare_and_append(updates_of([["b", 1, 1]]), 1, 2)
    reader.downgrade_since(0)
    portion = shard.snapshot_splits(1, 1)
    accepted = shard.newest().batches[0]
    merge_all(shard, 0)
    shard.parts.discard(accepted)
    assert listed(shard.fetch_split(portion[0])) == [["a", 1, 1], ["b", 1, 1]]


def test_a_late_merge_and_a_merge_of_what_was_merged_change_nothing(shard: Shard) -> None:
    writer = shard.open_writer()
    for upper in range(1, 4):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    first, second, third = shard.newest().batches
    merged = compact(shard.parts, [first, second], 0, 2, 0)
    for attempt in range(2):
        before = shard.newest().seqno
        command = partial(transitions.apply_merge, inputs=(first.id, second.id), output=merged, now_ms=0)
        shard.machine.apply(command)
        assert shard.newest().seqno == before + 1 - attempt
    late = compact(shard.parts, [second, third], 1, 3, 0)
    shard.machine.apply(partial(transitions.apply_merge, inputs=(second.id, third.id), output=late, now_ms=0))
    assert [batch.id for batch in shard.newest().batches] == [merged.id, third.id]


def test_a_merge_of_which_one_input_is_gone_changes_nothing(shard: Shard) -> None:
    writer = shard.open_writer()
    for upper in range(1, 4):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    first, second, third = shard.newest().batches
    late = compact(shard.parts, [first, second], 0, 2, 0)
    merged = compact(shard.parts, [second, third], 1, 3, 0)
    for inputs, output in (((second, third), merged), ((first, second), late)):
        names = tuple(batch.id for batch in inputs)
        shard.machine.apply(partial(transitions.apply_merge, inputs=names, output=output, now_ms=0))
    assert [batch.id for batch in shard.newest().batches] == [first.id, merged.id]


def test_a_merge_that_moved_times_beyond_the_since_is_of_no_use(shard: Shard) -> None:
    writer, reader = shard.open_writer(), shard.open_reader()
    for upper in range(1, 3):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    batches = shard.newest().batches
    early = compact(shard.parts, batches, 0, 2, 1)
    assert not apply(shard.parts, batches, early)
    assert {entry.key for entry in shard.machine.blob.list("")}.isdisjoint(early.blob_keys)
    reader.downgrade_since(1)
    assert apply(shard.parts, batches, compact(shard.parts, batches, 0, 2, 1))
    assert listed(shard.snapshot(1)) == [["a", 1, 2]]


def merge_all(shard: Shard, since: int) -> None:
    """Everything in one batch."""
    batches = shard.newest().batches
    output = compact(shard.parts, batches, 0, batches[-1].upper, since)
    names = tuple(batch.id for batch in batches)
    shard.machine.apply(partial(transitions.apply_merge, inputs=names, output=output, now_ms=0))


def test_portions_can_be_fetched_while_their_reader_holds_the_version(shard: Shard) -> None:
    writer, reader = shard.open_writer(), shard.open_reader()
    for upper in range(1, 5):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    reader.downgrade_since(0)
    splits = shard.snapshot_splits(3, 2)
    merge_all(shard, 0)
    for _ in range(4):
        maintain(shard.machine)
    assert sum(shard.fetch_split(split).column("persist_diff")[0].as_py() for split in splits) == 4
    for _ in range(4):
        reader.downgrade_since(0)
        maintain(shard.machine)
    with pytest.raises(Corrupt, match="is gone"):
        shard.fetch_split(splits[0])


def test_a_collection_removes_all_that_it_may(shard: Shard) -> None:
    writer = shard.open_writer()
    for upper in range(1, 5):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    merge_all(shard, 0)
    assert maintain(shard.machine).parts == 4


def test_who_looked_away_while_versions_were_collected_catches_up(shard: Shard) -> None:
    other = PersistClient(shard.machine.blob, shard.machine.consensus, wait=lambda _: None).open("s", CODEC)
    writer = shard.open_writer()
    for upper in range(1, 5):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
        maintain(shard.machine)
    assert other.newest() == shard.newest()
    assert listed(other.snapshot(3)) == [["a", 3, 4]]


def test_a_listener_whose_times_were_moved_is_told(shard: Shard) -> None:
    writer, reader = shard.open_writer(), shard.open_reader()
    for upper in range(1, 4):
        writer.compare_and_append(updates_of([["a", upper - 1, 1]]), upper - 1, upper)
    listener = reader.listen(0)
    reader.downgrade_since(2)
    batches = shard.newest().batches
    merged = compact(shard.parts, batches, 0, 3, 2)
    names = tuple(batch.id for batch in batches)
    shard.machine.apply(lambda state: transitions.apply_merge(state, names, merged, now_ms=0))
    with pytest.raises(SinceError) as caught:
        listener.poll()
    assert caught.value.since == 2


def test_damage_is_refused_by_name(shard: Shard) -> None:
    writer = shard.open_writer()
    writer.compare_and_append(updates_of([["a", 0, 1]]), 0, 1)
    (key,) = shard.newest().batches[0].blob_keys
    data = shard.machine.blob.get(key)
    assert data is not None
    shard.machine.blob.set(key, data[:40] + bytes([data[40] ^ 1]) + data[41:])
    with pytest.raises(Corrupt, match="not what was written"):
        shard.snapshot(0)
    shard.machine.blob.delete(key)
    with pytest.raises(Corrupt, match="is gone"):
        shard.snapshot(0)
    newer = encode_rollup(shard.newest()).replace(b'"format":1', b'"format":2')
    with pytest.raises(Corrupt, match="newer"):
        decode_rollup(newer)
    with pytest.raises(Corrupt, match="damaged"):
        decode_rollup(b'{"format":1}')


def test_floats_are_told_apart_by_their_bits() -> None:
    codec = RowCodec(pa.schema([pa.field("f", pa.float64()), pa.field("n", pa.int32())]), ("n",))
    nan = float("nan")
    rows = pa.table(
        {
            "f": [0.0, -0.0, nan, nan, None, None, 0.0],
            "n": pa.array([1, 1, 1, 1, None, None, 1], pa.int32()),
            "persist_time": [0] * 7,
            "persist_diff": [1, 1, 1, -1, 1, 1, -1],
        }
    )
    found = codec.consolidated(codec.updates(rows)).to_pylist()
    assert [(repr(row["f"]), row["n"], row["persist_diff"]) for row in found] == [("-0.0", 1, 1), ("None", None, 2)]
