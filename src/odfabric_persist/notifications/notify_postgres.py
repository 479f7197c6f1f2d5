"""Announcements over LISTEN and NOTIFY of PostgreSQL.

Owns the channel and two connections of its own: one sends, one listens, never within the transaction of a version - a
notification in it would make all commits of the database wait for one another. A pool that lends connections by transaction
cannot listen: give the address of the server itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg
from psycopg.rows import TupleRow

from odfabric_persist.location.postgres_connections import PostgresSettings, connected, described, located
from odfabric_persist.notifications.notify_remote import RemoteNotifier

CHANNEL = "odf_persist_v1"


def postgres_notifier(url: str, settings: PostgresSettings | None = None) -> RemoteNotifier:
    """A `Notifier` over the database at `url`. Raises UsageError (`invalid-url`)."""
    known = settings or PostgresSettings()
    target = described(url, known)
    return RemoteNotifier(
        lambda: _PostgresSender(connected(target, known)), lambda: _PostgresReceiver(connected(target, known))
    )


class _PostgresSender:
    def __init__(self, connection: psycopg.Connection[TupleRow]) -> None:
        self._connection = connection

    def send(self, message: str) -> None:
        """See the protocol."""
        with located(writes=False):
            self._connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, message))

    def close(self) -> None:
        """See the protocol."""
        self._connection.close()


class _PostgresReceiver:
    def __init__(self, connection: psycopg.Connection[TupleRow]) -> None:
        self._connection = connection
        try:
            with located(writes=False):
                connection.execute(f"LISTEN {CHANNEL}")
        except BaseException:
            connection.close()
            raise

    def receive(self, timeout_s: float) -> Sequence[str]:
        """See the protocol."""
        with located(writes=False):
            return [one.payload for one in self._connection.notifies(timeout=timeout_s, stop_after=1)]

    def close(self) -> None:
        """See the protocol."""
        self._connection.close()
