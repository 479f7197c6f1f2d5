"""Consensus in a PostgreSQL database.

Owns the tables `persist_head_v1` and `persist_log_v1` and the one statement that changes a head: at READ COMMITTED the update
looks at the newest committed row once more after it waited for its lock, so the head row alone decides who wins, and the log row
comes with it or not at all. The names carry the version of the protocol: two protocols must never meet on one table. Source: ADR 0018.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odfabric_persist.location.consensus import Version, check_seqno, invalid_truncation
from odfabric_persist.location.postgres_connections import PostgresConnections, PostgresSettings, located

# Half of each page of heads stays free, so that an update finds room beside the old row and touches no index.
_TABLES = (
    'CREATE TABLE IF NOT EXISTS persist_head_v1 (key text COLLATE "C" PRIMARY KEY, seqno bigint NOT NULL) '
    "WITH (fillfactor = 50)",
    'CREATE TABLE IF NOT EXISTS persist_log_v1 (key text COLLATE "C" NOT NULL, seqno bigint NOT NULL, '
    "data bytea NOT NULL, PRIMARY KEY (key, seqno))",
)
_FIRST = (
    "WITH won AS (INSERT INTO persist_head_v1 VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING key, seqno) "
    "INSERT INTO persist_log_v1 SELECT key, seqno, %s FROM won"
)
_NEXT = (
    "WITH won AS (UPDATE persist_head_v1 SET seqno = %s WHERE key = %s AND seqno = %s RETURNING key, seqno) "
    "INSERT INTO persist_log_v1 SELECT key, seqno, %s FROM won"
)
# A head only grows: what is below it when the statement begins stays below it, and the head's own row is never touched.
_TRUNCATE = (
    "WITH head AS (SELECT key, seqno FROM persist_head_v1 WHERE key = %s AND seqno >= %s), "
    "gone AS (DELETE FROM persist_log_v1 AS log USING head WHERE log.key = head.key AND log.seqno < %s RETURNING 1) "
    "SELECT (SELECT count(*) FROM head), (SELECT count(*) FROM gone)"
)
_LOCK = 0x6F64665F70657273
"""Advisory lock of the one who makes the tables: CREATE TABLE IF NOT EXISTS alone fails when two meet."""


class PostgresConsensus:
    """`Consensus` in the database at `url`, whose tables are made if missing.

    Threads and processes may share it.
    """

    def __init__(self, url: str, settings: PostgresSettings | None = None) -> None:
        """Raises UsageError (`invalid-url`), Determinate if the database is down."""
        self._connections = PostgresConnections(url, settings or PostgresSettings())
        try:
            self._ensure_tables()
        except BaseException:
            self._connections.close()
            raise

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        sql = "SELECT seqno, data FROM persist_head_v1 JOIN persist_log_v1 USING (key, seqno) WHERE key = %s"
        _, rows = self._connections.run(sql, (key,), writes=False)
        return Version(*rows[0]) if rows else None

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        check_seqno(expected, new)
        if expected is None:
            count, _ = self._connections.run(_FIRST, (key, new.seqno, new.data), writes=True)
        else:
            count, _ = self._connections.run(_NEXT, (new.seqno, key, expected, new.data), writes=True)
        return count == 1

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        sql = "SELECT seqno, data FROM persist_log_v1 WHERE key = %s AND seqno >= %s ORDER BY seqno LIMIT %s"
        _, rows = self._connections.run(sql, (key, start, limit), writes=False)
        return [Version(*row) for row in rows]

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        _, rows = self._connections.run(_TRUNCATE, (key, seqno, seqno), writes=True)
        heads, gone = rows[0]
        if not heads:
            raise invalid_truncation(key, seqno)
        return int(gone)

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        _, rows = self._connections.run("SELECT key FROM persist_head_v1 ORDER BY key", (), writes=False)
        return iter([str(row[0]) for row in rows])

    def _ensure_tables(self) -> None:
        """Make the tables unless they exist; that is asked first.

        A role that may only read and write rows can use tables that an administrator made.
        """
        sql = "SELECT to_regclass('persist_head_v1') IS NOT NULL AND to_regclass('persist_log_v1') IS NOT NULL"
        _, rows = self._connections.run(sql, (), writes=False)
        if rows[0][0]:
            return
        with self._connections.lent() as connection, located(writes=False), connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            for statement in _TABLES:
                connection.execute(statement)
