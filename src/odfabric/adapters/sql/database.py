"""One database: connections, transactions, and what its failures mean.

Owns the border between the driver and the error tree. Invariant: everything that fails before COMMIT is sent is Determinate, for
a transaction that was never committed did not happen; a COMMIT that fails is Indeterminate, whatever the driver says about it.
On SQLite every write takes the write lock at its beginning (BEGIN IMMEDIATE), so statements of a transaction see each other and
nothing else, and a commit is one fsync of the log (WAL, synchronous=FULL). On PostgreSQL transactions are READ COMMITTED and
rely on row locks and constraints. Not here: tables and statements.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Table, create_engine, event, literal, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DatabaseError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from odfabric.errors import Corrupt, Determinate, Indeterminate, InvalidRequest, Place

_log = logging.getLogger(__name__)

_BEGIN = "odf_begin"
_DAMAGED = ("malformed", "not a database")
_DRIVER = "postgresql+psycopg"
_INSERT_ROWS = 1000  # of few columns each: databases bound the values of one statement
_KEEPALIVE_S = 10
_GONE_MS = 30_000
_CACHE_KIB = 8_000  # of a connection: heads and names of 10,000 datasets, which counts of a search look at
_CONNECT_S_MIN = 2  # the driver knows no shorter one


class Database:
    """A database by its URL, or the file of an SQLite database.

    URLs: `sqlite:///file` or `postgresql://user:password@host/name`.

    `busy_s_max` bounds waits for locks, `connections_max` the connections of this process. Made once per process.
    """

    def __init__(self, place: str | Path, *, busy_s_max: float = 10.0, connections_max: int = 16) -> None:
        self._url = _in_file(place) if isinstance(place, Path) else _parsed(place)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._busy_s_max = busy_s_max
        # SQLite polls for its lock with growing pauses; threads of one process take turns here instead.
        self._turn = threading.Lock() if self.is_sqlite else None
        self._pool = create_engine(
            self._url,
            pool_size=connections_max,
            max_overflow=0,
            pool_timeout=busy_s_max,
            connect_args=self._connect_args(),
            pool_pre_ping=not self.is_sqlite,
            hide_parameters=True,
        )
        if self.is_sqlite:
            event.listen(self._pool, "connect", _set_up_sqlite)
            event.listen(self._pool, "begin", _begin_sqlite)

    @property
    def file(self) -> str | None:
        """Path of the SQLite file."""
        return self._url.database if self.is_sqlite else None

    def close(self) -> None:
        """Close idle connections."""
        self._pool.dispose()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database. Raises Determinate, Corrupt."""
        with self._connected() as connection:
            if self.is_sqlite:
                connection.execution_options(**{_BEGIN: "BEGIN"})
            else:
                connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
            with _before_commit(), connection.begin():
                yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction, committed if the context ends well.

        Raises Determinate, Indeterminate, Corrupt.
        """
        with self._taking_turns(), self._connected() as connection:
            connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            with _before_commit():
                transaction = connection.begin()
                try:
                    yield connection
                except BaseException:
                    with suppress(DBAPIError):
                        transaction.rollback()
                    raise
            try:
                transaction.commit()
            except DBAPIError as error:
                connection.invalidate()
                raise Indeterminate("the database did not confirm the commit") from error

    def raw(self) -> Any:
        """A connection of the driver, outside transactions, for settings of the file.

        The caller closes it.
        """
        return self._pool.raw_connection()

    def _connect_args(self) -> dict[str, object]:
        if self.is_sqlite:
            # Without an isolation level the driver begins no transactions of its own.
            return {"timeout": self._busy_s_max, "isolation_level": None, "check_same_thread": False}
        limit_ms = int(self._busy_s_max * 1000)
        return {
            "connect_timeout": max(_CONNECT_S_MIN, int(self._busy_s_max)),
            # A peer that is gone is noticed; the server's own limits bound what it does for us.
            "keepalives_idle": _KEEPALIVE_S,
            "keepalives_interval": _KEEPALIVE_S,
            "tcp_user_timeout": _GONE_MS,
            "options": f"-c lock_timeout={limit_ms} -c statement_timeout={limit_ms}"
            " -c idle_in_transaction_session_timeout=0",
        }

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        with _before_commit():
            connection = self._pool.connect()
        with connection:
            yield connection

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        if self._turn is None:
            yield
        elif self._turn.acquire(timeout=self._busy_s_max):
            try:
                yield
            finally:
                self._turn.release()
        else:
            raise Determinate("the database is busy")


def _in_file(path: Path) -> URL:
    """The URL of a database file, not made from text.

    In a URL `?` and `%` mean something, in a path they are characters of a name.
    """
    return URL.create("sqlite", database=str(path.absolute()))


def _parsed(text: str) -> URL:
    """`postgresql://` as everybody writes it means the driver that we have.

    Raises InvalidRequest, which does not repeat the URL.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise InvalidRequest("not the URL of a database", place=Place(field="ODF_DATABASE_URL")) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername=_DRIVER)
    if url.drivername not in ("sqlite", _DRIVER) or not url.database:
        hint = "postgresql://user:password@host/name or sqlite:///file"
        raise InvalidRequest("not a database that this node uses", place=Place(field="ODF_DATABASE_URL"), hint=hint)
    return url


def insert_new(connection: Connection, table: Table, values: Mapping[str, object]) -> bool:
    """Insert a row unless one of its unique values is taken.

    Waits for anyone who is taking it. Whether it was inserted.
    """
    return insert_all_new(connection, table, [values])


def insert_all_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, object]]) -> bool:
    """The same for many; those that are new are inserted even if others are not.

    Whether all were.
    """
    dialect = sqlite if connection.dialect.name == "sqlite" else postgresql
    insertion = dialect.insert(table).on_conflict_do_nothing().returning(literal(1))
    # Row counts of an INSERT are not reported by every driver; rows that it returns are.
    portions = (rows[start : start + _INSERT_ROWS] for start in range(0, len(rows), _INSERT_ROWS))
    return sum(len(connection.execute(insertion.values(list(portion))).all()) for portion in portions) == len(rows)


@contextmanager
def _before_commit() -> Iterator[None]:
    """Failures here are of a transaction that has not been committed."""
    try:
        yield
    except (OperationalError, InterfaceError, PoolTimeout) as error:
        raise Determinate(f"the database failed: {_reason(error)}") from error
    except IntegrityError:
        raise
    except DatabaseError as error:
        if error.connection_invalidated:
            raise Determinate(f"the database failed: {_reason(error)}") from error
        if any(sign in str(error.orig) for sign in _DAMAGED):
            raise Corrupt("the database file is damaged", object_name="database") from error
        raise


def _reason(error: Exception) -> str:
    """What strangers may see; hosts and names of the database are for the log."""
    if not isinstance(error, DBAPIError):
        return "all connections are in use"
    _log.warning("the database failed: %s", error.orig)
    state = getattr(error.orig, "sqlstate", "")
    if state == "":  # SQLite
        return str(error.orig)
    return f"SQLSTATE {state}" if state else "it does not answer"


def _set_up_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))
