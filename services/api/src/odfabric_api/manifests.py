"""Manifests in requests: one dataset each, of the name that they were sent to.

Owns how a received text becomes a snapshot with places in that text. Not here: reading manifests (`formats.manifests.manifest_yaml`), what a snapshot
may hold (`usecases`).
"""

from __future__ import annotations

from dataclasses import replace

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.manifests.manifest_places import PlacedSnapshot
from odfabric.formats.manifests.manifest_yaml import parse_placed_snapshots
from odfabric.formats.manifests.yaml_documents import TextLimits
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias
from odfabric.model.manifest import DatasetSnapshot


def manifest_text(body: bytes) -> str:
    """A received body as text. Raises InvalidRequest."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("the manifest is not UTF-8", place=Place(field="body", column=error.start + 1)) from None


def one_snapshot(text: str, *, limits: TextLimits) -> PlacedSnapshot:
    """The one DatasetSnapshot of a text.

    Raises InvalidManifest, LimitExceeded, InvalidRequest for several.
    """
    snapshots = parse_placed_snapshots(text, limits=limits)
    if len(snapshots) != 1:
        raise InvalidRequest(f"expected one manifest, found {len(snapshots)}", hint="send one document a request")
    return snapshots[0]


def own_snapshot(text: str, entry: CatalogEntry, *, limits: TextLimits) -> PlacedSnapshot:
    """The same, of the dataset that it is sent to.

    Raises as `one_snapshot`, InvalidRequest for another name.
    """
    placed = one_snapshot(text, limits=limits)
    named = placed.snapshot.name
    # A name without an account is one of the caller's; in the manifest of a dataset that was shared it means that dataset.
    if DatasetAlias(named.account or entry.alias.account, named.name) != entry.alias:
        raise InvalidRequest(
            f"the manifest is of {placed.snapshot.name}, not of {entry.alias}", hint="send it to its own dataset"
        )
    return placed


def named(snapshot: DatasetSnapshot, alias: DatasetAlias) -> DatasetSnapshot:
    """The snapshot under a name."""
    return replace(snapshot, name=alias)
