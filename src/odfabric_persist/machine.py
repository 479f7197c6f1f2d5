"""The one place of shard changes: read, apply commands, compare and set.

Owns the loop, its retries and the copy of the newest state. Invariants: an accepted command is in exactly one version, alone or
with those that came at the same time (`funnel`); a refusal was judged on the newest version; after an unknown outcome the version
itself is asked, by its nonce, before anything is done again. Source: ADR 0014.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias, TypeVar

from odfabric_persist.encoding import apply_diff, decode_diff, decode_rollup, encode_diff, encode_rollup
from odfabric_persist.errors import Corrupt, Determinate, Indeterminate, LocationError, UsageError
from odfabric_persist.funnel import Funnel, FunnelLimits
from odfabric_persist.keys import rollup_key
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus, Version
from odfabric_persist.state import State

FIRST_SEQNO = 1
SCAN_MAX = 1000
"""Versions that are read at once."""
OLDEST_LOOKS_MAX = 5
"""Looks for the oldest version, while others collect."""

Command: TypeAlias = Callable[[State], State]
Outcome: TypeAlias = State | Exception
"""What a command came to: the version as it was right after it, or what it raised."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long outside failures are met with another attempt.

    `wait` sleeps; a test may look away instead.
    """

    attempts_max: int = 10
    pause_s: float = 0.01
    pause_s_max: float = 1.0
    wait: Callable[[float], None]

    def pauses(self) -> Iterator[float]:
        """Seconds before each further attempt."""
        for attempt in range(self.attempts_max - 1):
            yield min(self.pause_s * 2**attempt, self.pause_s_max)


@dataclass(slots=True)
class Machine:
    """The state of one shard for one process; safe for threads.

    `now_ms` is the clock on the wall.

    `announce` is informed of each version that was made here.
    """

    shard: str
    codec: str
    blob: Blob
    consensus: Consensus
    now_ms: Callable[[], int]
    patience: Patience
    announce: Callable[[str, int], None] = lambda _shard, _seqno: None
    limits: FunnelLimits = field(default_factory=FunnelLimits)
    _known: State | None = None
    _first: State | None = None
    _nonce: str = field(default_factory=lambda: uuid.uuid4().hex)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    funnel: Funnel[Command, State] = field(init=False)
    looks: Funnel[None, State] = field(init=False)

    def __post_init__(self) -> None:
        """Two funnels: commands of this process, and looks at the newest version."""
        self.funnel = Funnel(self._commit_together, self.limits)
        self.looks = Funnel(lambda group: [self._look()] * len(group), self.limits)

    def newest(self) -> State:
        """The newest version; the shard is made if it is new.

        Raises UsageError (`codec-mismatch`), Corrupt, LocationError.
        """
        # One look serves all who asked before it began.
        return self.looks.ask(None)

    def _look(self) -> State:
        state = self.retried(self._refresh)
        while state is None:
            self.retried(self._create)
            state = self.retried(self._refresh)
        if state.codec != self.codec:
            raise UsageError("codec-mismatch", f"the shard has {state.codec}")
        return state

    def cached(self) -> State:
        """The newest version that this process has seen."""
        return self._known or self.newest()

    def apply(self, command: Command) -> State:
        """Make the command's state the newest.

        The version that it became, or the newest if it changed nothing.

        Raises what the command raises on the newest version, Corrupt, LocationError when attempts are exhausted.
        """
        return self.funnel.ask(command)

    def _commit_together(self, commands: Sequence[Command]) -> Sequence[Outcome]:
        """One version of several commands; what each came to.

        Raises Corrupt, LocationError: then none is known to be done.
        """
        state = self.cached()
        while True:
            after, outcomes = folded(state, commands)
            if after is not state and self._commit(state, after):
                return outcomes
            fresh = self.newest()
            # Refusals and no-ops count only on the newest version: what we know may be stale.
            if after is state and fresh.seqno == state.seqno:
                return outcomes
            state = fresh

    def states_from(self, start: int) -> Iterator[State]:
        """All live versions from `start` on, oldest first.

        Those that are collected before their turn comes are left out.

        Raises Corrupt, LocationError.
        """
        state = self._oldest()
        while True:
            if state.seqno >= start:
                yield state
            following = self.retried(partial(self._scan, state.seqno + 1))
            if not following:
                return
            if following[0].seqno != state.seqno + 1:
                state = self._oldest()
                continue
            for version in following[:-1]:
                state = apply_diff(state, decode_diff(version.data))
                if state.seqno >= start:
                    yield state
            state = apply_diff(state, decode_diff(following[-1].data))

    def retried(self, work: Callable[[], T]) -> T:
        """Work that may be repeated without harm, until it succeeds or patience ends."""
        for pause in self.patience.pauses():
            try:
                return work()
            except Corrupt:
                raise
            except LocationError:
                self.patience.wait(pause)
        return work()

    def write_rollup(self) -> tuple[int, str]:
        """The newest state as a blob: its version and key. Nothing refers to it yet."""
        state = self.newest()
        key = rollup_key(self.shard, state.seqno, self.now_ms())
        self.retried(lambda: self.blob.set(key, encode_rollup(state)))
        return state.seqno, key

    def _refresh(self) -> State | None:
        """Catch up with the newest version; None if there is none at all."""
        state = self._known
        if state is None:
            head = self.consensus.head(self.shard)
            if head is None:
                return None
            state = self._load(decode_diff(head.data).rollup)
        while versions := self._scan(state.seqno + 1):
            if versions[0].seqno != state.seqno + 1:
                # Collected while we looked away: begin again at a younger rollup.
                self._forget(state)
                raise Determinate("the versions after the known one are gone")
            for version in versions:
                state = apply_diff(state, decode_diff(version.data))
            self._learn(state)
        self._learn(state)
        return state

    def _learn(self, state: State) -> None:
        """Several threads look at once: the newest of what they find stays.

        Raises Corrupt for what cannot be.
        """
        if not state.rollups:
            raise Corrupt(f"version {state.seqno} of {self.shard} names no rollup: versions were lost or made twice")
        with self._lock:
            if self._known is None or self._known.seqno < state.seqno:
                self._known = state

    def _forget(self, state: State) -> None:
        """This version, or one before it, is of no use any more."""
        with self._lock:
            if self._known is not None and self._known.seqno <= state.seqno:
                self._known = None

    def _oldest(self) -> State:
        """The oldest live version."""
        for _ in range(OLDEST_LOOKS_MAX):
            (oldest,) = self.retried(lambda: self.consensus.scan(self.shard, 0, 1))
            key = self.newest().rollups.get(oldest.seqno)
            data = None if key is None else self.retried(partial(self.blob.get, key))
            if key is not None and data is not None:
                return self._decoded((oldest.seqno, key), data)
            # Collected since: the next look finds a younger one.
        raise Corrupt(f"the rollup of the oldest version of {self.shard}, {oldest.seqno}, is gone")

    def _load(self, rollup: tuple[int, str]) -> State:
        seqno, key = rollup
        data = self.blob.get(key)
        if data is None:
            raise Determinate(f"rollup {key} of version {seqno} is gone: a younger one must have taken its place")
        return self._decoded(rollup, data)

    def _decoded(self, rollup: tuple[int, str], data: bytes) -> State:
        seqno, key = rollup
        state = decode_rollup(data)
        if (state.shard, state.seqno) != (self.shard, seqno):
            raise Corrupt(f"rollup {key} is of version {state.seqno} of {state.shard}")
        return state

    def _create(self) -> None:
        if self._first is None:
            # Made once: another attempt must not write over the rollup of one that won without our knowing.
            rollups = {FIRST_SEQNO: rollup_key(self.shard, FIRST_SEQNO, self.now_ms())}
            self._first = State(self.shard, FIRST_SEQNO, self.codec, self.now_ms(), rollups=rollups)
        state, key = self._first, self._first.rollups[FIRST_SEQNO]
        self.blob.set(key, encode_rollup(state))
        first = encode_diff(None, state, nonce=self._nonce, rollup=(FIRST_SEQNO, key))
        if not self.consensus.compare_and_set(self.shard, None, Version(FIRST_SEQNO, first)):
            found = self.consensus.scan(self.shard, FIRST_SEQNO, 1)
            # After an unknown outcome the first version may be ours all the same.
            if not found or decode_diff(found[0].data).nonce != self._nonce:
                self.blob.delete(key)

    def _commit(self, before: State, after: State) -> bool:
        """Whether it is the newest version now; if not, somebody else's is."""
        nonce = uuid.uuid4().hex
        rollup = max(after.rollups.items())
        new = Version(after.seqno, encode_diff(before, after, nonce=nonce, rollup=rollup))
        unknown: Indeterminate | None = None
        for pause in [0.0, *self.patience.pauses()]:
            if pause:
                self.patience.wait(pause)
            try:
                won = self.consensus.compare_and_set(self.shard, before.seqno, new)
            except Determinate as error:
                failure: LocationError = unknown or error
                continue
            except Indeterminate as error:
                failure = unknown = error
                continue
            if won or (unknown is not None and self._is_ours(new.seqno, nonce)):
                self._learn(after)
                self.announce(self.shard, after.seqno)
                return True
            return False
        raise failure

    def _is_ours(self, seqno: int, nonce: str) -> bool:
        found = self.retried(lambda: self.consensus.scan(self.shard, seqno, 1))
        return bool(found) and found[0].seqno == seqno and decode_diff(found[0].data).nonce == nonce

    def _scan(self, start: int) -> Sequence[Version]:
        return self.consensus.scan(self.shard, start, SCAN_MAX)


def folded(state: State, commands: Sequence[Command]) -> tuple[State, list[Outcome]]:
    """The version that several commands make, each judged on those before it.

    The same state comes back if none of them changes it.
    """
    working = state
    walltime_ms = state.walltime_ms
    outcomes: list[Outcome] = []
    for command in commands:
        try:
            after = command(working)
        except Exception as error:  # noqa: BLE001 - raised again in the thread of who asked
            outcomes.append(error)
            continue
        if after is working:
            outcomes.append(after if after is state else replace(after, seqno=state.seqno + 1))
        else:
            outcomes.append(after)
            if after.seqno != state.seqno + 1:
                raise AssertionError("a command makes exactly one version")
            walltime_ms = max(walltime_ms, after.walltime_ms)
            working = replace(after, seqno=state.seqno, walltime_ms=state.walltime_ms)
    if working is state:
        return state, outcomes
    return replace(working, seqno=state.seqno + 1, walltime_ms=walltime_ms), outcomes
