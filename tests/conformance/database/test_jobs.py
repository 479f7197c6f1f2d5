"""The job table: memory and SQL keep one contract."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from odfabric.adapters.memory.jobs.jobs import MemoryJobs
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs.jobs import SqlJobs
from odfabric.ports.jobs.jobs import Jobs
from odfabric.testing.conformance.jobs.jobs import JobsContract, JobsProcessContract, LeasesContract


def open_jobs_of(url: str) -> SqlJobs:
    return SqlJobs(Database(url, busy_s_max=30))


class InMemory:
    @pytest.fixture
    def jobs(self) -> Jobs:
        return MemoryJobs()


class OnSqlite:
    @pytest.fixture
    def database_url(self, sqlite_url: str) -> str:
        return sqlite_url

    @pytest.fixture
    def jobs(self, database_url: str) -> Iterator[Jobs]:
        database = Database(database_url, busy_s_max=30)
        yield SqlJobs(database)
        database.close()

    @pytest.fixture
    def open_jobs(self, database_url: str) -> Callable[[], Jobs]:
        return partial(open_jobs_of, database_url)


class OnPostgres(OnSqlite):
    @pytest.fixture
    def database_url(self, migrated_url: str) -> str:
        return migrated_url


class TestMemoryJobs(InMemory, JobsContract): ...


class TestMemoryLeases(InMemory, LeasesContract): ...


class TestSqliteJobs(OnSqlite, JobsContract): ...


class TestSqliteLeases(OnSqlite, LeasesContract): ...


class TestSqliteJobsBetweenProcesses(OnSqlite, JobsProcessContract): ...


class TestPostgresJobs(OnPostgres, JobsContract): ...


class TestPostgresLeases(OnPostgres, LeasesContract): ...


class TestPostgresJobsBetweenProcesses(OnPostgres, JobsProcessContract): ...
