"""Stored blocks that continue a head but are in no chain.

Made, perhaps committed, never published.

Owns how they are found. Invariant: only an unbroken line that leaves no choice is reported; of two blocks that follow the same one, losers
of a race perhaps, neither is. Nobody was informed that they are committed, so anyone who finds them decides (`usecases.maintenance.rebuild`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from odfabric.domain.chain.references import named_objects
from odfabric.errors import Corrupt, InvalidBlock, InvalidName, NotFound
from odfabric.formats.blocks.block import decode_block
from odfabric.formats.identifiers.dataset_layout import BLOCKS, in_dataset, object_key
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.commit import EncodedBlock, Head
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.usecases.chain.repository import Repository

UNCHAINED_BLOCKS_MAX = 10_000
"""Blocks outside the chain that are looked at; more are litter, which the collector takes."""


def blocks_beyond(dataset: DatasetId, head: Head, *, repository: Repository) -> Iterator[EncodedBlock]:
    """The blocks after `head`, the head of record, oldest first.

    None where two claim the same place.
    """
    following: dict[Multihash | None, list[EncodedBlock]] = defaultdict(list)
    for encoded in _unchained(dataset, head, repository):
        following[encoded.block.prev_block_hash].append(encoded)
    at = head.hash
    while len(following[at]) == 1:
        (found,) = following[at]
        yield found
        at = found.hash


def missing_object(dataset: DatasetId, blocks: Sequence[EncodedBlock], *, objects: ObjectStore) -> str | None:
    """Name of a slice or checkpoint of the blocks that the store does not have."""
    for encoded in blocks:
        for folder, name in named_objects(encoded.block.event):
            if objects.stat(object_key(dataset, folder, name)) is None:
                return str(name)
    return None


def _unchained(dataset: DatasetId, head: Head, repository: Repository) -> Iterator[EncodedBlock]:
    prefix = in_dataset(dataset, BLOCKS) + "/"
    # Mostly there are as many objects as the chain has blocks, and then none needs to be looked up.
    if sum(1 for _ in repository.objects.keys(prefix)) <= head.sequence_number + 1:
        return
    stored, found = repository.blocks(dataset), 0
    for key in repository.objects.keys(prefix):
        name = _hash_of(key)
        if name is None or repository.chains.contains(dataset, name):
            continue
        try:
            data = stored.get_bytes(name)
            block = decode_block(data)
        except (NotFound, Corrupt, InvalidBlock):
            continue  # gone meanwhile, or litter
        if block.sequence_number > head.sequence_number:
            yield EncodedBlock(name, data, block)
            found += 1
        if found == UNCHAINED_BLOCKS_MAX:
            return


def _hash_of(key: str) -> Multihash | None:
    try:
        return parse_multihash(key.rpartition("/")[2])
    except InvalidName:
        return None
