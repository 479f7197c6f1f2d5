"""The gRPC service: messages in, messages out.

Owns the stream of each call: progress, then exactly one terminal message. Invariant: whatever an operation raises, the caller
gets a failure of the closed tree, or the status INTERNAL without details for a bug of ours, which the log gives in full.
Not here: threads and deadlines (`running_calls`), the forms of messages (`odfabric.formats.engine_messages.engine_wire`).
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Generic, TypeVar, cast

import grpc

from odfabric.errors import Determinate, LimitExceeded, OdfError
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.formats.engine_messages import judgement_wire, provenance_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import EngineInfo, EngineProgress, TransformResult, ValidateRequest
from odfabric.model.provenance import ProvenanceRequest
from odfabric_engine_spark.serve import operations
from odfabric_engine_spark.serve.crash_points import INGEST_BEFORE_RESULT, TRANSFORM_BEFORE_RESULT, crash_point
from odfabric_engine_spark.serve.running_calls import CallRunner
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.cluster.executors import Executors
from odfabric_engine_spark.spark.settings import EngineSettings

MessageT = TypeVar("MessageT")
RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

_ANSWER_SHARE = 0.5
"""Share of a short deadline that is work; the rest is for the answer to arrive."""
_PRECISE_S = 10.0
"""Deadlines from here on are reported in whole seconds: gRPC sends them rounded upwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """A call's time limit, and the limit's name when it does not suffice."""

    seconds: float
    limit: str
    maximum: float

    def exceeded(self) -> LimitExceeded:
        """The answer when the time is over."""
        return LimitExceeded("the engine was stopped: it took too long", limit=self.limit, maximum=self.maximum)


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that ends with a failure."""

    error: OdfError


@dataclass(frozen=True, slots=True)
class Lost:
    """A call that a dying engine takes with it."""

    error: Determinate

    @property
    def details(self) -> str:
        """What the status of the call says."""
        return wire.LOST_TO_OTHERS if self.error.blameless else wire.BROKE_DOWN


@dataclass(frozen=True, slots=True)
class Broken:
    """A call that a bug of ours has ended; the log says which."""


@dataclass(frozen=True, slots=True)
class Done(Generic[ResultT]):
    """A call that ends with a result."""

    result: ResultT


class EngineServicer(engine_pb2_grpc.EngineServiceServicer):
    """Answers the calls of the contract."""

    def __init__(
        self, runner: CallRunner, *, info: EngineInfo, settings: EngineSettings, executors: Executors | None = None
    ) -> None:
        self._runner = runner
        self._info = info
        self._settings = settings
        self._executors = executors

    def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
        """Also the health check: it answers as long as the engine can take calls."""
        if self._runner.ending:
            context.abort(grpc.StatusCode.UNAVAILABLE, wire.ENDS)
        if self._executors is None:
            return wire.info_to_wire(self._info)
        return wire.info_to_wire(replace(self._info, executors=self._executors.count))

    def Ingest(self, request: pb.IngestRequest, context: grpc.ServicerContext) -> Iterator[pb.IngestResponse]:
        """Reads, merges, writes one slice."""
        for event in self._events(wire.ingest_request_from_wire, operations.ingest, request, context):
            match event:
                case EngineProgress():
                    yield pb.IngestResponse(progress=wire.progress_to_wire(event))
                case Refused(error=error):
                    yield pb.IngestResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    crash_point(INGEST_BEFORE_RESULT, armed=self._settings.crash_at)
                    yield pb.IngestResponse(success=wire.ingest_result_to_wire(result))

    def ExecuteTransform(
        self, request: pb.ExecuteTransformRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.ExecuteTransformResponse]:
        """Runs one transaction of a derivative dataset."""
        for event in self._events(wire.transform_request_from_wire, operations.execute_transform, request, context):
            match event:
                case EngineProgress():
                    yield pb.ExecuteTransformResponse(progress=wire.progress_to_wire(event))
                case Refused(error=error):
                    yield pb.ExecuteTransformResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    crash_point(TRANSFORM_BEFORE_RESULT, armed=self._settings.crash_at)
                    yield pb.ExecuteTransformResponse(success=self._transformed(result))

    def MigrateQuery(
        self, request: pb.MigrateQueryRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.MigrateQueryResponse]:
        """Runs the transaction after a change of a transform."""
        for event in self._events(wire.migrate_request_from_wire, operations.migrate_query, request, context):
            match event:
                case EngineProgress():
                    yield pb.MigrateQueryResponse(progress=wire.progress_to_wire(event))
                case Refused(error=error):
                    yield pb.MigrateQueryResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    crash_point(TRANSFORM_BEFORE_RESULT, armed=self._settings.crash_at)
                    yield pb.MigrateQueryResponse(success=self._transformed(result))

    def DeriveProvenance(
        self, request: pb.DeriveProvenanceRequest, context: grpc.ServicerContext
    ) -> Iterator[pb.DeriveProvenanceResponse]:
        """Explains records of a derivative dataset."""
        decode = provenance_wire.provenance_request_from_wire
        for event in self._events(decode, operations.derive_provenance, request, context):
            match event:
                case EngineProgress():
                    yield pb.DeriveProvenanceResponse(progress=wire.progress_to_wire(event))
                case Refused(error=error):
                    yield pb.DeriveProvenanceResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    made = replace(result, made_by=self._info.identity)
                    yield pb.DeriveProvenanceResponse(success=provenance_wire.provenance_result_to_wire(made))

    def _transformed(self, result: TransformResult) -> pb.ExecuteTransformSuccess:
        return wire.transform_result_to_wire(replace(result, made_by=self._info.identity))

    def Query(self, request: pb.QueryRequest, context: grpc.ServicerContext) -> Iterator[pb.QueryResponse]:
        """Runs a read-only query."""
        for event in self._events(wire.query_request_from_wire, operations.run_query, request, context):
            match event:
                case EngineProgress():
                    yield pb.QueryResponse(progress=wire.progress_to_wire(event))
                case Refused(error=error):
                    yield pb.QueryResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    yield pb.QueryResponse(success=wire.query_result_to_wire(result))

    def ValidateQuery(
        self, request: pb.ValidateQueryRequest, context: grpc.ServicerContext
    ) -> pb.ValidateQueryResponse:
        """Judges a transform without data."""
        for event in self._events(wire.validate_request_from_wire, operations.judge_with_lineage, request, context):
            match event:
                case EngineProgress():
                    continue
                case Refused(error=error):
                    return pb.ValidateQueryResponse(failure=wire.failure_to_wire(error))
                case Done(result=result):
                    return judgement_wire.validate_result_to_wire(result)
        raise AssertionError("a call ends with an event")

    def _events(
        self,
        decode: Callable[[MessageT], RequestT],
        operation: Callable[[RequestT, EngineCall], ResultT],
        message: MessageT,
        context: grpc.ServicerContext,
    ) -> Iterator[EngineProgress | Refused | Done[ResultT]]:
        """Progress, then the result or the error of a call.

        A bug of ours ends the call with INTERNAL, a dying engine with UNAVAILABLE.
        """
        if self._runner.ending:
            context.abort(grpc.StatusCode.UNAVAILABLE, wire.ENDS)
        context.send_initial_metadata((wire.TAKEN,))
        for event in self.events(decode, operation, message, context):
            if isinstance(event, Broken):
                context.abort(grpc.StatusCode.INTERNAL, wire.BUG)
            elif isinstance(event, Lost):
                context.abort(grpc.StatusCode.UNAVAILABLE, event.details)
            else:
                yield event

    def events(
        self,
        decode: Callable[[MessageT], RequestT],
        operation: Callable[[RequestT, EngineCall], ResultT],
        message: MessageT,
        context: grpc.ServicerContext,
    ) -> Iterator[EngineProgress | Refused | Lost | Broken | Done[ResultT]]:
        """Progress, then exactly one end of a call, for any form of messages."""
        try:
            request = decode(message)
            wall = wall_of(request, self._settings, context.time_remaining())
            run = self._runner.run(
                lambda call: operation(request, call),
                output=_output(request),
                wall_s_max=wall.seconds,
                limit=wall.exceeded,
                caller_waits=context.is_active,
            )
        except OdfError as error:
            yield Refused(error)
            return
        for event in run:
            if isinstance(event, EngineProgress):
                yield event
            elif event.bug is not None:
                report(event.bug)
                yield Broken()
            elif event.lost is not None:
                if event.cause is not None:
                    report(event.cause)
                yield Lost(event.lost)
            elif event.error is not None:
                if event.cause is not None:
                    report(event.cause)
                yield Refused(event.error)
            else:
                yield Done(cast(ResultT, event.result))


def wall_of(request: object, settings: EngineSettings, remaining_s: float | None) -> Wall:
    """The least time limit of engine, caller (`remaining_s`) and request, by name.

    The name is the one that the caller knows.
    """
    longest = settings.call_s_max
    wall = Wall(seconds=longest, limit="call_s_max", maximum=longest)
    if remaining_s is not None and remaining_s < longest:
        # Ended a little before the caller stops listening, so that it hears why.
        before = max(remaining_s - settings.grace_s - 1, remaining_s * _ANSWER_SHARE)
        limit = "engine_validate_s_max" if isinstance(request, ValidateRequest) else "engine_call_s_max"
        wall = Wall(seconds=before, limit=limit, maximum=round(remaining_s, 0 if remaining_s >= _PRECISE_S else 1))
    asked_ms = getattr(request, "wall_ms_max", None)
    if asked_ms is not None and asked_ms / 1000 < wall.seconds:
        limit = "provenance_wall_s_max" if isinstance(request, ProvenanceRequest) else "query_wall_s_max"
        wall = Wall(seconds=asked_ms / 1000, limit=limit, maximum=asked_ms / 1000)
    return wall


def _output(request: object) -> str | None:
    names = ("new_data_path", "output_path", "output_data_path")
    path = next((found for name in names if (found := getattr(request, name, None))), None)
    return str(path) if path else None


def report(error: BaseException) -> None:
    """Writes a bug to the log."""
    # On a full disk the log cannot be written either; anyone who asked is to hear of it nevertheless.
    with suppress(OSError):
        sys.stderr.write("".join(traceback.format_exception(error)))
        sys.stderr.flush()
