"""Logs of head moves, and what this node has seen of logs elsewhere.

A log grows by whole entries, each written once; `ChainWriter` adds those of its moves in its own transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from odfabric.model.heads.head_log import SeenHead, SignedMove
from odfabric.model.identity import DatasetId
from odfabric.model.people.audit import AuditEntry


class HeadLogs(Protocol):
    """Each change is one atomic transaction, durable when it returns.

    Every method raises Determinate; changes Indeterminate too. Entries come out as the lines that went in.
    """

    def last(self, dataset: DatasetId) -> bytes | None:
        """The line of the newest entry."""

    def lines(self, dataset: DatasetId, *, first: int, limit: int) -> Sequence[bytes]:
        """Up to `limit` lines from entry number `first` on, in order."""

    def handovers(self, dataset: DatasetId, *, limit: int) -> Sequence[bytes]:
        """The lines of the newest `limit` hand-overs of the key, oldest first."""

    def add(self, dataset: DatasetId, moves: Sequence[SignedMove]) -> None:
        """Continue the log of a dataset that is here.

        Raises Changed if the first of `moves` does not follow the newest entry, NotFound without the dataset. Nothing was written then.
        """

    def replace(self, dataset: DatasetId, moves: Sequence[SignedMove], *, audit: Sequence[AuditEntry] = ()) -> None:
        """Forget the log and what was seen of it, and begin with `moves`. Raises NotFound."""

    def hand_over(
        self,
        dataset: DatasetId,
        moves: Sequence[SignedMove],
        *,
        sealed_key: bytes | None,
        audit: Sequence[AuditEntry] = (),
    ) -> None:
        """Continue the log and keep another private key from now on.

        Without `moves` the key only. None: this node signs no more. Raises as `add`.
        """

    def seen(self, dataset: DatasetId) -> SeenHead | None:
        """The newest that was seen of a dataset elsewhere, whether it is here or not."""

    def note_seen(self, seen: SeenHead, *, forced: bool = False) -> None:
        """Remember it, unless something newer was seen.

        A higher number, or the same one signed later.

        With `forced` whatever was seen before.
        """
