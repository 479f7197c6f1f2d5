"""Manifests that users write: the dataset snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import DatasetAlias
from odfabric.model.metadata import DatasetKind, MetadataEvent


@dataclass(frozen=True, slots=True)
class DatasetSnapshot:
    """A dataset to be created: alias, kind and first events in order (no Seed)."""

    name: DatasetAlias
    kind: DatasetKind
    metadata: tuple[MetadataEvent, ...]
