"""Migrations on PostgreSQL: the code's schema, up and down, concurrently."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.upgrade import REVISION_TABLE, downgrade, upgrade
from odfabric.errors import Determinate
from odfabric.testing.conformance.examples import hashes_down, new_chain
from odfabric.testing.conformance.together import outcomes_of_processes
from tests.support.servers.postgres import PostgresServer, sqlalchemy_url

_COLUMNS = """
SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, collation_name
FROM information_schema.columns WHERE table_schema = 'public' AND table_name <> %s ORDER BY 1, 2
"""
_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' AND tablename <> %s ORDER BY 1"


@pytest.fixture
def url(postgres_url: str) -> str:
    return sqlalchemy_url(postgres_url)


def definitions(postgres_url: str) -> list[tuple[object, ...]]:
    """Every column and index, Alembic's own table left out."""
    with psycopg.connect(postgres_url) as connection:
        return [row for query in (_COLUMNS, _INDEXES) for row in connection.execute(query, [REVISION_TABLE]).fetchall()]


def test_the_upgraded_schema_is_the_one_in_the_code(url: str, postgres_url: str, postgres: PostgresServer) -> None:
    upgrade(url)
    other = postgres.create_database()
    metadata.create_all(create_engine(sqlalchemy_url(other), poolclass=NullPool))
    assert definitions(postgres_url) == definitions(other)
    assert len(definitions(postgres_url)) > len(metadata.tables)
    with create_engine(url, poolclass=NullPool).connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_down_and_up_again_keeps_nothing_and_makes_all(url: str, postgres_url: str) -> None:
    upgrade(url)
    whole = definitions(postgres_url)
    downgrade(url, to="base")
    assert definitions(postgres_url) == []
    upgrade(url)
    assert definitions(postgres_url) == whole


def test_an_upgrade_keeps_rows(url: str) -> None:
    upgrade(url)
    database = Database(url)
    chain = new_chain(SqlChains(database), blocks=3)
    upgrade(url)
    assert len(hashes_down(SqlChains(database), chain.id)) == 3
    database.close()


class Upgrading:
    """Upgrades in another process; what it opens is the moment to begin."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self) -> Callable[[], None]:
        return self.upgrade

    def upgrade(self) -> None:
        upgrade(self.url)


def begin(act: Callable[[], None], number: int) -> str:
    act()
    return "upgraded"


def test_processes_that_start_together_upgrade_once(url: str) -> None:
    assert outcomes_of_processes(Upgrading(url), begin) == ["upgraded"] * 4


def test_a_long_transaction_of_another_is_not_waited_for_for_ever(url: str, postgres_url: str) -> None:
    upgrade(url)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("SELECT * FROM jobs")
        with ThreadPoolExecutor(1) as other:
            refused = other.submit(downgrade, url, to="base", busy_s_max=0.3)
            with pytest.raises(Determinate):
                refused.result(30)


def test_a_server_that_is_not_there_is_told() -> None:
    with pytest.raises(Determinate, match="the database failed"):
        upgrade("postgresql+psycopg://nobody@127.0.0.1:1/nothing", busy_s_max=1.0)
