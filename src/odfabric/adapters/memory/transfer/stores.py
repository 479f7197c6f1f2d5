"""Folders and buckets elsewhere that exist in this process only."""

from __future__ import annotations

from collections.abc import Sequence

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.sources.egress import MemoryRemoteDatasets
from odfabric.errors import NotFound
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.node.clock import Clock


class MemoryRemoteStores:
    """`ports.transfer.destinations.RemoteStores`: a store for each URL.

    The dataset in a store can be pulled from its URL.
    """

    def __init__(self, remotes: MemoryRemoteDatasets, clock: Clock) -> None:
        self._remotes = remotes
        self._clock = clock
        self.stores: dict[str, ObjectStore] = {}

    def open(self, url: str, *, writes: bool) -> ObjectStore:
        """See the port."""
        place = url.rstrip("/") + "/"
        if place not in self.stores:
            if not writes:
                raise NotFound("dataset", url)
            self.share(place, MemoryObjectStore(self._clock))
        return self.stores[place]

    def datasets(self, url: str, *, limit: int) -> Sequence[str]:
        """See the port."""
        place = url.rstrip("/") + "/"
        paths = sorted(each.removeprefix(place).rstrip("/") for each in self.stores if each.startswith(place))
        return [path for path in paths[:limit] if path and path.count("/") <= 1]

    def share(self, url: str, store: ObjectStore) -> None:
        """Let a URL, which ends with a slash, lead to a store."""
        self.stores[url] = store
        for spelled in (url, url.rstrip("/")):
            self._remotes.publish_store(spelled, store, prefix="")
