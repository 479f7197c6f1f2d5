"""A merge's past: the state of the index and later slices, or all slices.

Invariant: the engine computes the same slice from either. Without an index, or with one that is behind, damaged or of another chain,
a merge reads history as if there were none: it never waits for an index and never fails because of one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import NoIndex, index_definition, serves
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import ChainsDiverged, Corrupt, External, NotFound, OdfError
from odfabric.formats.identifiers.dataset_layout import DATA
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import write_state_file
from odfabric.model.engine import SliceFile
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.source import MergeStrategy
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.repository import Repository

_log = logging.getLogger(__name__)

STATE_FILE = "indexed-state"


@dataclass(frozen=True, slots=True)
class _IndexedState:
    """A file with the rows at a block, and the slices after it, newest first."""

    rows: int
    path: Path
    tail: tuple[DataSlice, ...]


def history_of_merge(
    dataset: DatasetId,
    state: ChainState,
    merge: MergeStrategy,
    folder: Path,
    *,
    repository: Repository,
    index: StateIndex | None,
    exchange: Exchange,
) -> tuple[SliceFile, ...]:
    """Files for the engine, oldest first, in `folder`.

    Raises Corrupt for damaged blocks and slices, Determinate.
    """

    def relative(path: Path) -> str:
        return path.relative_to(exchange.root).as_posix()

    indexed = None if index is None else _indexed_state(dataset, state, merge, folder, repository, index)
    slices = indexed.tail if indexed else tuple(data_slices_down(repository.blocks(dataset), state.head))
    files = []
    if indexed is not None and indexed.rows:
        # Fewer rows than records up to the block, so that every offset is before those of the slices after it.
        files.append(SliceFile(path=relative(indexed.path), offsets=OffsetRange(0, indexed.rows)))
    for data in reversed(slices):
        path = folder / str(data.physical_hash)
        if not path.exists():
            repository.materialize(dataset, DATA, data.physical_hash, path)
        files.append(SliceFile(path=relative(path), offsets=OffsetRange.from_wire(data.offset_interval)))
    return tuple(files)


def _indexed_state(
    dataset: DatasetId,
    state: ChainState,
    merge: MergeStrategy,
    folder: Path,
    repository: Repository,
    index: StateIndex,
) -> _IndexedState | None:
    definition = index_definition(state)
    if isinstance(definition, NoIndex) or not serves(definition, merge):
        return None
    try:
        frontier = index.frontier(definition)
        if frontier is None or frontier.block_hash is None or frontier.violation is not None:
            return None
        tail = _slices_after(dataset, state, frontier.block_hash, repository)
        if tail is None:
            return None
        path = folder / STATE_FILE
        columns = data_schema_to_arrow(definition.columns, encodings=False)
        tables = index.rows_at(definition, frontier.upper - 1)
        rows = write_state_file(str(path), tables, columns, definition.vocabulary)
    except Corrupt as error:
        _log.warning("the index of %s is dropped, to be made again: %s", dataset, error)
        with suppress(OdfError):  # whoever makes it again drops it too
            index.drop(dataset)
        return None
    except (External, NotFound) as error:
        _log.warning("the index of %s is not read: %s", dataset, error)
        return None
    except Exception:  # noqa: BLE001  # a bug in what only makes it faster must not stop a push
        _log.exception("the index of %s is not read", dataset)
        return None
    return _IndexedState(rows, path, tail)


def _slices_after(
    dataset: DatasetId, state: ChainState, block: Multihash, repository: Repository
) -> tuple[DataSlice, ...] | None:
    """None if the block is not in `state`'s chain.

    The index is ahead of it, or of a chain that is no more.
    """
    try:
        return tuple(data_slices_down(repository.blocks(dataset), state.head, tail=block))
    except ChainsDiverged:
        return None
