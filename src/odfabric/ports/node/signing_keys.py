"""Keys with which a node signs requests, shared by processes on one database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.instant import Instant
from odfabric.model.people.signing_key import SigningKey


class SigningKeys(Protocol):
    """Keys of the node. At most one of them signs; the others are retired."""

    def add(self, key: SigningKey, *, private: bytes) -> None:
        """Store a key that signs from now on.

        The key before it is retired as of `key.made_at`, and its private half is erased, in the same transaction. Raises AlreadyExists for a
        known id, Determinate, Indeterminate.
        """

    def current(self) -> tuple[SigningKey, bytes] | None:
        """The key that signs and its private half; None if there is none yet.

        Raises Corrupt for one that cannot be opened.
        """

    def all(self) -> Sequence[SigningKey]:
        """All keys, newest first."""

    def forget_retired(self, *, before: Instant) -> int:
        """Remove keys that were retired before that time; how many."""
