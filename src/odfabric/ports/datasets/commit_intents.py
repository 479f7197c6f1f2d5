"""Planned commits of this node, where heads of record are not in its database.

Rows are written before the head is moved there and go when the database has what was committed, so that a process that dies in
between leaves what the chain does not tell: marks of jobs, the sealed key of a new dataset and its grants, and audit entries. A removal
that is audited has one too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.commit import CommitIntent
from odfabric.model.multihash import Multihash


class CommitIntents(Protocol):
    """Durable intents, shared by all processes of the node.

    Raises Determinate or Indeterminate for outside failures.
    """

    def add(self, intent: CommitIntent) -> None:
        """Store it, durable when the call returns.

        Raises AlreadyExists if one of its jobs has an intent, LeaseLost if one was cancelled; then nothing was stored.
        """

    def drop(self, key: Multihash) -> None:
        """Remove the one with that key; none is success."""

    def all(self) -> Sequence[CommitIntent]:
        """All intents, oldest first: of commits under way, and of dead processes."""
