"""Datasets of a workspace with their heads, for a fast listing command.

No adapter but the database is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.datasets.catalog import SqlCatalog
from odfabric.adapters.sql.datasets.chains import SqlChains
from odfabric.adapters.sql.upgrade import check_upgraded, upgrade
from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.catalog import Catalog
from odfabric.settings import Settings
from odfabric.wiring.places.database_place import database_place


def list_datasets(settings: Settings) -> Iterator[tuple[CatalogEntry, Head]]:
    """All datasets in order of name, as `DatasetVerbs.page` shows the operator.

    Raises InvalidRequest, Determinate, Indeterminate, Corrupt.
    """
    with ExitStack() as closing:
        catalog, head_of = _catalog(settings, closing)
        after = None
        while page := catalog.page(after=after, limit=settings.page_rows_max):
            for entry in page:
                head = head_of(entry.id)
                if head is None:
                    raise NotFound("dataset", str(entry.id))
                yield entry, head
            after = page[-1].alias


def _catalog(settings: Settings, closing: ExitStack) -> tuple[Catalog, Callable[[DatasetId], Head | None]]:
    if settings.heads == "objects":
        # The heads of record are not in the database.
        from odfabric.wiring.embedded import open_node

        ports = closing.enter_context(open_node(settings)).ports
        return ports.catalog, ports.chains.head
    if settings.database_url is None:
        upgrade(database_place(settings))
    database = Database(
        database_place(settings),
        busy_s_max=settings.database_busy_s_max,
        connections_max=settings.database_connections_max,
    )
    closing.callback(database.close)
    check_upgraded(database)
    return SqlCatalog(database), SqlChains(database).head
