"""Judge the head log of a dataset elsewhere before anything of it is taken.

Owns which segments are read: the newest, those down to what is kept here, all of them only if the log is not a continuation of ours.
Invariant: nothing is taken of a log whose entries are not signed by the dataset's keys, one after the other; what was seen once is not
taken back unless forced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from odfabric.domain.heads.head_history import (
    FORCEABLE,
    MISSING,
    LogEnd,
    check_against_seen,
    check_fresh,
    check_head_is_signed,
    check_lineage,
    check_moves,
    check_statement,
    refusal,
    rewrites_history,
)
from odfabric.errors import CorruptedSource, LimitExceeded
from odfabric.formats.heads.head_log import read_move, read_statement, segment_lines, segment_text, tampered
from odfabric.formats.identifiers.dataset_layout import HEAD_LOG, HEAD_SIGNATURE
from odfabric.model.heads.head_log import SEGMENT_ENTRIES, HeadStatement, SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.ports.node.clock import Clock
from odfabric.usecases.heads.head_writer import stored_move

OLDER_HEADS_MAX = 1000
"""Entries kept here among which an old head is looked for."""


class LogPlace(Protocol):
    """Where a log elsewhere is read.

    `ports.sources.egress.RemoteDataset`, a destination.
    """

    def ref(self, path: str) -> bytes | None:
        """A small file such as `refs/head.log`; None if it is not there.

        Raises LimitExceeded, Determinate.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """A log that holds: what of it is new here, and what its signer says.

    `replaces`: `moves` are the whole log, which takes the place of ours, as it was forced. `head` is the newest signed one.
    """

    moves: tuple[SignedMove, ...]
    end: LogEnd
    statement: HeadStatement
    line: bytes
    replaces: bool = False

    @property
    def head(self) -> Multihash:
        """The newest head that is signed."""
        return self.statement.head


@dataclass(frozen=True, slots=True, kw_only=True)
class LogJudge:
    """Judges logs by what this node keeps and has seen.

    `age_s_max` 0: a signature may have any age.
    """

    logs: HeadLogs
    clock: Clock
    age_s_max: float
    entries_max: int

    def judge(
        self, dataset: DatasetId, head: Multihash, place: LogPlace, *, shown: str, force: bool = False
    ) -> JudgedLog | None:
        """The log at `place`, where the head is `head`.

        None if there is none and none was ever seen.

        Raises CorruptedSource by the rule that is broken: `head-log-rollback`, `head-log-fork`, `head-log-freeze`, `head-log-missing`,
        `head-unsigned`, which `force` sets aside; `head-log-tampered`, `head-log-signer`. LimitExceeded, Determinate.
        """
        reading = _Reading(self, dataset, place, shown, force)
        return reading.judged(head)

    def note(self, dataset: DatasetId, judged: JudgedLog, *, shown: str, forced: bool = False) -> None:
        """Remember what was seen."""
        said = judged.statement
        seen = SeenHead(
            dataset=dataset,
            sequence=said.sequence,
            head=said.head,
            log=said.log,
            signer=said.signer,
            signed_at=said.signed_at,
            seen_at=self.clock.now().truncated_to_millis(),
            place=shown,
            line=judged.line,
        )
        self.logs.note_seen(seen, forced=forced)

    def check_lineage(
        self,
        dataset: DatasetId,
        moves: Sequence[SignedMove],
        number_of: Callable[[Multihash], int | None],
        *,
        whole: bool = False,
        continued: bool = False,
    ) -> None:
        """Hold what new entries say of moves against the chain.

        They follow what is kept here, unless they are the `whole` log. With `continued` later entries are to come, which may say that history
        was rewritten: what that would decide is judged with them. Raises CorruptedSource by rule `head-log-tampered`, LimitExceeded.
        """
        before = [] if whole or not moves else self._undecided(dataset, moves[0].move.sequence, number_of)
        check_lineage([*before, *moves], number_of, continued=continued)

    def _undecided(
        self, dataset: DatasetId, end: int, number_of: Callable[[Multihash], int | None]
    ) -> list[SignedMove]:
        """Kept entries before number `end`, oldest first.

        They go back to the newest whose block is in the chain or that rewrote it.
        """
        found: list[SignedMove] = []
        while (kept := self.kept(dataset, end - len(found) - 1)) is not None:
            if len(found) == self.entries_max:
                raise LimitExceeded("the head log is too long", limit="head_log_entries_max", maximum=self.entries_max)
            found.append(kept)
            if rewrites_history(kept.move) or number_of(kept.move.new_head) is not None:
                break
        return found[::-1]

    def end(self, dataset: DatasetId) -> LogEnd:
        """Where the log that is kept here ends."""
        line = self.logs.last(dataset)
        return LogEnd(dataset, None if line is None else stored_move(dataset, line))

    def kept(self, dataset: DatasetId, number: int) -> SignedMove | None:
        """An entry that is kept here."""
        found = self.logs.lines(dataset, first=number, limit=1) if number >= 0 else ()
        return stored_move(dataset, found[0]) if found else None


