"""The state of a shard, and every way in which it may change.

Owns the frozen value that a version stands for, and one pure function per command: state in, state out, or a refusal raised.
Invariants: batches sorted by lower bound tile [0, upper) without gap or overlap; since, upper and time on the wall never go back;
a command that is refused changes nothing. Not here: who wins (`machine`), bytes (`encoding`), rows (`batch`).
Source: ADR 0014.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from odfabric_persist.errors import Expired, OpaqueMismatch, UpperMismatch, UsageError
from odfabric_persist.frontier import MINIMUM, Frontier, at_most, before, earliest, later

FORMAT = 1
"""Version of everything that is stored; a reader refuses what is newer."""


@dataclass(frozen=True, slots=True)
class Part:
    """Rows written at once: in a blob, `inline` (Arrow IPC), or `external`.

    Inline rows are in the state itself.

    `crc` is over the bytes. An external part is a reference that only the owner of the data understands: its rows are in no
    order, its bytes are not ours, and nothing here ever removes them. Times before `moved_to` count as it.
    """

    rows: int
    size: int
    crc: int
    key: str | None = None
    inline: bytes | None = None
    external: str | None = None
    moved_to: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """The updates of [lower, upper), readable from `since` on.

    Each run of parts is sorted by key and time.

    A part may hold times outside the bounds: they do not count. A description with a since beyond 0 stands for rows whose
    times were advanced to it. `level` is 0 for what a writer wrote, and grows with each merge; merged parts hold nothing outside
    the bounds.
    """

    id: str
    lower: int
    upper: Frontier
    since: Frontier
    runs: tuple[tuple[Part, ...], ...] = ()
    level: int = 0

    @property
    def rows(self) -> int:
        """Updates in all parts, also those outside the bounds."""
        return sum(part.rows for run in self.runs for part in run)

    @property
    def parts(self) -> tuple[Part, ...]:
        """All parts in order."""
        return tuple(part for run in self.runs for part in run)

    @property
    def blob_keys(self) -> frozenset[str]:
        """Blobs that hold its parts."""
        return frozenset(part.key for part in self.parts if part.key is not None)


@dataclass(frozen=True, slots=True)
class Writer:
    """A registered writer and its last commit, to tell retries from new writes."""

    heartbeat_ms: int
    last_token: str = ""
    last_upper: Frontier = MINIMUM


@dataclass(frozen=True, slots=True)
class Reader:
    """A leased reader: holds compaction at `since`, collection at `seqno`.

    While it lives nothing is compacted beyond `since`, nothing collected from version `seqno` on.
    """

    heartbeat_ms: int
    since: Frontier
    seqno: int


@dataclass(frozen=True, slots=True)
class Critical:
    """A hold on the since that no lease ends.

    `opaque` is the mark of the incarnation that may move it.
    """

    since: Frontier
    opaque: int = 0


@dataclass(frozen=True, slots=True)
class Claim:
    """Who does some work on the shard now, and until when others leave it to them.

    A hint: nothing is wrong if two do it.
    """

    holder: str
    until_ms: int


@dataclass(frozen=True, slots=True)
class State:
    """One version of a shard.

    `codec` names the schema of its rows; `rollups` are whole states in blobs, by version.
    """

    shard: str
    seqno: int
    codec: str
    walltime_ms: int
    since: Frontier = MINIMUM
    upper: Frontier = MINIMUM
    tombstone: bool = False
    writers: Mapping[str, Writer] = field(default_factory=dict)
    readers: Mapping[str, Reader] = field(default_factory=dict)
    criticals: Mapping[str, Critical] = field(default_factory=dict)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    batches: tuple[Batch, ...] = ()
    rollups: Mapping[int, str] = field(default_factory=dict)

    @property
    def inline_bytes(self) -> int:
        """Bytes of parts that lie in this version itself."""
        return sum(part.size for batch in self.batches for part in batch.parts if part.inline is not None)

    @property
    def blob_keys(self) -> frozenset[str]:
        """All blobs that this version names."""
        return frozenset(self.rollups.values()).union(*(batch.blob_keys for batch in self.batches))

    @property
    def held_seqno(self) -> int:
        """The oldest version that some leased reader may still fetch from."""
        return min((reader.seqno for reader in self.readers.values()), default=self.seqno)


def changed(state: State, now_ms: int, **fields: object) -> State:
    """The next version with some fields replaced; time on the wall grows strictly."""
    return replace(state, seqno=state.seqno + 1, walltime_ms=max(now_ms, state.walltime_ms + 1), **fields)  # type: ignore[arg-type]


def open_writer(state: State, name: str, *, now_ms: int) -> State:
    """Register a writer; registering again is a heartbeat.

    In a finalized shard nobody is registered.
    """
    if state.tombstone:
        return state
    known = state.writers.get(name)
    writer = Writer(now_ms) if known is None else replace(known, heartbeat_ms=max(known.heartbeat_ms, now_ms))
    return changed(state, now_ms, writers={**state.writers, name: writer})


def open_reader(state: State, name: str, *, now_ms: int) -> State:
    """Register a leased reader at the shard's since; registering again is a heartbeat."""
    if state.tombstone:
        return state
    known = state.readers.get(name)
    reader = Reader(now_ms, state.since, state.seqno + 1) if known is None else _beaten(known, now_ms)
    return changed(state, now_ms, readers={**state.readers, name: reader})


