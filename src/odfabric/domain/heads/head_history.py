"""What a head log proves, and what is wrong with one.

Invariant: entries are believed from the first one on, each by the key that the one before it names, the first by the key that is the
dataset's id. What a node has seen once is never taken back: an older, another or no log is refused by name. Source: ADR 0072.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from odfabric.errors import CorruptedSource, Place
from odfabric.formats.heads.head_log import RULE_SIGNER, shown_key, tampered
from odfabric.model.heads.head_log import (
    FIRST_KINDS,
    FORWARD_KINDS,
    HANDED_OVER,
    HeadMove,
    HeadStatement,
    SeenHead,
    SignedMove,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.multihash import Multihash

ROLLBACK = "head-log-rollback"
FORK = "head-log-fork"
FREEZE = "head-log-freeze"
MISSING = "head-log-missing"
UNSIGNED = "head-unsigned"
FORCEABLE = frozenset({ROLLBACK, FORK, FREEZE, MISSING, UNSIGNED})
"""Rules that `--force` sets aside. What is not signed as it should be is never taken."""

AHEAD_S_MAX = 300
"""How far a signer's clock may be ahead, in seconds."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """Where a log ends: the entry that the next one must follow, and who signs that."""

    dataset: DatasetId
    last: SignedMove | None = None

    @property
    def sequence(self) -> int:
        """Number of the next entry."""
        return 0 if self.last is None else self.last.move.sequence + 1

    @property
    def signer(self) -> bytes:
        """The key that signs the next entry."""
        return self.dataset.key if self.last is None else self.last.move.next_key


def check_moves(end: LogEnd, moves: Iterable[SignedMove]) -> LogEnd:
    """The end of the log after `moves`, whose signatures were checked.

    Raises CorruptedSource: an entry that was cut, swapped or spliced (`head-log-tampered`), or signed by a key that no hand-over names
    (`head-log-signer`).
    """
    for each in moves:
        _check_next(end, each)
        end = LogEnd(end.dataset, each)
    return end


def _check_next(end: LogEnd, signed: SignedMove) -> None:
    move, last = signed.move, end.last
    if move.sequence != end.sequence:
        raise tampered(f"the head log goes on with entry {move.sequence} where {end.sequence} belongs")
    if move.previous != (None if last is None else last.hash):
        raise tampered(f"entry {move.sequence} of the head log does not follow the entry before it")
    if move.signer != end.signer:
        raise tampered(
            f"entry {move.sequence} of the head log is signed by {shown_key(move.signer)}, "
            f"not by {shown_key(end.signer)}",
            rule=RULE_SIGNER,
        )
    if move.old_head != (None if last is None else last.move.new_head):
        raise tampered(f"entry {move.sequence} of the head log moves another head than the entry before it made")
    if (last is None) != (move.kind in FIRST_KINDS):
        raise tampered(f"entry {move.sequence} of the head log is of kind '{move.kind}'")
    if last is not None and move.system_time < last.move.system_time:
        raise tampered(f"entry {move.sequence} of the head log is older than the entry before it")
    if move.kind == HANDED_OVER and move.new_head != move.old_head:
        raise tampered(f"entry {move.sequence} of the head log hands the key over and moves the head")


def check_statement(
    end: LogEnd, statement: HeadStatement, at: Callable[[int], SignedMove | None], *, now: Instant
) -> HeadStatement:
    """What the log and its `head.sig` say together.

    The log's end, at the later of both times.

    `at` gives an entry by its number. A statement may be of an older entry, for not each move is stated. Raises CorruptedSource for one that
    is of no entry of the log, of a later one (the log was cut), or by another key than that entry's.
    """
    last = end.last
    if last is None or statement.sequence > last.move.sequence:
        raise tampered(
            f"head.sig is of entry {statement.sequence}, the head log ends at entry {end.sequence - 1}: cut off"
        )
    stated = at(statement.sequence)
    if stated is None or (statement.log, statement.head) != (stated.hash, stated.move.new_head):
        raise tampered(f"head.sig is of another entry {statement.sequence} than the head log has")
    if statement.signer != stated.move.next_key:
        raise tampered(
            f"head.sig is signed by {shown_key(statement.signer)}, not by {shown_key(stated.move.next_key)}",
            rule=RULE_SIGNER,
        )
    if statement.signed_at.epoch_ns - now.epoch_ns > AHEAD_S_MAX * NANOS_PER_SECOND:
        raise tampered(f"head.sig was signed at {statement.signed_at}, which is yet to come")
    check_not_ahead(end, now=now)
    return HeadStatement(
        sequence=last.move.sequence,
        head=last.move.new_head,
        log=last.hash,
        signed_at=max(statement.signed_at, last.move.system_time),
        signer=end.signer,
    )


def check_not_ahead(end: LogEnd, *, now: Instant) -> None:
    """Refuse a log whose newest entry is yet to come.

    It would count as fresh until then.

    Times of entries do not go back, so the newest one is the latest. Raises CorruptedSource by rule `head-log-tampered`.
    """
    if end.last is not None and end.last.move.system_time.epoch_ns - now.epoch_ns > AHEAD_S_MAX * NANOS_PER_SECOND:
        move = end.last.move
        raise tampered(f"entry {move.sequence} of the head log is of {move.system_time}, which is yet to come")


