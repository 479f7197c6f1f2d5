"""Batches: rows on their way into parts and out of them.

Owns when rows become a part, where parts lie (blob, state or elsewhere), and what of a part counts. Invariant: a batch shows the
same rows, consolidated, whichever way its parts were cut. Not here: whether a batch belongs to the shard (`state`), several
batches made into one (`compact`). Source: ADR 0014.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from odfabric_persist.errors import Corrupt, LocationError, UsageError
from odfabric_persist.frontier import MINIMUM, Frontier, at_most, before
from odfabric_persist.keys import part_key
from odfabric_persist.machine import Machine
from odfabric_persist.rows import (
    TIME,
    RowCodec,
    advanced,
    between,
    check,
    checksum,
    concatenated,
    decode_blob,
    decode_inline,
    encode_blob,
    encode_inline,
    in_pieces,
)
from odfabric_persist.state import Batch, Part


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """`part_rows`: rows of one part.

    `inline_bytes_max`: largest part that is kept in the state; 0 keeps none there.

    `inline_total_bytes_max`: all such parts of a shard, about. `external_bytes_max`: longest reference to rows elsewhere, in UTF-8.
    """

    part_rows: int = 500_000
    inline_bytes_max: int = 4096
    inline_total_bytes_max: int = 32 * 1024
    external_bytes_max: int = 512


Resolve: TypeAlias = Callable[[str], pa.Table]
"""The updates that a reference stands for, in any order, the same whenever it is asked."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of one shard."""

    machine: Machine
    codec: RowCodec
    limits: BatchLimits
    resolve: Resolve | None = None

    def write(self, updates: pa.Table, *, small_in_state: bool = True) -> Part:
        """A part of sorted, consolidated updates.

        Durable when this returns, unless it is small and goes with the state.
        """
        if small_in_state and updates.nbytes <= self.limits.inline_bytes_max:
            data = encode_inline(updates)
            room = self.limits.inline_total_bytes_max - self.machine.cached().inline_bytes
            if len(data) <= min(self.limits.inline_bytes_max, room):
                return Part(updates.num_rows, len(data), checksum(data), inline=data)
        data = encode_blob(updates)
        key = part_key(self.machine.shard, self.machine.now_ms())
        self.machine.retried(lambda: self.machine.blob.set(key, data))
        return Part(updates.num_rows, len(data), checksum(data), key=key)

    def read(self, part: Part) -> pa.Table:
        """The updates of a part.

        Raises Corrupt if they are gone or damaged, UsageError (`no-resolver`).
        """
        schema = self.codec.update_schema
        return concatenated(list(self.stream(part, max(part.rows, 1))), schema)

    def stream(self, part: Part, rows: int) -> Iterator[pa.Table]:
        """The updates of a part in the order of the part, at most `rows` in each table.

        Raises as `read`.
        """
        for table in self._stored(part, rows):
            yield advanced(table, part.moved_to)

    def _stored(self, part: Part, rows: int) -> Iterator[pa.Table]:
        schema = self.codec.update_schema
        if part.key is not None:
            yield from decode_blob(check(self._fetched(part.key), part.crc), schema, rows)
            return
        if part.inline is not None:
            table = decode_inline(check(part.inline, part.crc), schema)
        else:
            assert part.external is not None
            table = self._resolved(part.external, part.rows)
        for start in range(0, table.num_rows, rows):
            yield table.slice(start, rows)

    def _fetched(self, key: str) -> bytes:
        data = self.machine.retried(lambda: self.machine.blob.get(key))
        if data is None:
            raise Corrupt(f"part {key} is gone")
        return data

    def _resolved(self, external: str, rows: int) -> pa.Table:
        if self.resolve is None:
            raise UsageError("no-resolver", "the shard refers to rows elsewhere: open it with `resolve`")
        updates = self.codec.updates(self.resolve(external))
        if updates.num_rows != rows:
            raise Corrupt(f"{external} has {updates.num_rows} rows, {rows} were referred to")
        return updates

    @contextmanager
    def removed_if_it_fails(self) -> Iterator[list[Part]]:
        """A list of parts being written; on failure they are removed if possible."""
        written: list[Part] = []
        try:
            yield written
        except BaseException:
            with suppress(LocationError):
                self._remove(Batch("", MINIMUM, None, MINIMUM, (tuple(written),)))
            raise

    def discard(self, batch: Batch) -> None:
        """Remove the blobs of a batch that was refused.

        What fails here is found as leaked later.

        Not if a live version names one of them: with an outcome that was unknown for long, the batch may have been accepted after
        all, and merged away since.
        """
        if not batch.blob_keys:
            return
        with suppress(LocationError):
            if not any(batch.blob_keys & state.blob_keys for state in self.machine.states_from(0)):
                self._remove(batch)

    def _remove(self, batch: Batch) -> None:
        for key in batch.blob_keys:
            self.machine.blob.delete(key)


def new_id() -> str:
    """A name that no other batch of the shard has."""
    return secrets.token_urlsafe(8)


