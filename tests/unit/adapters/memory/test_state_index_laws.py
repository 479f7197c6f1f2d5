"""Law of current-state indexes: a readable state is the sum of its slices.

Anyone who brings one forward and whatever is compacted and collected meanwhile, a state that can be read is what the
slices up to its block add up to."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.adapters.persist.index_tiers import IndexLimits
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.errors import Corrupt, External, NotFound, OdfError
from odfabric.model.state_index import IndexDefinition, IndexMode
from odfabric.testing.changelogs import Changelog, rows_of, well_formed
from odfabric.testing.conformance.examples import NOW
from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import PersistClient, PersistSettings
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from tests.support.turns import todays

Scratch: TypeAlias = Callable[[], AbstractContextManager[Path]]

WORKERS = 3
KEYS = (None, "a", "b", "c", "d")
VALUES = (None, 0.0, -0.0, 1.5, float("inf"), float("nan"))
"""A key of which the wished value is NaN goes away."""

wishes = st.lists(st.tuples(st.sampled_from(KEYS), st.sampled_from(VALUES)), min_size=1, max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("block"), wishes),
        st.tuples(st.just("extend"), st.integers(0, WORKERS - 1), st.integers(1, 9)),
        st.tuples(st.just("maintain"), st.integers(0, WORKERS - 1), st.integers(0, 12)),
        st.tuples(st.just("read"), st.integers(0, WORKERS - 1)),
    ),
    min_size=5,
    max_size=60,
)


@dataclass
class Workers:
    """Processes with an own copy of everything, on one location that sometimes fails."""

    folder: Path
    mode: IndexMode
    chance: float
    rows_at_once_max: int = 2_000_000
    present: dict[str | None, float | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changelog = Changelog(MemoryObjectStore(SettableClock(NOW)), self.folder)
        blob, consensus = MemoryBlob(), MemoryConsensus()
        self.faults = Faults(seed=1, chance=self.chance)
        scratch = MemoryExchange(self.folder / "scratch").session
        self.clients: list[PersistClient] = []
        self.indexes = [self.worker(blob, consensus, scratch) for _ in range(WORKERS)]

    def worker(
        self, blob: MemoryBlob, consensus: MemoryConsensus, scratch: Scratch, *, faults: Faults | None = None
    ) -> PersistStateIndex:
        """A process on a location."""
        faults = faults or self.faults
        client = PersistClient(
            UnreliableBlob(blob, faults),
            UnreliableConsensus(consensus, faults),
            PersistSettings(limits=BatchLimits(part_rows=3, inline_bytes_max=0)),
            wait=lambda _: None,
        )
        self.clients.append(client)
        limits = IndexLimits(tail_slices_max=2, rollup_versions=3, rows_at_once_max=self.rows_at_once_max)
        return PersistStateIndex(lambda: client, self.changelog.objects, scratch, limits)

    @property
    def definition(self) -> IndexDefinition:
        return self.changelog.definition(self.mode)

    def run(self, listed: list[tuple[object, ...]]) -> None:
        for step in listed:
            with suppress(External):  # whether it happened or not, everybody goes on
                self._do(step)

    def _do(self, step: tuple[object, ...]) -> None:
        match step:
            case ("block", list() as given):
                changes = well_formed(given, self.present)
                if changes:
                    self.changelog.add(*changes, blocks_before=len(given) % 2)
            case ("extend", int() as worker, int() as count):
                self.extend(worker, count)
            case ("maintain", int() as worker, int() as behind):
                frontier = self.indexes[worker].frontier(self.definition)
                if frontier is not None:
                    self.indexes[worker].maintain(self.definition, since=frontier.upper - behind)
            case ("read", int() as worker):
                self.check(worker)

    def check(self, worker: int, *, only_newest: bool = False) -> None:
        """Every state that can be read, or the newest, as one worker sees it."""
        index = self.indexes[worker]
        frontier = index.frontier(self.definition)
        if frontier is None:
            return
        assert frontier.violation is None
        for number in range(frontier.upper - 1 if only_newest else frontier.since, frontier.upper):
            assert rows_of(index.rows_at(self.definition, number)) == self.changelog.net(number, self.mode), number

    def extend(self, worker: int, count: int) -> None:
        """Take in that many data blocks that are not in yet, as this worker sees it."""
        index = self.indexes[worker]
        frontier = index.frontier(self.definition)
        upper = 0 if frontier is None else frontier.upper
        pending = [one for one in self.changelog.slices if one.sequence_number >= upper]
        index.extend(self.definition, pending[:count])


@contextmanager
def workers(mode: IndexMode, *, chance: float = 0.0, rows_at_once_max: int = 2_000_000) -> Iterator[Workers]:
    with tempfile.TemporaryDirectory() as folder:
        yield Workers(Path(folder), mode, chance, rows_at_once_max)


@settings(max_examples=int(os.environ.get("ODF_INDEX_CASES", "30")), deadline=None)
@given(
    listed=steps,
    mode=st.sampled_from(IndexMode),
    chance=st.sampled_from([0.0, 0.02]),
    rows_at_once_max=st.sampled_from([5, 2_000_000]),
)
def test_a_state_is_what_the_slices_add_up_to(
    listed: list[tuple[object, ...]], mode: IndexMode, chance: float, rows_at_once_max: int
) -> None:
    with workers(mode, chance=chance, rows_at_once_max=rows_at_once_max) as found:
        found.run(listed)
        found.faults.stop()
        found.extend(0, 99)
        for worker in range(WORKERS):
            found.check(worker)
        frontier = found.indexes[1].frontier(found.definition)
        last = found.changelog.slices[-1].sequence_number if found.changelog.slices else -1
        assert frontier is None or frontier.upper == last + 1


class Hooked(MemoryBlob):
    """Does something else once, just before a value is read."""

    def __init__(self) -> None:
        super().__init__()
        self.hook: Callable[[], object] | None = None

    def get(self, key: str) -> bytes | None:
        hook, self.hook = self.hook, None
        if hook is not None:
            hook()
        return super().get(key)


def test_what_is_collected_while_it_is_read_is_read_again_elsewhere() -> None:
    with workers(IndexMode.STATE) as found:
        blob, consensus = Hooked(), MemoryConsensus()
        scratch = MemoryExchange(found.folder / "reading").session
        reader, other = (found.worker(blob, consensus, scratch) for _ in range(2))
        found.indexes = [reader, other]
        found.run([("block", [(key, 1.0) for key in "abcd"]), ("extend", 0, 1), ("maintain", 0, 0)])

        def replace_and_collect() -> None:
            for number in range(8):
                found.run([("block", [("a", float(number) + 2)]), ("extend", 1, 9), ("maintain", 1, 0)])

        last = found.changelog.slices[-1].sequence_number
        parts = {entry.key for entry in blob.list("")}
        found.run([("block", [("b", 5.0)]), ("extend", 0, 1)])
        blob.hook = replace_and_collect
        with pytest.raises(NotFound):
            list(reader.rows_at(found.definition, last))
        assert not parts & {entry.key for entry in blob.list("")}, "nothing was collected"
        found.check(0)


def test_work_on_what_others_made_one_and_collected_meanwhile_is_for_nothing() -> None:
    with workers(IndexMode.STATE) as found:
        blob, consensus = Hooked(), MemoryConsensus()
        scratch = MemoryExchange(found.folder / "working").session
        found.indexes = [found.worker(blob, consensus, scratch) for _ in range(2)]
        found.run([("block", [(key, 1.0) for key in "abcd"]), ("extend", 0, 1), ("maintain", 0, 0)])
        parts = {entry.key for entry in blob.list("")}
        found.run([("block", [(key, 2.0) for key in "abcd"]), ("extend", 0, 1)])

        def be_first() -> None:
            for number in range(8):
                found.run([("block", [("a", float(number) + 2)]), ("extend", 1, 9), ("maintain", 1, 0)])

        blob.hook = be_first
        after = found.indexes[0].maintain(found.definition, since=0)
        assert not parts & {entry.key for entry in blob.list("")}, "nothing was collected"
        assert after == found.indexes[1].frontier(found.definition)
        found.check(0)


class Overtaken:
    """Two workers. Before call number `before` of the first one the second goes first.

    It takes in all there is, merges and collects; with `drops` it drops the index, and makes it again from the beginning or not.
    """

    def __init__(self, found: Workers, before: int, *, drops: bool = False, makes_again: bool = False) -> None:
        self.found, self.before, self.calls = found, before, -1
        self.drops, self.makes_again = drops, makes_again
        blob, consensus = MemoryBlob(), MemoryConsensus()
        scratch = MemoryExchange(found.folder / "working").session
        watched = Faults(wait=lambda _: self._call())
        found.indexes = [found.worker(blob, consensus, scratch, faults=one) for one in (watched, Faults())]
        found.run([("block", [(key, 1.0) for key in "abcd"]), ("extend", 0, 1), ("maintain", 0, 0)])
        found.run([*[("block", [(key, 2.0)]) for key in "abcd"], ("extend", 0, 4)])
        self.last = found.changelog.slices[-1].sequence_number
        found.run([("block", [("a", 3.0)])])
        self.calls = 0

    def _call(self) -> None:
        self.calls += self.calls >= 0
        if self.calls == self.before and not self.drops:
            for number in range(4):
                self.found.run([("block", [("a", float(number) + 4)]), ("extend", 1, 9), ("maintain", 1, 0)])
        elif self.calls == self.before:
            self.found.indexes[1].drop(self.found.definition.dataset)
            if self.makes_again:
                self.found.run([("extend", 1, 3)])

    def act(self, name: str) -> None:
        """Something the first worker does.

        What was true when it began, or is now, may be reported.
        """
        index, definition = self.found.indexes[0], self.found.definition
        match name:
            case "extend":
                assert index.extend(definition, self.found.changelog.slices).upper > self.last
            case "maintain":
                assert index.maintain(definition, since=self.last).upper > self.last
            case "frontier":
                frontier = index.frontier(definition)
                assert frontier is not None
                assert frontier.upper > self.last
            case "rows_at":
                with suppress(NotFound):
                    assert rows_of(index.rows_at(definition, self.last)) == self.found.changelog.net(self.last)
            case "drop":
                assert index.drop(definition.dataset) == 1

    def work_on(self, name: str) -> None:
        """What somebody does who has looked how far the index is."""
        index, definition = self.found.indexes[0], self.found.definition
        match name:
            case "extend":
                assert index.extend(definition, self.found.changelog.slices[-1:]).upper > self.last
            case "maintain":
                index.maintain(definition, since=self.last)
            case "rows_at":
                with suppress(NotFound):
                    assert rows_of(index.rows_at(definition, self.last)) == self.found.changelog.net(self.last)


@pytest.mark.parametrize(
    ("act", "rows_at_once_max"),
    todays(
        [
            ("extend", 2_000_000),
            ("maintain", 3),
            ("frontier", 3),
            ("rows_at", 3),
            ("rows_at", 2_000_000),
            ("drop", 2_000_000),
        ],
        parts=3,
    ),
)
def test_who_is_overtaken_before_any_call_tells_nothing_wrong(act: str, rows_at_once_max: int) -> None:
    for before in range(1, 100):
        with workers(IndexMode.STATE, rows_at_once_max=rows_at_once_max) as found:
            place = Overtaken(found, before)
            place.act(act)
            if place.calls < before:
                break
            found.extend(1, 99)
            for worker in range(2):
                found.check(worker, only_newest=True)
    assert 1 < before < 99


@pytest.mark.parametrize(
    ("act", "rows_at_once_max", "makes_again"),
    todays(
        [("extend", 2_000_000, False), ("extend", 3, True), ("maintain", 2_000_000, False), ("rows_at", 3, True)],
        parts=2,
    ),
)
def test_what_is_dropped_under_work_has_no_hole(act: str, rows_at_once_max: int, makes_again: bool) -> None:
    for before in range(1, 100):
        with workers(IndexMode.STATE, rows_at_once_max=rows_at_once_max) as found:
            place = Overtaken(found, before, drops=True, makes_again=makes_again)
            with suppress(External):  # it hears that it was dropped
                place.work_on(act)
            if place.calls < before:
                break
            for worker in range(2):
                found.check(worker, only_newest=True)
            if not makes_again:
                assert found.indexes[1].frontier(found.definition) is None, "nobody asked for it"
    assert 1 < before < 99


def test_parts_that_are_gone_though_nobody_was_first_are_told() -> None:
    with workers(IndexMode.STATE) as found:
        blob = Hooked()
        found.indexes = [found.worker(blob, MemoryConsensus(), MemoryExchange(found.folder / "working").session)]
        found.run([("block", [(key, 1.0) for key in "abcd"]), ("extend", 0, 1), ("maintain", 0, 0)])
        (part, *_) = (entry.key for entry in blob.list(""))
        found.run([("block", [(key, 2.0) for key in "abcd"]), ("extend", 0, 1)])
        blob.hook = lambda: blob.delete(part)
        with pytest.raises(Corrupt, match="is gone"):
            found.indexes[0].maintain(found.definition, since=0)


def test_a_reader_that_died_holds_history_for_the_time_of_its_lease_only() -> None:
    with workers(IndexMode.STATE) as found:
        client, index = found.clients[0], found.indexes[0]
        found.run([("block", [("a", 1.0)]), ("block", [("b", 1.0)]), ("extend", 0, 9)])
        (name,) = client.consensus.keys()
        upper = index.maintain(found.definition, since=0).upper
        shard = next(iter(client._shards.values()))
        assert shard.machine.shard == name
        shard.open_reader("died")
        assert index.maintain(found.definition, since=upper - 1).since == 0
        client.now_ms = shard.machine.now_ms = lambda: 1 << 50
        found.run([("block", [("c", 1.0)]), ("extend", 0, 9)])
        assert index.maintain(found.definition, since=upper).since == upper


def test_an_index_that_forgets_a_row_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = PersistStateIndex._changes

    def forgetful(index: PersistStateIndex, *given: object) -> object:
        changes = honest(index, *given)  # type: ignore[arg-type]
        values = changes.rows.column("value").combine_chunks()
        rows = changes.rows.set_column(2, "value", pa.array([*values.to_pylist()[:-1], 7.0]))
        return type(changes)(rows, changes.diffs, changes.offsets)

    monkeypatch.setattr(PersistStateIndex, "_changes", forgetful)
    with workers(IndexMode.STATE) as found, pytest.raises((AssertionError, OdfError)):
        found.run([("block", [("a", 1.0), ("b", 2.0)]), ("extend", 0, 1), ("read", 1)])


def test_work_of_a_worker_that_is_behind_is_for_nothing() -> None:
    with workers(IndexMode.STATE) as found:
        for number in range(8):
            found.run([("block", [("a", float(number)), (f"k{number}"[-1], 1.0)])])
        late = found.indexes[1]
        late.extend(found.definition, found.changelog.slices[:4])
        found.run([("extend", 0, 99), *[("maintain", 0, 0)] * 6])
        assert late.extend(found.definition, found.changelog.slices[:6]) == found.indexes[0].frontier(found.definition)
        found.check(1)
