"""Names of datasets in flows and runs, as far as the reader may know them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from fastapi import Request

from odfabric.model.identity import DatasetId
from odfabric_api.auth import Subject, node_of

NAMES_MAX = 1000


def naming(request: Request, caller: Subject) -> Callable[[DatasetId], str | None]:
    """The name of a dataset for this reader, None if it may not be read or is gone.

    Each is looked up once.
    """
    repository = node_of(request).seen_by(caller)

    @lru_cache(NAMES_MAX)
    def named(dataset: DatasetId) -> str | None:
        entry = repository.find(dataset)
        return None if entry is None else str(entry.alias)

    return named
