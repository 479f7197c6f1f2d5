"""The operation Ingest: files of users become one slice of a root dataset.

Owns the order of the steps - read, preprocess, check, merge, fill, write - and what an ingest says about its result. Invariant:
the result is a function of the request alone; whatever is wrong with the data is an error that names the place. Source:
specification, "Data Ingestion"; specification, "Merge Strategies".
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import types
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odfabric.errors import Corrupt, Determinate, InvalidData, InvalidRequest, OdfError, Place
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema, data_schema_to_arrow
from odfabric.formats.slices.column_names import WRONG_COLUMNS, name_problems
from odfabric.formats.slices.slice_schema import TIMESTAMP_TYPE, check_compatible, check_storable, new_slice_schema
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.instant import SECONDS_PER_DAY, Instant
from odfabric.model.source import (
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)
from odfabric_engine_spark.ingest.dataset_columns import DatasetColumns
from odfabric_engine_spark.ingest.merge.batch_keys import BatchRows, refused_key
from odfabric_engine_spark.ingest.merge.changelog_rows import refused_change
from odfabric_engine_spark.ingest.merge.counted_changes import row_changes
from odfabric_engine_spark.ingest.merge.strategies import merge_rows
from odfabric_engine_spark.ingest.plain_append import append_plain
from odfabric_engine_spark.ingest.preprocess import EVENT_TIME, Prepared, prepare, reserved_names
from odfabric_engine_spark.ingest.quarantine import set_apart
from odfabric_engine_spark.ingest.reader import InputFile, read_input
from odfabric_engine_spark.ingest.rejected_rows import RejectedRows
from odfabric_engine_spark.ingest.undeclared_event_times import refused_event_time
from odfabric_engine_spark.ingest.values.spark_times import whole_millis
from odfabric_engine_spark.rows.slice_reader import read_slices
from odfabric_engine_spark.rows.slice_writer import SliceShape, WrittenSlice, write_slice
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.failures import as_odf_error, spark_text
from odfabric_engine_spark.spark.frames.plain_rows import with_column
from odfabric_engine_spark.spark.frames.read_rows import InputRows, column, stopped_by
from odfabric_engine_spark.spark.frames.spark_types import spark_type
from odfabric_engine_spark.spark.session import interpret

_MILLIS_PER_DAY = SECONDS_PER_DAY * 1000


def ingest(request: IngestRequest, call: EngineCall) -> IngestResult:
    """Reads, preprocesses, merges and writes one slice.

    Raises InvalidData with the place of what is wrong, InvalidQuery, InvalidManifest, IncompatibleSchema, LimitExceeded;
    Corrupt for a damaged slice of the history.
    """
    if len(request.data_paths) != len(request.file_names):
        raise InvalidRequest("an ingest names every file exactly once")
    files = tuple(
        InputFile(call.exchange.input(path), name)
        for path, name in zip(request.data_paths, request.file_names, strict=True)
    )
    try:
        return _taken_in(request, files, call)
    except InvalidData:
        if request.rejected_path is None:
            raise
        again = replace(call, scratch=call.scratch / "again")
        again.scratch.mkdir()
        rejected = RejectedRows(call.exchange.output(request.rejected_path), request.rejected_rows_max)
        with closing(rejected):
            files = set_apart(
                request.read,
                files,
                again,
                rejected,
                contract=request.contract,
                preprocessed=request.preprocess is not None,
            )
        if not rejected.count:
            raise
    return replace(_taken_in(request, files, again), rejected=rejected.count)


def _taken_in(request: IngestRequest, files: tuple[InputFile, ...], call: EngineCall) -> IngestResult:
    work = _Work(request, call)
    try:
        return work.run(files)
    except (PySparkException, Py4JError) as error:
        raise work.explained(error) from error


@dataclass(slots=True)
class _Work:
    """One ingest on its way.

    What it has come to decides what a failure of Spark means.
    """

    request: IngestRequest
    call: EngineCall
    read: InputRows | None = None
    prepared: InputRows | None = None

    def run(self, files: tuple[InputFile, ...]) -> IngestResult:
        """All steps. Raises Spark's exceptions as they are."""
        request, call = self.request, self.call
        self.read = read_input(
            request.read,
            files,
            call,
            DatasetColumns.of(request),
            contract=request.contract,
            preprocessed=request.preprocess is not None,
        )
        if self.read is None:
            return IngestResult(offsets=None, data_schema=None, max_event_time=None)
        if self.read.bytes < call.settings.compiled_bytes_min:
            interpret(call.session)
        if not _may_be_plain(request):
            self.read = self.read.checked()
        prepared = prepare(
            self.read, request.preprocess, strategy=request.merge, vocabulary=request.vocabulary, call=call
        )
        self.prepared = prepared.rows
        return _merge_and_write(request, prepared, call)

    def explained(self, error: Exception) -> Exception:
        """What stopped Spark, as the user's error where it is one; else the error itself."""
        text = spark_text(error)
        stopped = stopped_by(text)
        if stopped is not None:
            return self._of_kind(*stopped) or error
        known = as_odf_error(error)
        if isinstance(known, Corrupt):
            # What is no slice of the history is a file that this ingest has made itself a moment ago.
            names = {item.path.rpartition("/")[2] for item in self.request.history}
            if known.object_name in names:
                return Corrupt("A data slice of the history is damaged", object_name=known.object_name)
            return Determinate("a scratch file of the engine could not be read")
        if isinstance(known, InvalidData) and self.request.preprocess is not None and self.prepared is not None:
            known = (self.prepared.explain() if self.prepared.explain is not None else None) or known
        return known or error

    def _of_kind(self, kind: str, details: list[int]) -> OdfError | None:
        if self.prepared is None:
            return None
        if kind == EVENT_TIME and self.read is not None:
            return refused_event_time(self.read, self.request.vocabulary.event_time, details[0])
        if isinstance(self.request.merge, MergeStrategyAppend):
            return None
        batch = BatchRows(self.prepared.frame, self.request.merge.primary_key, self.prepared.locate)
        return refused_key(kind, details, batch) or refused_change(kind, details, batch)