@dataclass(slots=True)
class _Reading:
    judge: LogJudge
    dataset: DatasetId
    place: LogPlace
    shown: str
    force: bool
    moves: list[SignedMove] = field(default_factory=list)
    """Entries that were read, without gaps."""

    def judged(self, head: Multihash) -> JudgedLog | None:
        own = self.judge.end(self.dataset)
        seen = self._seen(own)
        signature, tail = self.place.ref(HEAD_SIGNATURE), self.place.ref(HEAD_LOG)
        if signature is None or tail is None:
            if seen is not None or tail is not None or signature is not None:
                self._refuse(lambda: _missing(self.shown, seen))
            return None
        stated = self._stated(signature)
        if own.last is not None and self._is_kept_here(tail, head, stated, own, seen):
            self.moves = [own.last]
            end, replaces = own, False
        else:
            self.moves = self._segment(tail)
            end, replaces = self._joined(own)
        line = signature.removesuffix(b"\n")
        statement = check_statement(end, stated, self._at, now=self.judge.clock.now())
        if seen is not None:
            known = seen
            self._refuse(
                lambda: check_against_seen(
                    known, statement, theirs=self._hash_at, ours=self._own_hash_at, shown=self.shown
                )
            )
        age_s_max = self.judge.age_s_max
        self._refuse(lambda: check_fresh(statement, now=self.judge.clock.now(), age_s_max=age_s_max, shown=self.shown))
        self._refuse(lambda: check_head_is_signed(head, self._downwards(), seen=seen, shown=self.shown))
        new = self.moves if replaces else [each for each in self.moves if each.move.sequence >= own.sequence]
        return JudgedLog(moves=tuple(new), end=end, statement=statement, line=line, replaces=replaces)

    def _stated(self, signature: bytes) -> HeadStatement:
        return read_statement(self.dataset, signature.removesuffix(b"\n")).statement

    def _is_kept_here(
        self, tail: bytes, head: Multihash, stated: HeadStatement, own: LogEnd, seen: SeenHead | None
    ) -> bool:
        """Whether the log has nothing that is not kept here.

        Its newest segment is ours, byte by byte, the head is where it ends, and the signature is of that log. Then no signature of an entry
        is verified again.
        """
        last = own.last
        if last is None or head != last.move.new_head or (seen is not None and seen.sequence > last.move.sequence):
            return False
        first = last.move.sequence // SEGMENT_ENTRIES * SEGMENT_ENTRIES
        if tail != segment_text(self.judge.logs.lines(self.dataset, first=first, limit=SEGMENT_ENTRIES)):
            return False
        known = self.judge.kept(self.dataset, stated.sequence)
        return known is not None and known.hash == stated.log

    def _seen(self, own: LogEnd) -> SeenHead | None:
        """The newest of what was seen elsewhere and of what is kept here."""
        seen, last = self.judge.logs.seen(self.dataset), own.last
        if last is None or (seen is not None and seen.sequence >= last.move.sequence):
            return seen
        move = last.move
        return SeenHead(
            dataset=self.dataset,
            sequence=move.sequence,
            head=move.new_head,
            log=last.hash,
            signer=move.signer,
            signed_at=move.system_time,
            seen_at=move.system_time,
            place="this node",
            line=b"",
        )

    def _segment(self, data: bytes) -> list[SignedMove]:
        moves = [read_move(self.dataset, line) for line in segment_lines(data)]
        if moves[0].move.sequence % SEGMENT_ENTRIES:
            raise tampered("the newest segment of the head log does not begin where one begins")
        for before, each in pairwise(moves):
            check_moves(LogEnd(self.dataset, before), [each])
        return moves

    def _joined(self, own: LogEnd) -> tuple[LogEnd, bool]:
        """The log's end, judged from its beginning or from what is kept here.

        And whether it is another log than ours.
        """
        self._read_down_to(min(own.sequence, self.moves[0].move.sequence))
        first = self.moves[0].move.sequence
        before = self.judge.kept(self.dataset, first - 1) if first else None
        ours = {each.move.sequence: each for each in self._kept_from(first)}
        same = all(ours.get(each.move.sequence, each).hash == each.hash for each in self.moves)
        if same and (first == 0 or (before is not None and self.moves[0].move.previous == before.hash)):
            return check_moves(LogEnd(self.dataset, before), self.moves), False
        self._read_down_to(0)
        return check_moves(LogEnd(self.dataset), self.moves), True

    def _kept_from(self, first: int) -> list[SignedMove]:
        lines = self.judge.logs.lines(self.dataset, first=first, limit=len(self.moves))
        return [stored_move(self.dataset, line) for line in lines]

    def _read_down_to(self, number: int) -> None:
        if self.moves[-1].move.sequence - number >= self.judge.entries_max:
            raise LimitExceeded(
                f"the head log at {self.shown} is too long",
                limit="head_log_entries_max",
                maximum=self.judge.entries_max,
            )
        older: list[list[SignedMove]] = []
        first = self.moves[0].move.sequence
        for segment in range(first // SEGMENT_ENTRIES - 1, number // SEGMENT_ENTRIES - 1, -1):
            data = self.place.ref(f"{HEAD_LOG}.{segment}")
            if data is None:
                raise tampered(f"segment {segment} of the head log at {self.shown} is missing")
            older.append(self._segment(data))
        if older:
            self.moves = [each for segment_moves in reversed(older) for each in segment_moves] + self.moves

    def _at(self, number: int) -> SignedMove | None:
        first = self.moves[0].move.sequence
        if number >= first:
            return self.moves[number - first] if number - first < len(self.moves) else None
        return self.judge.kept(self.dataset, number)

    def _downwards(self) -> Iterator[SignedMove]:
        """The newest entries, newest first.

        Those that were read, and some that are kept here.
        """
        yield from reversed(self.moves)
        first = self.moves[0].move.sequence
        begin = max(0, first - OLDER_HEADS_MAX)
        lines = self.judge.logs.lines(self.dataset, first=begin, limit=first - begin) if first else ()
        for line in reversed(lines):
            yield stored_move(self.dataset, line)

    def _hash_at(self, number: int) -> Multihash | None:
        found = self._at(number)
        return None if found is None else found.hash

    def _own_hash_at(self, number: int) -> Multihash | None:
        found = self.judge.kept(self.dataset, number)
        return None if found is None else found.hash

    def _refuse(self, check: Callable[[], None]) -> None:
        try:
            check()
        except CorruptedSource as error:
            if not (self.force and error.place.rule in FORCEABLE):
                raise


def _missing(shown: str, seen: SeenHead | None) -> None:
    known = f"; entry {seen.sequence} was seen at {seen.place} on {seen.seen_at}" if seen is not None else ""
    raise refusal(
        MISSING,
        f"missing: {shown} has no head log, or no signature of it{known}",
        "the keeper of the place took it away, or copied the dataset without it: take another one, or use --force",
    )
