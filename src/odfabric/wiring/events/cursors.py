"""Readers of changes, and the verbs of cursors, bound to the ports of a node."""

from __future__ import annotations

from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.subscriptions.cursors import Cursors
from odfabric.settings import Settings
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.reading.cursors import CursorRules, CursorVerbs
from odfabric.usecases.reading.read_changes import ChangeReader, FetchLimits
from odfabric.usecases.reading.slice_rows import SliceRows
from odfabric.usecases.state.net_state import NetStates


def change_reader(settings: Settings, *, bytes_max: int, repository: Repository, exchange: Exchange) -> ChangeReader:
    """`bytes_max` bounds the JSON that it gives at once."""
    return ChangeReader(
        repository=repository,
        states=NetStates(
            repository=repository,
            exchange=exchange,
            rows_max=settings.state_rows_max,
            blocks_max=settings.chain_blocks_max,
        ),
        slices=SliceRows(repository=repository, exchange=exchange, bytes_max=settings.fetch_kept_bytes_max),
        limits=FetchLimits(rows_max=settings.fetch_rows_max, bytes_max=bytes_max),
    )


def cursor_verbs(
    settings: Settings,
    *,
    repository: Repository,
    cursors: Cursors,
    exchange: Exchange,
    clock: Clock,
    entropy: Entropy,
) -> CursorVerbs:
    """With the limits of the node."""
    reader = change_reader(settings, bytes_max=settings.fetch_bytes_max, repository=repository, exchange=exchange)
    return CursorVerbs(
        repository=repository,
        cursors=cursors,
        reader=reader,
        clock=clock,
        entropy=entropy,
        rules=CursorRules(cursors_max=settings.cursors_per_dataset_max, lease_ms=int(settings.cursor_lease_s * 1000)),
    )