def open_critical(state: State, name: str, *, now_ms: int) -> State:
    """Register a hold at the shard's since; an existing one stays as it is."""
    if state.tombstone or name in state.criticals:
        return state
    return changed(state, now_ms, criticals={**state.criticals, name: Critical(state.since)})


def _beaten(reader: Reader, now_ms: int) -> Reader:
    return replace(reader, heartbeat_ms=max(reader.heartbeat_ms, now_ms))


def append_batch(
    state: State, writer: str, batch: Batch, expected: Frontier, *, token: str, previous_unknown: bool, now_ms: int
) -> State:
    """Make `batch`, whose lower bound is `expected`, the next of the shard.

    The same state comes back if a batch with this token was committed already. Raises UpperMismatch (somebody wrote first),
    Expired (the writer is not registered), UsageError (`undecidable`) if `previous_unknown` and nobody can tell any more.
    """
    if state.tombstone:
        raise UpperMismatch(None)
    known = state.writers.get(writer)
    if known is None:
        raise Expired(f"writer {writer}")
    if known.last_token == token:
        return state
    if state.upper != expected:
        if previous_unknown and not before(known.last_upper, batch.upper):
            raise UsageError("undecidable", "the outcome of an earlier attempt was overwritten by a later write")
        raise UpperMismatch(state.upper)
    mark = Writer(max(known.heartbeat_ms, now_ms), token, batch.upper)
    batches = state.batches if batch.upper == expected else (*state.batches, batch)
    return changed(state, now_ms, upper=batch.upper, batches=batches, writers={**state.writers, writer: mark})


def append_shared(state: State, writers: Mapping[str, str], batch: Batch, expected: int, *, now_ms: int) -> State:
    """The same for a shared batch of writers, each with its token, at any upper.

    Raises UpperMismatch (somebody wrote first), Expired, UsageError (`written`) if one of the tokens was committed already.
    """
    if state.tombstone or state.upper != expected:
        raise UpperMismatch(state.upper)
    marks: dict[str, Writer] = {}
    for name, token in writers.items():
        known = state.writers.get(name)
        if known is None:
            raise Expired(f"writer {name}")
        if known.last_token == token:
            raise UsageError("written", f"what writer {name} wrote is there")
        marks[name] = Writer(max(known.heartbeat_ms, now_ms), token, batch.upper)
    batches = (*state.batches, batch)
    return changed(state, now_ms, upper=batch.upper, batches=batches, writers={**state.writers, **marks})


