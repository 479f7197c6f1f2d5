"""The manifest of a dataset's changeable part: its sources, or its transform.

A transform has its inputs by the names that the reader knows.
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.domain.sources.source_evolution import sources_of
from odfabric.formats.manifests.manifest_yaml import dump_yaml, snapshot_to_manifest
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import MetadataEvent, SetTransform
from odfabric.usecases.datasets.describe_dataset import DatasetDescription


def settings_manifest(about: DatasetDescription) -> str:
    """YAML that `set_source` or `set_transform` takes back without a change."""
    transform = about.state.transform
    events: tuple[MetadataEvent, ...]
    events = sources_of(about.state) if transform is None else (_named_inputs(transform.event, about),)
    snapshot = DatasetSnapshot(name=about.entry.alias, kind=about.entry.kind, metadata=events)
    return dump_yaml(snapshot_to_manifest(snapshot))


def _named_inputs(event: SetTransform, about: DatasetDescription) -> SetTransform:
    named = (
        replace(declared, dataset_ref=str(found.entry.alias)) if found.entry else declared
        for declared, found in zip(event.inputs, about.inputs, strict=True)
    )
    return replace(event, inputs=tuple(named))