def check_against_seen(
    seen: SeenHead,
    statement: HeadStatement,
    *,
    theirs: Callable[[int], Multihash | None],
    ours: Callable[[int], Multihash | None],
    shown: str,
) -> None:
    """Refuse a log that is not the one that was seen, or a continuation of it.

    `theirs` and `ours` give hashes of entries by number, None where they are not known. Raises CorruptedSource: `head-log-rollback` if the
    signer has signed a shorter log since, `head-log-freeze` if an older answer is given again, `head-log-fork` for another history.
    """
    known = f"entry {seen.sequence} of {seen.signed_at} was seen at {seen.place} on {seen.seen_at}"
    if statement.sequence < seen.sequence:
        if ours(statement.sequence) not in (None, statement.log):
            raise _fork(statement.sequence, shown, known)
        if statement.signed_at > seen.signed_at:
            raise refusal(
                ROLLBACK,
                f"rollback: {shown} signs a head log that ends at entry {statement.sequence}, {known}",
                "its owner has taken history back: ask why, then take it with --force",
            )
        raise refusal(
            FREEZE,
            f"freeze: {shown} gives an old answer, entry {statement.sequence} of {statement.signed_at}; {known}",
            "wait for the place to be brought up to date, or take another one",
        )
    if theirs(seen.sequence) != seen.log:
        raise _fork(seen.sequence, shown, known)


def _fork(number: int, shown: str, known: str) -> CorruptedSource:
    return refusal(
        FORK,
        f"fork: entry {number} of the head log at {shown} is another one than the one that was seen; {known}",
        "its key has signed two histories: ask its owner which one counts, then take it with --force",
    )


def check_fresh(statement: HeadStatement, *, now: Instant, age_s_max: float, shown: str) -> None:
    """Refuse a statement that is too old.

    Raises CorruptedSource by rule `head-log-freeze`.

    0: none is.
    """
    age_s = (now.epoch_ns - statement.signed_at.epoch_ns) / NANOS_PER_SECOND
    if age_s_max and age_s > age_s_max:
        raise refusal(
            FREEZE,
            f"freeze: the newest signature at {shown} is of {statement.signed_at}, {round(age_s)} s old",
            f"its owner signs more often, or the place is frozen; head_age_s_max is {age_s_max:g}",
        )


def check_head_is_signed(head: Multihash, moves: Iterable[SignedMove], *, seen: SeenHead | None, shown: str) -> None:
    """Refuse a head that the log does not have, or that is older than what was seen.

    `moves` are the newest first.

    Raises CorruptedSource by rule `head-unsigned` or `head-log-rollback`. Another older head of the log is no fault: a push writes the log
    before the head, and readers take the newest signed one.
    """
    at = next((each.move.sequence for each in moves if each.move.new_head == head), None)
    if at is None:
        raise refusal(
            UNSIGNED,
            f"unsigned: the head at {shown} is not in its head log, {head} was not signed by the dataset's key",
            "try again, a push may be under way; else ask the owner whether these blocks are theirs",
        )
    if seen is not None and at < seen.sequence:
        raise refusal(
            ROLLBACK,
            f"rollback: the head at {shown} is that of entry {at} of its head log, entry {seen.sequence} was seen at "
            f"{seen.place} on {seen.seen_at}",
            "try again, a push may be under way; else the place was set back: take another one",
        )


def check_lineage(
    moves: Sequence[SignedMove], number_of: Callable[[Multihash], int | None], *, continued: bool = False
) -> None:
    """Check that moves which claim to go forwards do, in the chain of the newest head.

    `number_of` gives the sequence number of a block of that chain, None for one that is not in it. History before the last entry that
    rewrote it is gone and is not judged. With `continued` later entries are to come, one of which may rewrite what the last of `moves` made.
    Raises CorruptedSource by rule `head-log-tampered`.
    """
    after: int | None = None
    for each in reversed(moves):
        move = each.move
        number = number_of(move.new_head)
        if number is None and not (continued and after is None):
            raise tampered(
                f"entry {move.sequence} of the head log: block {move.new_head} is not in the chain, and no later entry "
                "says that history was rewritten"
            )
        if number is not None and after is not None and number > after:
            raise tampered(f"entry {move.sequence} of the head log goes on at an older block without saying so")
        after = number if number is not None else after
        if rewrites_history(move):
            return


def last_blocks_of_former_keys(
    moves: Sequence[SignedMove], number_of: Callable[[Multihash], int | None]
) -> Mapping[bytes, int]:
    """For keys that were handed over: the newest block that each may have signed for.

    Blocks are given by their numbers.

    A record is signed before its block is committed, onto the head of that moment. So what was under way when the key was handed over is
    the first move of the head after it, and a later block of the chain did not exist while the key still signed. What rewrote history since
    lowers the bound. Keys without a bound, such as the present one, are not listed.
    """
    handed = {each.move.signer: at for at, each in enumerate(moves) if each.move.kind == HANDED_OVER}
    found: dict[bytes, int] = {}
    for key, at in handed.items():
        if moves[-1].move.next_key == key:
            continue
        moved = [each.move for each in moves[at + 1 :] if each.move.kind != HANDED_OVER]
        bounding = [*moved[:1], *(move for move in moved[1:] if rewrites_history(move))]
        numbers = [number for move in bounding if (number := number_of(move.new_head)) is not None]
        if numbers:
            found[key] = min(numbers)
    return found


def rewrites_history(move: HeadMove) -> bool:
    """Whether what the head was before this entry may be gone from the chain."""
    return move.kind not in FORWARD_KINDS and move.kind != HANDED_OVER


def refusal(rule: str, message: str, hint: str) -> CorruptedSource:
    """A refusal by the name of what was found."""
    return CorruptedSource(message, place=Place(rule=rule), hint=hint)
