"""The list of a workspace's datasets, without what reads and writes them."""

from __future__ import annotations

from odfabric.model.commit import CatalogEntry, Head
from odfabric.settings import Settings
from odfabric.wiring.operations.listing import list_datasets


def list_workspace(settings: Settings) -> list[dict[str, object]]:
    """All datasets, in order of name. Raises as `wiring.operations.listing`."""
    return [listed_dataset(entry, head) for entry, head in list_datasets(settings)]


def listed_dataset(entry: CatalogEntry, head: Head) -> dict[str, object]:
    """A dataset as lists show it."""
    return {
        "id": str(entry.id),
        "alias": str(entry.alias),
        "kind": entry.kind.name.capitalize(),
        "head": str(head.hash),
    }
