"""What coordinator and engine say to each other, as values.

Owns requests and results of the engine's operations. Rows travel in files: every path is relative to the exchange folder
that both sides share. proto/odfabric/engine/v1/engine.proto is the same contract on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.intake import FieldContract
from odfabric.model.metadata import TransformSql
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.source import MergeStrategy, ReadStep
from odfabric.model.table_function import CallRefusal, Projection, TableCall
from odfabric.model.vocabulary import DatasetVocabulary

TRANSACTION_SIZE_LIMIT = "transform_bytes_max"
"""The limit that an engine names for a transaction which needs more in hand than its request allows."""
COLUMN_SIZE_LIMIT = "column_bytes_max"
"""The limit that it names where one column has more in hand than the format of rows in memory can tell: 2 GiB."""
REPEATS_LIMIT = "engine_repeats_max"
"""The limit that is named where engines break down under one query again and again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """Who the engine is.

    `digest` is a SHA3-256 (hex) over its own code and its locked dependencies.

    `sandbox` names the walls of the operating system around it: no-network, own-files, own-processes, landlock, seccomp,
    no-new-privileges. `executors` is how many executors of a cluster run its tasks, None where it runs them itself.
    """

    name: str
    version: str
    digest: str
    spark_version: str
    java_version: str
    sandbox: tuple[str, ...] = ()
    executors: int | None = None

    @property
    def identity(self) -> EngineIdentity:
        """What a transaction is recorded as made by."""
        return EngineIdentity(name=self.name, version=self.version, digest=self.digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What distinguishes one build of an engine from others.

    The digest is empty where an engine does not tell it.
    """

    name: str
    version: str = ""
    digest: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFile:
    """A data slice in the exchange folder and the offsets it holds."""

    path: str
    offsets: OffsetRange


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestRequest:
    """Read files, preprocess, merge with history, write one slice.

    `data_paths` are decompressed files of the format of `read`, in order; an empty file counts as described in the read
    rules. `data_schema` is the dataset's current schema (absent before the first slice). `history` is every earlier slice,
    oldest first; strategies that need no history ignore it. `event_time_fallback` fills null event times.
    `file_names` are what users call the files, for error messages, one per data path. `known_columns` are names that the dataset has
    already where `data_schema` does not tell: they are not judged again. `contract` is what becomes of fields without a column. With a
    `rejected_path` rows that cannot be read are written there, one JSON object a line (`file`, `line`, `position`, `field`, `reason`, `raw`), at
    most `rejected_rows_max`, and the others are taken in; without one they are an error.
    """

    vocabulary: DatasetVocabulary
    data_paths: tuple[str, ...]
    file_names: tuple[str, ...]
    read: ReadStep
    preprocess: TransformSql | None
    merge: MergeStrategy
    data_schema: DataSchema | None
    history: tuple[SliceFile, ...]
    system_time: Instant
    event_time_fallback: Instant
    next_offset: int
    new_data_path: str
    known_columns: tuple[str, ...] = ()
    contract: FieldContract | None = None
    rejected_path: str | None = None
    rejected_rows_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenamedColumn:
    """A column with a system column's name, and the name under which it is stored."""

    name: str
    stored_as: str


UNDECLARED_LISTED_MAX = 20
"""Most fields without a column of which an ingest says the names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndeclaredField:
    """A field of the input that no column is declared for, and how many rows have it."""

    name: str
    rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChanges:
    """What became of the rows of an ingest.

    `added`, `corrected` and `retracted` count rows of the dataset: a corrected row is two records. `unchanged` counts rows of the input
    that changed nothing: the dataset has them already, or a later row of the input has their key. `known_keys` counts those that a ledger
    left out, whatever else they say, since a row of their key was there before. Both are None if nobody counted them.
    """

    added: int = 0
    corrected: int = 0
    retracted: int = 0
    unchanged: int | None = 0
    known_keys: int | None = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestResult:
    """Outcome of an ingest.

    `offsets` is None if no rows came out. `data_schema` is the schema of the result with explicit defaults and without
    encodings, None if there was no frame at all (empty input without a read schema). `max_event_time` of the new rows.
    `renamed` are columns that are stored under another name than they came with. `undeclared` are fields of the input that were not read,
    those of most rows first, at most `UNDECLARED_LISTED_MAX`; where the contract is to evolve, `found` are the columns that they need. `rejected` is how many rows lie at the path for them.
    """

    offsets: OffsetRange | None
    data_schema: DataSchema | None
    max_event_time: Instant | None
    renamed: tuple[RenamedColumn, ...] = ()
    changes: RowChanges = RowChanges()
    undeclared: tuple[UndeclaredField, ...] = ()
    found: DataSchema | None = None
    rejected: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformStep:
    """One block of an input: last offset up to it (None: no data), and any watermark."""

    system_time: Instant
    last_offset: int | None
    watermark: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRequestInput:
    """One input of a transaction: new records, their slices, and its steps.

    New records `offsets` (empty if none), the slices that hold them (oldest first; the engine filters to `offsets`),
    and its steps, oldest first."""

    dataset_id: DatasetId
    query_alias: str
    vocabulary: DatasetVocabulary
    data_schema: DataSchema
    offsets: OffsetRange
    slices: tuple[SliceFile, ...]
    steps: tuple[TransformStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformRequest:
    """One transaction of a derivative dataset.

    `checkpoint_paths` holds the previous checkpoint first, then those it builds on; empty for the first transaction.
    `checkpoint_hashes` are the names of these files, in that order; an engine that gets none leaves one that stands alone.
    `data_schema` is the output's schema once it has one. `prev_watermark` is the output's last watermark. `previous` is the
    transform that wrote the checkpoint, if it was another one: it continues if both say the same. `bytes_in_hand_max` is how many
    bytes of rows may be in hand at once (0: any): a transaction that needs more is refused with `TRANSACTION_SIZE_LIMIT`, one that
    does not has the same outcome whatever it is.
    """

    dataset_id: DatasetId
    vocabulary: DatasetVocabulary
    transform: TransformSql
    inputs: tuple[TransformRequestInput, ...]
    data_schema: DataSchema | None
    prev_watermark: Instant | None
    system_time: Instant
    next_offset: int
    checkpoint_paths: tuple[str, ...]
    new_checkpoint_path: str
    new_data_path: str
    checkpoint_hashes: tuple[Multihash, ...] = ()
    previous: TransformSql | None = None
    bytes_in_hand_max: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformResult:
    """Outcome of a transaction.

    A slice file is written also for zero rows (`offsets` None), as schema carrier.

    `made_by` is the engine that ran it, as it calls itself.
    """

    offsets: OffsetRange | None
    watermark: Instant | None
    data_schema: DataSchema
    late_rows_dropped: int = 0
    made_by: EngineIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryInput:
    """A table of a query: all slices of a dataset up to a pinned block.

    `data_schema` is None for a dataset without data; a transform over such an input is judged by its text alone.
    `ddl` may describe the columns in its place where a transform is judged: `id BIGINT NOT NULL, name STRING`.
    A table of a query may be known by a `call` of a table function in the place of its alias, may be a `projection` of its records, and
    may be refused where it is called.
    """

    alias: str
    vocabulary: DatasetVocabulary
    data_schema: DataSchema | None
    slices: tuple[SliceFile, ...] = ()
    ddl: str | None = None
    call: TableCall | None = None
    projection: Projection | None = None
    refusal: CallRefusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateRequest:
    """A transform to be judged against the schemas of its inputs, without slices.

    System columns that a schema leaves out are there all the same. `previous` is the transform that is to be replaced: with it
    the answer says what that means for a dataset of the columns `data_schema`, or of those that `previous` gives.
    """

    vocabulary: DatasetVocabulary
    transform: TransformSql
    inputs: tuple[QueryInput, ...]
    previous: TransformSql | None = None
    data_schema: DataSchema | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryProblem:
    """Why SQL is refused.

    `step` counts the transform's statements from 0; line and column from 1 within it.

    `suggestion` is a statement that says the same and is accepted, where one is known. `of_input` is the number of an input, from 0, whose
    DDL is what is wrong: line and column are then within it.
    """

    rule: str
    message: str
    hint: str | None
    step: int
    line: int | None
    column: int | None
    suggestion: str | None = None
    of_input: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOperator:
    """One operator of a query: class, name, keys, and place.

    The class is `linear`, `keyed` or `timed`.
    """

    operator_class: str
    name: str
    keys: tuple[str, ...]
    detail: str
    step: int
    line: int | None
    column: int | None


class KeptBy(Enum):
    """What an engine keeps between transactions for a part of a query."""

    GROUPS = "groups"
    """One accumulator for each group."""
    ROWS = "rows"
    """The rows themselves, by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryState:
    """What is kept for one part of a query: relations, and keys (none: one state)."""

    kept: KeptBy
    keys: tuple[str, ...]
    relations: tuple[str, ...]


class EvolutionVerdict(Enum):
    """What replacing a transform by another means for the rows that are there."""

    COMPATIBLE = "compatible"
    """Both say the same: state and rows stay."""
    MIGRATION = "migration"
    """The next transaction computes the result again and corrects the rows that differ."""
    REFUSED = "refused"
    """The output no longer fits the dataset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEvolution:
    """The verdict on a change of a transform, and why."""

    verdict: EvolutionVerdict
    reason: str
    hint: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnLineage:
    """One column of an input (by alias) behind one output column.

    `role` is copied, computed, compared or inspected: it decides whether the row is there. `transformation` is the word of OpenLineage for
    it: IDENTITY, TRANSFORMATION, AGGREGATION, JOIN, GROUP_BY, FILTER, SORT, WINDOW, CONDITIONAL.
    """

    output_column: str
    input: str
    column: str
    role: str
    transformation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateResult:
    """Either problems, or the output schema with operator class, keys and operators.

    The class is `linear`, `keyed` or `timed`.

    `evolution` is there if the request names a previous transform. `meaning` is a hash of what the query reads of its inputs and makes
    of it, to be compared with that of the same transform over other states of its inputs, as the same engine gives it. `states` is what
    will be kept between transactions, nothing for row-wise queries; `notes` are sentences that a user should read before the first one.
    `column_lineage` are the columns behind each output column.
    """

    problems: tuple[QueryProblem, ...]
    data_schema: DataSchema | None
    operator_class: str | None
    keys: tuple[str, ...]
    operators: tuple[QueryOperator, ...] = ()
    states: tuple[QueryState, ...] = ()
    notes: tuple[str, ...] = ()
    evolution: QueryEvolution | None = None
    meaning: str | None = None
    column_lineage: tuple[ColumnLineage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateRequest:
    """The transaction after a change of a transform.

    Its result over what the previous one has read becomes the net output.

    `next` holds the inputs from their first record to the last that was read, no checkpoint, and offset and schema of the
    output as they are now; `output` is every slice of it, oldest first.
    """

    next: TransformRequest
    output: tuple[SliceFile, ...]

    @property
    def new_data_path(self) -> str:
        """Where the records go."""
        return self.next.new_data_path


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """A user's read-only query over pinned inputs.

    The result is an Arrow IPC stream file at `output_path`.

    At most `limit` rows after the first `skip`. More than `bytes_max` bytes or `wall_ms_max` milliseconds is LimitExceeded.
    """

    sql: str
    inputs: tuple[QueryInput, ...]
    skip: int
    limit: int
    bytes_max: int
    wall_ms_max: int
    output_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows written, and the schema of the columns in order.

    With `wants_records` nothing was run or written: it numbers the inputs, from 0, of which the query reads columns of records that
    their rows do not have (`Projection.rows_path`).
    """

    rows: int
    data_schema: DataSchema
    wants_records: tuple[int, ...] = ()


BYTES = "bytes"
"""Unit of progress that is counted in bytes, of which a rate can be reported."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineProgress:
    """How far a call is: a word for the stage and a share of it where known.

    `unit` is what is counted, BYTES or nothing particular.
    """

    stage: str
    done: int
    total: int
    unit: str = ""
