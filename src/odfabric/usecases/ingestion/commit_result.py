"""What a push or pull answers: head, blocks, offsets, rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.domain.chain.walk import walk
from odfabric.domain.ingestion.renamed_columns import renamed_columns
from odfabric.domain.ingestion.row_changes import (
    added_columns,
    added_up,
    changes_value,
    rejected_rows,
    rejected_value,
    row_changes,
    undeclared_fields,
    undeclared_value,
)
from odfabric.domain.ingestion.watermark import far_ahead
from odfabric.model.commit import EncodedBlock
from odfabric.model.engine import UNDECLARED_LISTED_MAX, RenamedColumn, RowChanges, UndeclaredField
from odfabric.model.instant import Instant
from odfabric.model.intake import RejectedRows
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform, MetadataBlock, SetDataSchema
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.commit import Committed
from odfabric.usecases.chain.repository import StoredBlocks
from odfabric.usecases.ingestion.ingest import PlannedIngest


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """`blocks` oldest first, empty if there was nothing new.

    `start` and `end` are the closed interval of new records.

    `late_rows_dropped` is how many rows of the inputs came later than a transform takes them. `renamed` are columns that have been stored
    under another name, for theirs is that of a system column. `changes` is what became of the rows of an ingest, None for anything else;
    `undeclared` are fields of the input that no column is declared for, `rejected` rows of it that could not be read, `added_columns`
    those that source and dataset got for fields that were new. `watermark_ahead` is a watermark that the rows put far ahead of the clock, None
    otherwise.
    """

    head: Multihash
    blocks: tuple[Multihash, ...] = ()
    start: int | None = None
    end: int | None = None
    late_rows_dropped: int = 0
    renamed: tuple[RenamedColumn, ...] = ()
    changes: RowChanges | None = None
    undeclared: tuple[UndeclaredField, ...] = ()
    rejected: RejectedRows | None = None
    added_columns: tuple[str, ...] = ()
    watermark_ahead: Instant | None = None

    @property
    def rows(self) -> int:
        """Number of new records."""
        return 0 if self.start is None or self.end is None else self.end - self.start + 1

    def to_value(self) -> dict[str, object]:
        """As JSON; without members for late rows, renamed or undeclared columns if none."""
        late = {"lateRowsDropped": self.late_rows_dropped} if self.late_rows_dropped else {}
        listed = [{"from": one.name, "to": one.stored_as} for one in self.renamed]
        renamed = {"renamedColumns": listed} if listed else {}
        changes = {"changes": changes_value(self.changes)} if self.changes else {}
        rejected = {"rejectedRows": rejected_value(self.rejected)} if self.rejected else {}
        undeclared = {"undeclaredFields": undeclared_value(self.undeclared)} if self.undeclared else {}
        return {
            "head": str(self.head),
            "blocks": [str(block) for block in self.blocks],
            "offsets": None if self.start is None else {"start": self.start, "end": self.end},
            "rows": self.rows,
            **late,
            **changes,
            **renamed,
            **undeclared,
            **rejected,
            **({"addedColumns": list(self.added_columns)} if self.added_columns else {}),
            **({"watermarkAhead": str(self.watermark_ahead)} if self.watermark_ahead else {}),
        }


def result_of(committed: Committed) -> CommitResult:
    """The result of a head move that was just made."""
    return _result(committed.head, [(block.hash, block.block) for block in committed.blocks])


def result_of_replacement(common: Multihash | None, blocks: Sequence[EncodedBlock]) -> CommitResult:
    """The result of a chain whose blocks above `common` were replaced by these.

    By none, if the head went back to it.
    """
    head = blocks[-1].hash if blocks else common
    if head is None:
        raise ValueError("a chain of no blocks")
    return _result(head, [(block.hash, block.block) for block in blocks])


def result_of_ingest(committed: Committed | None, planned: PlannedIngest, *, head: Multihash) -> CommitResult:
    """The result of an ingest.

    Of one that left the `head` where it was too, or has only brought the schema.
    """
    found = result_of(committed) if committed else CommitResult(head=head)
    ingested = planned.result
    return replace(
        found,
        renamed=ingested.renamed,
        changes=ingested.changes,
        undeclared=_together(ingested.undeclared),
        rejected=planned.rejected,
    )


def result_of_block(block_hash: Multihash, *, blocks: StoredBlocks) -> CommitResult:
    """The result of a push that committed `block_hash`: the first answer again.

    A schema block of the same run stands directly before it and carries the same system time.
    """
    block = blocks.get(block_hash)
    found = [(block_hash, block)]
    if block.prev_block_hash is not None:
        before = blocks.get(block.prev_block_hash)
        if isinstance(before.event, SetDataSchema) and before.system_time == block.system_time:
            found.insert(0, (block.prev_block_hash, before))
    return _result(block_hash, found)


def result_since(began: Multihash, head: Multihash, *, blocks: StoredBlocks, blocks_max: int) -> CommitResult | None:
    """The result of a run over all its attempts; None without a new block.

    It found the head at `began` and left it at `head`.
    """
    links = list(walk(blocks, head, tail=began, blocks_max=blocks_max))[::-1]
    return _result(head, [(link.hash, link.block) for link in links]) if links else None


def joined(first: CommitResult | None, second: CommitResult) -> CommitResult:
    """Two results of one run, one after the other."""
    if first is None:
        return second
    return CommitResult(
        head=second.head,
        blocks=first.blocks + second.blocks,
        start=second.start if first.start is None else first.start,
        end=first.end if second.end is None else second.end,
        renamed=tuple(dict.fromkeys(first.renamed + second.renamed)),
        changes=added_up(first.changes, second.changes) if first.changes and second.changes else None,
        undeclared=_together(first.undeclared + second.undeclared),
        rejected=_rejected([each.rejected for each in (first, second) if each.rejected]),
        added_columns=first.added_columns + second.added_columns,
        watermark_ahead=second.watermark_ahead or first.watermark_ahead,
    )


def _result(head: Multihash, blocks: Sequence[tuple[Multihash, MetadataBlock]]) -> CommitResult:
    new_data = [_new_data(block) for _, block in blocks]
    slices = [data for data in new_data if data is not None]
    ingested = [block.event for _, block in blocks if isinstance(block.event, AddData)]
    said = [attributes_of(event.extra) for event in ingested]
    changes = [row_changes(each, records=_records(event.new_data)) for each, event in zip(said, ingested, strict=True)]
    return CommitResult(
        head=head,
        blocks=tuple(block_hash for block_hash, _ in blocks),
        start=slices[0].offset_interval.start if slices else None,
        end=slices[-1].offset_interval.end if slices else None,
        renamed=tuple(dict.fromkeys(one for each in said for one in renamed_columns(each))),
        changes=reduce(added_up, changes) if changes else None,
        undeclared=_together(tuple(one for each in said for one in undeclared_fields(each))),
        rejected=_rejected([found for each in said if (found := rejected_rows(each))]),
        added_columns=tuple(name for each in said for name in added_columns(each)),
        watermark_ahead=_watermark_ahead([block for _, block in blocks]),
    )


def _watermark_ahead(blocks: Sequence[MetadataBlock]) -> Instant | None:
    """The newest of a block with rows; later blocks without rows repeat it."""
    found = [
        far_ahead(each.event.new_watermark, now=each.system_time)
        for each in blocks
        if isinstance(each.event, AddData) and each.event.new_data is not None
    ]
    return found[-1] if found else None


def _rejected(found: Sequence[RejectedRows]) -> RejectedRows | None:
    return RejectedRows(rows=sum(one.rows for one in found), dataset=found[-1].dataset) if found else None


def _records(data: DataSlice | None) -> int:
    return 0 if data is None else data.offset_interval.end - data.offset_interval.start + 1


def _together(undeclared: Sequence[UndeclaredField]) -> tuple[UndeclaredField, ...]:
    """Each field once, with the rows of all its entries."""
    rows: Counter[str] = Counter()
    for one in undeclared:
        rows[one.name] += one.rows
    return tuple(UndeclaredField(name=name, rows=count) for name, count in rows.most_common(UNDECLARED_LISTED_MAX))


def _new_data(block: MetadataBlock) -> DataSlice | None:
    return block.event.new_data if isinstance(block.event, AddData | ExecuteTransform) else None
