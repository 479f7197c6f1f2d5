"""Taking what was overwritten or deleted out of an SQLite file.

SQLite leaves old bytes in free space of its file and in its log, so a secret that has been sealed can still be read there. Owns the number
that says whether the file is clean, `user_version`: 0 nobody has looked, 1 clean, others a demand that nobody has met yet. Invariant: a
demand is met by a `VACUUM` that began after it. Nothing happens on PostgreSQL, whose administrator decides about that (`VACUUM FULL`).
"""

from __future__ import annotations

from sqlalchemy import Connection

from odfabric.adapters.sql.database import Database
from odfabric.errors import Determinate

_UNKNOWN = 0
_CLEAN = 1


def demand_scrub(database: Database) -> None:
    """Note that the file is going to hold old bytes that must go."""
    if database.is_sqlite:
        with database.write() as connection:
            _set(connection, max(_version(connection), _CLEAN) + 1)


def scrub(database: Database) -> None:
    """Rewrite file and log if that was demanded. Raises Determinate, leaving the demand: the file is too large for the disk, or in use."""
    if not database.is_sqlite:
        return
    with database.read() as connection:
        demand = _version(connection)
        needed = demand > _CLEAN or (demand == _UNKNOWN and _had_subscriptions(connection))
    if demand == _CLEAN:
        return
    if needed:
        _rewrite(database)
    with database.write() as connection:
        if _version(connection) == demand:
            _set(connection, _CLEAN)


def _rewrite(database: Database) -> None:
    connection = database.raw()
    try:
        cursor = connection.cursor()
        cursor.execute("VACUUM")
        ((busy, _, _),) = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except connection.dbapi_connection.Error as error:
        raise Determinate(f"old bytes of secrets stay in the database file: {error}") from error
    finally:
        connection.close()
    if busy:
        raise Determinate("old bytes of secrets stay in the log of the database: it is in use")


def _had_subscriptions(connection: Connection) -> bool:
    """Whether there has ever been one, as the numbers of its table tell."""
    numbers = connection.exec_driver_sql("SELECT 1 FROM sqlite_sequence WHERE name = 'subscriptions' AND seq > 0")
    return numbers.one_or_none() is not None


def _version(connection: Connection) -> int:
    return int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())


def _set(connection: Connection, version: int) -> None:
    connection.exec_driver_sql(f"PRAGMA user_version = {version}")
