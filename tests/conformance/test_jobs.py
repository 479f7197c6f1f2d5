"""The job table: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odfabric.adapters.memory.jobs import MemoryJobs
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs import SqlJobs
from odfabric.adapters.sql.upgrade import upgrade
from odfabric.ports.jobs import Jobs
from odfabric.testing.conformance.jobs import JobsContract, JobsProcessContract, LeasesContract


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/node.db"
    upgrade(url)
    return url


@pytest.fixture
def sqlite_jobs(sqlite_url: str) -> Iterator[SqlJobs]:
    database = Database(sqlite_url, busy_s_max=30)
    yield SqlJobs(database)
    database.close()


class InMemory:
    @pytest.fixture
    def jobs(self) -> Jobs:
        return MemoryJobs()


class OnSqlite:
    @pytest.fixture
    def jobs(self, sqlite_jobs: SqlJobs) -> Jobs:
        return sqlite_jobs


class TestMemoryJobs(InMemory, JobsContract): ...


class TestMemoryLeases(InMemory, LeasesContract): ...


class TestSqliteJobs(OnSqlite, JobsContract): ...


class TestSqliteLeases(OnSqlite, LeasesContract): ...


def open_sqlite_jobs(url: str) -> Jobs:
    return SqlJobs(Database(url, busy_s_max=30))


class TestSqliteJobsBetweenProcesses(OnSqlite, JobsProcessContract):
    @pytest.fixture
    def open_jobs(self, sqlite_url: str) -> Callable[[], Jobs]:
        return partial(open_sqlite_jobs, sqlite_url)
