"""Head logs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odfabric.adapters.memory.store import MemoryStore
from odfabric.errors import Changed, NotFound
from odfabric.model.heads.head_log import HANDED_OVER, SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry


class MemoryHeadLogs:
    """A HeadLogs."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def last(self, dataset: DatasetId) -> bytes | None:
        """See the port."""
        with self._store.lock:
            log = self._store.head_logs.get(dataset)
            return log[-1].line if log else None

    def lines(self, dataset: DatasetId, *, first: int, limit: int) -> Sequence[bytes]:
        """See the port."""
        with self._store.lock:
            return [each.line for each in self._store.head_logs.get(dataset, [])[first : first + limit]]

    def handovers(self, dataset: DatasetId, *, limit: int) -> Sequence[bytes]:
        """See the port."""
        with self._store.lock:
            log = self._store.head_logs.get(dataset, [])
            return [each.line for each in log if each.move.kind == HANDED_OVER][-limit:]

    def add(self, dataset: DatasetId, moves: Sequence[SignedMove]) -> None:
        """See the port."""
        with self._store.lock:
            self._expect(dataset)
            check_follows(self._store, dataset, moves)
            self._store.head_logs.setdefault(dataset, []).extend(moves)

    def replace(self, dataset: DatasetId, moves: Sequence[SignedMove], *, audit: Sequence[AuditEntry] = ()) -> None:
        """See the port."""
        with self._store.lock:
            self._expect(dataset)
            self._store.heads_seen.pop(dataset, None)
            self._store.head_logs[dataset] = list(moves)
            self._store.log(*audit)

    def hand_over(
        self,
        dataset: DatasetId,
        moves: Sequence[SignedMove],
        *,
        sealed_key: bytes | None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """See the port."""
        with self._store.lock:
            self.add(dataset, moves)
            stored = self._store.datasets[dataset]
            stored.entry = replace(stored.entry, sealed_key=sealed_key)
            self._store.log(*audit)

    def seen(self, dataset: DatasetId) -> SeenHead | None:
        """See the port."""
        with self._store.lock:
            return self._store.heads_seen.get(dataset)

    def note_seen(self, seen: SeenHead, *, forced: bool = False) -> None:
        """See the port."""
        with self._store.lock:
            known = self._store.heads_seen.get(seen.dataset)
            if forced or known is None or (known.sequence, known.signed_at) <= (seen.sequence, seen.signed_at):
                self._store.heads_seen[seen.dataset] = seen

    def _expect(self, dataset: DatasetId) -> None:
        if dataset not in self._store.datasets:
            raise NotFound("dataset", str(dataset))


def check_follows(store: MemoryStore, dataset: DatasetId, moves: Sequence[SignedMove]) -> None:
    """Raise Changed unless `moves` follow the newest entry."""
    log = store.head_logs.get(dataset)
    found = (len(log), log[-1].hash) if log else (0, None)
    if moves and found != (moves[0].move.sequence, moves[0].move.previous):
        raise Changed("the head log has gone on meanwhile", hint="do it again")
