"""The audit log as it is read, and refusals, which change nothing else.

Entries about changes are written by the ports of the changes, in their transactions. Nothing here alters or deletes an entry that a
reader of the audit dataset does not have yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.audit import AuditEntry, AuditOutcome, StoredAuditEntry
from odfabric.model.instant import Instant


class AuditLog(Protocol):
    """Raises Determinate or Indeterminate for outside failures."""

    def add(self, entry: AuditEntry) -> None:
        """Append an entry about something that no other port stores."""

    def refused(self, entry: AuditEntry, *, window_s: float) -> None:
        """Append a refusal; one that repeats within the window is counted instead.

        Refusals repeat each other if kind, account, token, address and target are equal; the time of the first one begins the window,
        and an entry that was flushed is counted no further.
        """

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
        limit: int,
    ) -> Sequence[StoredAuditEntry]:
        """At most `limit` entries that fit, oldest first, with ids greater than `after`. `kinds` are values of AuditKind."""

    def unflushed(self, *, counted_before: Instant, limit: int) -> Sequence[StoredAuditEntry]:
        """The oldest entries that are not in the audit dataset yet, in order of ids and without a gap.

        Ends before a refusal of which the first is younger than `counted_before`: it may still be counted.
        """

    def flushed(self, up_to: int) -> None:
        """Mark all entries with ids up to this one as being in the audit dataset."""

    def forget(self, *, flushed_before: Instant, limit: int) -> int:
        """Delete at most `limit` flushed entries that happened before then; how many."""
