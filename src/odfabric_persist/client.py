"""The client of the storage library: open a shard, write it, read it definitely.

Owns handles and what their callers see: preconditions in the order in which they are judged, outcomes, waiting. Invariant: two
readers who ask for the same time get the same rows, no matter who they are and whenever they ask, as long as the time can be read.
Not here: how a version is won (`machine`), what a command may change (`state`). Source: ADR 0014.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from odfabric_persist import state as transitions
from odfabric_persist.append_next import NextTimes
from odfabric_persist.batch import (
    BatchLimits,
    Parts,
    Resolve,
    is_outdated,
    new_id,
    refer_batch,
    rows_of,
    tightened,
    write_batch,
)
from odfabric_persist.errors import Corrupt, Determinate, NotYet, SinceError, UpperMismatch, UsageError
from odfabric_persist.frontier import Frontier, at_most, before
from odfabric_persist.funnel import FunnelLimits
from odfabric_persist.location.blob import Blob, check_key
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.machine import Machine, Patience
from odfabric_persist.maintenance import Maintained, MaintenanceLimits, maintain
from odfabric_persist.merge import Window, merged
from odfabric_persist.notifications.notify import NoNotifier, Notifier, Pauses, Watch
from odfabric_persist.rows import RowCodec, advanced, between, concatenated
from odfabric_persist.splits import Split, cut
from odfabric_persist.state import Batch, State

SNAPSHOT_LOOKS_MAX = 5
"""Looks at what is merged and collected while it is read."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistSettings:
    """Leases in milliseconds, sizes in bytes and rows, pauses in seconds."""

    reader_lease_ms: int = 15 * 60 * 1000
    writer_lease_ms: int = 60 * 60 * 1000
    limits: BatchLimits = field(default_factory=BatchLimits)
    maintenance: MaintenanceLimits = field(default_factory=MaintenanceLimits)
    funnel: FunnelLimits = field(default_factory=FunnelLimits)
    attempts_max: int = 10
    pauses: Pauses = field(default_factory=Pauses)
    """Between looks while waiting for a time to be complete, or for what comes next."""


@dataclass(slots=True)
class PersistClient:
    """Opens shards of one location; safe for threads.

    `now_ms` and `wait` are the clock and the sleep of tests.

    `notifier` says who waits of what other processes wrote; anyone who made it closes it.
    """

    blob: Blob
    consensus: Consensus
    settings: PersistSettings = field(default_factory=PersistSettings)
    now_ms: Callable[[], int] = _wall_ms
    wait: Callable[[float], None] = time.sleep
    notifier: Notifier = field(default_factory=NoNotifier)
    _shards: dict[str, Shard] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, shard: str, codec: RowCodec, *, resolve: Resolve | None = None) -> Shard:
        """A shard, made if it is new.

        `resolve` finds the rows of references, if the shard has any.

        Raises UsageError (`codec-mismatch`, `invalid-key`), Corrupt, LocationError.
        """
        with self._lock:
            known = self._shards.get(shard)
            if known is None or known.codec != codec:
                patience = Patience(attempts_max=self.settings.attempts_max, wait=self.wait)
                machine = Machine(
                    check_key(shard),
                    codec.name,
                    self.blob,
                    self.consensus,
                    self.now_ms,
                    patience,
                    announce=self.notifier.publish,
                    limits=self.settings.funnel,
                )
                known = Shard(machine, codec, self.settings, self.notifier)
                known.newest()
                self._shards[shard] = known
            return known if resolve is None else replace(known, resolve=resolve)

    def compare_and_evolve_schema(self, shard: str, expected: RowCodec, new: RowCodec) -> Shard:
        """Give a shard of the expected codec more columns, null so far; the shard.

        Done already is done. Anyone who has the shard open with the former codec is refused from then on (`codec-mismatch`) and opens
        it again. Raises UsageError: `incompatible-schema` for anything but nullable columns after the others, `codec-mismatch`.
        """
        if not expected.evolves_to(new):
            raise UsageError("incompatible-schema", f"{expected.name} cannot become {new.name}")
        with suppress(UsageError):
            return self.open(shard, new)
        known = self.open(shard, expected)
        # Refused if somebody else was first; if with the same columns, opening succeeds all the same.
        with suppress(UsageError):
            known.change(lambda state: transitions.evolve(state, new.name, now_ms=known.machine.now_ms()))
        return self.open(shard, new)


