"""Cursors: baseline plus changes equal the chain; redelivery; no silent reset.

The same again until acknowledged, one holder.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from odfabric.adapters.unreliable.faults import FaultPlan
from odfabric.domain.chain.append import link_blocks
from odfabric.errors import (
    AlreadyExists,
    Corrupt,
    InvalidName,
    InvalidRequest,
    LeaseLost,
    LimitExceeded,
    NotFound,
)
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.slices.slice_parquet import SliceWriter
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, new_slice_schema
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.metadata import AddData, MetadataEvent, SetInfo
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.subscriptions.cursor import Cursor, CursorMode
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.testing.conformance.together import outcomes_of_threads
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.chain.store_slice import store_slice
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.state.read_state import ReadState
from tests.support.at_call import AtCall
from tests.usecases.manifests import ROOT

A, R, C_FROM, C_TO = OperationType
VALUES = pa.schema([pa.field("city", pa.string()), pa.field("value", pa.int64())])
SLICE = new_slice_schema(list(VALUES), vocabulary=DatasetVocabulary())

Row = tuple[str | None, int | None]


@dataclass
class Growing:
    """A dataset of any operations, and its state after each block.

    What they add up to, counted one by one.
    """

    memory: MemoryNode
    entry: CatalogEntry
    net: Counter[Row] = field(default_factory=Counter)
    states: dict[int, Counter[Row]] = field(default_factory=dict)
    offset: int = 0

    def commit(self, *changes: tuple[OperationType, Row]) -> Head:
        """A block with these changes."""
        path = self.memory.folder / f"slice-{self.offset}"
        with SliceWriter(path, SLICE) as writer:
            writer.write(self._batch(changes))
        offsets = OffsetRange(self.offset, self.offset + len(changes))
        data = store_slice(self.entry.id, path, offsets, objects=self.memory.objects)
        self.offset += len(changes)
        for operation, row in changes:
            self.net[row] += 1 if operation in (A, C_TO) else -1
        state = self.memory.node.repository.current(self.entry.id)[1]
        return self._append(AddData(prev_offset=state.last_offset, new_data=data, new_watermark=state.watermark))

    def describe(self, text: str) -> Head:
        """A block without data."""
        return self._append(SetInfo(description=text))

    def _append(self, event: MetadataEvent) -> Head:
        def build(base: Head) -> PlannedCommit:
            state = self.memory.node.repository.state(self.entry.id, base.hash)
            return PlannedCommit(tuple(link_blocks(state, [event], system_time=base.system_time)))

        self.memory.node.commits.commit(self.entry.id, build)
        head = self.memory.node.datasets.head(self.entry)
        self.states[head.sequence_number] = Counter({row: count for row, count in self.net.items() if count})
        return head

    def _batch(self, changes: tuple[tuple[OperationType, Row], ...]) -> pa.RecordBatch:
        count = len(changes)
        times = pa.array([0] * count, pa.int64()).cast(TIMESTAMP_TYPE)
        columns = [
            pa.array(range(self.offset, self.offset + count), pa.int64()),
            pa.array([int(operation) for operation, _ in changes], pa.int32()),
            times,
            times,
            pa.array([row[0] for _, row in changes], pa.string()),
            pa.array([row[1] for _, row in changes], pa.int64()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SLICE)

    def wander(self, random: Random, blocks: int) -> None:
        """Random well-formed changes over some blocks, some of them without data."""
        for number in range(blocks):
            if random.random() < 0.2:
                self.describe(f"block {number}")
                continue
            changes: list[tuple[OperationType, Row]] = []
            present = list(self.net.elements())
            for _ in range(random.randrange(1, 8)):
                row: Row = (random.choice(["A", "B", None]), random.choice([1, 2, 3, None]))
                if present and random.random() < 0.5:
                    old = present.pop(random.randrange(len(present)))
                    changes.append((R, old) if random.random() < 0.5 else (C_FROM, old))
                    if changes[-1][0] is C_FROM:
                        changes.append((C_TO, row))
                        present.append(row)
                else:
                    changes.append((A, row))
                    present.append(row)
            self.commit(*changes)


def started(folder: Path, **settings: int) -> Growing:
    """A dataset with its schema, and no rows: one was appended and retracted."""
    memory = MemoryNode(folder)
    memory.use_database(memory.store, **settings)
    entry = memory.add(ROOT)
    body = b'{"event_time": "1970-01-01T00:00:00Z", "city": "first", "value": 0}\n'
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
    memory.finish(job)  # type: ignore[arg-type]
    growing = Growing(memory, entry, net=Counter({("first", 0): 1}), offset=1)
    growing.commit((R, ("first", 0)))
    return growing


@dataclass
class Consumer:
    """Applies what it reads to a relation, as a warehouse would."""

    growing: Growing
    cursor: Cursor
    net: Counter[Row] = field(default_factory=Counter)
    offsets: list[int] = field(default_factory=list)
    events: list[str] = field(default_factory=list)

    @classmethod
    def starting(cls, growing: Growing, start: str, name: str = "warehouse") -> Consumer:
        return cls(growing, growing.memory.node.cursors.create(growing.entry, name, start=start))

    def fetch(self, limit: int | None = None) -> dict[str, Any]:
        verbs = self.growing.memory.node.cursors
        fetched = verbs.fetch(self.growing.entry, self.cursor.consumer, fence=self.cursor.fence, limit=limit)
        return fetched.to_value()

    def acknowledge(self, position: str) -> Cursor:
        verbs = self.growing.memory.node.cursors
        return verbs.acknowledge(self.growing.entry, self.cursor.consumer, fence=self.cursor.fence, position=position)

    def catch_up(self, random: Random | None = None) -> None:
        """Read all there is, in portions of any size; sometimes twice."""
        while True:
            limit = random.choice([1, 2, 5, None]) if random else None
            fetched = self.fetch(limit)
            if fetched["event"] is None:
                return
            if random and random.random() < 0.3:
                again = self.fetch(limit)
                assert json.dumps(again["event"]) == json.dumps(fetched["event"])
                assert again["position"] == fetched["position"]
            self.apply(fetched["event"])
            self.acknowledge(fetched["position"])
            if random and random.random() < 0.2:
                self.acknowledge(fetched["position"])

    def apply(self, event: dict[str, Any]) -> None:
        self.events.append(event["id"])
        for row in event["rows"]:
            value = (row["city"], row["value"])
            if event["kind"] == "baseline":
                self.net[value] += 1
            else:
                self.offsets.append(row["offset"])
                self.net[value] += 1 if row["op"] in ("append", "correct_to") else -1

    @property
    def rows(self) -> Counter[Row]:
        return Counter({row: count for row, count in self.net.items() if count})


@pytest.mark.parametrize("seed", range(4))
def test_a_baseline_and_the_changes_after_it_are_the_chain_whatever_the_block(tmp_path: Path, seed: int) -> None:
    random, growing = Random(seed), started(tmp_path)
    consumers: list[Consumer] = []
    for number in range(6):
        growing.wander(random, 2)
        for start in ("baseline", "start", "now"):
            consumer = Consumer.starting(growing, start, f"{start}-{number}")
            if start == "now":
                consumer.net = Counter(growing.net)
            if random.random() < 0.5:
                consumer.catch_up(random)
                assert consumer.rows == growing.states[growing.memory.node.datasets.head(growing.entry).sequence_number]
            consumers.append(consumer)
    for consumer in consumers:
        consumer.catch_up(random)
        assert consumer.rows == Counter({row: count for row, count in growing.net.items() if count})
        assert len(set(consumer.events)) == len(consumer.events)
        # Without a gap and without a repetition.
        assert consumer.offsets == list(range(growing.offset - len(consumer.offsets), growing.offset))
        assert consumer.fetch()["event"] is None


def test_from_a_block_on(tmp_path: Path) -> None:
    growing = started(tmp_path)
    block = growing.commit((A, ("A", 1)))
    growing.commit((A, ("B", 2)))
    consumer = Consumer.starting(growing, str(block.hash))
    event = consumer.fetch()["event"]
    assert [(row["op"], row["city"], row["offset"]) for row in event["rows"]] == [("append", "B", 3)]
    head = growing.memory.node.datasets.head(growing.entry)
    assert (event["kind"], event["block"], event["sequence"], event["last"]) == (
        "changes",
        str(head.hash),
        head.sequence_number,
        True,
    )


def test_operations_are_words_and_a_portion_stays_within_a_block(tmp_path: Path) -> None:
    growing = started(tmp_path)
    consumer = Consumer.starting(growing, "now")
    growing.commit((A, ("A", 1)), (C_FROM, ("A", 1)), (C_TO, ("A", 2)), (R, ("A", 2)))
    growing.commit((A, ("B", 1)))
    first = consumer.fetch(limit=3)
    assert [row["op"] for row in first["event"]["rows"]] == ["append", "correct_from", "correct_to"]
    assert first["event"]["last"] is False
    consumer.acknowledge(first["position"])
    second = consumer.fetch(limit=3)
    assert [row["op"] for row in second["event"]["rows"]] == ["retract"]
    assert second["event"]["last"] is True
    assert second["event"]["block"] == first["event"]["block"]


def test_a_large_slice_is_read_once_for_many_portions(tmp_path: Path) -> None:
    growing = started(tmp_path)
    growing.commit(*((A, ("A", number)) for number in range(100)))
    growing.commit(*((A, ("B", number)) for number in range(100)))
    watch = FaultPlan()
    growing.memory.restart(watch)
    for name in ("one", "other"):
        consumer = Consumer.starting(growing, "start", name)
        while (fetched := consumer.fetch(limit=10))["event"]:
            consumer.apply(fetched["event"])
            consumer.acknowledge(fetched["position"])
        assert consumer.offsets == list(range(growing.offset))
    # Small slices, which take one portion, are read again by the other consumer.
    assert sum(call.name == "object.data.read" for call in watch.calls) == 4 + 2


def test_rows_are_bounded_by_bytes_too_but_one_is_given(tmp_path: Path) -> None:
    growing = started(tmp_path, fetch_bytes_max=400)
    consumer = Consumer.starting(growing, "now")
    growing.commit(*((A, ("x" * 100, number)) for number in range(4)), (A, ("y" * 1000, 9)))
    sizes = []
    while (fetched := consumer.fetch())["event"]:
        sizes.append(len(fetched["event"]["rows"]))
        consumer.acknowledge(fetched["position"])
    assert sizes == [1, 1, 1, 1, 1]
    consumer = Consumer.starting(growing, "baseline", "other")
    assert len(consumer.fetch()["event"]["rows"]) == 2


def test_a_baseline_does_not_move_with_the_head(tmp_path: Path) -> None:
    growing = started(tmp_path)
    growing.commit(*((A, ("A", number)) for number in range(5)))
    consumer = Consumer.starting(growing, "baseline")
    first = consumer.fetch(limit=2)
    growing.commit((R, ("A", 0)), (A, ("B", 7)))
    growing.memory.restart()
    assert consumer.fetch(limit=2)["event"] == first["event"]
    consumer.apply(first["event"])
    consumer.acknowledge(first["position"])
    consumer.catch_up()
    assert consumer.rows == growing.states[growing.memory.node.datasets.head(growing.entry).sequence_number]


def test_an_empty_baseline_says_so_once(tmp_path: Path) -> None:
    growing = started(tmp_path)
    consumer = Consumer.starting(growing, "baseline")
    told = consumer.fetch()
    assert (told["event"]["rows"], told["event"]["last"]) == ([], True)
    assert consumer.acknowledge(told["position"]).position.mode is CursorMode.LISTEN
    assert consumer.fetch()["event"] is None


def test_a_dataset_that_never_had_data_has_an_empty_baseline(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    consumer = Consumer.starting(Growing(memory, memory.add(ROOT)), "baseline")
    told = consumer.fetch()
    assert (told["event"]["rows"], told["event"]["last"]) == ([], True)


def test_acknowledging_twice_or_late_changes_nothing(tmp_path: Path) -> None:
    growing = started(tmp_path)
    consumer = Consumer.starting(growing, "now")
    growing.commit((A, ("A", 1)))
    growing.commit((A, ("B", 1)))
    positions = []
    for _ in range(2):
        fetched = consumer.fetch()
        positions.append(fetched["position"])
        consumer.acknowledge(fetched["position"])
    for position in reversed(positions):
        assert str(consumer.acknowledge(position).position) == positions[-1]


@pytest.mark.parametrize("wrong", ["", "nonsense", "listen.0.0.f1620", "listen.1.0.zzz", "x" * 10_000])
def test_positions_are_read_strictly(tmp_path: Path, wrong: str) -> None:
    consumer = Consumer.starting(started(tmp_path), "now")
    with pytest.raises(InvalidRequest):
        consumer.acknowledge(wrong)


def test_places_that_the_chain_does_not_have_are_refused(tmp_path: Path) -> None:
    growing = started(tmp_path)
    head = growing.commit((A, ("A", 1)))
    consumer = Consumer.starting(growing, "baseline")
    number = head.sequence_number
    for wrong in (
        f"listen.{number}.0.{head.hash}",
        f"listen.{number + 1}.1.{head.hash}",
        f"listen.{number + 9}.0.{head.hash}",
        f"listen.{10**30}.0.{head.hash}",
    ):
        with pytest.raises(InvalidRequest):
            consumer.acknowledge(wrong)
    beyond = consumer.acknowledge(f"baseline.{number + 1}.7.{head.hash}")
    assert beyond.position.next_row == 7
    told = consumer.fetch()
    assert (told["event"]["rows"], told["event"]["last"]) == ([], True)
    assert consumer.acknowledge(f"listen.{number + 1}.0.{head.hash}").position.mode is CursorMode.LISTEN


def test_two_consumers_never_read_with_one_cursor(tmp_path: Path) -> None:
    growing = started(tmp_path)
    growing.commit((A, ("A", 1)))
    old = Consumer.starting(growing, "start")
    fetched = old.fetch()
    verbs, clock = growing.memory.node.cursors, growing.memory.clock
    with pytest.raises(LeaseLost, match="held by another"):
        verbs.claim(growing.entry, "warehouse", fence=None)
    clock.advance(61_000)
    new = Consumer(growing, verbs.claim(growing.entry, "warehouse", fence=None))
    assert new.fetch()["event"] == fetched["event"]
    for stale in (old.fetch, lambda: old.acknowledge(fetched["position"])):
        with pytest.raises(LeaseLost) as refused:
            stale()
        assert "claim it" in str(refused.value)
    new.acknowledge(fetched["position"])
    with pytest.raises(LeaseLost):
        verbs.claim(growing.entry, "warehouse", fence=old.cursor.fence)
    handed_over = verbs.claim(growing.entry, "warehouse", fence=new.cursor.fence)
    assert handed_over.position == verbs.get(growing.entry, "warehouse").position


def test_of_many_who_claim_exactly_one_reads(tmp_path: Path) -> None:
    growing = started(tmp_path)
    cursor = Consumer.starting(growing, "start").cursor
    verbs = growing.memory.node.cursors

    def claim_and_read(number: int) -> str:
        held = verbs.claim(growing.entry, "warehouse", fence=cursor.fence)
        return verbs.fetch(growing.entry, "warehouse", fence=held.fence).cursor.fence

    outcomes = outcomes_of_threads(claim_and_read)
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 1


def test_a_sign_of_life_keeps_the_cursor(tmp_path: Path) -> None:
    growing = started(tmp_path)
    consumer = Consumer.starting(growing, "now")
    for _ in range(3):
        growing.memory.clock.advance(50_000)
        consumer.fetch()
    with pytest.raises(LeaseLost):
        growing.memory.node.cursors.claim(growing.entry, "warehouse", fence=None)


def test_a_dead_consumer_holds_nothing_back(tmp_path: Path) -> None:
    growing = started(tmp_path)
    Consumer.starting(growing, "start")
    before = len(list(growing.memory.objects.keys("")))
    growing.memory.clock.advance(1000 * 3600 * 1000)
    for portion in growing.memory.node.objects.collect(dry_run=False):
        assert portion.litter == ()
    assert len(list(growing.memory.objects.keys(""))) == before


def test_a_chain_made_anew_is_told_and_never_passed_over(tmp_path: Path) -> None:
    growing = started(tmp_path)
    kept = growing.commit((A, ("A", 1)))
    backup = growing.memory.store.backup()
    growing.commit((A, ("gone", 1)))
    consumer = Consumer.starting(growing, "start")
    consumer.catch_up()
    cursors = growing.memory.node.ports.cursors
    growing.memory.use_database(backup, cursors=cursors)
    growing.offset -= 1
    growing.net[("gone", 1)] -= 1
    growing.commit((A, ("B", 2)))
    growing.commit((A, ("C", 3)))
    told = consumer.fetch()
    head = growing.memory.node.datasets.head(growing.entry)
    assert {name: told["event"][name] for name in ("kind", "toEpoch", "commonAncestor")} == {
        "kind": "reset",
        "toEpoch": str(head.hash),
        "commonAncestor": str(kept.hash),
    }
    assert consumer.fetch()["event"] == told["event"]
    consumer.net.clear()
    consumer.acknowledge(told["position"])
    consumer.catch_up()
    assert consumer.rows == growing.states[head.sequence_number]


@pytest.mark.parametrize("call", ["chain.head", "chain.rows_down", "object.block.read"])
def test_a_chain_made_anew_while_it_is_read_is_told_too(tmp_path: Path, call: str) -> None:
    growing = started(tmp_path)
    memory = growing.memory
    growing.commit((A, ("A", 1)))
    without = memory.store.backup().datasets[growing.entry.id]
    growing.commit((A, ("gone", 1)))
    consumer = Consumer.starting(growing, "now")
    growing.commit((A, ("gone too", 2)))

    def make_anew() -> None:
        memory.store.datasets[growing.entry.id] = without
        growing.offset -= 2
        for number in range(3):
            growing.commit((A, ("B", number)))

    memory.restart(AtCall("before", call, make_anew))
    assert consumer.fetch()["event"]["kind"] == "reset"


def test_what_cannot_be_made(tmp_path: Path) -> None:
    growing = started(tmp_path, cursors_per_dataset_max=2, fetch_rows_max=10)
    verbs = growing.memory.node.cursors
    consumer = Consumer.starting(growing, "now", "a.b-c_D")
    for name in ("", "a b", "../x", "-a", "x" * 101, "ä"):
        with pytest.raises(InvalidName):
            verbs.create(growing.entry, name, start="now")
    for start in ("", "later", "f1620"):
        with pytest.raises(InvalidRequest):
            verbs.create(growing.entry, "other", start=start)
    with pytest.raises(NotFound):
        verbs.create(growing.entry, "other", start=f"f1620{'0' * 64}")
    with pytest.raises(AlreadyExists):
        verbs.create(growing.entry, "a.b-c_D", start="now")
    Consumer.starting(growing, "now", "second")
    with pytest.raises(LimitExceeded, match="cursors_per_dataset_max"):
        verbs.create(growing.entry, "third", start="now")
    with pytest.raises(LimitExceeded, match="fetch_rows_max"):
        consumer.fetch(11)
    with pytest.raises(InvalidRequest):
        consumer.fetch(0)
    assert consumer.fetch(10)["event"] is None
    verbs.delete(growing.entry, "second")
    with pytest.raises(NotFound):
        verbs.delete(growing.entry, "second")
    assert [cursor.consumer for cursor in verbs.list(growing.entry)] == ["a.b-c_D"]


def test_a_baseline_has_a_limit_that_is_named(tmp_path: Path) -> None:
    growing = started(tmp_path, state_rows_max=3)
    growing.commit(*((A, ("A", number)) for number in range(3)))
    assert len(Consumer.starting(growing, "baseline", "three").fetch()["event"]["rows"]) == 3
    growing.commit((A, ("A", 3)))
    with pytest.raises(LimitExceeded, match="state_rows_max"):
        Consumer.starting(growing, "baseline", "four").fetch()


def test_a_damaged_slice_is_told(tmp_path: Path) -> None:
    growing = started(tmp_path)
    growing.commit((A, ("A", 1)))
    _, state = growing.memory.node.repository.current(growing.entry.id)
    assert state.last_data is not None
    assert state.last_data.event.new_data is not None
    growing.memory.objects.damage(data_key(growing.entry.id, state.last_data.event.new_data.physical_hash))
    for start in ("start", "baseline"):
        consumer = Consumer.starting(growing, start, start)
        with pytest.raises(Corrupt):
            consumer.catch_up()


def test_rows_with_nested_values_have_a_state_and_a_baseline(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    item = "{kind: Option, inner: {kind: List, itemType: {kind: Option, inner: String}}}"
    entry = memory.add(ROOT.replace("{kind: Option, inner: Int64}", item))
    for tags in ('["x", null]', "null", '["x", null]', "[]"):
        body = f'{{"event_time": "1970-01-01T00:00:00Z", "city": "A", "value": {tags}}}\n'.encode()
        job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
        memory.finish(job)  # type: ignore[arg-type]
    expected = sorted(map(repr, (["x", None], None, ["x", None], [])))
    state = memory.node.rows.state(entry, ReadState(limit=10))
    assert sorted(repr(row["value"]) for row in state["data"]) == expected  # type: ignore[attr-defined]
    told = Consumer.starting(Growing(memory, entry), "baseline").fetch()
    assert sorted(repr(row["value"]) for row in told["event"]["rows"]) == expected
