"""Try a push: what it would do, without doing it.

Owns what a trial does and the JSON of its result: rows read, records by operation, what is refused. The engine takes the file in exactly as a push
has it, on top of the dataset as it is, or of one that would be made. Invariant: nothing is stored, and no head moves. What the engine says
counts; rows are looked at one by one to tell all that are refused and not the first alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from odfabric.domain.chain.append import fold_blocks, next_system_time
from odfabric.domain.chain.snapshot import plan_creation
from odfabric.domain.chain.state import ChainState
from odfabric.domain.ingestion.column_guess import RefusedValue, WantedColumn, WantedType, refused_values
from odfabric.domain.ingestion.ingest_plan import DEFAULT_SOURCE_NAME, plan_add_data, polling_source, push_source
from odfabric.domain.ingestion.intake_limits import UNLIMITED, IntakeLimits
from odfabric.domain.ingestion.media_types import read_step_for
from odfabric.domain.ingestion.row_changes import changes_value, undeclared_value
from odfabric.domain.people.access import Subject
from odfabric.domain.sources.source_evolution import check_sources, read_columns
from odfabric.errors import External, OdfError
from odfabric.formats.files.file_rows import BrokenRow, FileRows
from odfabric.formats.jobs.try_request import read_try_request, write_try_request
from odfabric.formats.json_values.json_rows import DataFormat, rows_to_json
from odfabric.formats.manifests.manifest_yaml import dump_yaml, parse_snapshots, snapshot_to_manifest
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.data_schema import (
    DataField,
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt8,
    DataTypeUInt16,
    DataTypeUInt32,
    DataTypeUInt64,
)
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import DatasetToTry, PushToTry, TryRequest
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DataSlice
from odfabric.model.source import ReadStep, ReadStepCsv, ReadStepJson, ReadStepNdJson
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.read_block import count_in_file
from odfabric.usecases.chain.store_slice import describe_slice
from odfabric.usecases.ingestion.ingest import IngestInput, IngestPorts, ingest_growing
from odfabric.usecases.ingestion.judge_file import LISTED_MAX, FilePorts, broken_value, progress_of, take_upload
from odfabric.usecases.ingestion.staging import StagedBody
from odfabric.usecases.jobs.job_actor import account_of, envelope_of
from odfabric.usecases.jobs.job_run import JobRun
from odfabric.usecases.jobs.problem import problem_document

NO_DATASET = DatasetId(bytes(32))
"""Stands for the identity of a dataset that is not made."""
SAMPLE_MAX = 10
"""Records of a trial that are shown."""
_INTEGERS: dict[type, range] = {
    DataTypeInt8: range(-(2**7), 2**7),
    DataTypeInt16: range(-(2**15), 2**15),
    DataTypeInt32: range(-(2**31), 2**31),
    DataTypeInt64: range(-(2**63), 2**63),
    DataTypeUInt8: range(2**8),
    DataTypeUInt16: range(2**16),
    DataTypeUInt32: range(2**32),
    DataTypeUInt64: range(2**63),
}
_OTHERS: dict[type, WantedType] = {
    DataTypeBool: WantedType.BOOL,
    DataTypeFloat64: WantedType.NUMBER,
    DataTypeDate: WantedType.DATE,
    DataTypeTimestamp: WantedType.TIME,
    DataTypeString: WantedType.TEXT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TryPorts:
    """What a trial works with."""

    files: FilePorts
    ingest: IngestPorts
    clock: Clock
    column_name_bytes_max: int
    intake: IntakeLimits = UNLIMITED


def run_try(job: Job, run: JobRun, *, ports: TryPorts) -> Mapping[str, object]:
    """What a push would do.

    Raises what says nothing of the push: NotFound, Corrupt, External, InvalidManifest.
    """
    request = read_try_request(job)
    state, given, now = _target(request.target, ports)
    with ports.files.exchange.session() as folder:
        path = folder / "pushed"
        take_upload(request.upload, request.digest, path, objects=ports.files.objects)
        looked = _Look(path, given.read, run, ports)
        given = replace(given, folder=folder, paths=(path,), names=(request.file_name,), intake=ports.intake)
        try:
            return {**looked.counted(), **_taken_in(state, given, now, run=run, ports=ports)}
        except External:
            raise
        except OdfError as refused:
            return {**looked.counted(), **looked.refused(), "problem": problem_document(refused)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is tried: a file, and where it would go.

    `shown` is kept for anyone who shows the result.
    """

    staged: StagedBody
    file_name: str
    target: PushToTry | DatasetSnapshot
    shown: Mapping[str, object] = field(default_factory=dict)


