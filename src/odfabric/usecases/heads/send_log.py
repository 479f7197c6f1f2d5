"""Files of the head log that a push writes at its destination.

Invariant: what is there may only be continued, unless forced: a log of another history there is named before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.domain.heads.head_history import FORK, ROLLBACK, refusal
from odfabric.errors import CorruptedSource
from odfabric.formats.heads.head_log import read_move, read_statement, segment_lines, segment_text
from odfabric.formats.identifiers.dataset_layout import HEAD_LOG, HEAD_SIGNATURE
from odfabric.model.commit import CatalogEntry
from odfabric.model.heads.head_log import SEGMENT_ENTRIES, SignedMove
from odfabric.model.instant import NANOS_PER_SECOND
from odfabric.usecases.heads.head_writer import HeadWriter, stored_move
from odfabric.usecases.heads.judge_log import LogPlace

RENEWED_AFTER_S = 3_600
"""Age from which on the signature at a destination is replaced by a push that has nothing else to send."""


@dataclass(frozen=True, slots=True)
class LogToSend:
    """Files by path, full segments first, the signature last.

    `behind`: the log at the destination is older, or its signature by `RENEWED_AFTER_S` and more.
    """

    files: Mapping[str, bytes]
    behind: bool


def log_to_send(
    entry: CatalogEntry, place: LogPlace, writer: HeadWriter, *, shown: str, force: bool
) -> LogToSend | None:
    """What of the log is to be written at `place`.

    None for a dataset that is not signed.

    Raises CorruptedSource for a log there that is not a beginning of ours: `head-log-fork`, `head-log-rollback` if it goes on where ours
    ends, `head-log-tampered`; unless `force`.
    """
    writer.catch_up(entry.id)
    newest = writer.newest(entry.id)
    if newest is None:
        return None
    number, lines = newest
    theirs = place.ref(HEAD_LOG)
    try:
        known = _known(entry, theirs, writer, shown) if theirs is not None else None
    except CorruptedSource:
        if not force:
            raise
        known = None
    first = 0 if known is None else known.move.sequence // SEGMENT_ENTRIES
    files = {f"{HEAD_LOG}.{each}": segment_text(writer.segment(entry.id, each)) for each in range(first, number)}
    files[HEAD_LOG] = segment_text(lines)
    line = writer.newest_statement(entry)
    if line is not None:
        files[HEAD_SIGNATURE] = line + b"\n"
    return LogToSend(files, behind=theirs != files[HEAD_LOG] or _is_old(entry, place.ref(HEAD_SIGNATURE), line))


def _is_old(entry: CatalogEntry, theirs: bytes | None, ours: bytes | None) -> bool:
    """Whether a push of nothing else should bring a fresh signature."""
    if ours is None:
        return False
    try:
        stated = None if theirs is None else read_statement(entry.id, theirs.removesuffix(b"\n")).statement
    except CorruptedSource:
        return True
    age_ns = (
        0 if stated is None else read_statement(entry.id, ours).statement.signed_at.epoch_ns - stated.signed_at.epoch_ns
    )
    return stated is None or age_ns >= RENEWED_AFTER_S * NANOS_PER_SECOND


def _known(entry: CatalogEntry, data: bytes, writer: HeadWriter, shown: str) -> SignedMove:
    """The newest entry there, which is one of ours."""
    theirs = read_move(entry.id, segment_lines(data)[-1])
    sequence = theirs.move.sequence
    ours = writer.logs.lines(entry.id, first=sequence, limit=1)
    if not ours:
        raise refusal(
            ROLLBACK,
            f"rollback: the head log at {shown} goes on to entry {sequence}, ours ends before it",
            "this node was set back, or another one has the key too: pull from there first, or replace it with --force",
        )
    if stored_move(entry.id, ours[0]).hash != theirs.hash:
        raise refusal(
            FORK,
            f"fork: entry {sequence} of the head log at {shown} is another one than ours",
            "the key of the dataset has signed two histories: find out where, then replace one with --force",
        )
    return theirs
