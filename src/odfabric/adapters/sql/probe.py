"""Looks at a database that may be away, damaged, or of another release."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Table, func, inspect, select, text

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.datasets import heads
from odfabric.adapters.sql.tables.every_table import metadata
from odfabric.adapters.sql.tables.schema import SCHEMA_REVISION
from odfabric.adapters.sql.upgrade import current_revision
from odfabric.errors import Determinate
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.node.surroundings import DatabaseState, TableSize


class SqlProbe:
    """A DatabaseProbe. It makes no file and changes no row."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def look(self) -> DatabaseState:
        """See the port."""
        self._demand_file()
        revision = current_revision(self._database)
        with self._database.read() as connection:
            is_sqlite = self._database.is_sqlite
            version = str(
                connection.execute(text("SELECT sqlite_version()" if is_sqlite else "SHOW server_version")).scalar_one()
            )
            asked_at, began = time.time_ns(), time.monotonic_ns()
            now = (
                None
                if is_sqlite
                else connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one()
            )
            took_ns = time.monotonic_ns() - began
            newest = connection.execute(select(func.max(heads.c.system_time))).scalar_one() if revision else None
        return DatabaseState(
            version=version.split()[0],
            revision=revision,
            needed=SCHEMA_REVISION,
            asked_at=Instant(asked_at + took_ns // 2),
            answer_s=took_ns / NANOS_PER_SECOND,
            now=None if now is None else Instant(int(now * NANOS_PER_SECOND)),
            newest=newest,
        )

    def tables(self) -> Mapping[str, TableSize]:
        """Size of each table that is there.

        Rows are None of one that could not be counted in time.
        """
        self._demand_file()
        with self._database.read() as connection:
            known = set(inspect(connection).get_table_names())
        return {table.name: self._size(table) for table in metadata.sorted_tables if table.name in known}

    def _size(self, table: Table) -> TableSize:
        size = None
        if not self._database.is_sqlite:
            with self._database.read() as connection:
                size = int(connection.execute(select(func.pg_total_relation_size(table.name))).scalar_one())
        try:
            with self._database.read() as connection:
                rows = int(connection.execute(select(func.count()).select_from(table)).scalar_one())
        except Determinate:
            return TableSize(rows=None, size_bytes=size)
        return TableSize(rows=rows, size_bytes=size)

    def demand_prepared(self) -> None:
        """Raises Determinate for a database without the tables of this release."""
        self._demand_file()
        if current_revision(self._database) < SCHEMA_REVISION:
            raise Determinate("the database is not prepared for this release", hint="odf init")

    def _demand_file(self) -> None:
        """Connecting to SQLite would make the file."""
        if self._database.file is not None and not Path(self._database.file).is_file():
            raise Determinate("there is no database file", hint="odf init")