def enqueue_try(trial: Trial, *, subject: Subject, jobs: Jobs, clock: Clock, entropy: Entropy) -> Job:
    """The job that tries it."""
    target = trial.target
    request = TryRequest(
        upload=str(trial.staged.key),
        digest=trial.staged.digest,
        size=trial.staged.size,
        file_name=trial.file_name,
        target=target if isinstance(target, PushToTry) else DatasetToTry(dump_yaml(snapshot_to_manifest(target))),
        shown=trial.shown,
    )
    new = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.TRY,
        account=account_of(subject),
        dataset_id=None,
        request=write_try_request(request, envelope_of(subject)),
    )
    return jobs.enqueue(new, now=clock.now())


def planned_state(snapshot: DatasetSnapshot, *, now: Instant, column_name_bytes_max: int) -> ChainState:
    """The chain that a root dataset would begin with.

    Raises InvalidManifest, IncompatibleSchema, LimitExceeded.
    """
    blocks = plan_creation(snapshot, dataset_id=NO_DATASET, system_time=now, resolve=lambda _: None)
    state = fold_blocks(ChainState.empty(), blocks)
    check_sources(snapshot, state.vocabulary, name_bytes_max=column_name_bytes_max)
    return state


def _target(target: PushToTry | DatasetToTry, ports: TryPorts) -> tuple[ChainState, IngestInput, Instant]:
    source_name, media_type = None, None
    if isinstance(target, DatasetToTry):
        (snapshot,) = parse_snapshots(target.manifest)
        now = ports.clock.now().truncated_to_millis()
        state = planned_state(snapshot, now=now, column_name_bytes_max=ports.column_name_bytes_max)
    else:
        source_name, media_type = target.source_name, target.media_type
        _, state = ports.ingest.repository.current(target.dataset)
        now = next_system_time(state, now=ports.clock.now())
    polled = polling_source(state)
    source = polled or push_source(state, source_name)
    given = IngestInput(
        folder=Path(),
        paths=(),
        names=(),
        read=read_step_for(source.read, media_type),
        preprocess=source.preprocess,
        merge=source.merge,
        source_name=DEFAULT_SOURCE_NAME if polled else source.source_name,  # type: ignore[union-attr]
    )
    return state, given, now


def _taken_in(
    state: ChainState, given: IngestInput, now: Instant, *, run: JobRun, ports: TryPorts
) -> dict[str, object]:
    made, grown = ingest_growing(
        state,
        given,
        system_time=now,
        progress=run.report,
        ports=ports.ingest,
    )
    data: DataSlice | None = None
    operations: dict[int, int] = {}
    sample: list[object] = []
    if made.result.offsets is not None:
        data = describe_slice(made.path, made.result.offsets, rules=made.rules(grown.state))
        operations = count_in_file(made.path, state.vocabulary)
        sample = _first_records(made.path, state.vocabulary)
    plan_add_data(
        grown.state,
        data_schema=made.result.data_schema,
        new_data=data,
        max_event_time=made.result.max_event_time,
        source_name=given.source_name,
        renamed=made.result.renamed,
    )
    renamed = [{"from": one.name, "to": one.stored_as} for one in made.result.renamed]
    counted = {str(operation): count for operation, count in sorted(operations.items())}
    return {
        "operations": counted,
        "changes": changes_value(made.result.changes),
        "renamedColumns": renamed,
        "undeclaredFields": undeclared_value(made.result.undeclared),
        "rejected": made.result.rejected,
        "addedColumns": list(grown.columns),
        "sample": sample,
    }


