"""Datasets that the node makes by itself: the audit, rejected rows."""

from __future__ import annotations

from contextlib import suppress

from odfabric.domain.chain.snapshot import plan_creation
from odfabric.errors import AlreadyExists
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository


def own_dataset(
    alias: DatasetAlias,
    manifest: str,
    *,
    repository: Repository,
    commits: Commits,
    keys: DatasetKeys,
    clock: Clock,
) -> CatalogEntry:
    """The dataset of this name, made by its manifest if missing.

    The manifest has no inputs. Raises Determinate, Indeterminate.
    """
    found = repository.find(alias)
    if found is not None:
        return found
    (snapshot,) = parse_snapshots(manifest, file=str(alias))
    key, now = keys.create(), clock.now().truncated_to_millis()
    dataset = DatasetId(key.public)
    entry = CatalogEntry(id=dataset, alias=alias, kind=snapshot.kind, created_at=now, sealed_key=key.sealed_private)
    blocks = plan_creation(snapshot, dataset_id=dataset, system_time=now, resolve=lambda _: None)
    with suppress(AlreadyExists):  # another worker was faster
        commits.create(entry, blocks)
    return repository.resolve(alias)
