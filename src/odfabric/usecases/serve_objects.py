"""Serve a dataset to peers by the Simple Transfer Protocol: ref, blocks, data, checkpoints.

Invariant: a hash is not a permission. An object is served only by way of a dataset whose current chain refers to it, and blocks go
out as the very bytes that were stored. Source: RFC-007; security property S2.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
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
    """An object that may be read: its size in bytes, how to open it, and a link to it if its store makes some."""

    size: int
    open: Callable[[], BinaryIO]
    link: str | None


def serve_head(entry: CatalogEntry, *, repository: Repository) -> Multihash:
    """The head of record. Raises NotFound."""
    return repository.head(entry.id).hash


def serve_object(
    entry: CatalogEntry, folder: str, name: Multihash, *, repository: Repository, link_s: int
) -> ServedObject:
    """An object of `blocks`, `data` or `checkpoints`. Raises NotFound if the chain does not refer to it.

    `link_s` is the lifetime of links in seconds, 0 for none. Blocks have none: they are smaller than another request.
    """
    known = (
        repository.chains.contains(entry.id, name)
        if folder == BLOCKS
        else folder in (DATA, CHECKPOINTS) and name in _referred(entry, folder, repository)
    )
    key = object_key(entry.id, folder, name)
    stat = repository.objects.stat(key) if known else None
    if stat is None:
        raise NotFound(f"{folder} object", str(name))
    linked = link_s > 0 and folder != BLOCKS
    link = repository.objects.link(key, lifetime_s=link_s) if linked else None
    return ServedObject(stat.size, partial(repository.objects.open, key), link)


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