def heartbeat_writer(state: State, name: str, *, now_ms: int) -> State:
    """Prolong a lease. Raises Expired."""
    known = state.writers.get(name)
    if state.tombstone:
        return state
    if known is None:
        raise Expired(f"writer {name}")
    beaten = replace(known, heartbeat_ms=max(known.heartbeat_ms, now_ms))
    return changed(state, now_ms, writers={**state.writers, name: beaten})


def downgrade_since(state: State, name: str, since: Frontier, *, held_from: int | None, now_ms: int) -> State:
    """Move a reader's hold on; never back.

    `held_from` is the oldest version it still fetches from, None for none.

    Raises Expired. A finalized shard is left as it is.
    """
    if state.tombstone:
        return state
    known = state.readers.get(name)
    if known is None:
        raise Expired(f"reader {name}")
    seqno = max(known.seqno, state.seqno if held_from is None else held_from)
    moved = Reader(max(known.heartbeat_ms, now_ms), later(known.since, since), seqno)
    return _with_since(changed(state, now_ms, readers={**state.readers, name: moved}))


def compare_and_downgrade_since(
    state: State, name: str, expected: int, opaque: int, since: Frontier, *, now_ms: int
) -> State:
    """Move a critical hold on if its mark is the expected one.

    Raises OpaqueMismatch, UsageError (`unknown-critical`).
    """
    if state.tombstone:
        return state
    known = state.criticals.get(name)
    if known is None:
        raise UsageError("unknown-critical", name)
    if known.opaque != expected:
        raise OpaqueMismatch(known.opaque, known.since)
    moved = Critical(later(known.since, since), opaque)
    return _with_since(changed(state, now_ms, criticals={**state.criticals, name: moved}))


def _with_since(state: State) -> State:
    """The shard's since follows the least of all holds.

    It stays where it is when there is none.
    """
    holds: list[Frontier] = [reader.since for reader in state.readers.values()]
    holds += [critical.since for critical in state.criticals.values()]
    if not holds:
        return state
    return replace(state, since=later(state.since, earliest(holds)))


def heartbeat_reader(state: State, name: str, *, now_ms: int) -> State:
    """Prolong a lease. Raises Expired."""
    if state.tombstone:
        return state
    if name not in state.readers:
        raise Expired(f"reader {name}")
    return changed(state, now_ms, readers={**state.readers, name: _beaten(state.readers[name], now_ms)})


def expire(
    state: State, *, writers: frozenset[str], readers: frozenset[str], criticals: frozenset[str], now_ms: int
) -> State:
    """Forget handles.

    The since does not move by that: it does with the next downgrade.
    """
    if not (writers & state.writers.keys() or readers & state.readers.keys() or criticals & state.criticals.keys()):
        return state
    return changed(
        state,
        now_ms,
        writers={name: one for name, one in state.writers.items() if name not in writers},
        readers={name: one for name, one in state.readers.items() if name not in readers},
        criticals={name: one for name, one in state.criticals.items() if name not in criticals},
    )


def due(
    state: State, *, now_ms: int, reader_lease_ms: int, writer_lease_ms: int
) -> tuple[frozenset[str], frozenset[str]]:
    """Writers and readers whose lease has run out; a lease is good at exactly its end."""
    return (
        frozenset(name for name, one in state.writers.items() if one.heartbeat_ms + writer_lease_ms < now_ms),
        frozenset(name for name, one in state.readers.items() if one.heartbeat_ms + reader_lease_ms < now_ms),
    )


