"""Serve the head log of a dataset.

Take the log of one that is pushed, and describe both.

Invariant: only whole entries are taken, each signed by the dataset's key, after ours and of heads that the dataset has here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odfabric.domain.heads.head_history import check_moves, check_not_ahead, check_statement
from odfabric.errors import CorruptedSource, InvalidRequest, NotFound, Place
from odfabric.formats.heads.head_log import read_move, read_statement, segment_lines, segment_text, shown_key, tampered
from odfabric.formats.identifiers.dataset_layout import HEAD_LOG, HEAD_SIGNATURE, in_dataset
from odfabric.model.commit import CatalogEntry
from odfabric.model.heads.head_log import PUSHED_HERE, SEGMENT_ENTRIES, HeadMove, SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.chain_reader import ChainReader
from odfabric.ports.datasets.object_store import REF_BYTES_MAX, ObjectStore
from odfabric.usecases.heads.head_writer import HeadWriter, stored_move
from odfabric.usecases.heads.judge_log import LogJudge

HANDOVERS_MAX = 1000
"""The newest hand-overs of a key that an answer has."""
SEGMENT_NUMBER_DIGITS_MAX = 12


def serve_log(entry: CatalogEntry, path: str, *, writer: HeadWriter, objects: ObjectStore) -> bytes:
    """A file of the log by its path.

    `refs/head.log`, `refs/head.log.<number>`, `refs/head.sig`.

    Raises NotFound: the dataset is not signed, or the segment is not full yet.
    """
    writer.catch_up(entry.id)
    newest = writer.newest(entry.id)
    if newest is None:
        return _published(entry.id, path, objects)
    number, lines = newest
    if path == HEAD_LOG:
        return segment_text(lines)
    if path == HEAD_SIGNATURE:
        line = writer.newest_statement(entry)
        return line + b"\n" if line is not None else _published(entry.id, path, objects)
    asked = path.removeprefix(f"{HEAD_LOG}.")
    if not _is_number(asked) or int(asked) >= number:
        raise NotFound("ref", path)
    return segment_text(writer.segment(entry.id, int(asked)))


def _published(dataset: DatasetId, path: str, objects: ObjectStore) -> bytes:
    return objects.read_bytes(in_dataset(dataset, path), size_max=REF_BYTES_MAX)


def accept_log(entry: CatalogEntry, path: str, data: bytes, *, judge: LogJudge, chains: ChainReader) -> int:
    """Continue the log of a dataset that a peer has pushed; how many entries were new.

    Segments come oldest first, the signature last. Raises CorruptedSource for what is not signed as it should be, signs heads that are not
    here, or moves them otherwise than the chain has it; Changed if the log has gone on otherwise, LimitExceeded, InvalidRequest.
    """
    if path == HEAD_SIGNATURE:
        return _accept_statement(entry, data, judge=judge, chains=chains)
    writer_end = judge.end(entry.id)
    moves = _segment(entry, path, data)
    new = [each for each in moves if each.move.sequence >= writer_end.sequence]
    for each in moves:
        kept = judge.kept(entry.id, each.move.sequence)
        if kept is not None and kept.hash != each.hash:
            raise CorruptedSource(
                f"fork: entry {each.move.sequence} of the head log is another one than the one that is kept here",
                place=Place(rule="head-log-fork"),
                hint="the key of the dataset has signed two histories: find out where",
            )
    check_not_ahead(check_moves(writer_end, new), now=judge.clock.now())
    newest_comes_later = path != HEAD_LOG
    if new and chains.row(entry.id, new[-1].move.new_head) is None and not newest_comes_later:
        raise CorruptedSource(
            f"entry {new[-1].move.sequence} of the head log moves the head to a block that is not here",
            place=Place(rule="head-unsigned"),
            hint="push the blocks first",
        )
    judge.check_lineage(entry.id, new, numbers_here(entry.id, chains), continued=newest_comes_later)
    if new:
        judge.logs.add(entry.id, new)
    return len(new)


def _segment(entry: CatalogEntry, path: str, data: bytes) -> list[SignedMove]:
    """The entries of a pushed segment: the newest, or a full one by its number.

    Raises InvalidRequest, CorruptedSource.
    """
    number = path.removeprefix(f"{HEAD_LOG}.")
    if path != HEAD_LOG and not _is_number(number):
        raise InvalidRequest(
            "only the head log and its signature are taken",
            place=Place(field="name"),
            hint="write head.log, head.log.<number> for a full segment, or head.sig",
        )
    moves = [read_move(entry.id, line) for line in segment_lines(data)]
    first = moves[0].move.sequence
    if path != HEAD_LOG and (len(moves) != SEGMENT_ENTRIES or first != int(number) * SEGMENT_ENTRIES):
        raise tampered(f"segment {number} of the head log is not the {SEGMENT_ENTRIES} entries of that number")
    return moves


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= SEGMENT_NUMBER_DIGITS_MAX


def numbers_here(dataset: DatasetId, chains: ChainReader) -> Callable[[Multihash], int | None]:
    """Sequence numbers of blocks of the chain as it is here, None for others."""

    def number_of(block: Multihash) -> int | None:
        row = chains.row(dataset, block)
        return None if row is None else row.sequence_number

    return number_of


def _accept_statement(entry: CatalogEntry, data: bytes, *, judge: LogJudge, chains: ChainReader) -> int:
    line = data.removesuffix(b"\n")
    end = judge.end(entry.id)
    if end.last is not None:  # full segments alone leave the end of the log undecided
        judge.check_lineage(entry.id, [end.last], numbers_here(entry.id, chains))
    said = check_statement(
        end,
        read_statement(entry.id, line).statement,
        lambda number: judge.kept(entry.id, number),
        now=judge.clock.now(),
    )
    seen = SeenHead(
        dataset=entry.id,
        sequence=said.sequence,
        head=said.head,
        log=said.log,
        signer=said.signer,
        signed_at=said.signed_at,
        seen_at=judge.clock.now().truncated_to_millis(),
        place=PUSHED_HERE,
        line=line,
    )
    judge.logs.note_seen(seen)
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsPage:
    """Entries of a log, newest first, and who signs."""

    signer: str
    signed_since: str
    entries: int
    can_sign: bool
    seen: SeenHead | None
    moves: Sequence[HeadMove]
    handovers: Sequence[HeadMove]

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        seen = self.seen
        return {
            "signer": self.signer,
            "signedSince": self.signed_since,
            "entries": self.entries,
            "keyIsHere": self.can_sign,
            "lastSeen": None
            if seen is None
            else {
                "sequence": seen.sequence,
                "head": str(seen.head),
                "signedAt": str(seen.signed_at),
                "seenAt": str(seen.seen_at),
                "place": seen.place,
            },
            "handOvers": [_move_value(each) for each in self.handovers],
            "moves": [_move_value(each) for each in self.moves],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSigner:
    """Who signs the heads of a dataset now, and the newest entry of its log."""

    key: str
    entries: int
    signed_at: Instant


def signer_of(entry: CatalogEntry, *, writer: HeadWriter) -> HeadSigner | None:
    """Who signs a dataset's heads; None if nobody does."""
    end = writer.end(entry.id)
    if end.last is None:
        return None
    return HeadSigner(key=shown_key(end.signer), entries=end.sequence, signed_at=end.last.move.system_time)


