"""Cursors in SQL.

Owns the statements behind `ports.subscriptions.cursors`. Invariant: every change of a row is one UPDATE with the fence in its condition, so of
several who expect one fence exactly one wins.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, Row, delete, select, update

from odfabric.adapters.sql.database import Database, insert_new
from odfabric.adapters.sql.tables.subscriptions import cursors
from odfabric.errors import AlreadyExists, LeaseLost, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.subscriptions.cursor import Cursor, CursorMode, CursorPosition
from odfabric.ports.subscriptions.cursors import CLAIM_HINT, claim_refused


class SqlCursors:
    """A Cursors."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, cursor: Cursor) -> None:
        """See the port."""
        values = {
            "dataset_id": cursor.dataset_id,
            "consumer": cursor.consumer,
            **_position_values(cursor.position),
            "fence": cursor.fence,
            "lease_until": cursor.lease_until,
            "created_at": cursor.created_at,
            "updated_at": cursor.updated_at,
        }
        with self._database.write() as connection:
            if not insert_new(connection, cursors, values):
                raise AlreadyExists(f"there is a cursor {cursor.consumer} already")

    def get(self, dataset: DatasetId, consumer: str) -> Cursor | None:
        """See the port."""
        with self._database.read() as connection:
            return _get(connection, dataset, consumer)

    def of_dataset(self, dataset: DatasetId, *, space: str | None = None, limit: int) -> Sequence[Cursor]:
        """See the port."""
        wanted = select(cursors).where(cursors.c.dataset_id == dataset)
        if space is not None:
            has_space = cursors.c.consumer.contains("/")
            wanted = wanted.where(cursors.c.consumer.startswith(f"{space}/", autoescape=True) if space else ~has_space)
        with self._database.read() as connection:
            found = [_cursor(row) for row in connection.execute(wanted)]
        # Databases order texts by languages; ours is the order of their characters.
        return sorted(found, key=lambda cursor: cursor.consumer)[:limit]

    def claim(
        self, dataset: DatasetId, consumer: str, *, expected: str | None, fence: str, now: Instant, lease_ms: int
    ) -> Cursor:
        """See the port."""
        free = cursors.c.lease_until <= now if expected is None else cursors.c.fence == expected
        values = {"fence": fence, "lease_until": _after(now, lease_ms), "updated_at": now}
        with self._database.write() as connection:
            claimed = update(cursors).where(_is(dataset, consumer), free).values(values).returning(cursors)
            row = connection.execute(claimed).one_or_none()
            if row is None:
                raise _refusal(connection, dataset, consumer)
            return _cursor(row)

    def move(
        self,
        dataset: DatasetId,
        consumer: str,
        *,
        fence: str,
        at: CursorPosition,
        to: CursorPosition,
        now: Instant,
        lease_ms: int,
    ) -> Cursor | None:
        """See the port."""
        here = [cursors.c[name] == value for name, value in _position_values(at).items()]
        values = {**_position_values(to), "lease_until": _after(now, lease_ms), "updated_at": now}
        held = update(cursors).where(_is(dataset, consumer), cursors.c.fence == fence, *here)
        with self._database.write() as connection:
            row = connection.execute(held.values(values).returning(cursors)).one_or_none()
            if row is not None:
                return _cursor(row)
            found = _get(connection, dataset, consumer)
            if found is None or found.fence != fence:
                raise _refusal(connection, dataset, consumer)
            return None

    def delete(self, dataset: DatasetId, consumer: str) -> bool:
        """See the port."""
        with self._database.write() as connection:
            return connection.execute(delete(cursors).where(_is(dataset, consumer))).rowcount > 0


def _is(dataset: DatasetId, consumer: str) -> ColumnElement[bool]:
    return (cursors.c.dataset_id == dataset) & (cursors.c.consumer == consumer)


def _get(connection: Connection, dataset: DatasetId, consumer: str) -> Cursor | None:
    row = connection.execute(select(cursors).where(_is(dataset, consumer))).one_or_none()
    return _cursor(row) if row else None


def _refusal(connection: Connection, dataset: DatasetId, consumer: str) -> NotFound | LeaseLost:
    if _get(connection, dataset, consumer) is None:
        return NotFound("cursor", consumer)
    return LeaseLost(claim_refused(consumer), hint=CLAIM_HINT)


def _after(now: Instant, millis: int) -> Instant:
    return Instant(now.epoch_ns + millis * NANOS_PER_MILLI)


def _position_values(position: CursorPosition) -> dict[str, object]:
    return {
        "mode": position.mode.value,
        "next_sequence": position.next_sequence,
        "next_row": position.next_row,
        "epoch": position.epoch,
    }


def _cursor(row: Row[tuple[object, ...]]) -> Cursor:
    position = CursorPosition(
        mode=CursorMode(row.mode), next_sequence=row.next_sequence, next_row=row.next_row, epoch=row.epoch
    )
    return Cursor(
        dataset_id=row.dataset_id,
        consumer=row.consumer,
        position=position,
        fence=row.fence,
        lease_until=row.lease_until,
        created_at=row.created_at,
        updated_at=row.updated_at,
    )