def _merge_and_write(request: IngestRequest, prepared: Prepared, call: EngineCall) -> IngestResult:
    vocabulary = request.vocabulary
    check_input(prepared.rows.schema, request)
    if request.data_schema is None:
        _check_names(prepared.rows.schema, request, bytes_max=call.settings.column_name_bytes_max)
    rows = with_event_time(normalised(prepared.rows), request)
    schema = _slice_schema(_in_order_of_dataset(rows, request), request)
    call.progress("merge")
    shape = SliceShape(
        schema=schema, vocabulary=vocabulary, system_time=request.system_time, next_offset=request.next_offset
    )
    written = _written_plain(request, rows, shape, call) or _merged(request, prepared, rows, shape, call)
    return IngestResult(
        offsets=written.offsets,
        data_schema=arrow_to_data_schema(schema),
        max_event_time=written.max_event_time,
        renamed=prepared.renamed,
        changes=row_changes(request.merge, written.operations, given=_count(rows, request, call)),
        undeclared=rows.undeclared,
        found=None if rows.found is None else arrow_to_data_schema(rows.found),
    )


def _written_plain(request: IngestRequest, rows: InputRows, shape: SliceShape, call: EngineCall) -> WrittenSlice | None:
    """The slice of rows that need no Spark; None if they do.

    What Spark has to judge, it judges while they are written.
    """
    if not _may_be_plain(request):
        return None
    output = call.exchange.output(request.new_data_path)
    append = partial(append_plain, rows, shape, request.event_time_fallback, call, output=output)
    if rows.check is None:
        return append()
    with ThreadPoolExecutor(1) as beside:
        writing = beside.submit(append)
        try:
            rows.check()
        except BaseException:
            wait([writing])
            output.unlink(missing_ok=True)
            raise
        return writing.result()


def _may_be_plain(request: IngestRequest) -> bool:
    """Whether rows may become a slice as they are."""
    return isinstance(request.merge, MergeStrategyAppend) and request.preprocess is None


def _merged(
    request: IngestRequest, prepared: Prepared, rows: InputRows, shape: SliceShape, call: EngineCall
) -> WrittenSlice:
    """The slice that Spark makes of `rows`: those of `prepared` as slices hold them."""
    schema, vocabulary = shape.schema, shape.vocabulary
    history = None if isinstance(request.merge, MergeStrategyAppend) else _history(request, schema, call)
    merged = merge_rows(
        request.merge, rows.frame, history, schema=rows.schema, vocabulary=vocabulary, ordered=prepared.ordered
    )
    return write_slice(
        call,
        _filled(merged.frame, request, schema),
        shape,
        order=(*merged.order, *prepared.ties),
        output=call.exchange.output(request.new_data_path),
        bytes_estimate=rows.bytes,
    )


def _count(rows: InputRows, request: IngestRequest, call: EngineCall) -> int | None:
    """How many rows went to the merge, None if counting means reading them again.

    Those of a Snapshot are counted anyway: what it may lose depends on how many there were.
    """
    if rows.count is not None or isinstance(request.merge, MergeStrategyAppend):
        return rows.count
    is_quick = rows.bytes <= call.settings.collected_bytes_max
    return rows.frame.count() if is_quick or isinstance(request.merge, MergeStrategySnapshot) else None


def check_input(schema: pa.Schema, request: IngestRequest) -> None:
    """Refuses columns with names of system columns, and event times that are no times.

    Raises InvalidData.
    """
    vocabulary = request.vocabulary
    for name in reserved_names(request.merge, vocabulary):
        if name in schema.names:
            raise InvalidData(
                f"Data contains a column that conflicts with the system column name `{name}`",
                place=Place(field=name, rule=WRONG_COLUMNS),
                hint="rename it in a preprocess query, or rename the system column by SetVocab",
            )
    index = schema.get_field_index(vocabulary.event_time)
    if index >= 0:
        kind = schema.field(index).type
        if not (types.is_date(kind) or types.is_timestamp(kind)):
            raise InvalidData(
                f"Event time column `{vocabulary.event_time}` must be a Date or Timestamp, but is {kind}",
                place=Place(field=vocabulary.event_time, rule=WRONG_COLUMNS),
                hint="declare it as Timestamp in the read schema, or cast it in a preprocess query",
            )