def describe_heads(entry: CatalogEntry, *, writer: HeadWriter, before: int | None, limit: int) -> HeadsPage:
    """The newest entries with numbers below `before`.

    Raises NotFound for a dataset that is not signed.
    """
    writer.catch_up(entry.id)
    end = writer.end(entry.id)
    if end.last is None:
        raise NotFound("head log of dataset", str(entry.alias), hint="nobody has signed its heads")
    last = end.last.move.sequence
    top = last + 1 if before is None else min(before, last + 1)
    first = max(0, top - limit)
    lines = writer.logs.lines(entry.id, first=first, limit=top - first) if top > 0 else ()
    moves = [stored_move(entry.id, line).move for line in lines][::-1]
    oldest = stored_move(entry.id, writer.logs.lines(entry.id, first=0, limit=1)[0]).move
    found = writer.logs.handovers(entry.id, limit=HANDOVERS_MAX)
    handovers = [stored_move(entry.id, line).move for line in found]
    return HeadsPage(
        signer=shown_key(end.signer),
        signed_since=str(handovers[-1].system_time if handovers else oldest.system_time),
        entries=last + 1,
        can_sign=writer.may_sign(entry),
        seen=writer.logs.seen(entry.id),
        moves=moves,
        handovers=handovers,
    )


def _move_value(move: HeadMove) -> Mapping[str, object]:
    value: dict[str, object] = {
        "sequence": move.sequence,
        "kind": move.kind,
        "systemTime": str(move.system_time),
        "oldHead": None if move.old_head is None else str(move.old_head),
        "newHead": str(move.new_head),
        "signer": shown_key(move.signer),
    }
    if move.next_signer is not None:
        value["nextSigner"] = shown_key(move.next_signer)
    return value