@dataclass(slots=True)
class Shard:
    """A shard as one process sees it.

    All its handles share the copy of the newest state.
    """

    machine: Machine
    codec: RowCodec
    settings: PersistSettings
    notifier: Notifier
    resolve: Resolve | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:16])
    next_times: NextTimes = field(init=False)

    def __post_init__(self) -> None:
        """Who writes at the next time comes together here."""
        self.next_times = NextTimes(self.parts, self.settings.funnel)

    @property
    def parts(self) -> Parts:
        """Its parts."""
        return Parts(self.machine, self.codec, self.settings.limits, self.resolve)

    def newest(self) -> State:
        """The newest version."""
        return self.machine.newest()

    def open_writer(self, name: str | None = None) -> WriteHandle:
        """Register a writer; one that is known by this name goes on."""
        name = name or uuid.uuid4().hex
        self.change(lambda state: transitions.open_writer(state, name, now_ms=self.machine.now_ms()))
        return WriteHandle(self, name)

    def open_reader(self, name: str | None = None) -> ReadHandle:
        """Register a leased reader, which holds the since where it is now."""
        name = name or uuid.uuid4().hex
        state = self.change(lambda state: transitions.open_reader(state, name, now_ms=self.machine.now_ms()))
        known = state.readers.get(name)
        return ReadHandle(self, name, state.since if known is None else known.since)

    def open_critical(self, name: str) -> CriticalHandle:
        """Register a hold that no lease ends.

        Write the name down first: a lost one holds the since for ever.
        """
        self.change(lambda state: transitions.open_critical(state, name, now_ms=self.machine.now_ms()))
        return CriticalHandle(self, name)

    def expire_due(self) -> list[str]:
        """Expire everything whose lease has run out; the names, sorted."""
        expired: list[str] = []

        def command(state: State) -> State:
            now_ms = self.machine.now_ms()
            writers, readers = transitions.due(
                state,
                now_ms=now_ms,
                reader_lease_ms=self.settings.reader_lease_ms,
                writer_lease_ms=self.settings.writer_lease_ms,
            )
            expired[:] = sorted(writers | readers)
            return transitions.expire(state, writers=writers, readers=readers, criticals=frozenset(), now_ms=now_ms)

        self.change(command)
        return expired

    def expire(self, *, writer: str = "", reader: str = "", critical: str = "") -> None:
        """Forget a handle."""
        names = [frozenset({name} - {""}) for name in (writer, reader, critical)]
        self.change(
            lambda state: transitions.expire(
                state, writers=names[0], readers=names[1], criticals=names[2], now_ms=self.machine.now_ms()
            )
        )

    def snapshot(self, as_of: int, *, wait_s: float = 0.0) -> pa.Table:
        """The rows at a time: every time is `as_of`, equal rows are added up, sorted.

        Raises SinceError; NotYet if the time is not complete within `wait_s` seconds.
        """
        for _ in range(SNAPSHOT_LOOKS_MAX):
            batches = _until(self._readable(as_of, wait_s=wait_s), as_of)
            try:
                return self._rows_at(batches, as_of)
            except Corrupt:
                if not is_outdated(self.machine, batches):
                    raise
        raise Determinate("the shard changes faster than it can be read")

    def snapshot_chunks(self, as_of: int, rows_max: int, *, wait_s: float = 0.0) -> Iterator[pa.Table]:
        """The same rows in order, in non-empty tables of at most `rows_max`.

        No more than about as many are in memory. Hold a reader meanwhile: parts may be collected otherwise. Raises as `snapshot`,
        at once.
        """
        state = self._readable(as_of, wait_s=wait_s)
        limits = replace(self.settings.maintenance.merge, rows_max=rows_max)
        return merged(self.parts, _until(state, as_of), Window(until=as_of + 1, to=as_of), limits)

    def finalize(self) -> None:
        """End the shard for everybody; a collection removes all of it.

        Nothing can be read or written any more.
        """
        last = new_id()
        self.change(lambda state: transitions.finalize(state, last, now_ms=self.machine.now_ms()))

    def maintain(self) -> Maintained:
        """Expire dead leases, compact, write a rollup and collect.

        As far as that is due and nobody else does it.
        """
        self.expire_due()
        return maintain(self.parts, self.id, self.settings.maintenance)

    def snapshot_splits(self, as_of: int, count: int, *, wait_s: float = 0.0) -> list[Split]:
        """The same as exactly `count` portions, for any client; some may be empty.

        Any client of the location can fetch them.

        A portion is consolidated in itself; the portions together add up to the snapshot. Raises as `snapshot`.
        """
        if count < 1:
            raise UsageError("invalid-splits", f"{count} portions")
        state = self._readable(as_of, wait_s=wait_s)
        return cut(self.machine.shard, _until(state, as_of), as_of, count)

    def fetch_split(self, split: Split) -> pa.Table:
        """The rows of a portion.

        Raises UsageError (`batch-not-from-this-shard`), Corrupt if its parts were collected.
        """
        if split.shard != self.machine.shard:
            raise UsageError("batch-not-from-this-shard", f"the portion is of shard {split.shard}")
        return self._rows_at(split.batches, split.as_of)

    def change(self, command: Callable[[State], State]) -> State:
        """Apply a command; a shard that is closed by it on both sides is cleared too."""
        after = self.machine.apply(command)
        if transitions.is_closed(after) and not after.tombstone:
            self.machine.apply(lambda state: transitions.become_tombstone(state, now_ms=self.machine.now_ms()))
        return after

    def _readable(self, as_of: int, *, wait_s: float) -> State:
        end = time.monotonic() + wait_s
        with self.watch() as watch:
            while True:
                state = self.newest()
                if not at_most(state.since, as_of):
                    raise SinceError(state.since)
                if before(as_of, state.upper):
                    return state
                if time.monotonic() >= end:
                    raise NotYet(state.upper)
                watch.wait(state.seqno, end)

    def watch(self, woken: Callable[[], None] | None = None) -> Watch:
        """Waits for new versions; make it before the first look.

        `woken` is called with each announcement.
        """
        return Watch(self.notifier, self.machine.shard, self.settings.pauses, woken)

    def _rows_at(self, batches: Sequence[Batch], as_of: int) -> pa.Table:
        tables = [between(rows_of(self.parts, batch), 0, as_of + 1) for batch in batches]
        rows = concatenated(tables, self.codec.update_schema)
        return self.codec.consolidated(advanced(rows, as_of))


