"""Link corrections and withdrawals to the records that they are about.

Invariants: the new half of a correction is about the old half before it; a withdrawal is about the latest equal row that is still there, and
each equal withdrawal between hides one equal row. Each slice is read once for all records that are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow.compute as pc

from odfabric.domain.provenance.trace import Side, side_of
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.datasets.exchange import Exchange
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.session_files import SessionFiles
from odfabric.usecases.provenance.withdrawn_records import withdrawn_records


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionPorts:
    """What links are found with; at most `rows_max` records are read."""

    repository: Repository
    exchange: Exchange
    rows_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A record that is `about` another one: it withdraws it or takes its place.

    None: not found among the records that may be read.
    """

    offset: int
    op: OperationType
    about: int | None


def corrected_records(
    entry: CatalogEntry,
    records: Mapping[int, OperationType],
    head: Multihash,
    vocabulary: DatasetVocabulary,
    *,
    ports: CorrectionPorts,
) -> Mapping[int, int | None]:
    """What each correction or withdrawal among `records` is about, by offset.

    `head` is a block at or after all of them. Raises Corrupt.
    """
    if all(op is OperationType.APPEND for op in records.values()):
        return {}
    with ports.exchange.session() as folder:
        files = SessionFiles(folder, repository=ports.repository, exchange=ports.exchange)
        return records_about(
            *(entry.id, head, records, vocabulary),
            files=files,
            repository=ports.repository,
            rows_max=ports.rows_max,
        )


def records_about(
    dataset: DatasetId,
    head: Multihash,
    records: Mapping[int, OperationType],
    vocabulary: DatasetVocabulary,
    *,
    files: SessionFiles,
    repository: Repository,
    rows_max: int,
) -> Mapping[int, int | None]:
    """The same with files that are there already.

    At most `rows_max` records are read. Raises Corrupt.
    """
    found: dict[int, int | None] = {
        offset: offset - 1 for offset, op in records.items() if op is OperationType.CORRECT_TO and offset
    }
    sought = [offset for offset, op in records.items() if side_of(op) is Side.BEFORE]
    found |= dict.fromkeys(sought)
    if sought:
        found |= withdrawn_records(
            *(dataset, head, sought, vocabulary), files=files, repository=repository, rows_max=rows_max
        )
    return dict(sorted(found.items()))


def corrections_of(
    entry: CatalogEntry,
    data: DataSlice,
    block: Multihash,
    vocabulary: DatasetVocabulary,
    *,
    limit: int,
    ports: CorrectionPorts,
) -> tuple[Link, ...]:
    """The first `limit` corrections and withdrawals of a block, linked.

    Raises Corrupt.
    """
    with ports.exchange.session() as folder:
        files = SessionFiles(folder, repository=ports.repository, exchange=ports.exchange)
        ops = files.table(entry.id, data, vocabulary).column(vocabulary.operation_type)
        begin = OffsetRange.from_wire(data.offset_interval).begin
        positions = pc.indices_nonzero(pc.not_equal(ops, OperationType.APPEND.value)).to_pylist()[:limit]
        records = {begin + position: OperationType(ops[position].as_py()) for position in positions}
        about = records_about(
            *(entry.id, block, records, vocabulary),
            files=files,
            repository=ports.repository,
            rows_max=ports.rows_max,
        )
    return tuple(Link(offset=offset, op=op, about=about.get(offset)) for offset, op in records.items())