def is_outdated(machine: Machine, batches: Sequence[Batch]) -> bool:
    """Whether the newest version lacks one of these batches: it may be collected.

    Anyone who reads or compacts without a reader holds nothing: parts that are gone then mean that somebody else was first, not that the
    shard is damaged.
    """
    present = {batch.id for batch in machine.newest().batches}
    return any(batch.id not in present for batch in batches)


def write_batch(
    parts: Parts,
    updates: pa.Table | Iterable[pa.Table],
    lower: int,
    upper: Frontier,
    *,
    since: Frontier = 0,
    chunk_rows: int | None = None,
) -> Batch:
    """A batch of updates, which no version names yet.

    Of tables that come one by one no more than a part is in memory.

    Raises UsageError: `invalid-bounds`, `update-not-beyond-lower`, `update-beyond-upper`, `codec-mismatch`.
    """
    if not before(lower, upper):
        raise UsageError("invalid-bounds", f"[{lower}, {upper})")
    tables = [updates] if isinstance(updates, pa.Table) else updates
    written: list[tuple[Part, pa.Table, pa.Table]] = []
    with parts.removed_if_it_fails() as kept:
        given = (_checked(parts.codec.updates(table), lower, upper, since) for table in tables)
        for piece in in_pieces(given, chunk_rows or parts.limits.part_rows):
            chunk = parts.codec.consolidated(piece)
            if chunk.num_rows:
                kept.append(parts.write(chunk))
                ends = parts.codec.position(chunk, 0), parts.codec.position(chunk, chunk.num_rows - 1)
                written.append((kept[-1], *ends))
    return Batch(new_id(), lower, upper, since, tuple(_runs(parts.codec, written)))


def refer_batch(parts: Parts, references: Sequence[tuple[str, int]], lower: int, upper: Frontier) -> Batch:
    """A batch of references to rows elsewhere, with their numbers of rows.

    Only what is in the bounds counts.

    Each is a run of its own, for nobody has sorted it. Raises UsageError: `invalid-bounds`, `invalid-reference`.
    """
    if not before(lower, upper):
        raise UsageError("invalid-bounds", f"[{lower}, {upper})")
    for external, rows in references:
        if rows < 0 or not 0 < len(external.encode()) <= parts.limits.external_bytes_max:
            raise UsageError("invalid-reference", f"{external[:80]!r}: {rows} rows")
    runs = tuple((Part(rows, 0, 0, external=external),) for external, rows in references if rows)
    return Batch(new_id(), lower, upper, 0, runs)


def _checked(updates: pa.Table, lower: int, upper: Frontier, since: Frontier) -> pa.Table:
    if not updates.num_rows:
        return updates
    times = pa.compute.min_max(updates.column(TIME)).as_py()
    if times["min"] < lower:
        raise UsageError("update-not-beyond-lower", f"time {times['min']} is before {lower}")
    if upper is not None and times["max"] >= upper and not before(upper, since):
        raise UsageError("update-beyond-upper", f"time {times['max']} is not before {upper}")
    return updates


def _runs(codec: RowCodec, written: Sequence[tuple[Part, pa.Table, pa.Table]]) -> Iterator[tuple[Part, ...]]:
    """Join parts, with first and last position, that follow in row order."""
    run: list[Part] = []
    last: pa.Table | None = None
    for part, first, end in written:
        if last is not None and not codec.is_at_or_after(first, last):
            yield tuple(run)
            run = []
        run.append(part)
        last = end
    if run:
        yield tuple(run)


def tightened(batch: Batch, lower: int, upper: Frontier) -> Batch:
    """The same parts, of which less counts.

    Raises UsageError (`invalid-batch-bounds`) if more should.
    """
    if not (batch.lower <= lower and at_most(upper, batch.upper) and at_most(lower, upper)):
        raise UsageError("invalid-batch-bounds", f"[{lower}, {upper}) is not within [{batch.lower}, {batch.upper})")
    return replace(batch, id=new_id(), lower=lower, upper=upper)


def retimed(batch: Batch, frontier: int, upper: Frontier) -> Batch:
    """The same parts at later times.

    Those before `frontier` count as it, and the batch goes up to `upper`.

    Anyone who lost a race writes the same blobs where the shard is now. Raises UsageError (`invalid-retime`) for a batch whose times
    were advanced, or were moved further already, and for bounds that do not fit.
    """
    moved = max((part.moved_to for part in batch.parts), default=MINIMUM)
    if batch.since != MINIMUM or not max(batch.lower, moved) <= frontier or not before(frontier, upper):
        raise UsageError("invalid-retime", f"times to {frontier}, in [{batch.lower}, {upper})")
    if before(upper, batch.upper):
        raise UsageError("invalid-retime", f"{upper} is before {batch.upper}: rows would get lost")
    runs = tuple(tuple(replace(part, moved_to=frontier) for part in run) for run in batch.runs)
    return replace(batch, id=new_id(), upper=upper, runs=runs)


def rows_of(parts: Parts, batch: Batch) -> pa.Table:
    """What counts of a batch, not yet consolidated over parts.

    Times that were advanced cannot be outside the bounds.
    """
    tables = [parts.read(part) for part in batch.parts]
    if batch.since == 0:
        tables = [between(table, batch.lower, batch.upper) for table in tables]
    return concatenated(tables, parts.codec.update_schema)
