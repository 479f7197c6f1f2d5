"""Look at an index and hold it against its chain.

Invariant: a verification reads the chain alone for one side and the index alone for the other; sums over all changes and over all net
rows are equal exactly if, but for accidents of one in 2^64, the rows are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from odfabric.domain.chain.state_index import NoIndex, index_definition
from odfabric.errors import Corrupt, NotFound
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.state_rows import Changes, check_sum
from odfabric.model.commit import CatalogEntry
from odfabric.model.state_index import IndexDefinition, IndexFrontier, IndexMode
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.state.index_state import usable_frontier
from odfabric.usecases.state.replay import changes_of, net_rows, slices_up

SUMS = 1 << 64
"""Check sums are added modulo this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport:
    """The index of a dataset, or why it has none.

    `blocks_behind` counts blocks up to the newest data block.
    """

    alias: str
    mode: IndexMode | None
    reason: str | None
    frontier: IndexFrontier | None = None
    blocks_behind: int = 0

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        frontier = self.frontier
        found: dict[str, object] = {
            "alias": self.alias,
            "mode": "off" if self.mode is None else self.mode.value,
            "since": frontier.since if frontier else None,
            "upper": frontier.upper if frontier else None,
            "behind": self.blocks_behind,
            "rows": frontier.rows if frontier else None,
            "bytes": frontier.bytes if frontier else None,
            "tailRows": frontier.tail_rows if frontier else None,
            "note": self.reason,
        }
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedIndex:
    """Outcome for one dataset.

    `problem` is None if the index says what the chain says, or if there is no index.
    """

    report: IndexReport
    problem: str | None = None


def inspect_index(entry: CatalogEntry, *, repository: Repository, index: StateIndex | None) -> IndexReport:
    """What index a dataset has. Raises Corrupt, Determinate."""
    alias = str(entry.alias)
    if index is None:
        return IndexReport(alias=alias, mode=None, reason="this node has no indexes")
    _, state = repository.current(entry.id)
    definition = index_definition(state)
    if isinstance(definition, NoIndex):
        return IndexReport(alias=alias, mode=None, reason=definition.reason)
    end = 0 if state.last_data is None else state.last_data.sequence_number + 1
    reason: str | None = None
    try:
        frontier = index.frontier(definition)
        if frontier is not None and usable_frontier(definition, repository=repository, index=index) is None:
            reason = "of a chain that is no more; it will be made again"
    except Corrupt as error:
        frontier, reason = None, f"damaged: {error.message}"
    if frontier is not None and frontier.violation is not None:
        found = frontier.violation
        reason = f"stopped at block {found.sequence_number}, which changes {found.key} in a way that cannot be"
    upper = 0 if frontier is None else frontier.upper
    return IndexReport(
        alias=alias, mode=definition.mode, reason=reason, frontier=frontier, blocks_behind=max(0, end - upper)
    )


def verify_index(
    entry: CatalogEntry,
    *,
    repository: Repository,
    index: StateIndex | None,
    exchange: Exchange,
    blocks_max: int,
    rows_max: int,
) -> VerifiedIndex:
    """Hold an index against a replay of the chain up to where it is.

    Raises Corrupt if the chain itself is damaged.
    """
    report = inspect_index(entry, repository=repository, index=index)
    if report.mode is None or report.frontier is None or index is None:
        return VerifiedIndex(report=report, problem=report.reason if report.mode else None)
    if report.frontier.block_hash is None or report.frontier.violation is not None:
        return VerifiedIndex(report=report)
    _, state = repository.current(entry.id)
    definition = index_definition(state)
    assert isinstance(definition, IndexDefinition)
    if usable_frontier(definition, repository=repository, index=index) is None:
        return VerifiedIndex(report=report, problem=report.reason)
    try:
        found = _summed(index.rows_at(definition, report.frontier.upper - 1))
    except Corrupt as error:
        return VerifiedIndex(report=report, problem=f"damaged: {error.message}")
    except NotFound:
        return VerifiedIndex(report=report, problem="it changed while it was read; try again")
    columns = data_schema_to_arrow(definition.columns, encodings=False)
    slices = slices_up(entry.id, report.frontier.block_hash, after=None, repository=repository, blocks_max=blocks_max)
    changes = changes_of(entry.id, slices, columns, definition.vocabulary, repository=repository, exchange=exchange)
    if definition.mode is IndexMode.KEYS:
        keys, _ = net_rows((), (one.as_added() for one in changes), columns, rows_max=rows_max)
        right = _summed([keys])
    else:
        right = _summed_changes(changes)
    return VerifiedIndex(report=report, problem=None if found == right else f"it has {found}, the chain has {right}")


@dataclass(frozen=True, slots=True)
class _Sum:
    """How many rows there are, and the sum of their hashes."""

    rows: int
    check_sum: int

    def __str__(self) -> str:
        return f"{self.rows} rows of the sum {self.check_sum:016x}"


def _summed(tables: Iterable[pa.Table]) -> _Sum:
    count = total = 0
    for rows in tables:
        count += rows.num_rows
        total = (total + check_sum(rows, pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))) % SUMS
    return _Sum(count, total)


def _summed_changes(changes: Iterable[Changes]) -> _Sum:
    """Of what the changes add up to: both numbers are linear, so nothing is added up."""
    rows = total = 0
    for one in changes:
        rows += int(pc.sum(one.diffs).as_py() or 0)
        total = (total + check_sum(one.rows, one.diffs)) % SUMS
    return _Sum(rows, total)
