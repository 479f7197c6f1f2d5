"""Provenance of records: which input records, cells and changes are behind them.

Owns requests and results of the engine's operation DeriveProvenance. A record is an offset of a derivative dataset; its witnesses are
records of the inputs over which the query alone gives its row. Rows of an answer travel in a Parquet file (`ANSWER_COLUMNS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from odfabric.model.engine import EngineIdentity, SliceFile, TransformRequest
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType

RANGES_LISTED_MAX = 100
"""Most ranges of offsets that a message lists for one input; the answer file has all of them."""
ANSWER_COLUMNS = ("record", "kind", "term", "input", "offset", "column", "output_column", "role")
"""Columns of the answer file, by which its rows are sorted: int64, int8, int32, int32, int64, string, string, int8."""
PROVENANCE_ROWS_LIMIT = "provenance_rows_max"
"""The limit that an engine names where an answer needs more rows of the inputs than its request allows."""
NO_ROWS = OffsetRange(0, 0)


class ProvenanceKind(IntEnum):
    """What is asked of a record; also the kind of a row of the answer file."""

    WITNESSES = 1
    """Input records that the row is made of."""
    TRIGGER = 2
    """New records that made the block write the record."""
    CELLS = 3
    """Input cells behind its cells."""
    HOW = 4
    """How the witnesses were combined; only in the message."""


class ProvenanceEffort(IntEnum):
    """How far an answer is checked."""

    LINEAGE = 1
    """What the query combined, unchecked."""
    VERIFIED = 2
    """The query over the witnesses alone gives the row."""
    MINIMAL = 3
    """Besides, no witness can be left out."""


class CellRole(IntEnum):
    """What an input cell is for an output cell."""

    COPIED = 1
    """It has the same value."""
    COMPUTED = 2
    """The value is computed from it."""
    COMPARED = 3
    """It decided which value is taken: an order, the other values of a maximum."""
    INSPECTED = 4
    """It decided whether the row is there: a condition, a join, grouping or partition key."""


class RowsRead(Enum):
    """How the rows of the inputs were found that an answer is made from."""

    ROW_WISE = "row-wise"
    """The records of the interval, mapped one by one."""
    KEYS = "keys"
    """Rows of the record's keys."""
    TOUCHED = "touched"
    """Rows of the keys that occur in the interval."""
    WHOLE = "whole"
    """All rows of some input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumedInterval:
    """What one block consumed of an input.

    The first `steps_before` steps of the input were consumed by earlier blocks.
    """

    offsets: OffsetRange
    steps_before: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceRequest:
    """Why records of one block of a derivative dataset exist.

    `transaction` is that of the block, with all slices and steps of its inputs from their beginning and no checkpoint; its output paths are
    not used. `intervals` are one per input, `output` the slices of the block, `offsets` the records asked for. No `columns` are all of
    them. A limit of 0 is the engine's own. `previous` is the transform before a migration: withdrawn records are explained by that one.
    """

    transaction: TransformRequest
    intervals: tuple[ConsumedInterval, ...]
    output: tuple[SliceFile, ...]
    offsets: tuple[int, ...]
    answer_path: str
    columns: tuple[str, ...] = ()
    kinds: frozenset[ProvenanceKind] = frozenset({ProvenanceKind.WITNESSES})
    effort: ProvenanceEffort = ProvenanceEffort.VERIFIED
    rows_max: int = 0
    evaluations_max: int = 0
    bytes_in_hand_max: int = 0
    wall_ms_max: int | None = None
    previous: TransformSql | None = None

    @property
    def output_path(self) -> str:
        """Where the rows of the answer go."""
        return self.answer_path


@dataclass(frozen=True, slots=True, kw_only=True)
class InputWitnesses:
    """Records of one input (by position): how many, and their first ranges.

    `more` says that there are more ranges in the answer file.
    """

    input: int
    count: int
    ranges: tuple[OffsetRange, ...]
    more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordProvenance:
    """What is known of one record.

    `found` is False where the query gives no such row over these inputs; then only `notes` are there. `alternatives` counts the derivations
    of equal rows, of which the record is one. `by_watermark`: a watermark made the block write it, no new record did. `how` is JSON, empty
    if it was not asked for. `answer_rows` are the rows of the answer file about it.
    """

    offset: int
    op: OperationType
    found: bool
    alternatives: int = 1
    verified: bool = False
    minimal: bool = False
    by_watermark: bool = False
    witnesses: tuple[InputWitnesses, ...] = ()
    trigger: tuple[InputWitnesses, ...] = ()
    notes: tuple[str, ...] = ()
    how: str = ""
    answer_rows: OffsetRange = NO_ROWS


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceCost:
    """How much work an answer was.

    `rows_read` of the inputs, `rows_bound` to the query, `jobs` of Spark, `evaluations` of the query to check it.
    """

    read: RowsRead
    rows_read: int
    rows_bound: int
    jobs: int
    evaluations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceResult:
    """The answer: one entry per record, in the order in which they were asked for."""

    records: tuple[RecordProvenance, ...]
    cost: ProvenanceCost
    answer_rows: int
    made_by: EngineIdentity | None = None
