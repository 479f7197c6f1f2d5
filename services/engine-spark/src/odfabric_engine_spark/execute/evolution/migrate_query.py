"""The operation MigrateQuery: the transaction after a transform has changed.

Owns the way from the rows that the previous transform left to those of the next one: the next one is run over all that was read,
from the beginning and without a checkpoint, and the output gets what differs. Invariant (law L1): afterwards the net output is
the new query over the net inputs as they were read, and the new checkpoint is that of a dataset that never had another transform.
Nothing new is read. Rows that change are withdrawn and appended, not paired: two queries share no identity of rows.
Source: docs/engine.md#the-law-of-transforms; docs/engine.md#operations.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from odfabric.errors import InvalidRequest
from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.engine import MigrateRequest, SliceFile, TransformResult
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.evolution.changelog_difference import Changelog, Changes, difference, weights_of
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.slice_writer import SliceShape, write_transformed
from odfabric_engine_spark.spark.calls.call import EngineCall

_LIMIT = "migration_rows_max"
_RESULT = "migrated-result"


def migrate_query(request: MigrateRequest, call: EngineCall) -> TransformResult:
    """Runs the migration.

    Raises what a transaction raises, InvalidRequest for one that would not start from the beginning.
    """
    following = request.next
    if following.checkpoint_paths or any(one.offsets.begin for one in following.inputs):
        raise InvalidRequest("a migration reads its inputs from the beginning, without a checkpoint")
    scratch = call.scratch / _RESULT
    fresh = replace(following, next_offset=0, new_data_path=scratch.relative_to(call.exchange.root).as_posix())
    with call.exchange.outputs(following.new_data_path, following.new_checkpoint_path) as (data_path, _):
        result = execute_transform(fresh, call)
        call.progress("compare")
        shape = SliceShape(
            schema=data_schema_to_arrow(result.data_schema, encodings=False),
            vocabulary=following.vocabulary,
            system_time=following.system_time,
            next_offset=following.next_offset,
        )
        paths = [call.exchange.input(each.path) for each in _in_order(request.output)]
        batches = _records(
            _changelog(call, paths, shape), _changelog(call, [scratch] if result.offsets else [], shape), shape, call
        )
        written = write_transformed(call, batches, shape, output=data_path)
    return replace(result, offsets=written.offsets)


def _records(old: Changelog, new: Changelog, shape: SliceShape, call: EngineCall) -> Iterator[pa.RecordBatch]:
    maximum = call.settings.migration_rows_max
    for operation, rows in difference(old, new, rows_max=maximum, limit=_LIMIT):
        records = Records(np.full(rows.num_rows, operation, dtype=np.int32), rows)
        yield from records.batches(shape.vocabulary.operation_type)


def _changelog(call: EngineCall, paths: Sequence[Path], shape: SliceShape) -> Changelog:
    columns = _own_columns(shape.schema, shape.vocabulary)
    return lambda: (changes for path in paths for changes in _read(call, path, columns, shape.vocabulary))


def _read(call: EngineCall, path: Path, columns: pa.Schema, vocabulary: DatasetVocabulary) -> Iterator[Changes]:
    """Rows of a slice in the columns of the output.

    A column that it does not have yet is null.
    """
    with open_slice(path, vocabulary) as reader:
        for batch in reader.batches():
            call.check()
            there = set(batch.schema.names)
            arrays = [
                cast_array(batch.column(field.name), field.type)
                if field.name in there
                else pa.nulls(batch.num_rows, field.type)
                for field in columns
            ]
            operations = batch.column(vocabulary.operation_type).to_numpy(zero_copy_only=False).astype(np.int32)
            yield Changes(weights_of(operations), pa.Table.from_arrays(arrays, schema=columns))


def _own_columns(schema: pa.Schema, vocabulary: DatasetVocabulary) -> pa.Schema:
    hidden = (vocabulary.offset, vocabulary.operation_type, vocabulary.system_time)
    return pa.schema([field.with_nullable(True) for field in schema if field.name not in hidden])


def _in_order(output: Sequence[SliceFile]) -> list[SliceFile]:
    ordered = sorted(output, key=lambda each: each.offsets.begin)
    if ordered != list(output):
        raise InvalidRequest("slices of the output come oldest first")
    return ordered
