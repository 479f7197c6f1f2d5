"""A PostgreSQL database: what its failures mean, and locks by name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from sqlalchemy import text

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.locks import SqlLocks
from odfabric.errors import Determinate, Indeterminate, InvalidRequest
from odfabric.testing.conformance.together import outcomes_of_processes

END_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()"


@pytest.fixture
def database(postgres_url: str) -> Iterator[Database]:
    opened = Database(postgres_url, busy_s_max=1.0, connections_max=4)
    with opened.write() as connection:
        connection.execute(text("CREATE TABLE numbers (number INTEGER PRIMARY KEY)"))
    yield opened
    opened.close()


def cut_off(postgres_url: str) -> None:
    """End all connections of others to the database."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(END_OTHERS)


def numbers(database: Database) -> list[int]:
    with database.read() as connection:
        return list(connection.execute(text("SELECT number FROM numbers ORDER BY 1")).scalars())


def insert(database: Database, meanwhile: Callable[[], None]) -> None:
    """Insert a number while something happens before the commit."""
    with database.write() as connection:
        connection.execute(text("INSERT INTO numbers VALUES (1)"))
        meanwhile()


def test_a_connection_that_breaks_before_the_commit_means_that_nothing_happened(
    database: Database, postgres_url: str
) -> None:
    def insert_two() -> None:
        with database.write() as connection:
            connection.execute(text("INSERT INTO numbers VALUES (1)"))
            cut_off(postgres_url)
            connection.execute(text("INSERT INTO numbers VALUES (2)"))

    with pytest.raises(Determinate):
        insert_two()
    assert numbers(database) == []


def test_a_connection_that_breaks_at_the_commit_leaves_the_outcome_open(database: Database, postgres_url: str) -> None:
    with pytest.raises(Indeterminate):
        insert(database, lambda: cut_off(postgres_url))
    assert numbers(database) == []


def test_connections_that_broke_while_idle_are_made_anew(database: Database, postgres_url: str) -> None:
    cut_off(postgres_url)
    assert numbers(database) == []


def test_who_waits_too_long_for_a_row_is_told(database: Database) -> None:
    with database.write() as first:
        first.execute(text("INSERT INTO numbers VALUES (1)"))
        with pytest.raises(Determinate), database.write() as second:
            second.execute(text("INSERT INTO numbers VALUES (1)"))


def test_readers_see_one_state_and_cannot_write(database: Database) -> None:
    with database.read() as reading:
        reading.execute(text("SELECT * FROM numbers"))
        with database.write() as writing:
            writing.execute(text("INSERT INTO numbers VALUES (1)"))
        assert list(reading.execute(text("SELECT * FROM numbers"))) == []
    assert numbers(database) == [1]


def test_a_lock_of_a_name_is_held_by_one(database: Database) -> None:
    locks = SqlLocks(database)
    with locks.exclusive("name"):
        with locks.exclusive("another name"):
            pass
        with pytest.raises(Determinate), locks.exclusive("name"):
            pass
    with locks.exclusive("name"):
        pass


def test_a_lock_is_waited_for(database: Database) -> None:
    locks = SqlLocks(database)
    taken = threading.Event()

    def wait() -> None:
        with locks.exclusive("name"):
            taken.set()

    with ThreadPoolExecutor(1) as other:
        with locks.exclusive("name"):
            waiting = other.submit(wait)
            assert not taken.is_set()
        waiting.result(10)


def test_what_was_done_under_a_lock_that_was_lost_is_what_was_done(database: Database, postgres_url: str) -> None:
    other = Database(postgres_url)
    with SqlLocks(database).exclusive("name"):
        cut_off(postgres_url)
        with SqlLocks(other).exclusive("name"):
            pass

    def fail() -> None:
        with SqlLocks(database).exclusive("name"):
            cut_off(postgres_url)
            raise Indeterminate("the outcome of the body")

    with pytest.raises(Indeterminate, match="the outcome of the body"):
        fail()
    other.close()


@pytest.mark.parametrize(
    "url", ["garbage", "mysql://user:secret@host/name", "postgresql://user:secret@host:port/name", "postgresql://host"]
)
def test_what_is_no_url_of_a_database_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Database(url)
    assert "ODF_DATABASE_URL" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_strangers_are_not_told_where_the_database_is() -> None:
    away = Database("postgresql://somebody:secret@127.0.0.1:1/name", busy_s_max=1.0)
    with pytest.raises(Determinate) as told, away.read():
        pass
    assert "127.0.0.1" not in str(told.value)
    assert "somebody" not in str(told.value)
    away.close()


class Opening:
    """Locks in another process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(self) -> Database:
        return Database(self.url, busy_s_max=30.0)


def add_often(database: Database, number: int) -> str:
    for _ in range(20):
        with SqlLocks(database).exclusive("name"):
            with database.read() as reading:
                last = reading.execute(text("SELECT max(number) FROM numbers")).scalar_one() or 0
            with database.write() as writing:
                writing.execute(text("INSERT INTO numbers VALUES (:number)"), {"number": last + 1})
    return "done"


def test_a_lock_spans_processes(database: Database, postgres_url: str) -> None:
    done = outcomes_of_processes(Opening(postgres_url), add_often)
    assert set(done) == {"done"}
    assert numbers(database) == list(range(1, 20 * len(done) + 1))
