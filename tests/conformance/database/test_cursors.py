"""Cursors: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from odfabric.adapters.memory.subscriptions.cursors import MemoryCursors
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.subscriptions.cursors import SqlCursors
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.testing.conformance.subscriptions.cursors import CursorsContract


class OnSqlite:
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url

    @pytest.fixture
    def cursors(self, database_url: str) -> Iterator[Cursors]:
        database = Database(database_url, busy_s_max=30)
        yield SqlCursors(database)
        database.close()


class OnPostgres(OnSqlite):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class TestMemoryCursors(CursorsContract):
    @pytest.fixture
    def cursors(self) -> Cursors:
        return MemoryCursors()


class TestSqliteCursors(OnSqlite, CursorsContract): ...


class TestPostgresCursors(OnPostgres, CursorsContract): ...
