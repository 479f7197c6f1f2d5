"""Cursors of consumers: make one, hold it, fetch what comes next, acknowledge.

Invariant: a cursor moves only by an acknowledgement of whoever holds its fence, and only forward; of several who want to hold it one
does. Nothing is held back for cursors, so one that nobody reads costs a row. Not here: what there is to be read at a position
(`usecases.reading.read_changes`). Source: ADR 0015.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from odfabric.domain.people.access import LOCAL_ACCOUNT, Subject, signed_in
from odfabric.domain.subscriptions.cursor import baseline_at, changes_after, check_consumer, parse_position
from odfabric.errors import InvalidName, InvalidRequest, LeaseLost, LimitExceeded, NotFound, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.subscriptions.cursor import Cursor, CursorPosition
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.subscriptions.cursors import CLAIM_HINT, Cursors, claim_refused
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.reading.read_changes import ChangeReader


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorRules:
    """Limits of cursors: how many a dataset has, a holder's silence in milliseconds."""

    cursors_max: int
    lease_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What there is at a position, and the position after it.

    Without an event there is nothing to be read yet.
    """

    cursor: Cursor
    event: dict[str, object] | None
    position: CursorPosition

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "consumer": _name(self.cursor),
            "leaseUntil": str(self.cursor.lease_until),
            "event": self.event,
            "position": str(self.position),
        }


def cursor_value(cursor: Cursor) -> dict[str, object]:
    """As JSON, for everybody: without the fence."""
    return {
        "consumer": _name(cursor),
        "mode": cursor.position.mode.value,
        "position": str(cursor.position),
        "leaseUntil": str(cursor.lease_until),
        "createdAt": str(cursor.created_at),
        "updatedAt": str(cursor.updated_at),
    }


def _name(cursor: Cursor) -> str:
    return cursor.consumer.rpartition("/")[2]


def held_value(cursor: Cursor) -> dict[str, object]:
    """As JSON, for its holder."""
    return {**cursor_value(cursor), "fence": cursor.fence}


class CursorVerbs:
    """The verbs of cursors, bound to their ports."""

    def __init__(
        self,
        *,
        repository: Repository,
        cursors: Cursors,
        reader: ChangeReader,
        clock: Clock,
        entropy: Entropy,
        rules: CursorRules,
    ) -> None:
        """Of the account `local`; `of` gives those of others."""
        self._space = ""
        self._repository = repository
        self._cursors = cursors
        self._reader = reader
        self._clock = clock
        self._entropy = entropy
        self._rules = rules

    def of(self, subject: Subject) -> CursorVerbs:
        """The verbs on the subject's own cursors. Raises Unauthenticated for a stranger.

        Accounts neither see nor take each other's.
        """
        account, own = signed_in(subject), copy(self)
        own._space = "" if account.name == LOCAL_ACCOUNT else str(account.id).rpartition(":")[2]
        return own

    def create(self, entry: CatalogEntry, consumer: str, *, start: str) -> Cursor:
        """A cursor that its maker holds.

        `start` is `baseline`, `now`, `start`, or the block after which to begin.

        Raises InvalidName, InvalidRequest, AlreadyExists, LimitExceeded, NotFound.
        """
        stored = self._stored(consumer)
        position = self._start(entry, start)
        maximum = self._rules.cursors_max
        if len(self._cursors.of_dataset(entry.id, space=self._space, limit=maximum)) >= maximum:
            raise LimitExceeded(
                f"{entry.alias} has too many cursors of yours", limit="cursors_per_dataset_max", maximum=maximum
            )
        now = self._clock.now()
        cursor = Cursor(
            dataset_id=entry.id,
            consumer=stored,
            position=position,
            fence=self._new_fence(),
            lease_until=Instant(now.epoch_ns + self._rules.lease_ms * NANOS_PER_MILLI),
            created_at=now,
            updated_at=now,
        )
        self._cursors.create(cursor)
        return cursor

    def list(self, entry: CatalogEntry) -> Sequence[Cursor]:
        """Cursors of a dataset, by name."""
        return self._cursors.of_dataset(entry.id, space=self._space, limit=self._rules.cursors_max)

    def get(self, entry: CatalogEntry, consumer: str) -> Cursor:
        """A cursor. Raises NotFound, InvalidName."""
        found = self._cursors.get(entry.id, self._stored(consumer))
        if found is None:
            raise NotFound("cursor", consumer)
        return found

    def delete(self, entry: CatalogEntry, consumer: str) -> None:
        """Delete a cursor, whoever holds it. Raises NotFound."""
        if not self._cursors.delete(entry.id, self._stored(consumer)):
            raise NotFound("cursor", consumer)

    def claim(self, entry: CatalogEntry, consumer: str, *, fence: str | None) -> Cursor:
        """Become the holder, by the last fence or after its lease.

        Raises LeaseLost, NotFound.
        """
        self.get(entry, consumer)
        return self._cursors.claim(
            entry.id,
            self._stored(consumer),
            expected=fence,
            fence=self._new_fence(),
            now=self._clock.now(),
            lease_ms=self._rules.lease_ms,
        )

    def read_at(
        self, entry: CatalogEntry, position: str, *, limit: int | None = None
    ) -> tuple[dict[str, object] | None, str]:
        """What there is at a position that the consumer keeps, and the next position.

        `position` is the text of one, or where to start as in `create`. Raises InvalidRequest, LimitExceeded, NotFound, Corrupt.
        """
        rows_max = self._reader.rows_max(limit)
        at = parse_position(position) if "." in position else self._start(entry, position)
        event, after = self._reader.read(entry.id, at, rows_max=rows_max)
        return event, str(after)

    def fetch(self, entry: CatalogEntry, consumer: str, *, fence: str, limit: int | None = None) -> Fetched:
        """What comes next, at most `limit` rows of it.

        The same again until it is acknowledged.

        Raises LeaseLost for a stale fence, InvalidRequest, LimitExceeded, NotFound, Corrupt.
        """
        rows_max = self._reader.rows_max(limit)
        cursor = self._held(entry, consumer, fence)
        event, after = self._reader.read(entry.id, cursor.position, rows_max=rows_max)
        return Fetched(cursor=cursor, event=event, position=after)

    def acknowledge(self, entry: CatalogEntry, consumer: str, *, fence: str, position: str) -> Cursor:
        """Everything before `position`, as a fetch told it, is safe with the consumer.

        Older positions are passed over.

        Raises LeaseLost for a stale fence, InvalidRequest for a position that this chain does not have, NotFound.
        """
        to = parse_position(position)
        if not self._reader.has(entry.id, to):
            raise InvalidRequest(
                f"{entry.alias} has no such position",
                place=Place(field="position"),
                hint="fetch again: what comes tells whether the dataset was made anew",
            )
        while True:
            cursor = self._held(entry, consumer, fence)
            at = cursor.position
            if self._reader.in_chain(entry.id, at) and to.order <= at.order:
                return cursor
            moved = self._move(cursor, fence, to)
            if moved is not None:
                return moved

    def _stored(self, consumer: str) -> str:
        """The consumer as the port knows it. Raises InvalidName."""
        name = check_consumer(consumer)
        return f"{self._space}/{name}" if self._space else name

    def _new_fence(self) -> str:
        return self._entropy.random_bytes(16).hex()

    def _held(self, entry: CatalogEntry, consumer: str, fence: str) -> Cursor:
        """The cursor, its lease prolonged. Raises LeaseLost, NotFound."""
        while True:
            cursor = self.get(entry, consumer)
            if cursor.fence != fence:
                raise LeaseLost(claim_refused(consumer), hint=CLAIM_HINT)
            held = self._move(cursor, fence, cursor.position)
            if held is not None:
                return held

    def _move(self, cursor: Cursor, fence: str, to: CursorPosition) -> Cursor | None:
        return self._cursors.move(
            cursor.dataset_id,
            cursor.consumer,
            fence=fence,
            at=cursor.position,
            to=to,
            now=self._clock.now(),
            lease_ms=self._rules.lease_ms,
        )

    def _start(self, entry: CatalogEntry, start: str) -> CursorPosition:
        head = self._repository.head(entry.id)
        if start == "baseline":
            return baseline_at(head.hash, head.sequence_number)
        if start == "now":
            return changes_after(head.hash, head.sequence_number)
        if start == "start":
            row = next(iter(self._repository.chains.rows_down(entry.id, from_sequence=0)), None)
            if row is None:
                raise NotFound("dataset", str(entry.alias), hint="it was removed meanwhile")
            return changes_after(row.hash, 0)
        try:
            block = self._repository.chains.row(entry.id, parse_multihash(start))
        except InvalidName:
            raise InvalidRequest(
                f"not a place to start from: {start[:100]!r}",
                place=Place(field="from"),
                hint="baseline, now, start, or the hash of a block",
            ) from None
        if block is None:
            raise NotFound("block", start)
        return changes_after(block.hash, block.sequence_number)
