"""Other nodes that exist in this process only."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odfabric.errors import LimitExceeded, NotFound
from odfabric.model.identity import DatasetId, Name
from odfabric.ports.transfer.nodes import WHY_BYTES_LIMIT, FoundDataset, QueuedAnswer


@dataclass(slots=True)
class MemoryPeer:
    """What one node says. Without an account it has none, or does not know us."""

    has_accounts: bool = True
    own_account: Name | None = None
    names: dict[DatasetId, Name] = field(default_factory=dict)
    found: list[FoundDataset] = field(default_factory=list)


def _no_such_dataset(url: str, question: Mapping[str, object], with_key: bool) -> object:
    raise NotFound("dataset", url)


def _still_works(url: str, job: str) -> object | None:
    return None


class MemoryRemoteNodes:
    """`ports.transfer.nodes.RemoteNodes` over peers by URL.

    One that is not there is a node that says nothing.
    """

    def __init__(self) -> None:
        self.peers: dict[str, MemoryPeer] = {}
        self.keys: set[str] = set()
        self.answers_why: Callable[[str, Mapping[str, object], bool], object] = _no_such_dataset
        self.finds_why: Callable[[str, str], object | None] = _still_works
        self.takes_refs: Callable[[str, str, bytes], bool] = lambda url, path, data: False

    def has_accounts(self, url: str) -> bool:
        """See the port."""
        return url in self.peers and self.peers[url].has_accounts

    def own_account(self, url: str) -> Name | None:
        """See the port."""
        return self.peers[url].own_account if url in self.peers else None

    def name_of(self, url: str, dataset: DatasetId) -> Name | None:
        """See the port."""
        return self.peers[url].names.get(dataset) if url in self.peers else None

    def send_ref(self, url: str, path: str, data: bytes) -> bool:
        """See the port."""
        return self.takes_refs(url, path, data)

    def why(
        self, url: str, question: Mapping[str, object], *, with_key: bool, seconds_max: float, bytes_max: int
    ) -> object:
        """See the port."""
        answer = self.answers_why(url, question, with_key)
        return answer if isinstance(answer, QueuedAnswer) else _within(answer, url, bytes_max)

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
        """See the port.

        A job that still works is looked at once.
        """
        answer = self.finds_why(url, queued.job)
        if answer is None:
            waiting()
            return None
        return _within(answer, url, bytes_max)

    def has_key(self, url: str) -> bool:
        """See the port."""
        return url in self.keys

    def search(self, url: str, words: str, *, limit: int) -> Sequence[FoundDataset]:
        """See the port."""
        known = self.peers[url].found if url in self.peers else []
        return [each for each in known if words in each.alias][:limit]


def _within(answer: object, url: str, bytes_max: int) -> object:
    if len(json.dumps(answer)) > bytes_max:
        raise LimitExceeded(f"{url} answers too much", limit=WHY_BYTES_LIMIT, maximum=bytes_max)
    return answer