def _check_names(schema: pa.Schema, request: IngestRequest, *, bytes_max: int) -> None:
    """Refuse names that a new dataset cannot have, before its first slice.

    Raises InvalidData, LimitExceeded.
    """
    columns = arrow_to_data_schema(schema)
    for problem in name_problems(columns, request.vocabulary, bytes_max=bytes_max, known=request.known_columns):
        raise problem.error(bytes_max=bytes_max)


def normalised(rows: InputRows) -> InputRows:
    """Rows whose timestamps are whole milliseconds in UTC, as slices hold them."""
    stamped = [item for item in rows.schema if types.is_timestamp(item.type)]
    if not stamped:
        return rows
    fields = [item.with_type(TIMESTAMP_TYPE) if types.is_timestamp(item.type) else item for item in rows.schema]

    def of_frame(frame: DataFrame) -> DataFrame:
        times = {item.name: whole_millis(column(item.name).cast("timestamp")) for item in stamped}
        return frame.withColumns(times)

    def of_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
        for item in stamped:
            if item.type != TIMESTAMP_TYPE:
                batch = with_column(item.name, _floored)(batch)
        return batch

    return rows.changed(pa.schema(fields), of_frame, of_batch)


def _floored(times: pa.Array) -> pa.Array:
    return cast_array(times.cast(pa.timestamp(times.type.unit, "UTC")), TIMESTAMP_TYPE, safe=False)


def with_event_time(rows: InputRows, request: IngestRequest) -> InputRows:
    """Rows with an event time column of the dataset's type, null where missing."""
    name = request.vocabulary.event_time
    if name in rows.schema.names:
        return rows
    kind = TIMESTAMP_TYPE
    if request.data_schema is not None:
        known = data_schema_to_arrow(request.data_schema, encodings=False)
        kind = known.field(name).type if name in known.names else kind
    return rows.changed(
        rows.schema.append(pa.field(name, kind)),
        lambda frame: frame.withColumn(name, F.lit(None).cast(spark_type(kind, name))),
        lambda batch: batch.append_column(name, pa.nulls(batch.num_rows, kind)),
    )


def _in_order_of_dataset(rows: InputRows, request: IngestRequest) -> pa.Schema:
    """The columns of rows.

    Where nobody declared them their order means nothing, and they are put in that of the dataset.
    """
    if rows.declared or request.data_schema is None:
        return rows.schema
    places = {name: place for place, name in enumerate(item.name for item in request.data_schema.fields)}
    return pa.schema(sorted(rows.schema, key=lambda item: places.get(item.name, len(places))))


def _slice_schema(schema: pa.Schema, request: IngestRequest) -> pa.Schema:
    """The schema of the slice: the dataset's if it has one. Raises IncompatibleSchema."""
    vocabulary = request.vocabulary
    data_columns = [item for item in schema if item.name not in (vocabulary.event_time, vocabulary.operation_type)]
    event_time_type = schema.field(vocabulary.event_time).type
    found = new_slice_schema(data_columns, vocabulary=vocabulary, event_time_type=event_time_type)
    check_storable(arrow_to_data_schema(found))
    if request.data_schema is None:
        return found
    dataset = data_schema_to_arrow(request.data_schema, encodings=False)
    check_compatible(
        found,
        dataset,
        hint="columns that are declared in the schema of the read step may be left out by rows: they are null",
    )
    return dataset


def _history(request: IngestRequest, schema: pa.Schema, call: EngineCall) -> DataFrame | None:
    if not request.history:
        return None
    wanted = [item for item in schema if item.name != request.vocabulary.system_time]
    if isinstance(request.merge, MergeStrategyLedger):
        wanted = [item for item in wanted if item.name in request.merge.primary_key]
    if isinstance(request.merge, MergeStrategyChangelogStream):
        names = request.vocabulary
        needed = (*request.merge.primary_key, names.offset, names.operation_type, names.event_time)
        wanted = [item for item in wanted if item.name in needed]
    return read_slices(call, request.history, pa.schema(wanted))


def _filled(frame: DataFrame, request: IngestRequest, schema: pa.Schema) -> DataFrame:
    """Rows without an event time get that of the source."""
    name = request.vocabulary.event_time
    return frame.withColumn(
        name, F.coalesce(column(name), _literal(request.event_time_fallback, schema.field(name).type))
    )


def _literal(instant: Instant, kind: pa.DataType) -> Column:
    if types.is_date(kind):
        return F.date_from_unix_date(F.lit(instant.millis // _MILLIS_PER_DAY))
    return F.timestamp_millis(F.lit(instant.millis).cast("bigint"))
