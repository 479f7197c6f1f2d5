"""The audit log in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from odfabric.adapters.memory.store import LoggedEntry, MemoryStore
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.people.audit import AuditEntry, AuditOutcome, StoredAuditEntry
from odfabric.ports.people.audit import repeat_key, storable_text


class MemoryAuditLog:
    """An AuditLog."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def add(self, entry: AuditEntry) -> None:
        """See the port."""
        with self._store.lock:
            self._store.log(entry)

    def refused(self, entry: AuditEntry, *, window_s: float) -> None:
        """See the port."""
        key = repeat_key(entry)
        begun = Instant(entry.at.epoch_ns - int(window_s * NANOS_PER_SECOND))
        with self._store.lock:
            for logged in self._store.audit_log:
                if logged.repeat_key != key:
                    continue
                if logged.stored.entry.at > begun:
                    newest = max(logged.stored.last_at, entry.at)
                    logged.stored = replace(logged.stored, count=logged.stored.count + 1, last_at=newest)
                    return
                logged.repeat_key = None
            self._store.log(entry, repeat_key=key)

    def page(
        self,
        *,
        after: int = 0,
        kinds: frozenset[str] | None = None,
        account: str | None = None,
        target: str | None = None,
        outcome: AuditOutcome | None = None,
        since: Instant | None = None,
        until: Instant | None = None,
        before: int | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[StoredAuditEntry]:
        """See the port."""

        def fits(stored: StoredAuditEntry) -> bool:
            entry = stored.entry
            return (
                stored.id > after
                and (before is None or stored.id < before)
                and (kinds is None or entry.kind.value in kinds)
                and (account is None or entry.actor.account == storable_text(account))
                and (target is None or entry.target == storable_text(target))
                and (outcome is None or entry.outcome is outcome)
                and (since is None or entry.at >= since)
                and (until is None or entry.at < until)
            )

        with self._store.lock:
            found = [logged.stored for logged in self._store.audit_log if fits(logged.stored)]
        return found[::-1][:limit] if newest_first else found[:limit]

    def unflushed(self, *, counted_before: Instant, limit: int) -> Sequence[StoredAuditEntry]:
        """See the port."""

        def is_final(logged: LoggedEntry) -> bool:
            return logged.repeat_key is None or logged.stored.entry.at <= counted_before

        with self._store.lock:
            waiting = [logged for logged in self._store.audit_log if not logged.is_flushed]
            return [logged.stored for logged in takewhile(is_final, waiting)][:limit]

    def flushed(self, up_to: int) -> None:
        """See the port."""
        with self._store.lock:
            for logged in self._store.audit_log:
                if logged.stored.id <= up_to:
                    logged.is_flushed, logged.repeat_key = True, None

    def forget(self, *, flushed_before: Instant, limit: int) -> int:
        """See the port."""

        def is_old(logged: LoggedEntry) -> bool:
            return logged.is_flushed and logged.stored.entry.at < flushed_before

        with self._store.lock:
            old = sorted(filter(is_old, self._store.audit_log), key=lambda logged: logged.stored.entry.at)
            gone = {logged.stored.id for logged in old[:limit]}
            self._store.audit_log = [logged for logged in self._store.audit_log if logged.stored.id not in gone]
            return len(gone)
