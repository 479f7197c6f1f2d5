"""Contract of RemovedDatasets: a deleted dataset is marked until nothing is left.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

import pytest

from odfabric.model.commit import OutboxMessage
from odfabric.testing.conformance.examples import NOW, GrowingChain, StoragePorts, entry_of, later, new_chain


class RemovedDatasetsContract:
    """Marks."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_a_dataset_is_marked_when_it_is_deleted(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        assert storage.removed.removed_at(chain.id) is None
        assert storage.removed.removed_at(entry_of("nothing").id) is None
        remove(storage, chain, 5)
        assert storage.removed.removed_at(chain.id) == later(5)
        storage.removed.forget(chain.id)
        storage.removed.forget(chain.id)
        assert storage.removed.removed_at(chain.id) is None

    def test_marks_are_listed_longest_ago_first(self, storage: StoragePorts) -> None:
        chains = [new_chain(storage.chains, f"flights{number}") for number in range(4)]
        for chain, millis in zip(chains, (30, 10, 20, 40), strict=True):
            remove(storage, chain, millis)
        ids = [chain.id for chain in chains]
        assert list(storage.removed.removed_before(later(40), limit=10)) == [ids[1], ids[2], ids[0]]
        assert list(storage.removed.removed_before(later(41), limit=2)) == [ids[1], ids[2]]
        assert list(storage.removed.removed_before(NOW, limit=10)) == []

    def test_a_dataset_that_is_made_again_is_not_marked(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        remove(storage, chain, 5)
        again = GrowingChain(storage.chains, chain.entry)
        again.grow(label="again")
        assert storage.removed.removed_at(chain.id) is None
        remove(storage, again, 9)
        assert storage.removed.removed_at(chain.id) == later(9)


def remove(storage: StoragePorts, chain: GrowingChain, millis: int) -> None:
    """Remove a dataset some time after `NOW`."""
    assert chain.head is not None
    message = OutboxMessage(chain.id, chain.head, None, later(millis))
    storage.chains.remove(chain.id, expected=chain.head, message=message)
