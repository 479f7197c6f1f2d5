"""Connections to PostgreSQL: a small bounded set, and what their failures mean.

Owns opening, lending and replacing connections, and the list of errors after which a statement surely had no effect. Invariant:
a connection that failed is never lent again. Every statement is a transaction of its own. Not for use across a fork: a child
opens its own set. Source: ADR 0018.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import psycopg
from psycopg import conninfo, pq
from psycopg.rows import TupleRow

from odfabric_persist.errors import Determinate, Indeterminate, UsageError

WITHOUT_EFFECT = frozenset({"40001", "40P01", "55P03", "25006"})
"""Answers that mean that nothing happened: serialization failure, deadlock, lock not available, a server that only reads."""

_GONE = frozenset({"57P01", "57P02", "57P03", "08003", "08006"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresSettings:
    """How many connections, and how long to wait for what, in seconds."""

    connections_max: int = 8
    connect_s_max: float = 5.0
    statement_s_max: float = 30.0
    idle_s_max: float = 300.0
    """A connection that was idle for longer is replaced: routers on the way forget it without a word."""
    prepares: bool = True
    """Whether statements are prepared; off behind a pool of connections that does not know them."""


class PostgresConnections:
    """At most `connections_max` connections to the database at `url`.

    Safe for threads.
    """

    def __init__(self, url: str, settings: PostgresSettings) -> None:
        """Opens nothing yet. Raises UsageError (`invalid-url`)."""
        self._conninfo = described(url, settings)
        self._settings = settings
        self._free = threading.BoundedSemaphore(settings.connections_max)
        self._lock = threading.Lock()
        self._idle: list[tuple[float, psycopg.Connection[TupleRow]]] = []
        self._closed = False

    def close(self) -> None:
        """Close what is idle, and what is lent as soon as it comes back."""
        with self._lock:
            self._closed = True
        self._close_idle()

    def run(self, statement: str, values: tuple[object, ...], *, writes: bool) -> tuple[int, list[TupleRow]]:
        """One statement: the number of rows that it touched, and its rows.

        Raises Determinate if it surely had no effect, as all do that do not write, else Indeterminate.
        """
        with self.lent() as connection, located(writes=writes):
            cursor = connection.execute(statement, values, binary=True)
            return cursor.rowcount, cursor.fetchall() if cursor.description else []

    @contextmanager
    def lent(self) -> Iterator[psycopg.Connection[TupleRow]]:
        """A connection that nobody else has. Raises Determinate if there is none in time."""
        if not self._free.acquire(timeout=self._settings.statement_s_max):
            raise Determinate("all connections to the database are busy")
        try:
            connection = self._take() or connected(self._conninfo, self._settings)
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _take(self) -> psycopg.Connection[TupleRow] | None:
        oldest = time.monotonic() - self._settings.idle_s_max
        with self._lock:
            if self._closed:
                raise Determinate("the connections to the database are closed")
            found = self._idle.pop() if self._idle else None
        if found is None or found[0] >= oldest:
            return None if found is None else found[1]
        # The others have been idle for even longer.
        found[1].close()
        self._close_idle()
        return None

    def _give_back(self, connection: psycopg.Connection[TupleRow]) -> None:
        if connection.info.transaction_status is not pq.TransactionStatus.IDLE:
            # What broke one has most likely broken the idle ones too.
            connection.close()
            self._close_idle()
            return
        with self._lock:
            if not self._closed:
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()


def described(url: str, settings: PostgresSettings) -> str:
    """The address with what every connection needs. Raises UsageError (`invalid-url`)."""
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise UsageError("invalid-url", "this is no address of a PostgreSQL database") from None
    defaults: dict[str, str | int | None] = {
        "connect_timeout": max(2, round(settings.connect_s_max)),
        "tcp_user_timeout": round(settings.statement_s_max * 1000),
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        # A server that only follows another answers from the past.
        "target_session_attrs": "read-write",
        "application_name": "odfabric-persist",
    }
    return conninfo.make_conninfo("", **{**defaults, **given})


def connected(target: str, settings: PostgresSettings) -> psycopg.Connection[TupleRow]:
    """A connection whose statements commit by themselves, at READ COMMITTED, durably.

    Raises Determinate.
    """
    try:
        connection = psycopg.connect(target, autocommit=True, prepare_threshold=1 if settings.prepares else None)
    except psycopg.Error as error:
        raise Determinate(f"no connection to PostgreSQL: {_reason(error)}") from error
    try:
        connection.execute(
            "SELECT set_config('statement_timeout', %s, false), "
            "set_config('default_transaction_isolation', 'read committed', false), "
            # Where commits are not synchronous an acknowledged one may be lost.
            "set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' "
            "ELSE current_setting('synchronous_commit') END, false)",
            (str(round(settings.statement_s_max * 1000)),),
        )
    except psycopg.Error as error:
        with suppress(psycopg.Error):
            connection.close()
        raise Determinate(f"no use of PostgreSQL: {_reason(error)}") from error
    return connection


@contextmanager
def located(*, writes: bool) -> Iterator[None]:
    """PostgreSQL's errors as ours: sent writes may have happened.

    Unless the answer says that they did not.
    """
    try:
        yield
    except psycopg.Error as error:
        kind = Indeterminate if writes and error.sqlstate not in WITHOUT_EFFECT else Determinate
        raise kind(f"PostgreSQL: {_reason(error)}") from error


def _reason(error: psycopg.Error) -> str:
    """What happened, in one line.

    The driver names hosts and users in it, never passwords.
    """
    if error.sqlstate in _GONE:
        return f"the server went away ({error.sqlstate})"
    text = error.diag.message_primary or str(error).partition("\n")[0] or type(error).__name__
    return text if error.sqlstate is None else f"{text} ({error.sqlstate})"