def _until(state: State, as_of: int) -> tuple[Batch, ...]:
    return tuple(batch for batch in state.batches if batch.lower <= as_of)


@dataclass(slots=True)
class WriteHandle:
    """A registered writer."""

    shard: Shard
    name: str

    def append(self, updates: pa.Table, lower: int, new_upper: Frontier) -> Frontier:
        """Write what several writers write alike, once. The shard's upper.

        The first wins, for the others it is done.

        Raises UpperMismatch if the shard has not come to `lower` yet, UsageError, Expired.
        """
        if lower == new_upper and not updates.num_rows:
            return self._progress(lower, alike=True)
        return self._append_alike(write_batch(self.shard.parts, updates, lower, new_upper))

    def append_references(self, references: Sequence[tuple[str, int]], lower: int, new_upper: Frontier) -> Frontier:
        """As `append`, but the rows lie elsewhere: references with their numbers of rows.

        Nothing is written but a version.

        All together they hold every update of [lower, new_upper); what they hold beyond does not count. Raises as `append`.
        """
        if lower == new_upper and not references:
            return self._progress(lower, alike=True)
        return self._append_alike(refer_batch(self.shard.parts, references, lower, new_upper))

    def _append_alike(self, batch: Batch) -> Frontier:
        lower, new_upper = batch.lower, batch.upper
        committed = False
        try:
            while True:
                upper = self.recent_upper()
                if before(upper, lower):
                    raise UpperMismatch(upper)
                if upper is None or at_most(new_upper, upper):
                    return upper
                try:
                    reached = self._commit(tightened(batch, upper, new_upper), upper, uuid.uuid4().hex)
                except UpperMismatch:
                    continue
                committed = True
                return reached
        finally:
            if not committed:
                self.shard.parts.discard(batch)

    def compare_and_append(
        self, updates: pa.Table, expected: Frontier, new_upper: Frontier, *, token: str | None = None
    ) -> Frontier:
        """Write [expected, new_upper) if that is where the shard is; its new upper.

        Raises UpperMismatch, Expired, UsageError: `invalid-bounds`, `invalid-empty-time-interval`, `update-...`.
        """
        self._check_interval(expected, new_upper, has_rows=bool(updates.num_rows))
        if expected == new_upper:
            return self._progress(expected)
        assert expected is not None
        batch = write_batch(self.shard.parts, updates, expected, new_upper)
        return self.append_batches([batch], expected, new_upper, token=token, ours=True)

    def append_next(self, rows: pa.Table, *, token: str | None = None) -> int:
        """Write rows, which have no times yet, at the next time of the shard.

        Which that is. Nobody can come first.

        Those of this process who write at the same moment share a time and a version. With the `token` of an earlier attempt
        this is the same write. Raises UpperMismatch (None) if no more can be written, Expired, UsageError (`codec-mismatch`).
        """
        return self.shard.next_times.append(self.name, rows, token=token or uuid.uuid4().hex)

    def write_batch(self, updates: Iterable[pa.Table], lower: int, upper: Frontier) -> Batch:
        """Write more than memory holds, table by table. Raises as `compare_and_append`.

        To be committed by `append_batches`.
        """
        return write_batch(self.shard.parts, updates, lower, upper)

    def append_batches(
        self,
        batches: Sequence[Batch],
        expected: Frontier,
        new_upper: Frontier,
        *,
        token: str | None = None,
        previous_unknown: bool = False,
        ours: bool = False,
    ) -> Frontier:
        """Commit written batches together as [expected, new_upper).

        `ours`: remove them if refused.

        With the `token` of an earlier attempt this is the same write. Raises as `compare_and_append`, and UsageError
        (`invalid-batch-bounds`, `batch-not-from-this-shard`).
        """
        self._check_interval(expected, new_upper, has_rows=any(batch.rows for batch in batches))
        if expected == new_upper:
            return self._progress(expected)
        assert expected is not None
        for batch in batches:
            if any(not key.startswith(f"{self.shard.machine.shard}/") for key in batch.blob_keys):
                raise UsageError("batch-not-from-this-shard", batch.id)
        fitted = [tightened(batch, expected, new_upper) for batch in batches]
        # Kept under the written batch's own id when nothing was cut off, so that anyone who wrote it knows it again.
        whole = [
            old if (old.lower, old.upper) == (new.lower, new.upper) else new
            for old, new in zip(batches, fitted, strict=True)
        ]
        joined = (
            whole[0] if len(whole) == 1 else replace(fitted[0], runs=tuple(run for one in fitted for run in one.runs))
        )
        try:
            return self._commit(joined, expected, token or uuid.uuid4().hex, previous_unknown=previous_unknown)
        except UpperMismatch:
            if ours:
                for batch in batches:
                    self.shard.parts.discard(batch)
            raise

    def recent_upper(self) -> Frontier:
        """How far the shard is now."""
        return self.shard.newest().upper

    def heartbeat(self) -> None:
        """Prolong the lease. Raises Expired."""
        machine = self.shard.machine
        self.shard.change(lambda state: transitions.heartbeat_writer(state, self.name, now_ms=machine.now_ms()))

    def expire(self) -> None:
        """Give the handle up."""
        self.shard.expire(writer=self.name)

    def _check_interval(self, expected: Frontier, new_upper: Frontier, *, has_rows: bool) -> None:
        if before(new_upper, expected) or (expected == new_upper and has_rows):
            newest = self.shard.newest()
            if newest.tombstone:
                raise UpperMismatch(None)
            if before(new_upper, expected):
                raise UsageError("invalid-bounds", f"[{expected}, {new_upper})")
            raise UsageError("invalid-empty-time-interval", f"rows for [{expected}, {new_upper})")
        if expected is None:
            raise UpperMismatch(self.shard.newest().upper)

    def _progress(self, expected: Frontier, *, alike: bool = False) -> Frontier:
        """Equal bounds without rows: a sign of life.

        For `alike` a shard that is further is no mismatch: it is done.
        """
        machine = self.shard.machine

        def command(state: State) -> State:
            beaten = transitions.heartbeat_writer(state, self.name, now_ms=machine.now_ms())
            if state.upper != expected and not (alike and before(expected, state.upper)):
                raise UpperMismatch(state.upper)
            return beaten

        return self.shard.change(command).upper

    def _commit(self, batch: Batch, expected: Frontier, token: str, *, previous_unknown: bool = False) -> Frontier:
        machine = self.shard.machine
        state = self.shard.change(
            lambda state: transitions.append_batch(
                state,
                self.name,
                batch,
                expected,
                token=token,
                previous_unknown=previous_unknown,
                now_ms=machine.now_ms(),
            )
        )
        return state.upper


