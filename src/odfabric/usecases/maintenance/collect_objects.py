"""Collect objects that no chain names.

Blocks, slices and checkpoints of commits that came to nothing, and objects of deleted datasets.

Invariant: nothing that a chain names is deleted, however commits and the collector meet. An object goes only when it is older than the
lifetime and than every unfinished job; the last look at the chain and the deletion hold the dataset's lock, under which a commit
looks whether all that it names is still there (`usecases.chain.commit`). A dataset whose `refs/head` the database cannot explain is left
alone and reported: that is for `usecases.maintenance.rebuild`. Not here: uploads (`usecases.ingestion.staging`). Source: ADR 0019; ADR 0003.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import groupby, islice

from odfabric.domain.chain.references import named_objects
from odfabric.errors import Corrupt, InvalidName, NotFound
from odfabric.formats.identifiers.dataset_layout import (
    BLOCKS,
    CHECKPOINTS,
    DATA,
    ENGINES,
    block_key,
    collector_lock,
    dataset_of_key,
    dataset_prefix,
    engine_records_prefix,
    has_no_head,
    head_key,
    object_key,
    parse_ref,
)
from odfabric.model.commit import BlockRow, Head
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.removed_datasets import RemovedDatasets
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.usecases.chain.repository import Repository

UNFINISHED_JOBS_MAX = 100_000
REMOVED_AT_ONCE_MAX = 1000
CURSORS_AT_ONCE_MAX = 100_000
DELETED_AT_ONCE_MAX = 100
"""Objects that are deleted while commits to the dataset wait."""
_DATA_EVENTS = frozenset({"AddData", "ExecuteTransform"})


class LeftAlone(Enum):
    """Why a dataset is not touched, for people."""

    UNKNOWN_HEAD = "it has a published head, but the database does not know it: `odf system rebuild` takes it back"
    DAMAGED = "its chain cannot be read: `odf verify` tells where"
    OTHER_CHAIN = "its published head is not in the chain of the database: see `odf system rebuild`"


@dataclass(frozen=True, slots=True)
class Litter:
    """An object that nothing names, and its size in bytes."""

    key: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedPortion:
    """A portion of a dataset's objects (None: of none): number seen, what was deleted."""

    dataset: DatasetId | None
    looked_at: int
    litter: tuple[Litter, ...] = ()
    left_alone: LeftAlone | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectPorts:
    """What a collection works with.

    `portion_max` is how many names of objects are in memory at once.
    """

    repository: Repository
    removed: RemovedDatasets
    cursors: Cursors
    jobs: Jobs
    clock: Clock
    lifetime_s: float
    portion_max: int

    @property
    def objects(self) -> ObjectStore:
        """Where the objects are."""
        return self.repository.objects


def collect_objects(*, ports: CollectPorts, dry_run: bool) -> Iterator[CollectedPortion]:
    """One round over all objects, portion by portion.

    With `dry_run` nothing is deleted, only reported.

    May be left at any portion and begun again. Raises Determinate or Indeterminate.
    """
    oldest_kept = _oldest_kept(ports)
    if oldest_kept is None:
        return
    for folder, keys in groupby(ports.objects.keys(""), key=lambda key: key.partition("/")[0]):
        dataset = dataset_of_key(f"{folder}/")
        while portion := list(islice(keys, ports.portion_max)):
            if dataset is None:
                yield CollectedPortion(dataset=None, looked_at=len(portion))
            else:
                yield _Collecting(dataset, ports, oldest_kept, dry_run).run(portion)
    if not dry_run:
        _forget_collected(ports, oldest_kept)


def _oldest_kept(ports: CollectPorts) -> Instant | None:
    """Objects from this moment on are kept.

    A job that is not finished may still commit what it wrote or met.
    """
    now = ports.clock.now()
    unfinished = ports.jobs.page(unfinished_only=True, limit=UNFINISHED_JOBS_MAX)
    if len(unfinished) == UNFINISHED_JOBS_MAX:
        return None
    aged = Instant(now.epoch_ns - int(ports.lifetime_s * NANOS_PER_SECOND))
    return min([aged, *(job.created_at for job in unfinished)])


def _forget_collected(ports: CollectPorts, oldest_kept: Instant) -> None:
    for dataset in ports.removed.removed_before(oldest_kept, limit=REMOVED_AT_ONCE_MAX):
        if all(key == head_key(dataset) for key in ports.objects.keys(dataset_prefix(dataset))):
            for cursor in ports.cursors.of_dataset(dataset, limit=CURSORS_AT_ONCE_MAX):
                ports.cursors.delete(dataset, cursor.consumer)
            ports.removed.forget(dataset)