def _first_records(path: Path, vocabulary: DatasetVocabulary) -> list[object]:
    """The first records of a slice as JSON, without columns that a commit fills."""
    with open_slice(path, vocabulary) as reader:
        names = [name for name in reader.schema.names if name not in (vocabulary.offset, vocabulary.system_time)]
        found: list[object] = []
        for batch in reader.batches(names):
            rows = rows_to_json(pa.Table.from_batches([batch.slice(0, SAMPLE_MAX - len(found))]), DataFormat.JSON_AOS)
            found += rows if isinstance(rows, list) else []
            if len(found) >= SAMPLE_MAX:
                break
    return found


class _Look:
    """One look at the rows of a file, as its reader would take them.

    None where that cannot be reported.
    """

    def __init__(self, path: Path, read: ReadStep, run: JobRun, ports: TryPorts) -> None:
        self._rows: int | None = None
        self._count = 0
        self._listed: list[dict[str, object]] = []
        self._titles: dict[str, str] = {}
        shape = _shape_of(read)
        if shape is None:
            return
        cells = shape.format is FileFormat.CSV
        progress = progress_of(run, stage="read rows", size=path.stat().st_size)
        rows = FileRows(path, shape, ports.files.limits, progress)
        try:
            wanted, self._titles = _wanted(read, rows.names() if cells else ())
            self._rows = 0
            for one in rows.batches():
                if isinstance(one, BrokenRow):
                    self._rows += 1
                    self._add(broken_value(one))
                    continue
                self._rows += len(one.lines)
                for each in refused_values(one, wanted, cells=cells):
                    self._add(self._value(each))
        except External:
            raise
        except OdfError:
            self._rows = None  # the engine says what is wrong

    def counted(self) -> dict[str, object]:
        """Rows read, None if nobody has counted them."""
        return {"rows": self._rows}

    def refused(self) -> dict[str, object]:
        """The first of what is refused by line, and how much it is in all."""
        return {"refused": self._listed, "refusedCount": self._count}

    def _value(self, refused: RefusedValue) -> dict[str, object]:
        column = self._titles.get(refused.column, refused.column)
        found: dict[str, object] = {"line": refused.line, "column": column, "wanted": refused.wanted.name}
        return found if refused.value is None else {**found, "value": refused.value}

    def _add(self, value: dict[str, object]) -> None:
        self._count += 1
        if len(self._listed) < LISTED_MAX:
            self._listed.append(value)


def _shape_of(read: ReadStep) -> FileShape | None:
    """How a step reads files, if it reads them as they are looked at here."""
    match read:
        case ReadStepCsv(
            encoding=None, quote=None, escape=None, null_value=None, date_format=None, timestamp_format=None
        ):
            return FileShape(format=FileFormat.CSV, separator=read.separator or ",", header=bool(read.header))
        case ReadStepNdJson(encoding=None, date_format=None, timestamp_format=None):
            return FileShape(format=FileFormat.NDJSON)
        case ReadStepJson(encoding=None, date_format=None, timestamp_format=None, sub_path=None):
            return FileShape(format=FileFormat.JSON)
        case _:
            return None


def _wanted(read: ReadStep, names: Sequence[str]) -> tuple[list[WantedColumn], dict[str, str]]:
    """Types by which columns are read, and the names of renamed ones."""
    schema = read_columns(read)
    wanted = [_wanted_column(declared) for declared in schema.fields] if schema is not None else []
    if not isinstance(read, ReadStepCsv) or read.header:
        return wanted, {}
    # Without a header columns are known by their place.
    placed = [replace(column, name=name) for column, name in zip(wanted, names, strict=False)]
    return placed, {name: column.name for name, column in zip(names, wanted, strict=False)}


def _wanted_column(declared: DataField) -> WantedColumn:
    is_optional = isinstance(declared.type, DataTypeOption)
    inner: DataType = declared.type.inner if isinstance(declared.type, DataTypeOption) else declared.type
    within = _INTEGERS.get(type(inner))
    if within is not None:
        return WantedColumn(declared.name, WantedType.WHOLE, is_optional, within)
    return WantedColumn(declared.name, _OTHERS.get(type(inner), WantedType.ANY), is_optional)
