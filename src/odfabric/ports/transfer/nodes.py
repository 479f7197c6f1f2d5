"""What other nodes say of themselves, of our account there and of their datasets.

Nothing of it is trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from odfabric.model.identity import DatasetId, Name

WHY_BYTES_LIMIT = "provenance_peer_bytes_max"
"""The limit that too large an answer to `why` names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDataset:
    """A dataset of a repository: `[account/]name`, and id and kind if known.

    The repository need not say id and kind.
    """

    alias: str
    id: str | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedAnswer:
    """A question that the other node answers later: the id of its job there."""

    job: str


class RemoteNodes(Protocol):
    """Asks nodes by the URL of a repository, with the token of its origin.

    Raises AccessDenied for a place that the guard refuses, InvalidRequest, CorruptedSource for an answer that is none, LimitExceeded,
    Determinate.
    """

    def has_accounts(self, url: str) -> bool:
        """Whether datasets of the node are named under accounts."""

    def own_account(self, url: str) -> Name | None:
        """The account of our token there; None if the node does not say."""

    def name_of(self, url: str, dataset: DatasetId) -> Name | None:
        """The name that a dataset has there.

        None if it is not there, or the node does not say.
        """

    def send_ref(self, url: str, path: str, data: bytes) -> bool:
        """Send a small file beside the head of the dataset under `url`.

        False if the node does not take it (4xx).

        Raises Indeterminate too.
        """

    def why(
        self, url: str, question: Mapping[str, object], *, with_key: bool, seconds_max: float, bytes_max: int
    ) -> object:
        """The JSON value that a dataset answers to why records are there.

        A QueuedAnswer where a job works on it. The same question finds that job again as long as this process remembers it.

        `with_key`: ask with the token of its origin. An answer above `bytes_max` raises LimitExceeded; NotFound, InvalidRequest too.
        """

    def queued_why(
        self,
        url: str,
        queued: QueuedAnswer,
        *,
        with_key: bool,
        seconds_max: float,
        bytes_max: int,
        waiting: Callable[[], None],
    ) -> object | None:
        """What a job that `why` named has found; None if it still works.

        It is waited for `seconds_max` at most.

        `waiting` is called each time that it is not done yet, and ends the wait by raising. Raises as `why`; a job that failed raises what
        its answer would have.
        """

    def has_key(self, url: str) -> bool:
        """Whether there is a token for the origin of a URL."""

    def search(self, url: str, words: str, *, limit: int) -> Sequence[FoundDataset]:
        """At most `limit` datasets that we may read and that match."""
