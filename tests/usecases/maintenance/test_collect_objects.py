"""The collector: garbage goes, named objects stay, however commits meet it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets import chains as sql_chains
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.head_logs import SqlHeadLogs
from odfabric.adapters.sql.datasets.removed_datasets import SqlRemovedDatasets
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.adapters.sql.outbox import SqlOutbox
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.adapters.unreliable.faults import FaultPlan
from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.references import named_objects
from odfabric.errors import Determinate, External
from odfabric.formats.identifiers.dataset_layout import (
    alias_key,
    block_key,
    checkpoint_key,
    data_key,
    dataset_prefix,
    engine_records_prefix,
    head_key,
    head_log_key,
    head_signature_key,
    in_dataset,
    object_key,
)
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import EngineIdentity
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import AddData
from odfabric.testing.chains import example_slice, physical_hash
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.maintenance import collect_objects
from odfabric.usecases.maintenance.collect_objects import CollectedPortion, LeftAlone
from odfabric.usecases.transform.engine_records import EngineOutcome, record
from tests.support.at_call import AtCall, Meeting
from tests.usecases.manifests import ROOT

T = TypeVar("T")
HOUR_MS = 3600 * 1000


def started(folder: Path, **given: float) -> tuple[MemoryNode, CatalogEntry]:
    """A node with a dataset of two pushes, two days old."""
    memory = MemoryNode(folder, **given)  # type: ignore[arg-type]
    entry = memory.add(ROOT)
    for day in (1, 2):
        memory.finish(pushed(memory, entry, day))
    memory.node.background.relay_outbox()
    memory.clock.advance(48 * HOUR_MS)
    return memory, entry


def pushed(memory: MemoryNode, entry: CatalogEntry, day: int) -> Job:
    body = json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "A"}).encode() + b"\n"
    accepted = memory.node.requests.push(PushData(dataset=entry.id, body=iter([body])))
    assert isinstance(accepted, Job)
    return accepted


def litter(memory: MemoryNode, entry: CatalogEntry, name: str = "lost") -> set[str]:
    """A block, a slice and a checkpoint that nobody names."""
    keys = {make(entry.id, physical_hash(name)) for make in (block_key, data_key, checkpoint_key)}
    for key in keys:
        memory.objects.put_bytes(key, name.encode())
    return keys


def keys(memory: MemoryNode, prefix: str = "") -> set[str]:
    return set(memory.objects.keys(prefix))


def named(memory: MemoryNode, entry: CatalogEntry) -> set[str]:
    """All that the chain is and names."""
    blocks = memory.node.repository.blocks(entry.id)
    found = set()
    for row in memory.node.repository.rows_down(entry.id):
        found.add(block_key(entry.id, row.hash))
        found |= {object_key(entry.id, area, name) for area, name in named_objects(blocks.get(row.hash).event)}
    return found


def collected(memory: MemoryNode, *, dry_run: bool = False) -> set[str]:
    return {one.key for portion in memory.node.objects.collect(dry_run=dry_run) for one in portion.litter}


def test_what_nothing_names_goes_when_it_is_old_enough(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    before = keys(memory)
    lost = litter(memory, entry)
    assert collected(memory) == set()
    memory.clock.advance(24 * HOUR_MS - 1000)
    young = litter(memory, entry, "young")
    assert collected(memory) == set()
    memory.clock.advance(1000)
    assert collected(memory) == lost
    assert keys(memory) == before | young
    assert named(memory, entry) <= before


def test_what_is_recorded_about_a_block_goes_with_it(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    kept, lost = memory.node.repository.head(entry.id).hash, physical_hash("lost")
    for block in (kept, lost):
        for name in ("a", "b"):
            record(entry.id, block, EngineIdentity(name=name), EngineOutcome.MADE, objects=memory.objects)
    lost_records = keys(memory, engine_records_prefix(entry.id, lost))
    assert collected(memory) == set(), "they are young"
    memory.clock.advance(25 * HOUR_MS)
    assert collected(memory) == lost_records
    assert keys(memory, engine_records_prefix(entry.id)) == keys(memory, engine_records_prefix(entry.id, kept))
    assert len(keys(memory, engine_records_prefix(entry.id, kept))) == 2


def test_a_dry_run_tells_and_deletes_nothing(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    lost = litter(memory, entry)
    memory.clock.advance(25 * HOUR_MS)
    before = keys(memory)
    found = [one for portion in memory.node.objects.collect(dry_run=True) for one in portion.litter]
    assert {one.key: one.size for one in found} == dict.fromkeys(lost, len("lost"))
    assert keys(memory) == before


def test_what_is_not_of_the_layout_is_nobodys_business(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    others = {"index/part-1", "staging-of-others/x", in_dataset(entry.id, "proofs/x"), in_dataset(entry.id, "refs/tag")}
    for key in others:
        memory.objects.put_bytes(key, b"x")
    memory.clock.advance(48 * HOUR_MS)
    assert collected(memory) == set()
    assert others <= keys(memory)


def test_an_unfinished_job_keeps_what_is_younger_than_it(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    lost = litter(memory, entry)
    memory.clock.advance(HOUR_MS)
    job = pushed(memory, entry, 3)
    met = litter(memory, entry, "made by the job")
    memory.clock.advance(48 * HOUR_MS)
    assert collected(memory) == lost
    memory.node.jobs.cancel(job.id)
    assert collected(memory) == met


def test_a_deleted_dataset_goes_whole_after_the_lifetime(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    memory.objects.put_bytes(in_dataset(entry.id, "proofs/x"), b"x")
    memory.node.cursors.create(entry, "warehouse", start="now")
    memory.node.datasets.delete(entry)
    memory.node.background.relay_outbox()
    assert memory.node.ports.removed.removed_at(entry.id) is not None
    memory.clock.advance(23 * HOUR_MS)
    assert collected(memory) == set()
    memory.clock.advance(2 * HOUR_MS)
    whole = keys(memory, dataset_prefix(entry.id))
    assert collected(memory) == whole
    assert keys(memory, dataset_prefix(entry.id)) == set()
    assert memory.node.ports.removed.removed_at(entry.id) is None
    assert memory.node.ports.cursors.get(entry.id, "warehouse") is None


def test_a_creation_that_came_to_nothing_goes(tmp_path: Path) -> None:
    memory, _ = started(tmp_path)
    before = keys(memory)
    watch = FaultPlan()
    memory.restart(watch)
    memory.add(ROOT.replace("readings", "second"))
    append = [call.name for call in watch.calls].index("chain.append")
    memory.restart(FaultPlan(lambda number, call: next(iter(call.faults)) if number == append else None))
    with pytest.raises(External):
        memory.add(ROOT.replace("readings", "third"))
    memory.restart()
    second = dataset_prefix(memory.node.datasets.resolve(parse_dataset_alias("second")).id)
    left = {key for key in keys(memory) - before if not key.startswith(second)}
    assert left
    memory.clock.advance(25 * HOUR_MS)
    assert collected(memory) == left


def test_a_published_dataset_that_the_database_does_not_know_is_left_alone(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    litter(memory, entry)
    memory.clock.advance(48 * HOUR_MS)
    before = keys(memory)
    memory.lose_database()
    told = [portion for portion in memory.node.objects.collect(dry_run=False) if portion.dataset is not None]
    assert [(portion.litter, portion.left_alone) for portion in told] == [((), LeftAlone.UNKNOWN_HEAD)]
    memory.node.background.keep_house()
    assert keys(memory) == before
    list(memory.node.objects.rebuild(adopt=False))
    assert len(collected(memory)) == 3


def test_a_database_that_is_behind_collects_nothing(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    backup = memory.store.backup()
    memory.finish(pushed(memory, entry, 3))
    memory.clock.advance(48 * HOUR_MS)
    before = keys(memory)
    memory.use_database(backup)
    told = [portion.left_alone for portion in memory.node.objects.collect(dry_run=False) if portion.dataset is not None]
    assert told == [LeftAlone.OTHER_CHAIN]
    assert keys(memory) == before


def test_a_damaged_chain_is_left_alone_and_the_others_are_looked_at(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    others = [memory.add(ROOT.replace("readings", f"other{number}")) for number in range(4)]
    lost = set().union(*(litter(memory, other) for other in [entry, *others]))
    (row, *_) = memory.node.repository.rows_down(entry.id)
    memory.objects.damage(block_key(entry.id, row.hash))
    memory.clock.advance(48 * HOUR_MS)
    told = {portion.dataset: portion.left_alone for portion in memory.node.objects.collect(dry_run=False)}
    assert {dataset: why for dataset, why in told.items() if why} == {entry.id: LeftAlone.DAMAGED}
    assert keys(memory) & lost == litter(memory, entry)


def refs(entry: CatalogEntry) -> set[str]:
    """Keys that no block names and that stay."""
    return {head_key(entry.id), alias_key(entry.id), head_log_key(entry.id), head_signature_key(entry.id)}


@pytest.fixture
def on_sqlite(tmp_path: Path) -> Iterator[MemoryNode]:
    """A node whose chains are rows of a database, which are read page by page."""
    memory = MemoryNode(tmp_path)
    url = f"sqlite:///{tmp_path}/node.db"
    upgrade(url)
    database = Database(url, busy_s_max=30)
    memory.use_ports(
        chains=SqlChains(database),
        head_logs=SqlHeadLogs(database),
        catalog=SqlCatalog(database),
        jobs=SqlJobs(database),
        outbox=SqlOutbox(database),
        removed=SqlRemovedDatasets(database),
    )
    yield memory
    database.close()


def test_a_dataset_that_is_removed_while_it_is_walked_keeps_no_other_from_being_collected(
    on_sqlite: MemoryNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_chains, "PAGE_ROWS", 2)
    memory = on_sqlite
    entries = [memory.add(ROOT.replace("readings", name)) for name in ("first", "second")]
    for entry in entries:
        for day in (1, 2):
            memory.finish(pushed(memory, entry, day))
    lost = set().union(*(litter(memory, entry) for entry in entries))
    memory.clock.advance(48 * HOUR_MS)
    doomed = min(entries, key=lambda entry: str(entry.id))
    memory.restart(AtCall("before", "object.block.read", lambda: memory.node.datasets.delete(doomed)))
    told = {one.dataset: (len(one.litter), one.left_alone) for one in memory.node.objects.collect(dry_run=False)}
    assert told == {entry.id: (0 if entry is doomed else 3, None) for entry in entries}
    assert keys(memory) & lost == litter(memory, doomed)


def test_a_chain_without_one_of_its_blocks_is_left_alone(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    lost = litter(memory, entry)
    memory.objects.delete(block_key(entry.id, memory.node.datasets.head(entry).hash))
    memory.clock.advance(48 * HOUR_MS)
    assert [one.left_alone for one in memory.node.objects.collect(dry_run=False) if one.dataset] == [LeftAlone.DAMAGED]
    assert lost <= keys(memory)


def test_house_keeping_goes_on_in_portions_and_rests_between_rounds(tmp_path: Path) -> None:
    memory, entry = started(tmp_path)
    lost = {key for number in range(5) for key in litter(memory, entry, f"lost {number}")}
    memory.clock.advance(48 * HOUR_MS)
    memory.use_database(memory.store, collect_portion_max=4)
    everything = len(keys(memory))
    steps = 0
    while keys(memory) & lost:
        memory.node.background.keep_house()
        steps += 1
    assert everything / 4 - 2 <= steps <= everything / 4 + 2
    assert named(memory, entry) <= keys(memory)
    litter(memory, entry)
    memory.clock.advance(30 * 60 * 1000)
    assert [memory.node.background.keep_house() for _ in range(4)] == [0] * 4
    memory.clock.advance(25 * HOUR_MS)
    assert sum(memory.node.background.keep_house() for _ in range(everything)) == 3


class Race:
    """A commit that names an old orphaned slice, and a collector."""

    def __init__(self, folder: Path) -> None:
        self.memory, self.entry = started(folder, lock_wait_s_max=0)
        self.slice = example_slice(2, 1, name="again")
        self.key = data_key(self.entry.id, self.slice.physical_hash)
        # The block of the commit that came to nothing is there too.
        self.base = self.memory.node.datasets.head(self.entry)
        self.memory.objects.put_bytes(self.key, b"rows")
        (block,) = self.build(self.base).blocks
        self.memory.objects.put_bytes(block_key(self.entry.id, block.hash), block.data)
        self.memory.clock.advance(48 * HOUR_MS)

    def build(self, base: Head) -> PlannedCommit:
        """Stores the slice, which is already there, and plans the same block each time."""
        self.memory.objects.put_bytes(self.key, b"rows")
        state = self.memory.node.repository.state(self.entry.id, base.hash)
        last = state.last_data
        assert last is not None
        event = AddData(prev_offset=state.last_offset, new_data=self.slice, new_watermark=last.event.new_watermark)
        return PlannedCommit(tuple(link_blocks(state, [event], system_time=base.system_time)))

    def commit(self) -> None:
        node = self.memory.node
        if node.datasets.head(self.entry).sequence_number == self.base.sequence_number:
            node.commits.commit(self.entry.id, self.build)

    def collect(self) -> list[CollectedPortion]:
        return list(self.memory.node.objects.collect(dry_run=False))

    def check(self) -> None:
        """Nothing that is named is gone.

        After another try and another round, all is there and nothing else.
        """
        memory, entry = self.memory, self.entry
        memory.restart()
        assert named(memory, entry) <= keys(memory)
        self.commit()
        assert self.key in named(memory, entry)
        memory.clock.advance(48 * HOUR_MS)
        self.collect()
        assert keys(memory, dataset_prefix(entry.id)) == named(memory, entry) | refs(entry)


@pytest.mark.parametrize("lost", [None, "block", "slice"])
@pytest.mark.parametrize("blocks", [2, 150])
def test_a_commit_of_any_length_looks_whether_all_is_there(tmp_path: Path, blocks: int, lost: str | None) -> None:
    memory, entry = started(tmp_path)
    head = memory.node.datasets.head(entry)
    _, state = memory.node.repository.current(entry.id)
    slices = [example_slice(number, 1) for number in range(2, 2 + blocks)]
    for one in slices:
        memory.objects.put_bytes(data_key(entry.id, one.physical_hash), b"rows")
    events = [
        AddData(prev_offset=one.offset_interval.start - 1, new_data=one, new_watermark=state.watermark)
        for one in slices
    ]
    planned = PlannedCommit(tuple(link_blocks(state, events, system_time=head.system_time)))
    key = {
        None: "nothing/there",
        "block": block_key(entry.id, planned.blocks[1].hash),
        "slice": data_key(entry.id, slices[1].physical_hash),
    }[lost]
    memory.restart(AtCall("before", "object.other.lock", lambda: memory.objects.delete(key)))
    if lost is None:
        memory.node.commits.commit(entry.id, lambda base: planned)
        assert memory.node.datasets.head(entry).sequence_number == head.sequence_number + blocks
        return
    with pytest.raises(Determinate, match=key):
        memory.node.commits.commit(entry.id, lambda base: planned)
    assert memory.node.datasets.head(entry) == head


def calls_of(folder: Path, verb: Callable[[Race], object]) -> int:
    race = Race(folder)
    meeting = Meeting(-1, lambda: None, after=False)
    race.memory.restart(meeting)
    verb(race)
    return len(meeting.calls)


def test_a_commit_gets_in_between_two_deletions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit gets in between two deletions.

    It waits for a few deletions, not for all, and what it names then is not taken by those that come after it.
    """
    monkeypatch.setattr(collect_objects, "DELETED_AT_ONCE_MAX", 2)
    race = Race(tmp_path)
    memory, entry = race.memory, race.entry
    for number in range(5):
        litter(memory, entry, f"lost {number}")
    memory.clock.advance(48 * HOUR_MS)
    deleted: list[str] = []

    class Watching(Interceptor):
        """At the first deletion the commit cannot be made.

        It is made as soon as nobody holds the lock.
        """

        def __init__(self) -> None:
            self.waiting = self.committed = False

        def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
            if call == "object.other.lock" and self.waiting and not self.committed:
                self.committed = True
                race.commit()
            result = act()
            if call.endswith(".delete"):
                self.waiting = True
                deleted.append(call)
            return result

    watching = Watching()
    memory.restart(watching)
    (found,) = [portion for portion in race.collect() if portion.dataset is not None]
    assert watching.committed
    assert len(found.litter) == len(deleted)
    assert named(memory, entry) <= keys(memory)
    assert race.key in named(memory, entry)
    assert keys(memory, dataset_prefix(entry.id)) == named(memory, entry) | refs(entry)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("outer", "inner"), [(Race.collect, Race.commit), (Race.commit, Race.collect)])
