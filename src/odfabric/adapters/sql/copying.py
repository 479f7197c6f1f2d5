"""All rows of a database, out of it and into another one.

Tables are looked at as they are in the database, not as this release has them: a copy that an older release made is loaded into the tables
of that release and migrated afterwards. Not here: where the rows are kept (`usecases.maintenance.backup`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Boolean, Connection, MetaData, Table, insert, inspect, select, text

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.upgrade import check_upgraded, has_revision, revision_of, upgrade
from odfabric.errors import AlreadyExists, InvalidRequest
from odfabric.ports.node.database_copy import Row

DERIVED = frozenset(("search_documents", "search_keywords", "search_inputs"))
"""Tables that a node fills again from chains, and that the databases keep in ways of their own."""
_ROWS_AT_ONCE = 500


class SqlDatabaseCopy:
    """A DatabaseCopy."""

    def __init__(self, place: str | Path, *, busy_s_max: float) -> None:
        self._place = place
        self._busy_s_max = busy_s_max

    @contextmanager
    def snapshot(self) -> Iterator[SqlSnapshot]:
        """See the port."""
        with self._opened() as database:
            check_upgraded(database)
            with database.read() as connection:
                _without_time_limit(connection)
                yield SqlSnapshot(connection, revision_of(connection))

    def is_empty(self) -> bool:
        """See the port."""
        if isinstance(self._place, Path) and not self._place.exists():
            return True
        with self._opened() as database, database.read() as connection:
            found = _reflected(connection)
            return not _has_rows(connection, found)

    def load(self, revision: str, tables: Iterable[tuple[str, Iterable[Row]]], sequences: Mapping[str, int]) -> None:
        """See the port."""
        if not has_revision(revision):
            raise InvalidRequest(
                f"the copy has the schema {revision}, which this release does not know",
                hint="restore with the release that made it, or a newer one",
            )
        upgrade(self._place, busy_s_max=self._busy_s_max, to=revision)
        with self._opened() as database, database.write() as connection:
            _without_time_limit(connection)
            found = {table.name: table for table in _reflected(connection)}
            if _has_rows(connection, found.values()):
                raise AlreadyExists("the database has rows", hint="restore into an empty one")
            for name, rows in tables:
                _insert(connection, found[name], rows)
            for name, last in sequences.items():
                _set_sequence(connection, found[name], last)
        upgrade(self._place, busy_s_max=self._busy_s_max)

    @contextmanager
    def _opened(self) -> Iterator[Database]:
        database = Database(self._place, busy_s_max=self._busy_s_max, connections_max=1)
        try:
            yield database
        finally:
            database.close()


class SqlSnapshot:
    """A DatabaseSnapshot, in the transaction of a connection."""

    def __init__(self, connection: Connection, revision: str) -> None:
        self._connection = connection
        self._tables = {table.name: table for table in _reflected(connection)}
        self.revision = revision

    @property
    def tables(self) -> Sequence[str]:
        """See the port."""
        return list(self._tables)

    def rows(self, table: str) -> Iterator[Row]:
        """See the port."""
        streamed = self._connection.execution_options(yield_per=_ROWS_AT_ONCE)
        for row in streamed.execute(select(self._tables[table])).mappings():
            yield {name: bytes(value) if isinstance(value, memoryview) else value for name, value in row.items()}

    def sequences(self) -> Mapping[str, int]:
        """See the port."""
        if self._connection.dialect.name == "sqlite":
            found = self._connection.execute(text("SELECT name, seq FROM sqlite_sequence")).all()
            return {name: last for name, last in found if name in self._tables}
        lasts: dict[str, int] = {}
        for table in self._tables.values():
            if (sequence := _sequence(self._connection, table)) is not None:
                last, is_called = self._connection.execute(text(f"SELECT last_value, is_called FROM {sequence}")).one()
                if is_called:
                    lasts[table.name] = last
        return lasts


def _reflected(connection: Connection) -> list[Table]:
    """Tables of ours that are in the database, referred ones first.

    Our names, since others may keep tables beside them.
    """
    there = set(inspect(connection).get_table_names())
    wanted = [name for name in metadata.tables if name in there and name not in DERIVED]
    found = MetaData()
    found.reflect(connection, only=wanted, resolve_fks=False)
    return [table for table in found.sorted_tables if table.name in wanted]


def _has_rows(connection: Connection, tables: Iterable[Table]) -> bool:
    return any(connection.execute(select(table).limit(1)).first() for table in tables)


def _insert(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    booleans = [column.name for column in table.columns if isinstance(column.type, Boolean)]
    left = iter(rows)
    while portion := list(islice(left, _ROWS_AT_ONCE)):
        connection.execute(insert(table), [_fitting(row, booleans) for row in portion])


def _fitting(row: Row, booleans: Sequence[str]) -> dict[str, Any]:
    """SQLite keeps truth as 0 and 1."""
    return {**row, **{name: None if row[name] is None else bool(row[name]) for name in booleans}}


def _sequence(connection: Connection, table: Table) -> str | None:
    """PostgreSQL's name of the sequence that numbers the rows of a table."""
    for column in table.primary_key.columns:
        asked = {"table": table.name, "column": column.name}
        found = connection.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), asked).scalar_one()
        if found is not None:
            return str(found)
    return None


def _set_sequence(connection: Connection, table: Table, last: int) -> None:
    if connection.dialect.name == "sqlite":
        values = {"name": table.name, "last": last}
        connection.execute(text("DELETE FROM sqlite_sequence WHERE name = :name"), values)
        connection.execute(text("INSERT INTO sqlite_sequence (name, seq) VALUES (:name, :last)"), values)
    elif (sequence := _sequence(connection, table)) is not None:
        connection.execute(text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last})


def _without_time_limit(connection: Connection) -> None:
    """All rows take as long as they take."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
