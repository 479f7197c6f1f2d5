"""Serve a dataset to peers by the Simple Transfer Protocol: ref, blocks, data, checkpoints.

Invariant: a hash is not a permission. An object is served only by way of a dataset whose current chain refers to it, and blocks go
out as the very bytes that were stored. Source: RFC-007; security property S2.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from odfabric.errors import NotFound
from odfabric.formats.dataset_layout import BLOCKS, CHECKPOINTS, DATA, object_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.usecases.repository import Repository

DATA_EVENTS = frozenset({"AddData", "ExecuteTransform"})


@dataclass(frozen=True, slots=True)
class ServedObject:
    """An open object and its size in bytes; the caller closes the stream."""

    stream: BinaryIO
    size: int


def serve_head(entry: CatalogEntry, *, repository: Repository) -> Multihash:
    """The head of record. Raises NotFound."""
    return repository.head(entry.id).hash


def serve_object(entry: CatalogEntry, folder: str, name: Multihash, *, repository: Repository) -> ServedObject:
    """An object of `blocks`, `data` or `checkpoints`. Raises NotFound if the chain does not refer to it."""
    known = (
        repository.chains.contains(entry.id, name)
        if folder == BLOCKS
        else folder in (DATA, CHECKPOINTS) and name in _referred(entry, folder, repository)
    )
    key = object_key(entry.id, folder, name)
    stat = repository.objects.stat(key) if known else None
    if stat is None:
        raise NotFound(f"{folder} object", str(name))
    return ServedObject(repository.objects.open(key), stat.size)


def _referred(entry: CatalogEntry, folder: str, repository: Repository) -> Iterator[Multihash]:
    """Names that data blocks refer to, newest first: peers mostly ask for what is new."""
    blocks = repository.blocks(entry.id)
    for row in repository.rows_down(entry.id, DATA_EVENTS):
        event = blocks.get(row.hash).event
        if not isinstance(event, AddData | ExecuteTransform):
            continue
        referred = event.new_data if folder == DATA else event.new_checkpoint
        if referred is not None:
            yield referred.physical_hash
