"""Consensus: a register of versions by key, changed by compare-and-set.

Owns the contract that every such register keeps. Invariant: of all who try to follow one version, exactly one succeeds, and no
version ever comes back after it was truncated. Source: ADR 0018.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from odfabric_persist.errors import UsageError

SEQNO_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Version:
    """One version: its number and its bytes."""

    seqno: int
    data: bytes


class Consensus(Protocol):
    """A linearizable register of numbered versions; numbers grow and may have gaps.

    Every method raises Determinate or Indeterminate for failures of the store. After an Indeterminate compare-and-set the
    caller finds out by `head` whether its version is there.
    """

    def head(self, key: str) -> Version | None:
        """The newest version, None if there is none."""

    def compare_and_set(self, key: str, expected: int | None, new: Version) -> bool:
        """Make `new` the newest version if that is `expected` (None: none); whether so.

        Raises UsageError (`invalid-seqno`) if the new number is not above the expected one, or outside 0 .. SEQNO_MAX.
        """

    def scan(self, key: str, start: int, limit: int) -> Sequence[Version]:
        """At most `limit` versions from number `start` on, oldest first.

        Empty if there are none.
        """

    def truncate(self, key: str, seqno: int) -> int:
        """Remove versions below `seqno`; how many. The newest always stays.

        Raises UsageError (`invalid-truncation`) if the key is unknown or `seqno` is above its newest version.
        """

    def keys(self) -> Iterator[str]:
        """All keys that have versions, in order."""


def check_seqno(expected: int | None, new: Version) -> None:
    """Raises UsageError for a version that could never follow the expected one."""
    if not 0 <= new.seqno <= SEQNO_MAX or (expected is not None and new.seqno <= expected):
        raise UsageError("invalid-seqno", f"version {new.seqno} cannot follow {expected}")


def invalid_truncation(key: str, seqno: int) -> UsageError:
    """The error of `truncate`."""
    return UsageError("invalid-truncation", f"{key} has no version {seqno} or above")