def test_a_commit_and_the_collector_may_meet_anywhere(
    tmp_path: Path, outer: Callable[[Race], object], inner: Callable[[Race], object], after: bool
) -> None:
    refused = 0
    for at in range(calls_of(tmp_path / "watched", outer)):
        race = Race(tmp_path / str(at))

        def meet(race: Race = race) -> None:
            node = race.memory.node
            race.memory.restart()
            try:
                inner(race)
            finally:
                race.memory.node = node

        meeting = Meeting(at, meet, after=after)
        race.memory.restart(meeting)
        try:
            outer(race)
        except Determinate:
            refused += 1
        try:
            race.check()
        except BaseException as error:
            error.add_note(f"{'after' if after else 'before'} call {at}, {meeting.calls[at]}")
            raise
    if inner is Race.collect:
        assert refused, "no commit ever met a collector that had taken its slice"


def test_a_fault_at_any_call_is_mended_by_the_next_round(tmp_path: Path) -> None:
    watch = FaultPlan()
    memory, entry = started(tmp_path / "watched")
    memory.node.datasets.delete(memory.add(ROOT.replace("readings", "doomed")))
    memory.node.background.relay_outbox()
    litter(memory, entry)
    memory.clock.advance(48 * HOUR_MS)
    memory.restart(watch)
    collected(memory)
    memory.restart()
    expected = {key.partition("/")[2] for key in keys(memory, dataset_prefix(entry.id))}
    faults = [(number, fault) for number, call in enumerate(watch.calls) for fault in call.faults]
    for number, fault in faults:
        memory, entry = started(tmp_path / f"{number}-{fault.value}")
        memory.node.datasets.delete(memory.add(ROOT.replace("readings", "doomed")))
        memory.node.background.relay_outbox()
        litter(memory, entry)
        memory.clock.advance(48 * HOUR_MS)
        memory.restart(FaultPlan.single(number, fault))
        with pytest.raises(External):
            collected(memory)
        memory.restart()
        collected(memory)
        assert {key.partition("/")[2] for key in keys(memory)} == expected
        assert memory.node.ports.removed.removed_before(memory.clock.now(), limit=10) == []
