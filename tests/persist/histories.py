"""Histories of transactions on lists, and whether they are strictly serialisable.

A transaction appends values to lists and reads lists; each value is appended once in a history, so that a read says which
transactions came before it, and in which order. The check looks for what no serial order can explain: values that are lost, doubled
or read although their transaction failed, reads that contradict one another, and cycles of the dependencies, of which "it ended before
the other began" is one. Nothing here knows how the store works.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise


class Outcome(Enum):
    """What the client heard."""

    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Append:
    """Put a value at the end of a list."""

    key: int
    value: int


@dataclass(frozen=True, slots=True)
class Read:
    """See a list."""

    key: int


@dataclass(slots=True)
class Transaction:
    """One transaction.

    `began` and `ended` are moments of one clock; `seen` are the lists that its reads gave, in order.
    """

    number: int
    operations: Sequence[Append | Read]
    began: int
    ended: int = 0
    outcome: Outcome = Outcome.UNKNOWN
    seen: list[tuple[int, ...]] = field(default_factory=list)

    @property
    def appended(self) -> Iterator[Append]:
        return (one for one in self.operations if isinstance(one, Append))

    @property
    def reads(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        keys = [one.key for one in self.operations if isinstance(one, Read)]
        return zip(keys, self.seen, strict=True)


def applied(
    operations: Sequence[Append | Read], lists: Mapping[int, tuple[int, ...]]
) -> tuple[dict[int, tuple[int, ...]], list[tuple[int, ...]]]:
    """The lists that a transaction changes, and what its reads give."""
    changed: dict[int, tuple[int, ...]] = {}
    seen: list[tuple[int, ...]] = []
    for one in operations:
        before = changed.get(one.key, lists.get(one.key, ()))
        if isinstance(one, Append):
            changed[one.key] = (*before, one.value)
        else:
            seen.append(before)
    return changed, seen


def anomalies(history: Sequence[Transaction], final: Mapping[int, tuple[int, ...]]) -> list[str]:
    """What no serial order explains, in words. `final` are the lists after everything."""
    writer = {one.value: transaction for transaction in history for one in transaction.appended}
    done = [one for one in history if one.outcome is Outcome.DONE]
    found = [*_of_values(done, writer, final), *(text for one in done for text in _of_reads(one, writer, final))]
    if found:
        return found
    effective = [
        one
        for one in history
        if one.outcome is Outcome.DONE or any(append.value in final.get(append.key, ()) for append in one.appended)
    ]
    cycle = _cycle(effective, _edges(effective, writer, final))
    return [f"a cycle of transactions: {cycle}"] if cycle else []


def _of_values(
    done: Iterable[Transaction], writer: Mapping[int, Transaction], final: Mapping[int, tuple[int, ...]]
) -> Iterator[str]:
    for key, values in final.items():
        if len(set(values)) != len(values):
            yield f"a value stands twice in list {key}: {values}"
        for value in values:
            if value not in writer or writer[value].outcome is Outcome.FAILED:
                yield f"{value} in list {key} was never appended, or by a transaction that failed"
    for transaction in done:
        for one in transaction.appended:
            if one.value not in final.get(one.key, ()):
                yield f"{one.value} was acknowledged and is lost from list {one.key}"


def _of_reads(
    transaction: Transaction, writer: Mapping[int, Transaction], final: Mapping[int, tuple[int, ...]]
) -> Iterator[str]:
    own = {one.value for one in transaction.appended}
    for key, values in transaction.reads:
        if values != final.get(key, ())[: len(values)]:
            yield f"transaction {transaction.number} read {values} from list {key}, which is no beginning of {final.get(key)}"
    _, expected = applied(transaction.operations, {key: _without(values, own) for key, values in transaction.reads})
    if expected != transaction.seen:
        yield f"transaction {transaction.number} does not see its own appends, or reads twice differently"
    for key, values in transaction.reads:
        last = writer.get(values[-1]) if values else None
        if last is None or last is transaction:
            continue
        theirs = [one.value for one in last.appended if one.key == key]
        if theirs[-1] != values[-1]:
            yield f"transaction {transaction.number} read the middle of transaction {last.number}"


def _without(values: tuple[int, ...], own: set[int]) -> tuple[int, ...]:
    return tuple(value for value in values if value not in own)


def _edges(
    effective: Sequence[Transaction], writer: Mapping[int, Transaction], final: Mapping[int, tuple[int, ...]]
) -> dict[int, set[int]]:
    """Edges of precedence: list order, what was read, not yet read, and time."""
    after: dict[int, set[int]] = defaultdict(set)
    for values in final.values():
        for one, next_one in pairwise(values):
            after[writer[one].number].add(writer[next_one].number)
    for transaction in effective:
        if transaction.outcome is not Outcome.DONE:
            continue
        own = {one.value for one in transaction.appended}
        for key, values in transaction.reads:
            others = _without(values, own)
            if others:
                after[writer[others[-1]].number].add(transaction.number)
            for value in final.get(key, ())[len(values) :]:
                if value not in own:
                    after[transaction.number].add(writer[value].number)
                    break
        for other in effective:
            if transaction.ended < other.began:
                after[transaction.number].add(other.number)
    for number, others in after.items():
        others.discard(number)
    return after


def _cycle(effective: Sequence[Transaction], after: Mapping[int, set[int]]) -> list[int]:
    """Numbers of transactions that are each before the next and before themselves.

    Empty if there are none.
    """
    waiting = {one.number: 0 for one in effective}
    for number in waiting:
        for other in after.get(number, ()):
            waiting[other] += 1
    free = [number for number, count in waiting.items() if not count]
    while free:
        number = free.pop()
        del waiting[number]
        for other in after.get(number, ()):
            waiting[other] -= 1
            if not waiting[other]:
                free.append(other)
    return sorted(waiting)
