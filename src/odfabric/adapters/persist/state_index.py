"""Current-state indexes on shards of the storage library.

Time is the number of a block. Data blocks come in as references to their slices, so that nothing is copied until several of them are
made one. Each reference also names its block, and of the last one a mark without rows stays when it is no more a reference: that ties
the index to its chain. Invariant: what is read is what the slices add
up to, no matter who brought it there and however it was compacted. Not here: which datasets have an index and when it is brought forward.
Source: ADR 0015.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.adapters.persist.failures import translated
from odfabric.adapters.persist.index_shards import IndexShards, Resolve, column_name
from odfabric.adapters.persist.index_tiers import IndexLimits, chosen, refers
from odfabric.errors import Corrupt as CorruptObject
from odfabric.errors import InvalidData, NotFound
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.identifiers.physical_hash import physical_hash
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import Changes, IllFormed, added_up, first_ill_formed, of_keys_in, read_changes
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.state_index import (
    IndexDefinition,
    IndexedSlice,
    IndexFrontier,
    IndexMode,
    Violation,
    continue_at,
)
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric_persist import state as transitions
from odfabric_persist.batch import is_outdated, rows_of
from odfabric_persist.client import PersistClient, Shard, WriteHandle
from odfabric_persist.collect import maintain
from odfabric_persist.compact import apply, compact
from odfabric_persist.errors import Corrupt, Determinate, Expired, PersistError
from odfabric_persist.merge import MergeLimits, Window, merged
from odfabric_persist.rows import DIFF, TIME, between
from odfabric_persist.state import Batch, Part, State

WRITER = "catch-up"
"""All who bring an index forward write the same, so they are one writer."""

HOLD = "history"
READ_ATTEMPTS_MAX = 5
KEY_BYTES_MAX = 100


@dataclass(slots=True)
class PersistStateIndex:
    """Implements `ports.datasets.state_index.StateIndex`.

    `scratch` gives a private folder for slices that are being read.

    `open_client` is asked again and again; it opens a location the first time.
    """

    open_client: Callable[[], PersistClient]
    objects: ObjectStore
    scratch: Callable[[], AbstractContextManager[Path]]
    limits: IndexLimits = field(default_factory=IndexLimits)
    _shards: IndexShards = field(init=False)

    def __post_init__(self) -> None:
        self._shards = IndexShards(self.open_client)

    def frontier(self, index: IndexDefinition) -> IndexFrontier | None:
        """See the port."""
        with translated(index.epoch):
            shard = self._shards.find(index, self._resolve(index))
            return None if shard is None else _open_frontier(shard)

    def extend(self, index: IndexDefinition, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        """See the port."""
        with translated(index.epoch):
            resolve = self._resolve(index)
            shard = self._shards.find(index, resolve)
            if shard is None:
                _check_continued(0, slices)
                shard = self._shards.open(index, resolve)
            for _ in range(READ_ATTEMPTS_MAX):
                try:
                    return self._extended(index, shard, slices)
                except NotFound:
                    continue  # another process is ahead and has given up the state that we build on
            raise Determinate("the index changes faster than it can be read")

    def maintain(self, index: IndexDefinition, *, since: int) -> IndexFrontier | None:
        """See the port."""
        with translated(index.epoch):
            shard = self._shards.find(index, self._resolve(index))
            if shard is None:
                return None
            shard.expire_due()  # readers that died hold history
            self._hold(shard, since)
            state = shard.newest()
            inputs = () if _frontier(state).violation is not None else chosen(state.batches, self.limits)
            if inputs:
                self._make_one(shard, inputs)
            state = shard.newest()
            if state.seqno - max(state.rollups) >= self.limits.rollup_versions:
                maintain(shard.machine)
            return _open_frontier(shard)

    def rows_at(self, index: IndexDefinition, sequence_number: int) -> Iterator[pa.Table]:
        """See the port."""
        with translated(index.epoch):
            shard = self._shards.find(index, self._resolve(index))
            if shard is None:
                raise _no_state(sequence_number)
            yield from self._tables(index, shard, sequence_number)

    def drop(self, dataset: DatasetId, *, but: IndexDefinition | None = None) -> int:
        """See the port."""
        with translated(str(dataset)):
            return self._shards.drop(dataset, but=but)

    # reading

    def _tables(self, index: IndexDefinition, shard: Shard, sequence_number: int) -> Iterator[pa.Table]:
        """Net rows: all at once if they are few, else in pieces, in bounded memory."""
        batches = _batches_until(shard.newest(), sequence_number)
        if sum(batch.rows for batch in batches) <= self.limits.rows_at_once_max:
            yield _net_rows(index, shard, sequence_number)
            return
        # This takes long enough for what is read to be collected, unless somebody holds it.
        reader = shard.open_reader()
        try:
            batches = _batches_until(shard.newest(), sequence_number)
            window = Window(until=sequence_number + 1, to=sequence_number)
            with self._merge_limits() as limits:
                for updates in merged(shard.parts, batches, window, limits):
                    yield _checked(index, updates)
                    reader.heartbeat()
        except Corrupt:
            state = shard.newest()
            if state.tombstone:
                raise _no_state(sequence_number) from None
            if reader.name not in state.readers:
                raise Determinate("the index was read for longer than a lease lasts") from None
            raise
        finally:
            with suppress(PersistError):
                reader.expire()

    @contextmanager
    def _merge_limits(self) -> Iterator[MergeLimits]:
        with self.scratch() as folder:
            yield MergeLimits(rows_max=self.limits.rows_at_once_max, spill_folder=folder)

    def _resolve(self, index: IndexDefinition) -> Resolve:
        def resolve(external: str) -> pa.Table:
            reference = json.loads(external)
            columns = data_schema_to_arrow(index.columns, encodings=False)
            rows, diffs = columns.empty_table(), pa.chunked_array([[]], pa.int64())
            if "s" in reference:
                changes = self._changes(index, parse_multihash(reference["s"]))
                rows, diffs = changes.rows, changes.diffs
            times = pa.repeat(pa.scalar(reference["t"], pa.int64()), rows.num_rows)
            return pa.table([*rows.columns, times, diffs], names=[*map(column_name, columns.names), TIME, DIFF])

        return resolve

    def _changes(self, index: IndexDefinition, name: Multihash) -> Changes:
        """The changes of a slice, its bytes hashed. Raises Corrupt of our tree."""
        columns = data_schema_to_arrow(index.columns, encodings=False)
        with self.scratch() as folder:
            path = folder / str(name)
            try:
                self.objects.materialize(data_key(index.dataset, name), path)
                if physical_hash(path)[0] != name:
                    raise InvalidData("it does not hash to its name")
                found = read_changes(path, columns, index.vocabulary)
            except (NotFound, InvalidData) as error:
                message = f"data object {name} of {index.dataset} cannot be read: {error.message}"
                raise CorruptObject(message, object_name=str(name)) from error
        return found if index.mode is IndexMode.STATE else found.as_added()

    # writing

    def _extended(self, index: IndexDefinition, shard: Shard, slices: Sequence[IndexedSlice]) -> IndexFrontier:
        before = _frontier(shard.newest())
        pending = [one for one in slices if one.sequence_number >= before.upper]
        if not pending or before.violation is not None:
            return before
        _check_continued(before.next_offset, pending)
        found = self._first_ill_formed(index, shard, before, pending)
        good = [one for one in pending if found is None or one.offsets.end <= found.offset]
        before = self._refer(shard, before, good)
        if found is not None:
            before = self._refer(shard, before, [pending[len(good)]], violated_key=found.key)
        return before

    def _first_ill_formed(
        self, index: IndexDefinition, shard: Shard, before: IndexFrontier, pending: Sequence[IndexedSlice]
    ) -> IllFormed | None:
        if index.mode is not IndexMode.STATE:
            return None
        pieces = [self._changes(index, one.physical_hash) for one in pending]
        rows = pa.concat_tables([piece.rows for piece in pieces])
        changes = Changes(
            rows,
            pa.chunked_array([chunk for piece in pieces for chunk in piece.diffs.chunks]),
            pa.chunked_array([chunk for piece in pieces for chunk in piece.offsets.chunks]),
        )
        present = rows.schema.empty_table()
        if before.upper:
            tables = self._tables(index, shard, before.upper - 1)
            present = pa.concat_tables([of_keys_in(table, rows, index.keys) for table in tables] or [present])
        return first_ill_formed(present, changes, index.keys)

    def _refer(
        self, shard: Shard, before: IndexFrontier, group: Sequence[IndexedSlice], *, violated_key: str | None = None
    ) -> IndexFrontier:
        group = [one for one in group if one.sequence_number >= before.upper]
        if not group or before.violation is not None:
            return before
        references = [(_reference(one, violated_key), len(one.offsets)) for one in group]
        upper = group[-1].sequence_number + 1
        writer = WriteHandle(shard, WRITER)
        append = partial(writer.append_references, references, before.upper, upper)
        try:
            append()
        except Expired:
            shard.open_writer(WRITER)
            append()
        after = _open_frontier(shard)
        if after is None:
            raise Determinate("the index was dropped meanwhile")
        return after

    def _hold(self, shard: Shard, since: int) -> None:
        """Move the one hold on history; anyone who is ahead of us stays ahead."""
        state = shard.newest()
        wanted = min(since, _frontier(state).upper - 1)
        if HOLD not in state.criticals:
            shard.open_critical(HOLD)
        elif state.since is None or state.since >= wanted:
            return
        if wanted > 0:
            shard.open_critical(HOLD).compare_and_downgrade_since(0, 0, wanted)

    def _make_one(self, shard: Shard, inputs: Sequence[Batch]) -> None:
        state = shard.newest()
        if state.tombstone:
            return

        try:
            with self._merge_limits() as limits:
                output = compact(shard.parts, inputs, inputs[0].lower, inputs[-1].upper, state.since, limits=limits)
        except Corrupt:
            if is_outdated(shard.machine, inputs):
                return  # another process was first, and what we were reading is collected
            raise
        mark = _mark(inputs)
        # Another process may have been first here too: then it was for nothing, and what was written is removed.
        apply(shard.parts, inputs, replace(output, runs=(*output.runs, (mark,))))


def _check_continued(next_offset: int, slices: Sequence[IndexedSlice]) -> None:
    if not continue_at(slices, next_offset):
        raise Determinate("the index does not end where these blocks begin: it was dropped meanwhile")


def _batches_until(state: State, sequence_number: int) -> Sequence[Batch]:
    """Batches that say what is there after a block.

    Raises NotFound if the state of that time cannot be reported.
    """
    frontier = _frontier(state)
    if state.tombstone or not frontier.since <= sequence_number < frontier.upper:
        raise _no_state(sequence_number)
    return [batch for batch in state.batches if batch.lower <= sequence_number]


def _net_rows(index: IndexDefinition, shard: Shard, sequence_number: int) -> pa.Table:
    """What is there after a block, of the newest version.

    What was merged and collected while it was read is read again.
    """
    for _ in range(READ_ATTEMPTS_MAX):
        batches = _batches_until(shard.newest(), sequence_number)
        try:
            return _added_up(index, shard, batches, sequence_number)
        except Corrupt:
            if not is_outdated(shard.machine, batches):
                raise
    raise Determinate("the index changes faster than it can be read")


def _added_up(index: IndexDefinition, shard: Shard, batches: Sequence[Batch], sequence_number: int) -> pa.Table:
    columns = data_schema_to_arrow(index.columns, encodings=False)
    names = [column_name(name) for name in columns.names]
    pieces = []
    for batch in batches:
        found = between(rows_of(shard.parts, batch), 0, sequence_number + 1)
        pieces.append((found.select(names), found.column(DIFF)))
    rows, diffs = added_up(pieces, columns)
    _check_diffs(index, diffs)
    return rows


def _checked(index: IndexDefinition, updates: pa.Table) -> pa.Table:
    """The rows of consolidated updates under their own names."""
    columns = data_schema_to_arrow(index.columns, encodings=False)
    _check_diffs(index, updates.column(DIFF))
    return pa.table([updates.column(column_name(name)) for name in columns.names], schema=columns)


def _check_diffs(index: IndexDefinition, diffs: pa.Array | pa.ChunkedArray) -> None:
    if index.mode is IndexMode.STATE and not pc.all(pc.equal(diffs, 1), min_count=0).as_py():
        raise Corrupt("rows of the index do not add up")


def _open_frontier(shard: Shard) -> IndexFrontier | None:
    """How far an index is, None if it was dropped."""
    state = shard.newest()
    return None if transitions.is_closed(state) else _frontier(state)


def _frontier(state: State) -> IndexFrontier:
    parts = [part for batch in state.batches for part in batch.parts]
    tail = [part for part in parts if refers(part)]
    marks = [part.external for part in parts if part.external is not None]
    last = json.loads(marks[-1]) if marks else None
    upper = 0 if state.upper is None else state.upper
    violation = None
    if last is not None and "v" in last:
        block = parse_multihash(last["b"])
        violation = Violation(sequence_number=last["t"], block_hash=block, key=last["v"])
        upper = violation.sequence_number
    return IndexFrontier(
        since=upper if state.since is None else state.since,
        upper=upper,
        block_hash=None if last is None else parse_multihash(last["b"]),
        next_offset=0 if last is None else last["e"],
        rows=sum(part.rows for part in parts if part.external is None),
        bytes=sum(part.size for part in parts if part.external is None),
        tail_slices=len(tail),
        tail_rows=sum(part.rows for part in tail),
        violation=violation,
    )


def _mark(batches: Sequence[Batch]) -> Part:
    """How far batches go: the last reference in them, without its slice."""
    (*_, last) = (part.external for batch in batches for part in batch.parts if part.external is not None)
    document = {name: value for name, value in json.loads(last).items() if name != "s"}
    return Part(0, 0, 0, external=_text(document))


def _reference(one: IndexedSlice, violated_key: str | None) -> str:
    """A slice as a shard refers to it: slice, block, its number as time, next offset."""
    document: dict[str, object] = {
        "s": str(one.physical_hash),
        "b": str(one.block_hash),
        "t": one.sequence_number,
        "e": one.offsets.end,
    }
    if violated_key is not None:
        document["v"] = violated_key.encode()[:KEY_BYTES_MAX].decode(errors="ignore")
    return _text(document)


def _text(document: Mapping[str, object]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _no_state(sequence_number: int) -> NotFound:
    return NotFound("state", f"after block number {sequence_number}")
