"""Bringing a database to the shape that this code needs.

Owns when migrations run and who runs them. Invariants: of processes that start together one migrates and the others wait for it; all
pending migrations are one transaction, so a database is at one revision or at another; a database that a newer release has
migrated is left alone, because its migrations only expand what this one uses. Not here: the migrations. Source: ADR 0006.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.tables.schema import SCHEMA_REVISION
from odfabric.errors import Determinate, InvalidRequest

_IN_THE_PACKAGE = Path(__file__).parent / "migrations"
MIGRATIONS = _IN_THE_PACKAGE if _IN_THE_PACKAGE.exists() else Path(__file__).parents[4] / "migrations"
"""Alembic's folder: a wheel has it beside this module, a checkout at its top."""
REVISION_TABLE = "alembic_version"

_ADVISORY_LOCK = 0x6F646661
_PAUSE_S = 0.01
# Alembic keeps the migration under way in globals of its process.
_ONE_AT_A_TIME = threading.Lock()


def upgrade(place: str | Path, *, busy_s_max: float = 30.0, to: str | None = None) -> None:
    """Make or migrate the database, named as in `Database`.

    Nothing happens if it is up to date.

    `to` is a revision to stop at, for the rows of an older release. Raises Determinate, Indeterminate, Corrupt.
    """
    database = Database(place, busy_s_max=busy_s_max, connections_max=1)
    try:
        if database.file is not None:
            _prepare_file(Path(database.file))
        if current_revision(database) >= (to or SCHEMA_REVISION):
            return
        if database.is_sqlite:
            _use_write_ahead_log(database, busy_s_max=busy_s_max)
        _migrate(database, to=to or "head")
    finally:
        database.close()


def check_upgraded(database: Database) -> None:
    """Raises InvalidRequest for a database without the needed tables, Determinate."""
    if current_revision(database) < SCHEMA_REVISION:
        raise InvalidRequest(
            "the database is not prepared for this release", hint="`odf init` does that, also for services"
        )


def downgrade(place: str | Path, *, to: str, busy_s_max: float = 30.0) -> None:
    """Take migrations back to the revision `to` (`base`: all of them, with all rows)."""
    database = Database(place, busy_s_max=busy_s_max, connections_max=1)
    try:
        _migrate(database, to=to, down=True)
    finally:
        database.close()


def _prepare_file(path: Path) -> None:
    """An empty database file that only its owner may read.

    It holds secrets of subscriptions.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        raise Determinate(f"the database file cannot be made: {error.strerror}") from error


def has_revision(revision: str) -> bool:
    """Whether this release knows the migrations up to there."""
    return any(path.name.split("_")[3] == revision for path in (MIGRATIONS / "versions").glob("*.py"))


def revision_of(connection: Connection) -> str:
    """Up to where the database is migrated; empty if it never was."""
    if not inspect(connection).has_table(REVISION_TABLE):
        return ""
    return str(connection.execute(text(f"SELECT max(version_num) FROM {REVISION_TABLE}")).scalar_one() or "")


def current_revision(database: Database) -> str:
    """The newest migration that the database has, empty without our tables.

    Raises Determinate, Corrupt.
    """
    with database.read() as connection:
        return revision_of(connection)


def _use_write_ahead_log(database: Database, *, busy_s_max: float) -> None:
    """The mode is kept in the file.

    Changing it needs the file alone, and SQLite does not wait for that by itself.
    """
    deadline = time.monotonic() + busy_s_max
    while True:
        connection = database.raw()
        try:
            connection.cursor().execute("PRAGMA journal_mode = WAL")
            return
        except connection.dbapi_connection.OperationalError as error:
            if time.monotonic() >= deadline:
                raise Determinate(f"the database is busy: {error}") from error
        finally:
            connection.close()
        time.sleep(_PAUSE_S)


def _migrate(database: Database, *, to: str, down: bool = False) -> None:
    # Imported here: most processes find the database up to date and need not load it.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    with _ONE_AT_A_TIME, database.write() as connection:
        _lock_out_others(connection)
        config.attributes["connection"] = connection
        if down:
            command.downgrade(config, to)
        else:
            command.upgrade(config, to)


def _lock_out_others(connection: Connection) -> None:
    # On SQLite the transaction has the write lock already.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
