"""Search a repository: folders and buckets are listed, nodes are asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from odfabric.domain.transfer.direction import scheme_of
from odfabric.errors import InvalidName
from odfabric.formats.identifiers.references import parse_name
from odfabric.model.transfer.repository import RemoteRepository
from odfabric.ports.transfer.destinations import RemoteStores
from odfabric.ports.transfer.nodes import RemoteNodes


def search_remote(
    repository: RemoteRepository,
    words: str,
    *,
    stores: Mapping[str, RemoteStores],
    nodes: RemoteNodes,
    listing_max: int,
) -> list[dict[str, object]]:
    """`{alias, id, kind}` of remote datasets whose alias has `words` in it.

    A node also gives those that it finds otherwise.

    `alias` is `repository/[account/]dataset`, as `pull` takes it. Raises Determinate, AccessDenied, CorruptedSource, InvalidRequest.
    """
    found = stores.get(scheme_of(repository.url))
    if found is not None:
        paths = found.datasets(repository.url, limit=listing_max)
        named = [path for path in paths if words.lower() in path.lower() and _is_named(path)]
        return [_value(repository, path) for path in named]
    answers = nodes.search(repository.url, words, limit=listing_max)
    return [_value(repository, each.alias, each.id, each.kind) for each in answers if _is_named(each.alias)]


def _is_named(path: str) -> bool:
    """Whether the path can be written as a reference; others are found by URL only."""
    parts: Sequence[str] = path.split("/")
    try:
        return 1 <= len(parts) <= 2 and all(parse_name(part) is not None for part in parts)
    except InvalidName:
        return False


def _value(
    repository: RemoteRepository, path: str, dataset: str | None = None, kind: str | None = None
) -> dict[str, object]:
    return {"alias": f"{repository.name}/{path}", "id": dataset, "kind": kind}