class _Collecting:
    """Some objects of one dataset."""

    def __init__(self, dataset: DatasetId, ports: CollectPorts, oldest_kept: Instant, dry_run: bool) -> None:
        self._dataset = dataset
        self._ports = ports
        self._oldest_kept = oldest_kept
        self._dry_run = dry_run
        self._chains = ports.repository.chains
        self._litter: list[Litter] = []

    def run(self, keys: Sequence[str]) -> CollectedPortion:
        """Find what is litter among `keys`, and delete it."""
        head = self._chains.head(self._dataset)
        left_alone = self._left_alone(head)
        try:
            if left_alone is None and head is None:
                self._of_unknown(keys)
            elif left_alone is None and head is not None:
                self._of_chain(head, keys)
        except Corrupt:
            left_alone = LeftAlone.DAMAGED
        except NotFound:
            # Removed while it was walked: what it leaves is for a later round. Otherwise one of its blocks is missing.
            still_there = head is not None and self._chains.contains(self._dataset, head.hash)
            left_alone = LeftAlone.DAMAGED if still_there else None
        return CollectedPortion(
            dataset=self._dataset, looked_at=len(keys), litter=tuple(self._litter), left_alone=left_alone
        )

    def _left_alone(self, head: Head | None) -> LeftAlone | None:
        published = self._ports.objects.read_ref(head_key(self._dataset))
        if published is None or has_no_head(published):
            return None
        if head is None:
            return LeftAlone.UNKNOWN_HEAD
        try:
            known = self._chains.contains(self._dataset, parse_ref(published))
        except InvalidName:
            known = False
        return None if known else LeftAlone.OTHER_CHAIN

    def _of_chain(self, head: Head, keys: Sequence[str]) -> None:
        areas = tuple(f"{dataset_prefix(self._dataset)}{area}/" for area in (BLOCKS, DATA, CHECKPOINTS, ENGINES))
        unnamed = {key for key in keys if key.startswith(areas)}
        self._without_named(unnamed, self._chains.rows_down(self._dataset))
        looked_at = head

        def look_again(unnamed: set[str]) -> bool:
            nonlocal looked_at
            if not self._chains.contains(self._dataset, looked_at.hash):
                return False  # removed meanwhile, and perhaps made again
            rows = list(self._rows_after(looked_at))
            if rows:
                self._without_named(unnamed, rows)
                looked_at = Head(rows[0].hash, rows[0].sequence_number, rows[0].system_time)
            return True

        self._take(self._aged(unnamed), look_again)

    def _of_unknown(self, keys: Sequence[str]) -> None:
        """A dataset that was deleted, or one whose creation came to nothing."""
        marked = self._ports.removed.removed_at(self._dataset)
        # What says that a dataset was removed stays where it is reported by that (`adapters.object_heads`).
        others = [key for key in keys if key != head_key(self._dataset)]
        litter = self._aged(others) if marked is None or marked < self._oldest_kept else ()

        def look_again(_: set[str]) -> bool:
            unknown = self._chains.head(self._dataset) is None
            return unknown and has_no_head(self._ports.objects.read_ref(head_key(self._dataset)))

        self._take(litter, look_again)

    def _take(self, litter: Sequence[Litter], look_again: Callable[[set[str]], bool]) -> None:
        """Delete what was found, a few objects at a time, for commits wait meanwhile.

        Before each few `look_again` takes out of the keys what is named now, or says that all of them stay.
        """
        if self._dry_run:
            self._litter.extend(litter)
            return
        unnamed = {one.key for one in litter}
        for first in range(0, len(litter), DELETED_AT_ONCE_MAX):
            with self._ports.objects.exclusive(collector_lock(self._dataset)):
                if not look_again(unnamed):
                    return
                for one in litter[first : first + DELETED_AT_ONCE_MAX]:
                    if one.key in unnamed:
                        self._ports.objects.delete(one.key)
                        self._litter.append(one)

    def _rows_after(self, head: Head) -> Iterator[BlockRow]:
        for row in self._chains.rows_down(self._dataset):
            if row.sequence_number <= head.sequence_number:
                return
            yield row

    def _without_named(self, keys: set[str], rows: Iterable[BlockRow]) -> None:
        """Take out of `keys` what the blocks are and name.

        Raises Corrupt if one of them cannot be read.
        """
        blocks = self._ports.repository.blocks(self._dataset)
        engines = engine_records_prefix(self._dataset)
        # Those about one block are few, and their names begin with its name.
        records: dict[str, list[str]] = {}
        for key in keys:
            if key.startswith(engines):
                records.setdefault(f"{key.rsplit('/', 2)[0]}/", []).append(key)
        for row in rows:
            if not keys:
                return
            keys.discard(block_key(self._dataset, row.hash))
            keys.difference_update(records.get(engine_records_prefix(self._dataset, row.hash), ()))
            if row.event_type in _DATA_EVENTS:
                for area, name in named_objects(blocks.get(row.hash).event):
                    keys.discard(object_key(self._dataset, area, name))

    def _aged(self, keys: Iterable[str]) -> list[Litter]:
        found = []
        for key in sorted(keys):
            stat = self._ports.objects.stat(key)
            if stat is not None and stat.modified_at < self._oldest_kept:
                found.append(Litter(key, stat.size))
        return found


class Collection:
    """Rounds of collecting in steps, with rests, as a worker's background duty.

    Its only memory is where it is.
    """

    def __init__(self, ports: CollectPorts, *, rest_s: float) -> None:
        self._ports = ports
        self._rest_ns = int(rest_s * NANOS_PER_SECOND)
        self._round: Iterator[CollectedPortion] | None = None
        self._resting_until = Instant(0)

    def step(self) -> int:
        """Look at about as many objects as one portion holds; how many were deleted."""
        now = self._ports.clock.now()
        if self._round is None:
            if now < self._resting_until:
                return 0
            self._round = collect_objects(ports=self._ports, dry_run=False)
            self._resting_until = Instant(now.epoch_ns + self._rest_ns)
        looked_at = deleted = 0
        going, self._round = self._round, None
        for portion in going:
            looked_at += portion.looked_at
            deleted += len(portion.litter)
            if looked_at >= self._ports.portion_max:
                self._round = going
                break
        return deleted
