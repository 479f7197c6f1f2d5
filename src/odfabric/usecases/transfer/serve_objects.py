"""Serve a dataset by the Simple Transfer Protocol: ref, blocks, data, checkpoints.

Invariant: a hash is not a permission. An object is served only by way of a dataset whose current chain refers to it, and blocks go
out as the very bytes that were stored. Source: RFC-007; docs/threat-model.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from odfabric.domain.chain.references import named_objects
from odfabric.errors import NotFound
from odfabric.formats.blocks.block_stretch import BYTES_MAX, COUNT_MAX, write_stretch
from odfabric.formats.identifiers.dataset_layout import BLOCKS, CHECKPOINTS, DATA, object_key
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.repository import Repository

DATA_EVENTS = frozenset({"AddData", "ExecuteTransform"})


@dataclass(frozen=True, slots=True)
class ServedObject:
    """A readable object: its size in bytes, how to open it, and perhaps a link."""

    size: int
    open: Callable[[], BinaryIO]
    link: str | None


def serve_head(entry: CatalogEntry, *, repository: Repository) -> Multihash:
    """The head of record. Raises NotFound."""
    return repository.head(entry.id).hash


def serve_object(
    entry: CatalogEntry, folder: str, name: Multihash, *, referred: ReferredObjects, link_s: int
) -> ServedObject:
    """An object of `blocks`, `data` or `checkpoints`.

    Raises NotFound if the chain does not refer to it.

    `link_s` is the lifetime of links in seconds, 0 for none. Blocks have none: they are smaller than another request.
    """
    repository = referred.repository
    key = object_key(entry.id, folder, name)
    # What is not stored below the dataset is asked for by strangers too: it costs one look and no walk along the chain.
    stat = repository.objects.stat(key)
    if stat is None or not referred.has(entry, folder, name):
        raise NotFound(f"{folder} object", str(name))
    linked = link_s > 0 and folder != BLOCKS
    link = repository.objects.link(key, lifetime_s=link_s) if linked else None
    return ServedObject(stat.size, partial(repository.objects.open, key), link)


def serve_stretch(entry: CatalogEntry, name: Multihash, *, count: int, repository: Repository) -> bytes:
    """A block and up to `count - 1` predecessors, as `formats.blocks.block_stretch`.

    Raises NotFound if it is not of the dataset's current chain.
    """
    if not repository.chains.contains(entry.id, name):
        raise NotFound(f"{BLOCKS} object", str(name))
    blocks, found = repository.blocks(entry.id), list[bytes]()
    following: Multihash | None = name
    size = 0
    while following is not None and len(found) < min(count, COUNT_MAX) and size < BYTES_MAX:
        block = blocks.get_encoded(following)
        found.append(block.data)
        size += len(block.data)
        following = block.block.prev_block_hash
    return write_stretch(found)


@dataclass(slots=True)
class _NamesOfChain:
    """What the chain up to `head` refers to, by folder."""

    head: Head
    names: dict[str, set[Multihash]]

    @property
    def count(self) -> int:
        return sum(len(names) for names in self.names.values())


class ReferredObjects:
    """Which objects chains refer to.

    Each block is read once by a process, as long as `names_max` names are not too many.
    """

    def __init__(self, repository: Repository, *, names_max: int) -> None:
        self.repository = repository
        self._names_max = names_max
        self._known: dict[DatasetId, _NamesOfChain] = {}

    def has(self, entry: CatalogEntry, folder: str, name: Multihash) -> bool:
        """Whether the current chain of the dataset is, or refers to, that object."""
        if folder == BLOCKS:
            return self.repository.chains.contains(entry.id, name)
        known = self._known.get(entry.id)
        if known is not None and name in known.names[folder]:
            return self.repository.chains.contains(entry.id, known.head.hash)
        return folder in (DATA, CHECKPOINTS) and name in self._brought_forward(entry.id).names[folder]

    def _brought_forward(self, dataset: DatasetId) -> _NamesOfChain:
        head = self.repository.head(dataset)
        known = self._known.get(dataset)
        if known is not None and known.head.hash == head.hash:
            return known
        if known is not None and not self.repository.chains.contains(dataset, known.head.hash):
            known = None  # removed and made again
        found = _NamesOfChain(head, {DATA: set(), CHECKPOINTS: set()})
        blocks = self.repository.blocks(dataset)
        for row in self.repository.rows_down(dataset, DATA_EVENTS):
            if known is not None and row.sequence_number <= known.head.sequence_number:
                break
            for folder, name in named_objects(blocks.get(row.hash).event):
                found.names[folder].add(name)
        for folder, names in (known.names if known is not None else {}).items():
            found.names[folder] |= names
        self._remember(dataset, found)
        return found

    def _remember(self, dataset: DatasetId, found: _NamesOfChain) -> None:
        known = {other: names for other, names in self._known.items() if other != dataset}
        while known and found.count + sum(one.count for one in known.values()) > self._names_max:
            known.pop(next(iter(known)))
        if found.count <= self._names_max:
            known[dataset] = found
        self._known = known  # one assignment: threads that come at once do some work twice and see no half of it
