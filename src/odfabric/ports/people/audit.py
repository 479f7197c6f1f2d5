"""The audit log as it is read, and refusals, which change nothing else.

Entries about changes are written by the ports of the changes, in their transactions. Nothing here alters or deletes an entry that a
reader of the audit dataset does not have yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from odfabric.model.instant import Instant
from odfabric.model.people.audit import Actor, AuditEntry, AuditOutcome, StoredAuditEntry


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
        before: int | None = None,
        newest_first: bool = False,
        limit: int,
    ) -> Sequence[StoredAuditEntry]:
        """At most `limit` entries that fit, with ids between `after` and `before`.

        Oldest first unless `newest_first`; greater than `after` and less than `before`.

        `kinds` are values of AuditKind, `account` and `target` texts of the entry. They happened at `since` or later and before `until`.
        """

    def unflushed(self, *, counted_before: Instant, limit: int) -> Sequence[StoredAuditEntry]:
        """The oldest entries not yet in the audit dataset, by ids and without a gap.

        Ends before a refusal of which the first is younger than `counted_before`: it may still be counted.
        """

    def flushed(self, up_to: int) -> None:
        """Mark all entries with ids up to this one as being in the audit dataset."""

    def forget(self, *, flushed_before: Instant, limit: int) -> int:
        """Delete at most `limit` flushed entries that happened before then; how many."""


def storable(entry: AuditEntry) -> AuditEntry:
    """The entry as every adapter keeps it, with texts that every database takes.

    What was refused is named by texts of strangers, and its entry must not fail because of them.
    """
    actor = entry.actor
    return replace(
        entry,
        actor=Actor(
            account=_clean(actor.account),
            name=_clean(actor.name),
            token=_clean(actor.token),
            address=_clean(actor.address),
        ),
        target=_clean(entry.target),
        detail={storable_text(name): storable_text(value) for name, value in entry.detail.items()},
    )


def repeat_key(entry: AuditEntry) -> tuple[str | None, ...]:
    """What is equal in refusals that repeat each other."""
    kept = storable(entry)
    return (kept.kind.value, kept.actor.account, kept.actor.token, kept.actor.address, kept.target)


def storable_text(text: str) -> str:
    """The text with `U+FFFD` for what no database takes: NUL and lone surrogates."""
    return "".join("\ufffd" if sign == "\0" or "\ud800" <= sign <= "\udfff" else sign for sign in text)


def _clean(text: str | None) -> str | None:
    return None if text is None else storable_text(text)
