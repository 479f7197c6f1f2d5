"""Renaming of datasets, bound to a node's ports."""

from __future__ import annotations

from odfabric.domain.people.access import Subject
from odfabric.model.commit import CatalogEntry
from odfabric.ports.subscriptions.signals import Topic
from odfabric.usecases.datasets.rename_dataset import rename_dataset
from odfabric.wiring.node import Node


def rename(node: Node, entry: CatalogEntry, name: str, *, by: Subject | None = None) -> CatalogEntry:
    """Give a dataset another name in its account.

    See `usecases.datasets.rename_dataset`.
    """
    renamed = rename_dataset(
        entry,
        name,
        subject=by or node.operator,
        access=node.access,
        repository=node.repository,
        commits=node.commits,
    )
    # The relay derives again what the dataset is searched by.
    node.ports.signals.send(Topic.OUTBOX)
    return renamed
