"""A small engine without Spark: runs every verb in a test in milliseconds.

Owns a subset of the engine's meaning, exact as far as it goes: NDJSON and CSV with a schema, merged by Append or Ledger; transforms and
queries that are `SELECT * FROM <input or call>`. Everything else is refused with a reason, as an engine may. Invariant: a pure function
of the request, like any engine.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from odfabric.adapters.memory.engine_provenance import derive_row_wise
from odfabric.domain.chain.projection import Record, as_of
from odfabric.domain.chain.projection import rows as rows_left
from odfabric.errors import InvalidData, InvalidQuery, LimitExceeded, Place
from odfabric.formats.engine_messages.table_calls import call_at
from odfabric.formats.files.csv_grammar import CsvDialect, CsvRecords
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import SliceWriter, open_slice
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import (
    TRANSACTION_SIZE_LIMIT,
    ColumnLineage,
    EngineInfo,
    EngineProgress,
    EvolutionVerdict,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryEvolution,
    QueryInput,
    QueryProblem,
    QueryRequest,
    QueryResult,
    RowChanges,
    SliceFile,
    TransformRequest,
    TransformRequestInput,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.instant import Instant
from odfabric.model.intake import FieldContract
from odfabric.model.metadata import TransformSql
from odfabric.model.offsets import OffsetRange
from odfabric.model.operation import OperationType
from odfabric.model.provenance import ProvenanceRequest, ProvenanceResult
from odfabric.model.source import MergeStrategyAppend, MergeStrategyLedger, ReadStepCsv, ReadStepNdJson
from odfabric.model.table_function import Projection, TableCall
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.engine import ProgressListener

_CALLED = re.compile(r"\s*select\s+\*\s+from\s+(?P<call>\w+\s*\(.*\))\s*", re.IGNORECASE | re.ASCII | re.DOTALL)
_SELECT_ALL = re.compile(r"\s*select\s+\*\s+from\s+[`\"]?([A-Za-z0-9./-]+)[`\"]?\s*", re.IGNORECASE | re.ASCII)
_SELECT_COLUMNS = re.compile(
    r"\s*select\s+(?P<columns>\w+(?:\s*,\s*\w+)*)(?P<rest>\s+from\s.*)", re.IGNORECASE | re.ASCII | re.DOTALL
)
_BATCH_ROWS = 10_000
_VALUE_CHARACTERS_MAX = 1 << 20


class MemoryEngine:
    """Implements `ports.engine.Engine`; `calls` counts what was asked for."""

    def __init__(self, exchange_root: Path) -> None:
        self._root = exchange_root
        self.calls = 0

    def info(self) -> EngineInfo:
        """See the port."""
        return EngineInfo(name="memory", version="1", digest="", spark_version="", java_version="")

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port. Raises InvalidData for other readers and strategies."""
        self.calls += 1
        progress(EngineProgress(stage="ingest", done=0, total=1))
        read = request.read
        if not isinstance(read, ReadStepNdJson | ReadStepCsv) or read.schema is None:
            raise InvalidData("this engine reads NdJson and Csv with a schema only", place=Place(field="read"))
        columns = data_schema_to_arrow(read.schema)
        rejected = _Rejected(None if request.rejected_path is None else self._root / request.rejected_path)
        rows = [row for file in self._named(request) for row in _read(*file, read, columns, rejected)]
        schema = new_slice_schema(
            [field for field in columns if field.name != request.vocabulary.event_time], vocabulary=request.vocabulary
        )
        fresh = list(self._merged(request, rows))
        offsets = OffsetRange(request.next_offset, request.next_offset + len(fresh))
        filled = _with_system_columns(fresh, request, schema)
        if fresh:
            _write(self._root / request.new_data_path, filled, schema)
        event_times = [row[request.vocabulary.event_time] for row in filled]
        times = [Instant.from_datetime(moment) for moment in event_times if isinstance(moment, datetime)]
        return IngestResult(
            offsets=offsets if fresh else None,
            data_schema=arrow_to_data_schema(schema),
            max_event_time=max(times, default=None),
            changes=RowChanges(added=len(fresh), known_keys=len(rows) - len(fresh)),
            rejected=rejected.count,
            found=_found(self._root, request, columns) if request.contract is FieldContract.EVOLVE else None,
        )

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port.

        Raises InvalidQuery for anything but `SELECT *` from one input; rows are as large as their JSON.
        """
        self.calls += 1
        progress(EngineProgress(stage="transform", done=0, total=1))
        source = _input_of(request.transform, request.inputs)
        rows = [row for row in self._rows(source.slices, source.vocabulary) if _is_in(row, source)]
        in_hand = sum(len(json.dumps(row, default=str)) for row in rows)
        if 0 < request.bytes_in_hand_max < in_hand:
            maximum = request.bytes_in_hand_max
            raise LimitExceeded(f"{in_hand} bytes of rows", limit=TRANSACTION_SIZE_LIMIT, maximum=maximum)
        schema = data_schema_to_arrow(source.data_schema)
        vocabulary = source.vocabulary
        for position, row in enumerate(rows):
            row[vocabulary.offset] = request.next_offset + position
            row[vocabulary.system_time] = request.system_time.to_datetime()
        _write(self._root / request.new_data_path, rows, schema)
        watermark = max(
            [step.watermark for step in source.steps if step.watermark is not None]
            + ([request.prev_watermark] if request.prev_watermark else []),
            default=None,
        )
        state = {"format": "memory-engine", "positions": {str(source.dataset_id): source.offsets.end}}
        (self._root / request.new_checkpoint_path).write_text(json.dumps(state, sort_keys=True))
        offsets = OffsetRange(request.next_offset, request.next_offset + len(rows))
        return TransformResult(
            offsets=offsets if rows else None,
            watermark=watermark,
            data_schema=arrow_to_data_schema(schema),
            made_by=self.info().identity,
        )

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """See the port."""
        aliases = {entry.alias: entry.data_schema for entry in request.inputs}
        found = _SELECT_ALL.fullmatch(_output_query(request.transform))
        problems = tuple(_problems(request.transform, aliases))
        if found is None or problems:
            return ValidateResult(problems=problems, data_schema=None, operator_class=None, keys=())
        return ValidateResult(
            problems=(),
            data_schema=aliases[found[1]],
            operator_class="linear",
            keys=(),
            evolution=_evolution(request),
            column_lineage=tuple(_copied(found[1], aliases[found[1]], request.vocabulary)),
        )

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port.

        The old rows are retracted and the new ones appended, even if some are the same.
        """
        self.calls += 1
        following = request.next
        source = _input_of(following.transform, following.inputs)
        vocabulary = following.vocabulary
        gone = [
            {**row, vocabulary.operation_type: int(OperationType.RETRACT)}
            for row in self._rows(request.output, vocabulary)
        ]
        rows = gone + list(self._rows(source.slices, source.vocabulary))
        for position, row in enumerate(rows):
            row[vocabulary.offset] = following.next_offset + position
            row[vocabulary.system_time] = following.system_time.to_datetime()
        schema = data_schema_to_arrow(source.data_schema)
        _write(self._root / following.new_data_path, rows, schema)
        state = {"format": "memory-engine", "positions": {str(source.dataset_id): source.offsets.end}}
        (self._root / following.new_checkpoint_path).write_text(
            json.dumps({**state, "query": "migrated"}, sort_keys=True)
        )
        offsets = OffsetRange(following.next_offset, following.next_offset + len(rows))
        return TransformResult(
            offsets=offsets if rows else None,
            watermark=following.prev_watermark,
            data_schema=arrow_to_data_schema(schema),
            made_by=self.info().identity,
        )

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        self.calls += 1
        listed = _SELECT_COLUMNS.fullmatch(request.sql)
        columns = None if listed is None else [name.strip() for name in listed["columns"].split(",")]
        sql = request.sql if listed is None else f"select *{listed['rest']}"
        found = _SELECT_ALL.fullmatch(sql)
        by_alias = {entry.alias: entry for entry in request.inputs if entry.call is None}
        called = _CALLED.fullmatch(sql)
        if called is not None and (placed := call_at(sql, called.start("call"))) is not None:
            return self._answer(request, _called(request, placed.call), columns)
        if found is None or found[1] not in by_alias:
            raise InvalidQuery("this engine runs SELECT of a dataset's columns only", place=Place(line=1, column=1))
        return self._answer(request, by_alias[found[1]], columns)

    def _answer(self, request: QueryRequest, entry: QueryInput, columns: Sequence[str] | None) -> QueryResult:
        given = entry.data_schema or DataSchema(fields=())
        data_schema = DataSchema(fields=tuple(one for one in given.fields if columns is None or one.name in columns))
        schema = data_schema_to_arrow(data_schema)
        found_rows = None if entry.projection is None else entry.projection.rows_path
        names = entry.vocabulary
        if found_rows is not None and {names.offset, names.operation_type, names.system_time} & set(schema.names):
            number = request.inputs.index(entry)
            return QueryResult(rows=0, data_schema=data_schema, wants_records=(number,))
        if found_rows is not None:
            rows = pq.read_table(self._root / found_rows, columns=schema.names).to_pylist()
        else:
            rows = list(self._rows(entry.slices, entry.vocabulary))
            if entry.projection is not None:
                rows = _projected(rows, entry.projection, entry.vocabulary)
            rows = [{name: row[name] for name in schema.names} for row in rows]
        rows = rows[request.skip : request.skip + request.limit]
        with pa.OSFile(str(self._root / request.output_path), "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
        return QueryResult(rows=len(rows), data_schema=data_schema)

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """See the port. Raises InvalidQuery for anything but `SELECT *` from one input."""
        self.calls += 1
        progress(EngineProgress(stage="provenance", done=0, total=len(request.offsets)))
        source = _input_of(request.transaction.transform, request.transaction.inputs)
        return derive_row_wise(request, source, root=self._root, rows_of=self._rows, made_by=self.info().identity)

    def _named(self, request: IngestRequest) -> Iterator[tuple[Path, str]]:
        for path, name in zip(request.data_paths, request.file_names, strict=True):
            yield self._root / path, name

    def _merged(self, request: IngestRequest, rows: list[dict[str, object]]) -> Iterator[dict[str, object]]:
        match request.merge:
            case MergeStrategyAppend():
                yield from rows
            case MergeStrategyLedger(primary_key=key):
                history = self._rows(request.history, request.vocabulary)
                seen = {tuple(row[name] for name in key) for row in history}
                for row in rows:
                    if (identity := tuple(row[name] for name in key)) not in seen:
                        seen.add(identity)
                        yield row
            case other:
                raise InvalidData(f"this engine does not merge by {type(other).__name__}", place=Place(field="merge"))

    def _rows(self, slices: Sequence[SliceFile], vocabulary: DatasetVocabulary) -> Iterator[dict[str, object]]:
        for entry in slices:
            with open_slice(self._root / entry.path, vocabulary) as reader:
                for batch in reader.batches():
                    yield from batch.to_pylist()


def _found(root: Path, request: IngestRequest, columns: pa.Schema) -> DataSchema | None:
    """Columns for undeclared members of NDJSON: Int64 for numbers, else text."""
    types: dict[str, pa.DataType] = {}
    for path in request.data_paths:
        for line in (root / path).read_text().splitlines():
            members: dict[str, object] = {}
            with suppress(ValueError):  # such a line was rejected
                members = json.loads(line)
            for name, value in members.items():
                if name not in columns.names and value is not None:
                    types[name] = pa.int64() if isinstance(value, int) else pa.string()
    return arrow_to_data_schema(pa.schema(list(types.items()))) if types else None


@dataclass
class _Rejected:
    """Lines of NDJSON that are no rows; without a path they are an error."""

    path: Path | None
    count: int = 0

    def add(self, wrong: InvalidData, raw: str) -> None:
        if self.path is None:
            raise wrong
        place = {"file": wrong.place.file, "line": wrong.place.line, "field": wrong.place.field}
        with self.path.open("a") as out:
            out.write(json.dumps({**place, "reason": wrong.message, "raw": raw}) + "\n")
        self.count += 1


def _read(
    path: Path, name: str, read: ReadStepNdJson | ReadStepCsv, columns: pa.Schema, rejected: _Rejected
) -> Iterator[dict[str, object]]:
    if isinstance(read, ReadStepNdJson):
        return _read_ndjson(path, name, columns, rejected)
    return _read_csv(path, name, read, columns)


def _read_csv(path: Path, name: str, read: ReadStepCsv, columns: pa.Schema) -> Iterator[dict[str, object]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        dialect = CsvDialect(separator=read.separator or ",", quote='"', escape="\\")
        records = iter(CsvRecords(stream, dialect, file=name, value_characters_max=_VALUE_CHARACTERS_MAX))
        names = [cell.text for cell in next(records, [])] if read.header else columns.names
        if set(names) != set(columns.names):
            raise InvalidData("the header has other names than the schema", place=Place(file=name, line=1))
        for cells in records:
            line = cells[0].line
            if len(cells) != len(names):
                raise InvalidData(f"{len(cells)} cells instead of {len(names)}", place=Place(file=name, line=line))
            texts = dict(zip(names, (cell.text for cell in cells), strict=True))
            yield {field.name: _cell(texts[field.name], field, name, line) for field in columns}


def _cell(text: str, field: pa.Field, name: str, line: int) -> object:
    if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
        try:
            return _value(json.loads(text) if text else None, field, name, line)
        except ValueError:
            place = Place(file=name, line=line, field=field.name)
            raise InvalidData(f"not a {field.type}: {text!r}", place=place) from None
    return _value(text or None, field, name, line)


def _read_ndjson(path: Path, name: str, columns: pa.Schema, rejected: _Rejected) -> Iterator[dict[str, object]]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        try:
            yield _row(line, name, number, columns)
        except InvalidData as wrong:
            rejected.add(wrong, line)


def _row(line: str, name: str, number: int, columns: pa.Schema) -> dict[str, object]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InvalidData(f"not JSON: {error}", place=Place(file=name, line=number)) from None
    return {field.name: _value(row.get(field.name), field, name, number) for field in columns}


def _value(value: object, field: pa.Field, name: str, number: int) -> object:
    if value is None and field.nullable:
        return None
    place = Place(file=name, line=number, field=field.name)
    try:
        if pa.types.is_timestamp(field.type):
            return Instant.parse(str(value)).to_datetime()
        return pa.scalar(value, field.type).as_py()
    except (ValueError, pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidData(f"not a {field.type}: {value!r}", place=place) from error


def _with_system_columns(
    rows: list[dict[str, object]], request: IngestRequest, schema: pa.Schema
) -> list[dict[str, object]]:
    vocabulary = request.vocabulary
    fallback = request.event_time_fallback.truncated_to_millis().to_datetime()
    filled = [{**row, vocabulary.event_time: row.get(vocabulary.event_time) or fallback} for row in rows]
    filled.sort(key=lambda row: str(row[vocabulary.event_time]))
    return [
        {
            **row,
            vocabulary.offset: request.next_offset + position,
            vocabulary.operation_type: int(OperationType.APPEND),
            vocabulary.system_time: request.system_time.to_datetime(),
        }
        for position, row in enumerate(filled)
    ]


def _write(path: Path, rows: Sequence[dict[str, object]], schema: pa.Schema) -> None:
    with SliceWriter(path, schema) as writer:
        for batch in pa.Table.from_pylist(list(rows), schema=schema).to_batches(_BATCH_ROWS):
            writer.write(batch)


def _input_of(transform: TransformSql, inputs: Sequence[TransformRequestInput]) -> TransformRequestInput:
    found = _SELECT_ALL.fullmatch(_output_query(transform))
    for entry in inputs:
        if found is not None and found[1] == entry.query_alias:
            return entry
    raise InvalidQuery("this engine runs SELECT * of one input only", place=Place(line=1, column=1))


def _problems(transform: TransformSql, aliases: Iterable[str]) -> Iterator[QueryProblem]:
    """One for each statement that is refused: the last one reads an input."""
    texts = [transform.query] if transform.query is not None else [each.query for each in transform.queries or ()]
    for step, text in enumerate(texts):
        found = _SELECT_ALL.fullmatch(text)
        if found is None or (step == len(texts) - 1 and found[1] not in aliases):
            yield QueryProblem(
                rule="memory-engine",
                message=f"not SELECT * of an input: {text}",
                hint=None,
                step=step,
                line=1,
                column=1,
                suggestion=next((f"SELECT * FROM {alias}" for alias in aliases), None),
            )


def _evolution(request: ValidateRequest) -> QueryEvolution | None:
    if request.previous is None:
        return None
    same = _output_query(request.previous).split() == _output_query(request.transform).split()
    verdict = EvolutionVerdict.COMPATIBLE if same else EvolutionVerdict.MIGRATION
    return QueryEvolution(verdict=verdict, reason="the words are the same" if same else "the words differ")


def _copied(alias: str, schema: DataSchema | None, names: DatasetVocabulary) -> Iterator[ColumnLineage]:
    """Each column of an input behind the one of its name."""
    given = (names.offset, names.operation_type, names.system_time)
    for name in sorted(field.name for field in (() if schema is None else schema.fields)):
        if name not in given:
            yield ColumnLineage(output_column=name, input=alias, column=name, role="copied", transformation="IDENTITY")


def _called(request: QueryRequest, call: TableCall) -> QueryInput:
    """The input of a call. Raises InvalidQuery for one that is refused."""
    found = next((entry for entry in request.inputs if entry.call == call), None)
    place = Place(line=1, column=request.sql.find(call.name) + 1, rule="table-function")
    if found is None:
        raise InvalidQuery(f"unknown call {call}", place=place)
    if found.refusal is not None:
        raise InvalidQuery(found.refusal.message, place=place, hint=found.refusal.hint)
    return found


def _projected(
    rows: list[dict[str, object]], projection: Projection, names: DatasetVocabulary
) -> list[dict[str, object]]:
    """The rows that records leave, each as the record that made it."""
    records = []
    for row in rows:
        time: Any = row[names.event_time]
        own = {
            name: value
            for name, value in row.items()
            if name not in (names.offset, names.operation_type, names.system_time)
        }
        records.append(
            Record(
                block=0,
                offset=int(str(row[names.offset])),
                operation=OperationType(int(str(row[names.operation_type]))),
                event_time=None if time is None else Instant.from_datetime(time),
                key=tuple(row[name] for name in projection.keys),
                row=repr(own),
            )
        )
    held = records if projection.as_of is None else as_of(records, projection.as_of)
    left = rows_left(held, keyed=bool(projection.keys))
    # Slices between may be left out, so a row is not found by counting.
    by_offset = {record.offset: row for record, row in zip(records, rows, strict=True)}
    kept = []
    for record in reversed(held):
        if record.operation in (OperationType.APPEND, OperationType.CORRECT_TO) and left[record.row] > 0:
            left[record.row] -= 1
            kept.append(by_offset[record.offset])
    return kept[::-1]


def _output_query(transform: TransformSql) -> str:
    return transform.query if transform.query is not None else (transform.queries or ())[-1].query


def _is_in(row: dict[str, object], source: TransformRequestInput) -> bool:
    offset = row[source.vocabulary.offset]
    return isinstance(offset, int) and source.offsets.begin <= offset < source.offsets.end