@dataclass(slots=True)
class ReadHandle:
    """A leased reader; `since` is what it holds."""

    shard: Shard
    name: str
    since: Frontier

    def downgrade_since(self, since: Frontier, *, held_from: int | None = None) -> Frontier:
        """Hold no times before `since` any more; what is held now. Raises Expired."""
        machine = self.shard.machine
        state = self.shard.change(
            lambda state: transitions.downgrade_since(
                state, self.name, since, held_from=held_from, now_ms=machine.now_ms()
            )
        )
        known = state.readers.get(self.name)
        self.since = None if known is None else known.since
        return self.since

    def heartbeat(self) -> None:
        """Prolong the lease. Raises Expired."""
        machine = self.shard.machine
        self.shard.change(lambda state: transitions.heartbeat_reader(state, self.name, now_ms=machine.now_ms()))

    def expire(self) -> None:
        """Give the handle up."""
        self.shard.expire(reader=self.name)

    def listen(self, as_of: int) -> Listener:
        """Follow what comes strictly after `as_of`. Raises SinceError."""
        state = self.shard.newest()
        if not at_most(state.since, as_of):
            raise SinceError(state.since)
        return Listener(self.shard, as_of + 1)


@dataclass(slots=True)
class CriticalHandle:
    """A hold on the since that is kept until it is moved by the one who has its mark."""

    shard: Shard
    name: str

    @property
    def hold(self) -> tuple[Frontier, int]:
        """Since and mark now; (None, 0) in a finalized shard."""
        known = self.shard.newest().criticals.get(self.name)
        return (None, 0) if known is None else (known.since, known.opaque)

    def compare_and_downgrade_since(self, expected: int, opaque: int, since: Frontier) -> Frontier:
        """Move the hold and set the mark if the mark is `expected`; the hold.

        Raises OpaqueMismatch.
        """
        machine = self.shard.machine
        state = self.shard.change(
            lambda state: transitions.compare_and_downgrade_since(
                state, self.name, expected, opaque, since, now_ms=machine.now_ms()
            )
        )
        known = state.criticals.get(self.name)
        return None if known is None else known.since

    def expire(self) -> None:
        """Give the hold up for good."""
        self.shard.expire(critical=self.name)


