"""The operation ExecuteTransform: next slice, checkpoint and watermark.

Owns the order of a transaction: judge the query, read the checkpoint, run, write slice and checkpoint. Invariant: the outcome
is a function of the request alone, byte by byte, and a request that does not continue its checkpoint is refused.
Source: docs/engine.md#the-law-of-transforms; docs/engine.md#checkpoints; docs/engine.md#rows-that-fail;
docs/engine.md#output-watermark.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidData, InvalidRequest, Place
from odfabric.model.engine import TransformRequest, TransformResult
from odfabric.model.instant import Instant
from odfabric_engine_spark.compile.compile_query import JudgedTransform, input_tables, judged_transform
from odfabric_engine_spark.execute.changed_input_columns import (
    check_columns,
    columns_text,
    discontinued,
    in_known_order,
)
from odfabric_engine_spark.execute.staged_transaction import (
    StagedTransaction,
    StageStates,
    state_columns,
)
from odfabric_engine_spark.operators.row_wise.record_transaction import linear_records
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.rows.block_steps import Timeline, timeline
from odfabric_engine_spark.rows.change_records import Records
from odfabric_engine_spark.rows.failing_rows import FailedRows
from odfabric_engine_spark.rows.input_scan import ScanRows
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.rows.slice_writer import SliceShape, write_transformed
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.memory_limit import TransactionSize
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan
from odfabric_engine_spark.spark.failures import as_odf_error
from odfabric_engine_spark.sql.constants.failing_constants import at_failing_constant
from odfabric_engine_spark.sql.gate import steps_of
from odfabric_engine_spark.sql.query_equivalence import says_the_same
from odfabric_engine_spark.sql.refusal import Refused
from odfabric_engine_spark.state.checkpoint import (
    Checkpoint,
    InputPosition,
    StoredCheckpoint,
    read_checkpoint,
    write_checkpoint,
)
from odfabric_engine_spark.state.stored_runs import StateToStore, StateWork


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A request whose query is judged and whose checkpoint is read."""

    request: TransformRequest
    tables: Mapping[str, InputTable]
    judged: JudgedTransform
    shape: OutputShape
    fingerprint: str
    checkpoint: StoredCheckpoint | None
    line: Timeline


@dataclass(frozen=True, slots=True)
class _Left:
    """What a transaction leaves: named states, how complete the output is (None: not)."""

    states: Mapping[str, StateToStore]
    late_rows_dropped: int
    complete_to: Instant | None


def execute_transform(request: TransformRequest, call: EngineCall) -> TransformResult:
    """Runs one transaction.

    Raises InvalidQuery, IncompatibleSchema, InvalidData (also for a checkpoint that is not ours), InvalidRequest,
    LimitExceeded.
    """
    call.progress("validate")
    transaction = _prepare(request, call)
    try:
        return _attempt(transaction, call, consolidated=False)
    except (PySparkException, Py4JError, InvalidData, FailedRows) as error:
        if not _may_be_taken_back(transaction, call, error):
            raise _told(error, call, transaction.judged.plan) from None
    try:
        return _attempt(transaction, call, consolidated=True)
    except (PySparkException, Py4JError, InvalidData, FailedRows) as error:
        raise _told(error, call, transaction.judged.plan) from None


def _told(error: BaseException, call: EngineCall, plan: Plan) -> BaseException:
    """The failure, with the rows to blame if they are known, or the constant."""
    if not isinstance(error, FailedRows):
        return at_failing_constant(error, Catalyst(call.session), plan)
    told = error.told(call.check)
    if not isinstance(told, InvalidData) or told.place != Place():
        return told
    constant = at_failing_constant(error.error, Catalyst(call.session), plan)
    return InvalidData(told.message, place=getattr(constant, "place", told.place), hint=told.hint)


