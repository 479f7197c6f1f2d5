"""Suites are shipped with the package.

Their assertions explain themselves like those of test files.
"""

from pathlib import Path

import pytest

from odfabric.adapters.sql.upgrade import upgrade
from tests.support.quick_processes import quick_processes
from tests.support.servers.postgres import PostgresServer, sqlalchemy_url

pytest.register_assert_rewrite("odfabric.testing.conformance")


@pytest.fixture(scope="session", autouse=True)
def processes_begin_with_everything_imported() -> None:
    """Those that suites start too."""
    quick_processes()


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A SQLite database with all migrations."""
    url = f"sqlite:///{tmp_path}/node.db"
    upgrade(url)
    return url


@pytest.fixture(scope="session")
def migrated(postgres: PostgresServer) -> str:
    """Name of a PostgreSQL database with all migrations, from which tests take copies."""
    url = postgres.create_database()
    upgrade(sqlalchemy_url(url))
    return url.rpartition("/")[2]


@pytest.fixture
def migrated_url(postgres: PostgresServer, migrated: str) -> str:
    """A PostgreSQL database with all migrations."""
    return sqlalchemy_url(postgres.create_database(like=migrated))
