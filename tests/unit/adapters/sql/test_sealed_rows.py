"""Sealed keys on their way from an intent to a row, during a rotation.

This happens where heads of record lie in objects that nodes share.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.adapters.sealed.rows import SealedIntents, sealed_chains
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.datasets.commit_intents import SqlCommitIntents
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import External
from odfabric.model.commit import CommitIntent
from odfabric.ports.node.sealing import dataset_key_context
from odfabric.testing.conformance.examples import GrowingChain, entry_of
from odfabric.usecases.maintenance.rotate_key import RotatedKey, rotate_key
from tests.support.chains.object_heads import BlocksStoredFirst

PRIVATE = bytes(range(32))
FLIGHTS = entry_of("flights")
CONTEXT = dataset_key_context(FLIGHTS.id)


@dataclass
class SharedPlace:
    """Database, objects and key file of a node that shares its objects."""

    folder: Path
    database: Database
    objects: FolderObjectStore

    def sealing(self) -> KeyFileSealing:
        return KeyFileSealing(self.folder / "node.key", entropy=SystemEntropy(), wait_s_max=5.0)

    def process(self, plan: FaultPlan | None = None, after_read: Callable[[], object] = lambda: None) -> GrowingChain:
        """A new process of the node that is about to make a dataset.

        `after_read` happens when it has read the intents.
        """
        plan, sealing = plan or FaultPlan(), self.sealing()
        self.intents = _Noticing(plan.intents(SealedIntents(SqlCommitIntents(self.database), sealing)), after_read)
        self.chains = ObjectHeadChains(
            local=plan.chains(sealed_chains(SqlChains(self.database), sealing)),
            catalog=SqlCatalog(self.database),
            intents=self.intents,
            objects=self.objects,
            block_bytes_max=1 << 20,
            blocks_max=1000,
        )
        entry = replace(FLIGHTS, sealed_key=sealing.seal(PRIVATE, context=CONTEXT))
        return GrowingChain(BlocksStoredFirst(self.chains, self.objects), entry)  # type: ignore[arg-type]

    def rotate(self) -> RotatedKey:
        sealing = self.sealing()
        return rotate_key(sealed_stores(self.database), sealing=sealing, rotation=sealing, portion_max=10)

    def settle(self) -> None:
        """What the next process does when it starts."""
        for intent in self.intents.all():
            self.chains.settle(intent)

    def check(self) -> None:
        """The dataset has its key, sealed by the node's key, and no intent is left."""
        entry = SqlCatalog(self.database).by_id(FLIGHTS.id)
        assert entry is not None
        assert entry.sealed_key is not None
        assert entry.sealed_key.startswith(self.sealing().mark())
        assert self.sealing().open(entry.sealed_key, context=CONTEXT) == PRIVATE
        assert SqlCommitIntents(self.database).all() == []


class _Noticing:
    """Intents with something that happens after they were read."""

    def __init__(self, intents: object, after_read: Callable[[], object]) -> None:
        self._intents = intents
        self._after_read = after_read

    def all(self) -> Sequence[CommitIntent]:
        found = self._intents.all()  # type: ignore[attr-defined]
        self._after_read()
        return found  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> object:
        return getattr(self._intents, name)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[SharedPlace]:
    upgrade(f"sqlite:///{tmp_path}/node.db")
    database = Database(f"sqlite:///{tmp_path}/node.db")
    yield SharedPlace(tmp_path, database, FolderObjectStore(tmp_path / "objects"))
    database.close()


def numbers_of(name: str, place: SharedPlace) -> list[int]:
    """Which calls of the making of a dataset have this name."""
    plan = FaultPlan()
    place.process(plan).grow()
    return [number for number, call in enumerate(plan.calls) if call.name == name]


@pytest.mark.parametrize(
    ("name", "fault"),
    [("intent.add", Fault.AFTER), ("chain.append", Fault.BEFORE), ("chain.append", Fault.AFTER)],
)
def test_a_commit_that_was_interrupted_is_carried_out_after_a_rotation(
    tmp_path: Path, place: SharedPlace, name: str, fault: Fault
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    upgrade(f"sqlite:///{other}/node.db")
    elsewhere = SharedPlace(other, Database(f"sqlite:///{other}/node.db"), FolderObjectStore(other / "objects"))
    (number,) = numbers_of(name, elsewhere)
    elsewhere.database.close()
    with pytest.raises(External):
        place.process(FaultPlan.single(number, fault)).grow()
    assert len(SqlCommitIntents(place.database).all()) == 1
    done = place.rotate()
    assert done.sealed["dataset keys of commits under way"] == 1
    assert done.keys_dropped == 1
    place.process()
    place.settle()
    place.check()


def test_a_commit_that_is_carried_out_while_the_key_is_rotated_is_stored_under_the_new_key(place: SharedPlace) -> None:
    """A process has read the intent, then the old key goes, then it writes the row."""
    with pytest.raises(External):
        place.process(FaultPlan(lambda at, call: Fault.BEFORE if call.name == "chain.append" else None)).grow()
    dropped: list[int] = []
    place.process(after_read=lambda: dropped.append(place.rotate().keys_dropped))
    place.settle()
    assert dropped[0] == 1
    place.check()


def test_a_commit_by_another_process_is_found_whole_by_following(place: SharedPlace) -> None:
    """Following finds another process's commit whole, with its key.

    Its head is published, its rows are missing: a reader of the head brings them.
    """
    with pytest.raises(External):
        place.process(FaultPlan(lambda at, call: Fault.BEFORE if call.name == "chain.append" else None)).grow()
    place.rotate()
    place.process()
    assert place.chains.head(FLIGHTS.id) is not None
    place.check()


def test_objects_that_nodes_share_hold_no_sealed_key(place: SharedPlace) -> None:
    place.process().grow()
    place.check()
    entry = SqlCatalog(place.database).by_id(FLIGHTS.id)
    assert entry is not None
    assert entry.sealed_key is not None
    sealed = entry.sealed_key
    files = [path for path in (place.folder / "objects").rglob("*") if path.is_file()]
    assert files
    for path in files:
        data = path.read_bytes()
        assert not any(text in data for text in (sealed, sealed.hex().encode(), PRIVATE, PRIVATE.hex().encode()))
