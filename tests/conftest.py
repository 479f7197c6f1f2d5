"""What every test shares: how thorough property tests are, and markers that follow from the folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers.postgres import PostgresServer, postgres_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.servers.valkey import RedisServer, redis_server

TESTS = Path(__file__).parent

# No deadline per example: two cores are shared with other processes, and a slow example is not a wrong one.
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders whose tests share a need mark them, so that nobody can forget it."""
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
        if folder in {"acceptance", "perf"}:
            item.add_marker(folder)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A real PostgreSQL server."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """`postgresql://` URL of an empty database."""
    return postgres.create_database()


@pytest.fixture(scope="session")
def redis_of_tests() -> Iterator[RedisServer]:
    """A real Valkey or Redis server, shared by tests: names in it carry something random."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server."""
    with s3_server() as server:
        yield server


@pytest.fixture
def bucket(s3: S3Server) -> str:
    """Name of an empty bucket."""
    return s3.create_bucket()
