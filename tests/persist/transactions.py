"""Transactions on lists in one shard, by several clients with faulty stores.

Each transaction reads everything at one time, commits what it changed at the next by compare-and-append, and begins again if
somebody else came first; it commits even if it only reads. Reads are a snapshot at some time and what came after it. The clients
take turns at every call of a store, in an order that a seed decides: the same seed is the same history.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from odfabric_persist.batch import BatchLimits
from odfabric_persist.client import Listener, PersistClient, PersistSettings, ReadHandle, Shard, WriteHandle
from odfabric_persist.errors import Determinate, LocationError, NotYet, OpaqueMismatch, SinceError, UpperMismatch
from odfabric_persist.location.blob import Blob
from odfabric_persist.location.consensus import Consensus
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.location.unreliable import Faults, UnreliableBlob, UnreliableConsensus
from odfabric_persist.maintenance import MaintenanceLimits
from odfabric_persist.rows import DIFF, TIME, RowCodec
from odfabric_persist.tiers import FanOut
from tests.persist.histories import Append, Outcome, Read, Transaction, applied

CODEC = RowCodec(pa.schema([pa.field("key", pa.int64()), pa.field("list", pa.list_(pa.int64()))]), ("key",))
HOLD = "history"
HISTORY_KEPT = 8
"""How far the since stays behind what was written."""

Lists = dict[int, tuple[int, ...]]
Change = tuple[int, int, tuple[int, ...], int]
"""Time, key, list, diff."""


class IllFormedError(Exception):
    """A list twice or negative, or different readings: commits overwrote each other."""


class Turns:
    """Runs exactly one of several threads; chooses again whenever one stops."""

    def __init__(self, count: int, seed: int) -> None:
        self._random = Random(seed)
        self._alive = list(range(count))
        self._current = 0
        self._changed = threading.Condition()
        self._mine = threading.local()
        self.clock = 0

    def begin(self, number: int) -> None:
        """Take part as this number; returns at the first turn."""
        self._mine.number = number
        with self._changed:
            self._await(number)

    def pause(self, _: float = 0.0) -> None:
        """Let somebody else have a turn, perhaps.

        Anyone who does not take part is not held up.
        """
        number = getattr(self._mine, "number", None)
        if number is None:
            return
        with self._changed:
            self._next()
            self._await(number)

    def end(self) -> None:
        """Take part no longer."""
        with self._changed:
            self._alive.remove(self._mine.number)
            self._next()

    def tick(self) -> int:
        """A moment after all before it."""
        self.clock += 1
        return self.clock

    def _next(self) -> None:
        if self._alive:
            self._current = self._random.choice(self._alive)
            self._changed.notify_all()

    def _await(self, number: int) -> None:
        if not self._changed.wait_for(lambda: self._current == number, timeout=60):
            raise TimeoutError("nobody hands the turn on")


def lists_at(changes: list[Change], time: int) -> Lists:
    """All lists at a time. Raises IllFormedError."""
    counts: Counter[tuple[int, tuple[int, ...]]] = Counter()
    for at, key, values, diff in changes:
        if at <= time:
            counts[key, values] += diff
    there = {one: count for one, count in counts.items() if count}
    if any(count != 1 for count in there.values()) or len({key for key, _ in there}) != len(there):
        raise IllFormedError(str(there))
    return dict(there.keys())


def changes_of(updates: pa.Table) -> list[Change]:
    rows = updates.to_pylist()
    return [(row[TIME], row["key"], tuple(row["list"]), row[DIFF]) for row in rows]


@dataclass
class Client:
    """One client. What it does is drawn from its own chance."""

    number: int
    shard: Shard
    turns: Turns
    history: list[Transaction]
    random: Random
    writer: WriteHandle = field(init=False)
    followed: tuple[Listener, list[Change]] | None = None
    mismatches: int = 0

    def work(self, count: int) -> None:
        """Run transactions, now and then maintain the shard, and let the since follow."""
        self.patiently(self._open)
        for _ in range(count):
            number = len(self.history)
            transaction = Transaction(number, self._operations(number), self.turns.tick())
            self.history.append(transaction)
            self._run(transaction)
            transaction.ended = self.turns.tick()
            for chance, chore in ((0.3, self._follow_since), (0.2, self.shard.maintain), (0.1, self._open)):
                if self.random.random() < chance:
                    self.patiently(chore)

    def patiently(self, work: Callable[[], object]) -> None:
        """What is no transaction is done again, or left."""
        for _ in range(20):
            try:
                work()
                return
            except LocationError:
                self.turns.pause()

    def _open(self) -> None:
        self.writer = self.shard.open_writer(f"w{self.number}-{self.random.getrandbits(32)}")

    def _operations(self, number: int) -> list[Append | Read]:
        length = self.random.randint(1, 4)
        keys = [self.random.randrange(3) for _ in range(length)]
        return [
            Append(key, number * 10 + place) if self.random.random() < 0.5 else Read(key)
            for place, key in enumerate(keys)
        ]

    def _run(self, transaction: Transaction) -> None:
        try:
            for _ in range(60):
                upper = self.shard.newest().upper
                assert upper is not None
                lists = self._lists(upper - 1)
                changed, seen = applied(transaction.operations, lists)
                updates = [
                    row
                    for key, values in changed.items()
                    for row in [(upper, key, lists.get(key), -1), (upper, key, values, 1)]
                    if row[2] is not None
                ]
                columns = {
                    name: [row[place] for row in updates] for place, name in enumerate((TIME, "key", "list", DIFF))
                }
                table = pa.table({name: columns[name] for name in CODEC.update_schema.names}, CODEC.update_schema)
                try:
                    self.writer.compare_and_append(table, upper, upper + 1)
                except UpperMismatch:
                    self.mismatches += 1
                    continue
                transaction.outcome, transaction.seen = Outcome.DONE, seen
                return
            transaction.outcome = Outcome.FAILED
        except Determinate:
            transaction.outcome = Outcome.FAILED
        except LocationError:
            transaction.outcome = Outcome.UNKNOWN

    def _lists(self, time: int) -> Lists:
        """All lists at a time: a snapshot and what followed, equal to listening."""
        while True:
            try:
                since = self.shard.newest().since or 0
                fresh = self._changes(self.random.randint(min(since, time), time), time)
                if self.followed is None:
                    first = max(since, 0)
                    self.followed = self.shard_listener(first), changes_of(self.shard.snapshot(first))
                listener, changes = self.followed
                while listener.frontier is not None and listener.frontier <= time:
                    changes += changes_of(listener.poll() or CODEC.no_rows)
                lists = lists_at(fresh, time)
                if lists_at(changes, time) != lists:
                    raise IllFormedError("who follows sees something else than who reads afresh")
                return lists
            except (SinceError, NotYet):
                self.followed = None
                if time < 0:
                    return {}

    def _changes(self, start: int, time: int) -> list[Change]:
        found = changes_of(self.shard.snapshot(start))
        listener = self.shard_listener(start)
        while listener.frontier is not None and listener.frontier <= time:
            found += changes_of(listener.poll() or CODEC.no_rows)
        return found

    def shard_listener(self, as_of: int) -> Listener:
        return ReadHandle(self.shard, "", 0).listen(as_of)

    def _follow_since(self) -> None:
        """All move one hold, each with a mark of its own: anyone who is late is refused."""
        hold = self.shard.open_critical(HOLD)
        _, mark = hold.hold
        self.turns.pause()
        upper = self.shard.newest().upper or 0
        try:
            hold.compare_and_downgrade_since(mark, self.random.getrandbits(30), max(0, upper - HISTORY_KEPT))
        except OpaqueMismatch:
            self.mismatches += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """A history, the lists in the end, and how often somebody else came first."""

    history: list[Transaction]
    final: Lists
    mismatches: int


def play(
    seed: int,
    *,
    clients: int = 4,
    transactions: int = 12,
    chance: float = 0.05,
    blob: Blob | None = None,
    consensus: Consensus | None = None,
) -> Played:
    """Let clients run transactions.

    Raises IllFormedError if they committed over one another.
    """
    blob, consensus = blob or MemoryBlob(), consensus or MemoryConsensus()
    turns, history = Turns(clients, seed), []
    faults = Faults(seed=seed, chance=chance, wait=turns.pause)
    settings = PersistSettings(
        limits=BatchLimits(inline_bytes_max=0 if seed % 2 else 4096),
        maintenance=MaintenanceLimits(rollup_every=10, fan_out=FanOut(fresh=4, above=2)),
        attempts_max=4,
    )
    made: list[Client] = []
    failures: list[BaseException] = []
    PersistClient(blob, consensus, settings, now_ms=lambda: 0).open("lists", CODEC).open_critical(HOLD)

    def work(number: int) -> None:
        turns.begin(number)
        try:
            stores = UnreliableBlob(blob, faults), UnreliableConsensus(consensus, faults)
            client = PersistClient(*stores, settings, now_ms=lambda: turns.clock, wait=turns.pause)
            one: list[Shard] = []
            while not one:
                try:
                    one.append(client.open("lists", CODEC))
                except LocationError:
                    turns.pause()
            made.append(Client(number, one[0], turns, history, Random(seed * 1000 + number)))
            made[-1].work(transactions)
        except BaseException as error:  # noqa: BLE001 (it is raised again below, in the thread of the test)
            failures.append(error)
        finally:
            turns.end()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    shard = PersistClient(blob, consensus, settings).open("lists", CODEC)
    upper = shard.newest().upper
    final = lists_at(changes_of(shard.snapshot(upper - 1)), upper - 1) if upper else {}
    return Played(history=history, final=final, mismatches=sum(one.mismatches for one in made))
