"""Reports of duties: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.adapters.memory.jobs.duties import MemoryDuties
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs.duties import SqlDuties
from odfabric.ports.jobs.duties import Duties
from odfabric.testing.conformance.jobs.duties import DutiesContract


class TestMemoryDuties(DutiesContract):
    @pytest.fixture
    def duties(self) -> Duties:
        return MemoryDuties()


class TestSqliteDuties(DutiesContract):
    @pytest.fixture
    def duties(self, sqlite_url: str) -> Iterator[Duties]:
        database = Database(sqlite_url, busy_s_max=30)
        yield SqlDuties(database)
        database.close()


class TestPostgresDuties(DutiesContract):
    @pytest.fixture
    def duties(self, migrated_url: str) -> Iterator[Duties]:
        database = Database(migrated_url, busy_s_max=30)
        yield SqlDuties(database)
        database.close()
