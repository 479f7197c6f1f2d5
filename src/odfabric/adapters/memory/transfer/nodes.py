"""Other nodes that exist in this process only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from odfabric.model.identity import DatasetId, Name
from odfabric.ports.transfer.nodes import FoundDataset


@dataclass(slots=True)
class MemoryPeer:
    """What one node says. Without an account it has none, or does not know us."""

    has_accounts: bool = True
    own_account: Name | None = None
    names: dict[DatasetId, Name] = field(default_factory=dict)
    found: list[FoundDataset] = field(default_factory=list)


class MemoryRemoteNodes:
    """`ports.transfer.nodes.RemoteNodes` over peers by URL.

    One that is not there is a node that says nothing.
    """

    def __init__(self) -> None:
        self.peers: dict[str, MemoryPeer] = {}
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

    def search(self, url: str, words: str, *, limit: int) -> Sequence[FoundDataset]:
        """See the port."""
        known = self.peers[url].found if url in self.peers else []
        return [each for each in known if words in each.alias][:limit]
