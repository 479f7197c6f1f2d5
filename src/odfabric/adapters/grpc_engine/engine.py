"""The engine port over gRPC.

Owns the channel, the token, deadlines, and what a broken connection means. Invariant: results are pure and commit nothing, so
whatever breaks on the way is Determinate: the same request may be repeated on another engine. Not here: how an engine is
found or started (`adapters.engine_process`), who repeats a call (`patient`), the forms of messages (`formats.engine_messages.engine_wire`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum, auto
from types import TracebackType
from typing import NoReturn, Protocol, TypeVar

import grpc

from odfabric.errors import Determinate, LimitExceeded, Unauthenticated
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.formats.engine_messages import judgement_wire, provenance_wire
from odfabric.formats.engine_messages.grpc_target import grpc_target
from odfabric.formats.operations.trace_context import HEADER as TRACE_HEADER
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import (
    EngineInfo,
    IngestRequest,
    IngestResult,
    MigrateRequest,
    QueryRequest,
    QueryResult,
    TransformRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.provenance import ProvenanceRequest, ProvenanceResult
from odfabric.ports.engine import ProgressListener

MessageT = TypeVar("MessageT")
SuccessT = TypeVar("SuccessT", covariant=True)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChannel:
    """Where the engine is and how long to wait for it.

    `address` is `host:port` or `unix:path`. `call_s_max` bounds ingests and transforms, `short_s_max` calls without data;
    `grace_s` is added so that the engine can answer that a limit was hit.
    """

    address: str
    token: str
    call_s_max: float
    short_s_max: float = 60.0
    grace_s: float = 12.0
    message_bytes_max: int = 16 * 1024 * 1024
    traceparent: Callable[[], str | None] = lambda: None
    """The trace that a call belongs to, asked for each."""


class Loss(Enum):
    """How a call came to have no engine."""

    AWAY = auto()
    """It never came to an engine."""
    OTHERS = auto()
    """The engine that had it ended, but not because of this call."""
    BROKE_DOWN = auto()
    """The engine that had it, or the connection, broke down; the call may be the reason."""


class _StreamMessage(Protocol[SuccessT]):
    """A message of a stream: progress, or one of the two ends."""

    @property
    def progress(self) -> pb.Progress: ...
    @property
    def success(self) -> SuccessT: ...
    @property
    def failure(self) -> pb.Failure: ...
    def WhichOneof(self, oneof_group: str) -> str | None: ...


class GrpcEngine:
    """Implements `ports.engine.Engine`.

    Thread-safe; close it, or use it as a context manager.
    """

    def __init__(self, channel: EngineChannel) -> None:
        self._settings = channel
        limit = channel.message_bytes_max
        self._channel = grpc.insecure_channel(
            grpc_target(channel.address),
            options=(
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
                ("grpc.enable_http_proxy", 0),  # an engine is never behind the proxy of the environment
                ("grpc.initial_reconnect_backoff_ms", 100),
                ("grpc.max_reconnect_backoff_ms", 1_000),  # an engine that gave itself up is back in seconds
                ("grpc.use_local_subchannel_pool", 1),  # a closed connection is not shared with later channels
            ),
        )
        self._token = ("authorization", f"Bearer {channel.token}")
        self._stub = engine_pb2_grpc.EngineServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """Ends calls under way and the connection."""
        self._channel.close()

    def __enter__(self) -> GrpcEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def info(self) -> EngineInfo:
        """Name, version and digest."""
        return wire.info_from_wire(self._single(self._stub.GetInfo, pb.GetInfoRequest()))

    def answers(self, *, wait_s: float) -> bool:
        """Whether an engine takes calls, or does so within `wait_s`."""
        try:
            self._stub.GetInfo(pb.GetInfoRequest(), timeout=wait_s, metadata=self._metadata(), wait_for_ready=True)
        except grpc.RpcError as error:
            # One that refuses our token takes calls; who makes one hears of the token.
            return bool(error.code() == grpc.StatusCode.UNAUTHENTICATED)
        return True

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """Read, preprocess, merge, write one slice."""
        message = wire.ingest_request_to_wire(request)
        return wire.ingest_result_from_wire(
            self._stream(self._stub.Ingest, message, progress, self._settings.call_s_max)
        )

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """One incremental transaction."""
        message = wire.transform_request_to_wire(request)
        success = self._stream(self._stub.ExecuteTransform, message, progress, self._settings.call_s_max)
        return wire.transform_result_from_wire(success)

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """Judge a transform without data."""
        message = wire.validate_request_to_wire(request)
        return judgement_wire.validate_result_from_wire(self._single(self._stub.ValidateQuery, message))

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """The transaction after a change of a transform."""
        message = wire.migrate_request_to_wire(request)
        success = self._stream(self._stub.MigrateQuery, message, progress, self._settings.call_s_max)
        return wire.transform_result_from_wire(success)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """Run a read-only query."""
        message = wire.query_request_to_wire(request)
        wall_s = request.wall_ms_max / 1000 + self._settings.grace_s
        allowed = request.wall_ms_max / 1000
        answer = self._stream(self._stub.Query, message, progress, wall_s, limit="query_wall_s_max", maximum=allowed)
        return wire.query_result_from_wire(answer)

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """Why records of one block are there."""
        message = provenance_wire.provenance_request_to_wire(request)
        wall_s = self._settings.call_s_max if request.wall_ms_max is None else request.wall_ms_max / 1000
        answer = self._stream(
            self._stub.DeriveProvenance,
            message,
            progress,
            wall_s + self._settings.grace_s,
            limit="provenance_wall_s_max",
            maximum=wall_s,
        )
        return provenance_wire.provenance_result_from_wire(answer)

    def _metadata(self) -> tuple[tuple[str, str], ...]:
        trace = self._settings.traceparent()
        return (self._token,) if trace is None else (self._token, (TRACE_HEADER, trace))

    def _single(self, method: Callable[..., ResultT], message: object) -> ResultT:
        wall_s = self._settings.short_s_max
        try:
            return method(message, timeout=wall_s, metadata=self._metadata())
        except grpc.RpcError as error:
            _raise(error, wall_s, self._settings.message_bytes_max, limit="engine_validate_s_max")

    def _stream(
        self,
        method: Callable[..., Iterable[_StreamMessage[ResultT]]],
        message: MessageT,
        progress: ProgressListener,
        wall_s: float,
        *,
        limit: str = "engine_call_s_max",
        maximum: float | None = None,
    ) -> ResultT:
        """`maximum` is what `limit` allows, where we wait longer than that."""
        answers = method(message, timeout=wall_s, metadata=self._metadata())
        try:
            for answer in answers:
                member = answer.WhichOneof("value")
                if member == "success":
                    return answer.success
                if member == "failure":
                    raise wire.failure_from_wire(answer.failure)
                progress(wire.progress_from_wire(answer.progress))
        except grpc.RpcError as error:
            allowed = wall_s if maximum is None else maximum
            _raise(error, allowed, self._settings.message_bytes_max, limit=limit)
        finally:
            answers.cancel()  # type: ignore[attr-defined]  # a listener that raises ends the work too
        raise Determinate("the engine ended a call without an answer")


class EngineFailed(RuntimeError):
    """A bug of the engine.

    Not an error of the closed tree, because nobody can act on it but its authors.
    """


def loss_of(error: Determinate) -> Loss | None:
    """How a call of GrpcEngine came to have no engine; None for other failures."""
    cause = error.__cause__
    if not isinstance(cause, grpc.RpcError) or cause.code() != grpc.StatusCode.UNAVAILABLE:
        return None
    if cause.details() == wire.LOST_TO_OTHERS:
        return Loss.OTHERS
    taken = wire.TAKEN in (tuple(each) for each in cause.initial_metadata() or ())
    return Loss.BROKE_DOWN if taken else Loss.AWAY


def _raise(error: grpc.RpcError, wall_s: float, message_bytes_max: int, *, limit: str) -> NoReturn:
    """`limit` is the setting that `wall_s` comes from."""
    code = error.code()
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        raise LimitExceeded("the engine did not answer in time", limit=limit, maximum=wall_s) from error
    if code == grpc.StatusCode.UNAUTHENTICATED:
        raise Unauthenticated("the engine refuses our token", hint="engine_token must be the engine's own") from error
    if error.details() == wire.BUG:
        raise EngineFailed(wire.BUG) from error
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in str(error.details()):
        raise LimitExceeded(
            "the call names too many files for one message", limit="message_bytes_max", maximum=message_bytes_max
        ) from error
    if error.details() in (wire.LOST_TO_OTHERS, wire.BROKE_DOWN):
        blameless = error.details() == wire.LOST_TO_OTHERS
        raise Determinate(str(error.details()), hint="repeat it", blameless=blameless) from error
    raise Determinate(f"the engine is away ({code.name.lower()})") from error
