"""Which files of a folder a dataset has read, by its chain.

Owns the way from blocks to files: the source state names the file of each block, its attributes say size, time and content. Invariant: the
chain decides; what this process remembers besides are files that brought nothing new and so have no block, and forgetting them costs a reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from odfabric.domain.chain.walk import walk
from odfabric.domain.sources.polled_content import polled_before, polled_file
from odfabric.domain.sources.polled_files import KnownFile
from odfabric.errors import ChainsDiverged
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.usecases.chain.repository import Repository

DATASETS_REMEMBERED_MAX = 100
"""Datasets whose files a process remembers; those of others are read from their chains."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Files read: `by_blocks` up to `head`, `without_block` by this process in vain."""

    head: Multihash
    by_blocks: dict[str, KnownFile]
    without_block: dict[str, KnownFile]


class KnownFiles:
    """Files by dataset; one for a process."""

    def __init__(self, datasets_max: int = DATASETS_REMEMBERED_MAX) -> None:
        self._read = Remembered[DatasetId, _Read](datasets_max)

    def of(self, dataset: DatasetId, head: Multihash, repository: Repository) -> dict[str, KnownFile]:
        """Files that were read up to `head`, by name.

        Raises NotFound, Corrupt, InvalidBlock.
        """
        before = self._read.get(dataset)
        try:
            read = self._up_to(dataset, head, before, repository)
        except ChainsDiverged:
            read = self._up_to(dataset, head, None, repository)
        self._read.put(dataset, read)
        return {**read.by_blocks, **read.without_block}

    def note(self, dataset: DatasetId, name: str, file: KnownFile) -> None:
        """Remember a file that brought nothing new and so has no block of its own."""
        read = self._read.get(dataset)
        if read is not None:
            self._read.put(dataset, _Read(read.head, read.by_blocks, {**read.without_block, name: file}))

    def _up_to(self, dataset: DatasetId, head: Multihash, before: _Read | None, repository: Repository) -> _Read:
        tail = None if before is None else before.head
        found: dict[str, KnownFile] = {}
        for link in walk(repository.blocks(dataset), head, tail=tail):
            for name, file in _files_of(link.block):
                found.setdefault(name, file)
        if before is None:
            return _Read(head, found, {})
        left = {name: file for name, file in before.without_block.items() if name not in found}
        return _Read(head, {**before.by_blocks, **found}, left)


def _files_of(block: MetadataBlock) -> Iterator[tuple[str, KnownFile]]:
    """Files that a block took, newest first; several if compaction made the block."""
    for file in (*polled_before(block), polled_file(block)):
        if file is None:
            continue
        content = file.content
        if content is None:
            yield file.name, KnownFile(read_at=file.read_at)
        else:
            known = KnownFile(
                read_at=file.read_at, size=content.size, modified_at=content.modified_at, content=content.content
            )
            yield file.name, known
