"""Cursors in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from odfabric.errors import AlreadyExists, LeaseLost, NotFound
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.subscriptions.cursor import Cursor, CursorPosition, space_of
from odfabric.ports.subscriptions.cursors import CLAIM_HINT, claim_refused


class MemoryCursors:
    """A Cursors."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cursors: dict[tuple[DatasetId, str], Cursor] = {}

    def create(self, cursor: Cursor) -> None:
        """See the port."""
        key = (cursor.dataset_id, cursor.consumer)
        with self._lock:
            if key in self._cursors:
                raise AlreadyExists(f"there is a cursor {cursor.consumer} already")
            self._cursors[key] = cursor

    def get(self, dataset: DatasetId, consumer: str) -> Cursor | None:
        """See the port."""
        with self._lock:
            return self._cursors.get((dataset, consumer))

    def of_dataset(self, dataset: DatasetId, *, space: str | None = None, limit: int) -> Sequence[Cursor]:
        """See the port."""
        with self._lock:
            found = [
                cursor
                for (of, consumer), cursor in self._cursors.items()
                if of == dataset and space in (None, space_of(consumer))
            ]
        return sorted(found, key=lambda cursor: cursor.consumer)[:limit]

    def claim(
        self, dataset: DatasetId, consumer: str, *, expected: str | None, fence: str, now: Instant, lease_ms: int
    ) -> Cursor:
        """See the port."""
        with self._lock:
            found = self._known(dataset, consumer)
            free = found.lease_until <= now if expected is None else found.fence == expected
            if not free:
                raise LeaseLost(claim_refused(consumer), hint=CLAIM_HINT)
            return self._store(replace(found, fence=fence), now, lease_ms)

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
        with self._lock:
            found = self._known(dataset, consumer)
            if found.fence != fence:
                raise LeaseLost(claim_refused(consumer), hint=CLAIM_HINT)
            return self._store(replace(found, position=to), now, lease_ms) if found.position == at else None

    def delete(self, dataset: DatasetId, consumer: str) -> bool:
        """See the port."""
        with self._lock:
            return self._cursors.pop((dataset, consumer), None) is not None

    def _known(self, dataset: DatasetId, consumer: str) -> Cursor:
        found = self._cursors.get((dataset, consumer))
        if found is None:
            raise NotFound("cursor", consumer)
        return found

    def _store(self, cursor: Cursor, now: Instant, lease_ms: int) -> Cursor:
        until = Instant(now.epoch_ns + lease_ms * NANOS_PER_MILLI)
        stored = replace(cursor, lease_until=until, updated_at=now)
        self._cursors[(cursor.dataset_id, cursor.consumer)] = stored
        return stored
