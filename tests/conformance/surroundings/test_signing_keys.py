"""Signing keys: memory, SQL and sealed SQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.adapters.memory.node.sealing import MemorySealing
from odfabric.adapters.memory.node.signing_keys import MemorySigningKeys
from odfabric.adapters.memory.store import MemoryStore
from odfabric.adapters.sealed.rows import SealedSigningKeys
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.signing_keys import SqlSigningKeys
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.ports.node.signing_keys import SigningKeys
from odfabric.testing.conformance.node.signing_keys import SigningKeysContract, key_of


class TestMemorySigningKeys(SigningKeysContract):
    @pytest.fixture
    def keys(self) -> SigningKeys:
        return MemorySigningKeys(MemoryStore())


class TestSqliteSigningKeys(SigningKeysContract):
    @pytest.fixture
    def keys(self, sqlite_url: str) -> Iterator[SigningKeys]:
        database = Database(sqlite_url, busy_s_max=30)
        yield SqlSigningKeys(database)
        database.close()


class TestPostgresSigningKeys(SigningKeysContract):
    @pytest.fixture
    def keys(self, migrated_url: str) -> Iterator[SigningKeys]:
        database = Database(migrated_url, busy_s_max=30)
        yield SqlSigningKeys(database)
        database.close()


class TestSealedSigningKeys(SigningKeysContract):
    @pytest.fixture
    def keys(self, tmp_path: Path) -> SigningKeys:
        sealing = KeyFileSealing(tmp_path / "node.key", entropy=SystemEntropy())
        return SealedSigningKeys(MemorySigningKeys(MemoryStore()), sealing)

    def test_what_is_stored_is_sealed(self) -> None:
        stored = MemorySigningKeys(MemoryStore())
        SealedSigningKeys(stored, MemorySealing(SeededEntropy(7))).add(key_of(1), private=b"a private half")
        found = stored.current()
        assert found is not None
        assert b"a private half" not in found[1]
