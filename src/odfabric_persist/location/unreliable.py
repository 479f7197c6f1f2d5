"""Faults on purpose: a store fails before or after an effect, or answers late.

Owns one plan of faults for both kinds of store. Invariant: a fault is what a real store could do - Determinate without the effect,
Indeterminate with or without it - and the same seed gives the same faults for the same calls.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from random import Random
from typing import TypeVar

from odfabric_persist.errors import Determinate, Indeterminate
from odfabric_persist.location.blob import Blob, BlobEntry
from odfabric_persist.location.consensus import Consensus, Version

T = TypeVar("T")


class Fault(Enum):
    """What happens to one call."""

    DETERMINATE = "determinate"
    INDETERMINATE_BEFORE = "indeterminate-before"
    INDETERMINATE_AFTER = "indeterminate-after"


class Faults:
    """Which calls fail.

    `chance` of 1 means each; `next` makes the next call of an operation fail once.
    """

    def __init__(self, *, seed: int = 0, chance: float = 0.0, wait: Callable[[float], None] = lambda _: None) -> None:
        """`wait` is called with a number in 0 ..

        1 before each call: a test may make that a delay.
        """
        self._lock = threading.Lock()
        self._random = Random(seed)
        self._chance = chance
        self._wait = wait
        self._planned: dict[str, list[Fault]] = {}

    def next(self, operation: str, fault: Fault) -> None:
        """Let the next call of `operation` fail.

        Such as `blob.set` or `consensus.compare_and_set`.
        """
        with self._lock:
            self._planned.setdefault(operation, []).append(fault)

    def stop(self) -> None:
        """From now on nothing fails that is not planned."""
        with self._lock:
            self._chance = 0.0

    def call(self, operation: str, work: Callable[[], T]) -> T:
        """The call, with its fault if it has one."""
        with self._lock:
            planned = self._planned.get(operation)
            fault = planned.pop(0) if planned else None
            if fault is None and self._random.random() < self._chance:
                fault = self._random.choice(list(Fault))
            delay = self._random.random()
        self._wait(delay)
        if fault is Fault.DETERMINATE:
            raise Determinate(f"{operation} failed on purpose")
        if fault is Fault.INDETERMINATE_BEFORE:
            raise Indeterminate(f"{operation} was lost on purpose")
        result = work()
        if fault is Fault.INDETERMINATE_AFTER:
            raise Indeterminate(f"the answer of {operation} was lost on purpose")
        return result


class UnreliableBlob:
    """A `Blob` with faults."""

    def __init__(self, blob: Blob, faults: Faults) -> None:
        self._blob = blob
        self._faults = faults

    def get(self, key: str) -> bytes | None:
        """See the protocol."""
        return self._faults.call("blob.get", lambda: self._blob.get(key))

    def set(self, key: str, value: bytes) -> None:
        """See the protocol."""
        self._faults.call("blob.set", lambda: self._blob.set(key, value))

    def delete(self, key: str) -> int | None:
        """See the protocol."""
        return self._faults.call("blob.delete", lambda: self._blob.delete(key))

    def list(self, prefix: str) -> Iterator[BlobEntry]:
        """See the protocol."""
        return self._faults.call("blob.list", lambda: self._blob.list(prefix))

    def restore(self, key: str) -> None:
        """See the protocol."""
        self._faults.call("blob.restore", lambda: self._blob.restore(key))


class UnreliableConsensus:
    """A `Consensus` with faults."""

    def __init__(self, consensus: Consensus, faults: Faults) -> None:
        self._consensus = consensus
        self._faults = faults

    def head(self, key: str) -> Version | None:
        """See the protocol."""
        return self._faults.call("consensus.head", lambda: self._consensus.head(key))

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """See the protocol."""
        return self._faults.call(
            "consensus.compare_and_set", lambda: self._consensus.compare_and_set(key, expected, new)
        )

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """See the protocol."""
        return self._faults.call("consensus.scan", lambda: self._consensus.scan(key, start, limit))

    def truncate(self, key: str, seqno: int) -> int:
        """See the protocol."""
        return self._faults.call("consensus.truncate", lambda: self._consensus.truncate(key, seqno))

    def keys(self) -> Iterator[str]:
        """See the protocol."""
        return self._faults.call("consensus.keys", lambda: self._consensus.keys())
