"""Particulars of the PostgreSQL register: truncation races, lost servers, errors."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial

import psycopg
import pytest

from odfabric_persist.errors import Determinate, Indeterminate, UsageError
from odfabric_persist.location.consensus import Version
from odfabric_persist.location.postgres_connections import PostgresConnections, PostgresSettings
from odfabric_persist.location.postgres_consensus import PostgresConsensus
from tests.support.servers.postgres import postgres_server
from tests.support.waiting import wait_until


@pytest.fixture
def consensus(postgres_url: str) -> Iterator[PostgresConsensus]:
    with closing(PostgresConsensus(postgres_url)) as opened:
        yield opened


def test_tables_are_made_once_by_many(postgres_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(PostgresConsensus, [postgres_url] * 8))
    assert opened[0].compare_and_set("k", None, Version(0, b"1"))
    assert opened[7].head("k") == Version(0, b"1")
    for one in opened:
        one.close()


def test_a_session_is_durable_and_reads_what_is_committed(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        name = admin.info.dbname
        admin.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")
    with closing(PostgresConnections(postgres_url, PostgresSettings())) as connections:
        for setting, wanted in (
            ("synchronous_commit", "on"),
            ("transaction_isolation", "read committed"),
            ("statement_timeout", "30s"),
        ):
            assert connections.run(f"SHOW {setting}", (), writes=False)[1] == [(wanted,)]


def test_connections_are_bounded_and_come_back(postgres_url: str) -> None:
    settings = PostgresSettings(connections_max=2, statement_s_max=0.2)
    with closing(PostgresConnections(postgres_url, settings)) as connections:
        with connections.lent() as first, connections.lent() as second:
            pids = {first.info.backend_pid, second.info.backend_pid}
            with pytest.raises(Determinate, match="busy"), connections.lent():
                pass
        with connections.lent() as again:
            assert again.info.backend_pid in pids
        with connections.lent() as broken:
            broken.close()
        with connections.lent() as new:
            assert new.info.backend_pid not in pids, "what broke one connection may have broken all"


def test_idle_connections_are_replaced(postgres_url: str) -> None:
    with closing(PostgresConnections(postgres_url, PostgresSettings(idle_s_max=0.0))) as connections:
        with connections.lent() as first:
            pid = first.info.backend_pid
        with connections.lent() as second:
            assert second.info.backend_pid != pid


def test_only_what_surely_had_no_effect_is_called_so(consensus: PostgresConsensus, postgres_url: str) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b""))
    impatient = f"{postgres_url}?options=-c%20lock_timeout%3D100"
    with closing(PostgresConsensus(impatient)) as waiting, psycopg.connect(postgres_url) as other:
        other.execute("UPDATE persist_head_v1 SET seqno = seqno")
        with pytest.raises(Determinate, match="55P03"):
            waiting.compare_and_set("k", 0, Version(1, b""))
    settings = PostgresSettings(statement_s_max=0.1)
    with closing(PostgresConsensus(postgres_url, settings)) as waiting, psycopg.connect(postgres_url) as other:
        other.execute("UPDATE persist_head_v1 SET seqno = seqno")
        with pytest.raises(Indeterminate, match="57014"):
            waiting.compare_and_set("k", 0, Version(1, b""))
    assert consensus.compare_and_set("k", 0, Version(1, b"")), "a transaction was left open"


def test_a_killed_session_is_an_unknown_outcome_and_is_replaced(
    consensus: PostgresConsensus, postgres_url: str
) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b""))
    with psycopg.connect(postgres_url, autocommit=True) as admin, psycopg.connect(postgres_url) as other:
        other.execute("UPDATE persist_head_v1 SET seqno = seqno")
        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(consensus.compare_and_set, "k", 0, Version(1, b""))
            blocked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            (pid,) = wait_until(lambda: admin.execute(blocked).fetchone(), what="the wait for the lock")
            admin.execute("SELECT pg_terminate_backend(%s)", (pid,))
            with pytest.raises(Indeterminate, match="went away"):
                writing.result()
    assert consensus.compare_and_set("k", 0, Version(1, b""))


def test_a_session_that_ended_while_it_was_idle_is_an_unknown_outcome_too(
    consensus: PostgresConsensus, postgres_url: str
) -> None:
    assert consensus.compare_and_set("k", None, Version(0, b""))
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        admin.execute(f"SELECT pg_terminate_backend(pid) {others}")
        wait_until(lambda: not admin.execute(f"SELECT {others}").fetchall(), what="the end of the sessions")
    # Whether the statement was sent before the end was seen is not known.
    with pytest.raises(Indeterminate):
        consensus.compare_and_set("k", 0, Version(1, b""))
    assert consensus.compare_and_set("k", 0, Version(1, b""))


def fails_to_read(consensus: PostgresConsensus) -> bool:
    try:
        consensus.head("k")
    except Determinate:
        return True
    return False


def test_a_server_that_comes_back_is_used_again() -> None:
    with postgres_server() as server:
        assert server.process is not None, "this test kills its server: it cannot be one of somebody else"
        with closing(PostgresConsensus(server.create_database())) as consensus:
            assert consensus.compare_and_set("k", None, Version(0, b""))
            server.process.kill()
            # Sessions outlive the server for a moment.
            wait_until(partial(fails_to_read, consensus), what="the end of the sessions")
            # Nothing is sent where there is no connection.
            with pytest.raises(Determinate, match="no connection"):
                consensus.compare_and_set("k", 0, Version(1, b""))
            server.process.start()
            assert consensus.head("k") is not None


def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="invalid-url") as caught:
        PostgresConsensus("postgresql://user:secret@host/x?no-such-option=1")
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_told_without_the_password() -> None:
    with pytest.raises(Determinate, match="no connection") as caught:
        PostgresConsensus("postgresql://somebody:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)
