"""Copies of SQLite and PostgreSQL: all rows of one moment, into either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import delete, insert

from odfabric.adapters.sql.copying import DERIVED, SqlDatabaseCopy, SqlSnapshot
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.tables.node import outbox, signing_keys
from odfabric.adapters.sql.tables.schema import SCHEMA_REVISION
from odfabric.adapters.sql.tables.subscriptions import subscriptions
from odfabric.adapters.sql.upgrade import check_upgraded, downgrade, upgrade
from odfabric.errors import AlreadyExists, InvalidRequest
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.instant import Instant
from odfabric.ports.node.database_copy import DatabaseSnapshot, Row
from tests.support.servers.postgres import PostgresServer, sqlalchemy_url

NOW = Instant(1_700_000_000_123_456_789)
DATASET = parse_dataset_id("did:odf:fed01a3a418d9cddfc6bc056658ed69259fdfdafbd4e466ec32d5f4061a56b336376a")
PAIRS = [(source, target) for source in ("sqlite", "postgres") for target in ("sqlite", "postgres")]


@pytest.fixture(params=PAIRS, ids=["-to-".join(pair) for pair in PAIRS])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str | Path, str | Path]:
    """A database with all migrations, and one that is not there or has nothing."""
    source, target = request.param
    return _place(request, tmp_path / "source.db", source), _place(request, tmp_path / "target.db", target)


def _place(request: pytest.FixtureRequest, path: Path, kind: str) -> str | Path:
    if kind == "sqlite":
        return path
    postgres: PostgresServer = request.getfixturevalue("postgres")
    return sqlalchemy_url(postgres.create_database())


def fill(place: str | Path) -> None:
    """Rows with every kind of value, and a number that is no longer used.

    Bytes, truth, texts beyond ASCII, nothing, large numbers.
    """
    upgrade(place)
    with closing(Database(place)) as database, database.write() as connection:
        connection.execute(
            insert(subscriptions),
            [
                {
                    "id": f"s{number}",
                    "account": "zoë",
                    "url": "https://hooks.example/x?y=%20",
                    "secret": bytes(range(256)),
                    "created_at": NOW,
                    "after_message": number * 10**15,
                    "last_sequence": number,
                    "failing_since": NOW if number else None,
                    "proven": bool(number),
                }
                for number in range(3)
            ],
        )
        connection.execute(
            insert(outbox), [{"dataset_id": DATASET, "new_head": None, "occurred_at": NOW, "event": "{}"}] * 3
        )
        connection.execute(delete(outbox))


def rows_of(snapshot: DatabaseSnapshot) -> dict[str, list[Row]]:
    return {name: [dict(row) for row in snapshot.rows(name)] for name in snapshot.tables}


def copied(source: str | Path, target: str | Path) -> tuple[dict[str, list[Row]], dict[str, list[Row]]]:
    with SqlDatabaseCopy(source, busy_s_max=30).snapshot() as snapshot:
        rows, last = rows_of(snapshot), snapshot.sequences()
        loading = SqlDatabaseCopy(target, busy_s_max=30)
        assert loading.is_empty()
        loading.load(snapshot.revision, rows.items(), last)
    with SqlDatabaseCopy(target, busy_s_max=30).snapshot() as arrived:
        assert arrived.sequences() == last
        assert arrived.revision == SCHEMA_REVISION
        return rows, rows_of(arrived)


def test_all_rows_arrive_as_they_were(places: tuple[str | Path, str | Path]) -> None:
    fill(places[0])
    before, after = copied(*places)
    assert before == after
    assert set(before) == set(metadata.tables) - DERIVED
    assert len(before["subscriptions"]) == 3
    assert not SqlDatabaseCopy(places[1], busy_s_max=30).is_empty()


def test_numbers_that_were_given_are_not_given_again(places: tuple[str | Path, str | Path]) -> None:
    """A subscription begins after an outbox number: a lower one would be missed."""
    fill(places[0])
    copied(*places)
    with closing(Database(places[1])) as database, database.write() as connection:
        values = {"dataset_id": DATASET, "new_head": None, "occurred_at": NOW, "event": "{}"}
        assert connection.execute(insert(outbox).values(values).returning(outbox.c.id)).scalar_one() == 4


def test_a_database_with_rows_is_left_alone(places: tuple[str | Path, str | Path]) -> None:
    fill(places[0])
    fill(places[1])
    with (
        SqlDatabaseCopy(places[0], busy_s_max=30).snapshot() as snapshot,
        pytest.raises(AlreadyExists, match="has rows"),
    ):
        SqlDatabaseCopy(places[1], busy_s_max=30).load(snapshot.revision, rows_of(snapshot).items(), {})
    with SqlDatabaseCopy(places[1], busy_s_max=30).snapshot() as left:
        assert len(rows_of(left)["subscriptions"]) == 3


def test_a_load_that_fails_inserts_nothing_and_is_repeated(places: tuple[str | Path, str | Path]) -> None:
    fill(places[0])
    loading = SqlDatabaseCopy(places[1], busy_s_max=30)
    with SqlDatabaseCopy(places[0], busy_s_max=30).snapshot() as snapshot:
        rows = rows_of(snapshot)

        def broken() -> Iterator[tuple[str, list[Row]]]:
            yield from rows.items()
            raise OSError("the backup cannot be read any more")

        with pytest.raises(OSError, match="any more"):
            loading.load(snapshot.revision, broken(), {})
        assert loading.is_empty()
        loading.load(snapshot.revision, rows.items(), snapshot.sequences())
    assert not loading.is_empty()


def test_rows_of_an_older_release_are_migrated(places: tuple[str | Path, str | Path]) -> None:
    fill(places[0])
    downgrade(places[0], to="0013")
    with closing(Database(places[0])) as database, database.read() as connection:
        old = SqlSnapshot(connection, "0013")
        rows, last = rows_of(old), old.sequences()
    assert "with_rows" not in rows["subscriptions"][0], "what 0014 brings"
    SqlDatabaseCopy(places[1], busy_s_max=30).load("0013", rows.items(), last)
    with closing(Database(places[1])) as database:
        check_upgraded(database)
    with SqlDatabaseCopy(places[1], busy_s_max=30).snapshot() as arrived:
        assert [row["with_rows"] for row in rows_of(arrived)["subscriptions"]] == [False] * 3


def test_a_revision_of_a_later_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="0999") as refused:
        SqlDatabaseCopy(tmp_path / "new.db", busy_s_max=30).load("0999", [], {})
    assert "a newer one" in str(refused.value.hint)
    assert not (tmp_path / "new.db").exists()


def test_rows_that_are_written_meanwhile_are_not_seen(tmp_path: Path) -> None:
    place = tmp_path / "source.db"
    fill(place)
    with SqlDatabaseCopy(place, busy_s_max=30).snapshot() as snapshot:
        list(snapshot.rows("accounts"))
        with closing(Database(place)) as database, database.write() as connection:
            connection.execute(delete(subscriptions))
            connection.execute(insert(signing_keys).values({"id": "k", "public_key": b"k", "made_at": NOW}))
        rows = rows_of(snapshot)
    assert (len(rows["subscriptions"]), rows["signing_keys"]) == (3, [])
