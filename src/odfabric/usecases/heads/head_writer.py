"""Entries of the head log for moves of this node's datasets.

Signed as they happen.

Invariant: an entry is written in the transaction of its move, or later by `catch_up`, for moves of processes that know no log, of nodes
that share heads, and from before there were logs. A dataset whose key is not here, or not the one that may sign, gets none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from odfabric.domain.heads.head_history import LogEnd
from odfabric.errors import AccessDenied, Changed, Corrupt, CorruptedSource, Determinate
from odfabric.formats.heads.head_log import (
    entry_to_sign,
    read_move,
    read_statement,
    signed_move,
    signed_statement,
    statement_to_sign,
)
from odfabric.model.commit import CatalogEntry
from odfabric.model.heads.head_log import (
    APPENDED,
    CREATED,
    HANDED_OVER,
    PUSHED_HERE,
    REPLACED,
    SEGMENT_ENTRIES,
    STARTED,
    HeadMove,
    HeadStatement,
    SignedMove,
    SignedStatement,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.catalog import Catalog
from odfabric.ports.datasets.chain_reader import ChainReader
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.node.clock import Clock

_log = logging.getLogger(__name__)

CATCH_UP_ATTEMPTS_MAX = 3


class HeadWriter:
    """Signs moves with the keys of datasets."""

    def __init__(
        self, *, logs: HeadLogs, keys: DatasetKeys, catalog: Catalog, chains: ChainReader, clock: Clock
    ) -> None:
        self.logs = logs
        self._keys = keys
        self._catalog = catalog
        self._chains = chains
        self._clock = clock

    def end(self, dataset: DatasetId) -> LogEnd:
        """Where the stored log ends. Raises Corrupt for an entry that was damaged here."""
        line = self.logs.last(dataset)
        return LogEnd(dataset, None if line is None else stored_move(dataset, line))

    def moves(
        self, entry: CatalogEntry, old_head: Multihash | None, new_head: Multihash, kind: str
    ) -> tuple[SignedMove, ...]:
        """The entry for a move that is about to happen; none if this node cannot sign it.

        `old_head` is the head of record. If the log ends at another one, the entry covers what it lacks.
        """
        end = self.end(entry.id)
        if not self._may_sign(entry, end):
            return ()
        last = end.last
        if last is None:
            kind, logged = CREATED if old_head is None else STARTED, None
        else:
            logged = last.move.new_head
            # What happened without an entry may have taken more than this move says.
            if logged != old_head and not self._chains.contains(entry.id, logged):
                kind = REPLACED
        return (self._signed(entry, self._move(end, kind, logged, new_head)),)

    def hand_over_move(self, entry: CatalogEntry, next_signer: bytes) -> SignedMove:
        """The entry by which the present key names the next one.

        Raises AccessDenied without the key.
        """
        end = self.end(entry.id)
        if end.last is None or not self._may_sign(entry, end):
            raise AccessDenied(
                f"the key that signs {entry.alias} is not on this node",
                hint="do it on the node that made the dataset, or import its key first",
            )
        head = end.last.move.new_head
        return self._signed(entry, self._move(end, HANDED_OVER, head, head, next_signer=next_signer))

    def statement(self, entry: CatalogEntry) -> SignedStatement | None:
        """A fresh statement of the log's end, if this node can sign it."""
        end = self.end(entry.id)
        last = end.last
        if last is None or entry.sealed_key is None or not self._may_sign(entry, end):
            return None
        statement = HeadStatement(
            sequence=last.move.sequence,
            head=last.move.new_head,
            log=last.hash,
            signed_at=max(self._clock.now().truncated_to_millis(), last.move.system_time),
            signer=end.signer,
        )
        signature = self._keys.sign(entry.id, entry.sealed_key, statement_to_sign(entry.id, statement))
        return signed_statement(statement, signature)

    def received_statement(self, dataset: DatasetId) -> bytes | None:
        """The newest signature that came with a copy.

        None if it is of an entry that is not here.
        """
        seen, line = self.logs.seen(dataset), self.logs.last(dataset)
        if seen is None or line is None or not seen.line:
            return None
        known = stored_move(dataset, line).move.sequence
        return seen.line if read_statement(dataset, seen.line).statement.sequence <= known else None

    def newest_statement(self, entry: CatalogEntry) -> bytes | None:
        """The line of a fresh statement, else of the one that came with the copy."""
        signed = self.statement(entry)
        return signed.line if signed is not None else self.received_statement(entry.id)

    def catch_up(self, dataset: DatasetId) -> bool:
        """Bring the log to the head of record; whether an entry was missing.

        Raises Determinate, Indeterminate.
        """
        for _ in range(CATCH_UP_ATTEMPTS_MAX):
            entry, head = self._catalog.by_id(dataset), self._chains.head(dataset)
            if entry is None or head is None or entry.sealed_key is None:
                return False
            line = self.logs.last(dataset)
            if line is not None and stored_move(dataset, line).move.new_head == head.hash:
                return False
            moves = self.moves(entry, head.hash, head.hash, APPENDED)
            if not moves:
                return False
            try:
                self.logs.add(dataset, moves)
                return True
            except Changed:
                continue
        raise Determinate("the head log goes on all the time", hint="do it again")

    def newest(self, dataset: DatasetId) -> tuple[int, Sequence[bytes]] | None:
        """Number and lines of the newest segment."""
        line = self.logs.last(dataset)
        if line is None:
            return None
        number = stored_move(dataset, line).move.sequence // SEGMENT_ENTRIES
        return number, self.segment(dataset, number)

    def segment(self, dataset: DatasetId, number: int) -> Sequence[bytes]:
        """Lines of a segment."""
        return self.logs.lines(dataset, first=number * SEGMENT_ENTRIES, limit=SEGMENT_ENTRIES)

    def sign(self, dataset: DatasetId, data: bytes) -> tuple[bytes, bytes] | None:
        """The present signer of a dataset and its signature of `data`.

        None if its key is not here.
        """
        entry = self._catalog.by_id(dataset)
        if entry is None or entry.sealed_key is None:
            return None
        end = self.end(dataset)
        return (end.signer, self._keys.sign(dataset, entry.sealed_key, data)) if self._may_sign(entry, end) else None

    def may_sign(self, entry: CatalogEntry) -> bool:
        """Whether this node has the key that signs the dataset's next move."""
        return self._may_sign(entry, self.end(entry.id))

    def is_signed_elsewhere(self, entry: CatalogEntry) -> bool:
        """Whether the dataset was pushed here with its log by somebody who has its key."""
        seen = self.logs.seen(entry.id)
        if seen is None or seen.place != PUSHED_HERE:
            return False
        end = self.end(entry.id)
        return end.last is not None and not self._may_sign(entry, end)

    def _may_sign(self, entry: CatalogEntry, end: LogEnd) -> bool:
        if entry.sealed_key is None:
            return False
        try:
            public = self._keys.public(entry.id, entry.sealed_key)
        except (Corrupt, AccessDenied, Determinate) as error:
            _log.warning("the key of dataset %s cannot be used, its head moves unsigned: %s", entry.id, error)
            return False
        if public != end.signer:
            _log.warning("the key of dataset %s here is not the one that signs it now", entry.id)
            return False
        return True

    def _move(
        self,
        end: LogEnd,
        kind: str,
        old_head: Multihash | None,
        new_head: Multihash,
        *,
        next_signer: bytes | None = None,
    ) -> HeadMove:
        now: Instant = self._clock.now().truncated_to_millis()
        last = end.last
        return HeadMove(
            sequence=end.sequence,
            kind=kind,
            old_head=old_head,
            new_head=new_head,
            system_time=now if last is None else max(now, last.move.system_time),
            previous=None if last is None else last.hash,
            signer=end.signer,
            next_signer=next_signer,
        )

    def _signed(self, entry: CatalogEntry, move: HeadMove) -> SignedMove:
        assert entry.sealed_key is not None
        return signed_move(move, self._keys.sign(entry.id, entry.sealed_key, entry_to_sign(entry.id, move)))


def stored_move(dataset: DatasetId, line: bytes) -> SignedMove:
    """An entry as it is stored here. Raises Corrupt if it was damaged."""
    try:
        return read_move(dataset, line)
    except CorruptedSource as error:
        raise Corrupt(f"the head log kept here is damaged: {error.message}", object_name=str(dataset)) from None