def _prepare(request: TransformRequest, call: EngineCall) -> _Transaction:
    steps = steps_of(request.transform)
    tables = input_tables([(one.query_alias, one.vocabulary, one.data_schema) for one in request.inputs])
    try:
        judged = judged_transform(call, request.transform, tables, request.vocabulary)
    except Refused as refused:
        raise refused.error([step.query for step in steps]) from None
    shape = judged.shape.fitted(request.data_schema)
    fingerprint = _fingerprint(request, judged)
    checkpoint = _opened(request, call, judged)
    if checkpoint is not None:
        check_columns(request, checkpoint.inputs, judged, call)
        known = in_known_order(request, checkpoint.inputs)
        if known != request:
            return _prepare(known, call)
        _check_continues(request, call, judged, checkpoint, fingerprint)
    before = [None] * len(request.inputs) if checkpoint is None else [each.watermark for each in checkpoint.inputs]
    return _Transaction(request, tables, judged, shape, fingerprint, checkpoint, timeline(request.inputs, before))


def _attempt(transaction: _Transaction, call: EngineCall, *, consolidated: bool) -> TransformResult:
    judged, request = transaction.judged, transaction.request
    query = judged.query
    if isinstance(query, LinearQuery):
        rows = ScanRows(
            query.scans,
            judged.needed,
            tables=transaction.tables,
            inputs=request.inputs,
            call=call,
            consolidated=consolidated,
        )
        found = linear_records(query, transaction.shape, rows, transaction.tables, call)
        return _write(transaction, call, found, lambda: _Left({}, 0, transaction.line.watermark))
    running = StagedTransaction(
        query,
        transaction.shape,
        StageStates(transaction.checkpoint, StateWork.of(call)),
        tables=transaction.tables,
        inputs=request.inputs,
        size=TransactionSize(request.bytes_in_hand_max),
        call=call,
        consolidated=consolidated,
        first=transaction.checkpoint is None,
    )

    def left() -> _Left:
        return _Left(running.states, running.late_rows_dropped, running.open_from(transaction.line.watermark))

    try:
        return _write(transaction, call, running.records(transaction.line), left)
    finally:
        running.close()


def _write(
    transaction: _Transaction, call: EngineCall, found: Generator[Records], left: Callable[[], _Left]
) -> TransformResult:
    """Write the slice of records and the checkpoint `left` after them.

    The end of the slice is encoded meanwhile.
    """
    request = transaction.request
    shape = SliceShape(
        schema=transaction.shape.slice,
        vocabulary=request.vocabulary,
        system_time=request.system_time,
        next_offset=request.next_offset,
    )
    ends: list[tuple[_Left, Future[Checkpoint]]] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for records in found:
            yield from records.batches(request.vocabulary.operation_type)
        end = left()
        ends.append((end, beside.submit(_write_checkpoint, transaction, end, checkpoint_path)))

    # However this ends, nothing that makes records or writes runs afterwards, and no file is left without the other.
    with (
        call.exchange.outputs(request.new_data_path, request.new_checkpoint_path) as (data_path, checkpoint_path),
        closing(found),
        ThreadPoolExecutor(1) as beside,
    ):
        offsets = write_transformed(call, batches(), shape, output=data_path).offsets
        call.progress("checkpoint")
        ((end, written),) = ends
        checkpoint = written.result()
    return TransformResult(
        offsets=offsets,
        watermark=checkpoint.watermark,
        data_schema=transaction.shape.data_schema,
        late_rows_dropped=end.late_rows_dropped,
    )


def _write_checkpoint(transaction: _Transaction, left: _Left, path: Path) -> Checkpoint:
    """Writes what a transaction has left, and gives it."""
    request = transaction.request
    known = (request.prev_watermark, _watermark_of(transaction.checkpoint), left.complete_to)
    positions = tuple(
        InputPosition(
            dataset_id=str(one.dataset_id),
            next_offset=one.offsets.end,
            watermark=mark,
            columns=columns_text(one.data_schema),
        )
        for one, mark in zip(request.inputs, transaction.line.after, strict=True)
    )
    checkpoint = Checkpoint(
        fingerprint=transaction.fingerprint,
        inputs=positions,
        watermark=max((mark for mark in known if mark is not None), default=None),
        states=left.states,
    )
    write_checkpoint(path, checkpoint, after=transaction.checkpoint)
    return checkpoint


