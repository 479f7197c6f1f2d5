"""What `ChainWriter.rename` promises, as tests.

A subclass gives `storage`, new and empty for each test.
"""

from __future__ import annotations

import pytest

from odfabric.domain.people.dataset_search import Narrowing
from odfabric.errors import AlreadyExists, InvalidRequest, NotFound
from odfabric.model.identity import DatasetAlias, Name
from odfabric.testing.conformance.datasets.searching import document_of
from odfabric.testing.conformance.examples import GrowingChain, StoragePorts, entry_of, hashes_down, new_chain


class RenamingContract:
    """Renaming of datasets."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_the_alias_changes_and_nothing_else(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        before = hashes_down(storage.chains, chain.id)
        alias = DatasetAlias(chain.entry.alias.account, Name("Departures"))
        storage.chains.rename(chain.id, alias=alias)
        found = storage.catalog.by_id(chain.id)
        assert found is not None
        assert (str(found.alias), found.created_at, found.kind) == (
            str(alias),
            chain.entry.created_at,
            chain.entry.kind,
        )
        assert storage.catalog.by_alias(DatasetAlias(alias.account, Name("departures"))) == found
        assert storage.catalog.by_alias(chain.entry.alias) is None
        assert hashes_down(storage.chains, chain.id) == before
        again = GrowingChain(storage.chains, entry_of("flights", dataset=entry_of("another").id))
        again.grow()
        assert storage.catalog.by_alias(chain.entry.alias) == again.entry

    def test_the_case_of_a_name_may_change(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        alias = DatasetAlias(chain.entry.alias.account, Name("FLIGHTS"))
        storage.chains.rename(chain.id, alias=alias)
        found = storage.catalog.by_id(chain.id)
        assert found is not None
        assert str(found.alias.name) == "FLIGHTS"

    def test_a_name_that_is_taken_is_refused(self, storage: StoragePorts) -> None:
        chain, other = new_chain(storage.chains, "flights"), new_chain(storage.chains, "trains")
        taken = DatasetAlias(other.entry.alias.account, Name("Trains"))
        with pytest.raises(AlreadyExists):
            storage.chains.rename(chain.id, alias=taken)
        assert storage.catalog.by_id(chain.id) == chain.entry
        with pytest.raises(NotFound):
            storage.chains.rename(entry_of("nothing").id, alias=DatasetAlias(taken.account, Name("free")))

    def test_it_is_searched_by_its_new_name_once_that_is_derived(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        assert storage.search_documents.put(document_of(chain))
        storage.chains.rename(chain.id, alias=DatasetAlias(chain.entry.alias.account, Name("departures")))
        assert list(storage.catalog.page(Narrowing(words=("flights",)), limit=5)) == []
        assert list(storage.search_documents.behind(version=0, limit=5)) == [chain.id]


class NoRenamingContract:
    """Where nodes share heads, names are claimed for good."""

    @pytest.fixture
    def storage(self) -> StoragePorts:
        raise NotImplementedError

    def test_renaming_is_refused(self, storage: StoragePorts) -> None:
        chain = new_chain(storage.chains)
        with pytest.raises(InvalidRequest, match="shares its heads"):
            storage.chains.rename(chain.id, alias=DatasetAlias(chain.entry.alias.account, Name("free")))
        assert storage.catalog.by_id(chain.id) == chain.entry
