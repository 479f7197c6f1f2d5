"""Consensus in a SQLite file.

Owns the tables `persist_head_v1` and `persist_log_v1` and the one statement that changes a head. Invariant: an acknowledged
version survives a power cut (write-ahead log, synchronous FULL), and the head row alone decides who wins. The names carry the
version of the protocol: two protocols must never meet on one table. One connection and one lock per handle: with a connection
per thread the waits of SQLite's busy handler reach half a second. Source: ADR 0018.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from odfabric_persist.errors import Corrupt, Determinate, Indeterminate
from odfabric_persist.location.consensus import Version, check_seqno, invalid_truncation

_TABLES = (
    "CREATE TABLE IF NOT EXISTS persist_head_v1 (key TEXT PRIMARY KEY, seqno INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS persist_log_v1 "
    "(key TEXT NOT NULL, seqno INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (key, seqno)) WITHOUT ROWID",
)
_BUSY_S_MAX = 30.0


class SqliteConsensus:
    """`Consensus` in the file at `path`, which is made if missing.

    Several threads and processes may share it.
    """

    def __init__(self, path: Path, *, busy_s_max: float = _BUSY_S_MAX) -> None:
        """`busy_s_max` is the longest wait for another process that writes."""
        self._lock = threading.Lock()
        with _located(writes=False):
            self._connection = sqlite3.connect(
                path, timeout=busy_s_max, isolation_level=None, check_same_thread=False, cached_statements=32
            )
            for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", *_TABLES):
                self._connection.execute(statement).close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        sql = "SELECT seqno, data FROM persist_head_v1 JOIN persist_log_v1 USING (key, seqno) WHERE key = ?"
        found = self._read(sql, (key,))
        return Version(*found[0]) if found else None

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        check_seqno(expected, new)
        with self._writing() as connection:
            if expected is None:
                sql = "INSERT INTO persist_head_v1 VALUES (?, ?) ON CONFLICT DO NOTHING"
                won = connection.execute(sql, (key, new.seqno)).rowcount == 1
            else:
                sql = "UPDATE persist_head_v1 SET seqno = ? WHERE key = ? AND seqno = ?"
                won = connection.execute(sql, (new.seqno, key, expected)).rowcount == 1
            if won:
                connection.execute("INSERT INTO persist_log_v1 VALUES (?, ?, ?)", (key, new.seqno, new.data))
        return won

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        sql = "SELECT seqno, data FROM persist_log_v1 WHERE key = ? AND seqno >= ? ORDER BY seqno LIMIT ?"
        return [Version(*row) for row in self._read(sql, (key, start, limit))]

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        with self._writing() as connection:
            head = connection.execute("SELECT seqno FROM persist_head_v1 WHERE key = ?", (key,)).fetchone()
            if head is None or seqno > head[0]:
                raise invalid_truncation(key, seqno)
            return connection.execute("DELETE FROM persist_log_v1 WHERE key = ? AND seqno < ?", (key, seqno)).rowcount

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        return iter([str(row[0]) for row in self._read("SELECT key FROM persist_head_v1 ORDER BY key", ())])

    def _read(self, sql: str, values: tuple[object, ...]) -> list[tuple[int, bytes]]:
        with self._lock, _located(writes=False):
            return self._connection.execute(sql, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction; it is rolled back if the body fails."""
        with self._lock:
            with _located(writes=False):
                self._connection.execute("BEGIN IMMEDIATE")
            try:
                with _located(writes=False):
                    yield self._connection
            except BaseException:
                self._connection.rollback()
                raise
            self._commit()

    def _commit(self) -> None:
        try:
            with _located(writes=True):
                self._connection.execute("COMMIT")
        except Indeterminate as error:
            if not self._connection.in_transaction:
                raise
            self._connection.rollback()
            raise Determinate(error.message) from error


@contextmanager
def _located(*, writes: bool) -> Iterator[None]:
    """SQLite's errors as ours; only a commit that fails may have happened."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            raise Corrupt(f"the file of versions is damaged ({name})") from error
        kind = Indeterminate if writes else Determinate
        raise kind(f"SQLite: {name}") from error