def _opened(request: TransformRequest, call: EngineCall, judged: JudgedTransform) -> StoredCheckpoint | None:
    """The previous checkpoint with those that it builds on.

    Without hashes it stands alone, and nothing builds on it.
    """
    paths, hashes = request.checkpoint_paths, [str(each) for each in request.checkpoint_hashes]
    if not paths:
        began = next((one for one in request.inputs if one.offsets.begin), None)
        if began is not None and not isinstance(judged.query, LinearQuery):
            raise discontinued(f"input {began.query_alias} begins at offset {began.offsets.begin} without a checkpoint")
        return None
    if len(hashes) != len(paths) and (hashes or len(paths) > 1):
        raise InvalidRequest("a checkpoint that builds on others needs the hash of each")
    files = [call.exchange.input(path) for path in paths]
    bases = dict(zip(hashes[1:], files[1:], strict=True))
    own_hash = hashes[0] if hashes else None
    return read_checkpoint(files[0], name=paths[0], own_hash=own_hash, bases=bases, mapped=call.mapped)


def _check_continues(
    request: TransformRequest,
    call: EngineCall,
    judged: JudgedTransform,
    checkpoint: StoredCheckpoint,
    fingerprint: str,
) -> None:
    """Raises InvalidData unless a transaction can continue from the checkpoint."""
    same_inputs = [each.dataset_id for each in checkpoint.inputs] == [str(one.dataset_id) for one in request.inputs]
    known = checkpoint.fingerprint == fingerprint or _is_of_previous(request, call, judged, checkpoint.fingerprint)
    if not same_inputs or not known:
        raise discontinued(
            "the checkpoint was made by another query, over other inputs, or by an engine that kept other rows"
        )
    for one, position in zip(request.inputs, checkpoint.inputs, strict=True):
        if one.offsets.begin != position.next_offset:
            raise discontinued(
                f"input {one.query_alias} continues at offset {position.next_offset}, not at {one.offsets.begin}"
            )


def _is_of_previous(request: TransformRequest, call: EngineCall, judged: JudgedTransform, fingerprint: str) -> bool:
    """Whether a checkpoint is of an earlier transform with the same meaning."""
    previous = request.previous
    if previous is None or fingerprint != _fingerprint(replace(request, transform=previous), judged):
        return False
    return says_the_same(call.session, previous, request.transform)


def _fingerprint(request: TransformRequest, judged: JudgedTransform) -> str:
    """Fingerprint of a state: statements, inputs with names, the state's columns."""
    state = [] if isinstance(judged.query, LinearQuery) else state_columns(judged.query)
    known = {
        "queries": [[step.alias, step.query] for step in steps_of(request.transform)],
        "inputs": [[str(one.dataset_id), one.query_alias] for one in request.inputs],
        "state": state,
    }
    return hashlib.sha3_256(json.dumps(known, sort_keys=True).encode()).hexdigest()


def _watermark_of(checkpoint: StoredCheckpoint | None) -> Instant | None:
    return None if checkpoint is None else checkpoint.watermark


def _may_be_taken_back(transaction: _Transaction, call: EngineCall, error: BaseException) -> bool:
    """Whether the interval may withdraw the failed row.

    Only rows are to blame, and few enough to be compared.
    """
    rows = sum(len(one.offsets) for one in transaction.request.inputs)
    known = as_odf_error(error.error if isinstance(error, FailedRows) else error)
    return isinstance(known, InvalidData) and rows <= call.settings.taken_back_rows_max
