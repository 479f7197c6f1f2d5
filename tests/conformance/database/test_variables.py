"""Variables of datasets: memory, SQL and sealed SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.memory.datasets.chains import MemoryChains
from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.adapters.memory.node.sealing import MemorySealing
from odfabric.adapters.memory.sources.variables import MemoryVariables
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sealed.variables import SealedVariables
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.sources.variables import SqlVariables
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.chain_writer import ChainWriter
from odfabric.ports.sources.variables import Variables
from odfabric.testing.conformance.examples import new_chain
from odfabric.testing.conformance.sources.variables import MANY, VariablesContract, named


class OnStore(VariablesContract):
    """In memory."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()

    @pytest.fixture
    def chains(self, store: MemoryStore) -> ChainWriter:
        return MemoryChains(store)

    @pytest.fixture
    def add_dataset(self, chains: ChainWriter) -> Callable[[str], DatasetId]:
        return lambda name: _made(chains, name)


class TestMemoryVariables(OnStore):
    @pytest.fixture
    def variables(self, store: MemoryStore) -> Variables:
        return MemoryVariables(store)


class TestSealedVariables(OnStore):
    @pytest.fixture
    def variables(self, store: MemoryStore, tmp_path: Path) -> Variables:
        sealing = KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy())
        return SealedVariables(MemoryVariables(store), sealing)

    def test_secrets_are_stored_sealed(self, store: MemoryStore, add_dataset: Callable[[str], DatasetId]) -> None:
        one, stored = add_dataset("one"), MemoryVariables(store)
        sealed = SealedVariables(stored, MemorySealing(SeededEntropy(7)))
        sealed.set(named(one, "A", secret=True), value=b"a secret", maximum=MANY)
        sealed.set(named(one, "B"), value=b"plain", maximum=MANY)
        (_, secret), (_, plain) = stored.value(one, "A") or (None, b""), stored.value(one, "B") or (None, b"")
        assert (b"a secret" in secret, plain) == (False, b"plain")


class OnDatabase(VariablesContract):
    """In SQL."""

    @pytest.fixture
    def database(self, database_url: str) -> Iterator[Database]:
        database = Database(database_url, busy_s_max=30)
        yield database
        database.close()

    @pytest.fixture
    def variables(self, database: Database) -> Variables:
        return SqlVariables(database)

    @pytest.fixture
    def chains(self, database: Database) -> ChainWriter:
        return SqlChains(database)

    @pytest.fixture
    def add_dataset(self, chains: ChainWriter) -> Callable[[str], DatasetId]:
        return lambda name: _made(chains, name)


class TestSqliteVariables(OnDatabase):
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url


class TestPostgresVariables(OnDatabase):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


def _made(chains: ChainWriter, name: str) -> DatasetId:
    return new_chain(chains, name).id