@dataclass(slots=True)
class Listener:
    """Updates in order; `frontier` is how far they were given out, None at the end."""

    shard: Shard
    frontier: Frontier

    def poll(self) -> pa.Table | None:
        """The updates of the next stretch, consolidated, with their own times.

        None if there is none yet.

        Anyone who listens must hold the since before `frontier`, or times may have been moved past it: SinceError then.
        """
        if self.frontier is None:
            return None
        state = self.shard.machine.cached()
        if not before(self.frontier, state.upper):
            state = self.shard.newest()
        if not before(self.frontier, state.upper):
            return None
        following = (one for one in state.batches if one.lower <= self.frontier and before(self.frontier, one.upper))
        batch = next(following, None)
        if batch is None:
            raise Corrupt(f"version {state.seqno} has no batch at {self.frontier}, though its upper is {state.upper}")
        if not at_most(batch.since, self.frontier - 1):
            # Times at or before the since are no longer distinguished: some may have been given out already.
            raise SinceError(batch.since)
        updates = between(rows_of(self.shard.parts, batch), self.frontier, None)
        self.frontier = batch.upper
        return self.shard.codec.consolidated(updates)

    def next(self, *, wait_s: float) -> pa.Table | None:
        """As `poll`, but waits at most this long for what comes next."""
        end = time.monotonic() + wait_s
        with self.shard.watch() as watch:
            while True:
                # Asked before the look: what is announced after it must end the wait.
                seen = self.shard.machine.cached().seqno
                updates = self.poll()
                if updates is not None or self.frontier is None or time.monotonic() >= end:
                    return updates
                watch.wait(seen, end)