def apply_merge(state: State, inputs: tuple[str, ...], output: Batch, *, now_ms: int) -> State:
    """Put a compacted batch in the place of its inputs, which are known by their ids.

    The same state comes back if an input is gone or the output's since is beyond the shard's: the result is of no use.
    """
    at = next((index for index, batch in enumerate(state.batches) if batch.id == inputs[0]), None)
    if state.tombstone or at is None or not at_most(output.since, state.since):
        return state
    replaced = state.batches[at : at + len(inputs)]
    if tuple(batch.id for batch in replaced) != inputs:
        return state
    if (replaced[0].lower, replaced[-1].upper) != (output.lower, output.upper):
        raise UsageError("non-consecutive", "a merge has the bounds of its inputs")
    return changed(state, now_ms, batches=(*state.batches[:at], output, *state.batches[at + len(inputs) :]))


def join_empty(state: State, *, now_ms: int) -> State:
    """Join neighbouring empty batches, and a merged one with the empty one after it.

    Nothing is read.

    A batch that was not merged may hold rows outside its bounds, so its bounds stay. What is joined gets an id of its own, which
    a merge of the former batches does not know.
    """
    joined: list[Batch] = []
    for batch in state.batches:
        last = joined[-1] if joined else None
        if last is not None and not batch.rows and (not last.rows or last.level):
            name = blake2b(f"{last.id} {batch.id}".encode(), digest_size=8).hexdigest()
            joined[-1] = replace(last, id=name, upper=batch.upper)
        else:
            joined.append(batch)
    if len(joined) == len(state.batches) or state.tombstone:
        return state
    return changed(state, now_ms, batches=tuple(joined))


def take_claim(state: State, work: str, holder: str, *, claim_ms: int, now_ms: int) -> State:
    """Say that `holder` does some work now.

    The same state comes back if somebody else has said so and has time left.
    """
    known = state.claims.get(work)
    if state.tombstone or (known is not None and known.holder != holder and known.until_ms > now_ms):
        return state
    return changed(state, now_ms, claims={**state.claims, work: Claim(holder, now_ms + claim_ms)})


def drop_claim(state: State, work: str, holder: str, *, now_ms: int) -> State:
    """Give the work up, if it is ours."""
    known = state.claims.get(work)
    if known is None or known.holder != holder:
        return state
    return changed(state, now_ms, claims={name: one for name, one in state.claims.items() if name != work})


def add_rollup(state: State, seqno: int, key: str, *, now_ms: int) -> State:
    """Link a rollup of version `seqno`; of two of one version the first stays."""
    if seqno in state.rollups:
        return state
    return changed(state, now_ms, rollups={**state.rollups, seqno: key})


def remove_rollups(state: State, below: int, *, now_ms: int) -> State:
    """Forget rollups of versions before `below`, but not the last one."""
    kept = {seqno: key for seqno, key in state.rollups.items() if seqno >= below}
    if len(kept) == len(state.rollups) or not kept:
        return state
    return changed(state, now_ms, rollups=kept)


def evolve(state: State, codec: str, *, now_ms: int) -> State:
    """Put another codec in the place of the shard's.

    The caller knows that it can read what the former one wrote.
    """
    if state.tombstone or state.codec == codec:
        return state
    return changed(state, now_ms, codec=codec)


def finalize(state: State, last: str, *, now_ms: int) -> State:
    """Close the shard for writers and readers, no matter who holds what.

    `last` names the empty batch that ends its time.
    """
    if state.tombstone or is_closed(state):
        return state
    batches = state.batches
    if state.upper is not None:
        batches = (*batches, Batch(last, state.upper, None, MINIMUM))
    return changed(state, now_ms, since=None, upper=None, batches=batches)


def is_closed(state: State) -> bool:
    """Whether nothing can be read or written any more."""
    return state.since is None and state.upper is None


def become_tombstone(state: State, *, now_ms: int) -> State:
    """Clear a closed shard.

    Handles and batches go in a version of their own, so that collection finds their blobs.
    """
    if state.tombstone or not is_closed(state):
        return state
    return changed(state, now_ms, tombstone=True, writers={}, readers={}, criticals={}, claims={}, batches=())
