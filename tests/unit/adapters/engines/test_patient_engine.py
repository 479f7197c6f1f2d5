"""Calls whose engine goes away: repeats, their number, and other outcomes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from odfabric.adapters.grpc_engine.patient import WAITING, Patience, PatientEngine
from odfabric.errors import Determinate, InvalidQuery, LimitExceeded, OdfError
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.formats.engine_messages.grpc_target import grpc_target
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import EngineProgress, IngestRequest, QueryRequest, ValidateRequest
from odfabric.model.instant import Instant
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.source import MergeStrategyAppend, ReadStepNdJson
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.settings import Settings

AWAY, OTHERS, BROKE_DOWN, BROKEN_OFF = "away", "others", "broke down", "broken off"
"""How an engine loses a call: it never takes it, it ends for another one, it dies of it, the connection breaks."""
LOSSES = (AWAY, OTHERS, BROKE_DOWN, BROKEN_OFF)
_DETAILS = {OTHERS: wire.LOST_TO_OTHERS, BROKE_DOWN: wire.BROKE_DOWN, BROKEN_OFF: "Socket closed"}
PATIENT = Patience(return_s_max=30.0, repeats_max=1)


@dataclass
class Losing(engine_pb2_grpc.EngineServiceServicer):  # type: ignore[misc]
    """An engine that loses calls as planned.

    Afterwards it finds every query wrong, which is an answer.
    """

    plan: deque[str] = field(default_factory=deque)
    calls: int = 0
    is_ending: bool = False

    def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
        """Whether it takes calls."""
        if self.is_ending:
            context.abort(grpc.StatusCode.UNAVAILABLE, wire.ENDS)
        return pb.GetInfoResponse(name="found")

    def _failure(self, context: grpc.ServicerContext) -> pb.Failure:
        self.calls += 1
        loss = self.plan.popleft() if self.plan else None
        if loss == AWAY:
            context.abort(grpc.StatusCode.UNAVAILABLE, wire.ENDS)
        context.send_initial_metadata((wire.TAKEN,))
        if loss is not None:
            context.abort(grpc.StatusCode.UNAVAILABLE, _DETAILS[loss])
        return wire.failure_to_wire(InvalidQuery("an answer"))

    def ValidateQuery(
        self, request: pb.ValidateQueryRequest, context: grpc.ServicerContext
    ) -> pb.ValidateQueryResponse:
        """One answer."""
        return pb.ValidateQueryResponse(failure=self._failure(context))

    def Query(self, request: pb.QueryRequest, context: grpc.ServicerContext) -> Iterator[pb.QueryResponse]:
        """A stream of one answer."""
        yield pb.QueryResponse(failure=self._failure(context))

    def Ingest(self, request: pb.IngestRequest, context: grpc.ServicerContext) -> Iterator[pb.IngestResponse]:
        """A stream of one answer."""
        yield pb.IngestResponse(failure=self._failure(context))


@dataclass
class Bench:
    """An engine at a socket, and a connection to it."""

    servicer: Losing
    connection: GrpcEngine
    serve: Callable[[], None]

    def patient(self, patience: Patience = PATIENT) -> PatientEngine:
        """The engine as callers see it."""
        return PatientEngine(lambda: self.connection, patience)


@contextmanager
def at_socket(folder: Path) -> Iterator[Bench]:
    """An engine that serves once it is asked to."""
    server, servicer = grpc.server(ThreadPoolExecutor(2)), Losing()
    engine_pb2_grpc.add_EngineServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    address = f"unix:{folder / 'engine.sock'}"

    def serve() -> None:
        server.add_insecure_port(grpc_target(address))
        server.start()

    with GrpcEngine(EngineChannel(address=address, token="t", call_s_max=30, short_s_max=30)) as connection:
        yield Bench(servicer, connection, serve)
    server.stop(None).wait()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with at_socket(tmp_path) as found:
        yield found


def validate(engine: PatientEngine) -> None:
    transform = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))
    engine.validate_query(ValidateRequest(vocabulary=DatasetVocabulary(), transform=transform, inputs=()))


def query(engine: PatientEngine, progress: Callable[[EngineProgress], None] = lambda _: None) -> None:
    asked = QueryRequest(sql="select 1", inputs=(), skip=0, limit=1, bytes_max=1, wall_ms_max=30_000, output_path="o")
    engine.query(asked, progress=progress)


def ingest(engine: PatientEngine) -> None:
    asked = IngestRequest(
        vocabulary=DatasetVocabulary(),
        data_paths=("in",),
        file_names=("in",),
        read=ReadStepNdJson(),
        preprocess=None,
        merge=MergeStrategyAppend(),
        data_schema=None,
        history=(),
        system_time=Instant(0),
        event_time_fallback=Instant(0),
        next_offset=0,
        new_data_path="out",
    )
    engine.ingest(asked, progress=lambda _: None)


def failed(call: Callable[[PatientEngine], None], engine: PatientEngine) -> OdfError:
    with pytest.raises(OdfError) as caught:
        call(engine)
    return caught.value


@pytest.mark.parametrize("call", [validate, query, ingest])
def test_a_call_waits_for_an_engine_that_is_not_there(bench: Bench, call: Callable[[PatientEngine], None]) -> None:
    told: list[EngineProgress] = []

    def connect() -> GrpcEngine:
        if len(told) == 2:
            bench.serve()
        told.append(WAITING)
        return bench.connection

    assert isinstance(failed(call, PatientEngine(connect, PATIENT)), InvalidQuery)
    assert bench.servicer.calls == 1


@pytest.mark.parametrize("call", [validate, query, ingest])
def test_the_wait_is_bounded(bench: Bench, call: Callable[[PatientEngine], None]) -> None:
    error = failed(call, bench.patient(Patience(return_s_max=0.3, repeats_max=1)))
    assert isinstance(error, Determinate)
    assert error.message == "the engine is away (unavailable), and no engine came back within 0.3 s"


def test_an_engine_that_is_about_to_end_does_not_count_as_back(bench: Bench) -> None:
    bench.serve()
    bench.servicer.is_ending = True
    bench.servicer.plan.extend([AWAY] * 9)
    assert isinstance(failed(query, bench.patient(Patience(return_s_max=0.3, repeats_max=1))), Determinate)
    assert bench.servicer.calls == 1


def test_whoever_waits_may_end(bench: Bench) -> None:
    def listener(progress: EngineProgress) -> None:
        assert progress == WAITING
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        query(bench.patient(), listener)


@pytest.mark.parametrize("call", [validate, query])
@given(st.lists(st.sampled_from(LOSSES), max_size=6), st.integers(0, 2))
@settings(max_examples=25, deadline=None)
def test_a_question_is_asked_until_it_is_answered_or_may_be_what_breaks_engines(
    tmp_path_factory: pytest.TempPathFactory,
    call: Callable[[PatientEngine], None],
    plan: list[str],
    repeats_max: int,
) -> None:
    with at_socket(tmp_path_factory.mktemp("s")) as bench:
        bench.serve()
        bench.servicer.plan.extend(plan)
        error = failed(call, bench.patient(Patience(return_s_max=30.0, repeats_max=repeats_max)))
        breakdowns = [number for number, loss in enumerate(plan) if loss in (BROKE_DOWN, BROKEN_OFF)]
        if len(breakdowns) > repeats_max:
            assert isinstance(error, LimitExceeded)
            assert (error.limit, error.maximum) == ("engine_repeats_max", repeats_max)
            assert error.limit in Settings.model_fields
            assert bench.servicer.calls == breakdowns[repeats_max] + 1
        else:
            assert isinstance(error, InvalidQuery)
            assert bench.servicer.calls == len(plan) + 1


@pytest.mark.parametrize("loss", [OTHERS, BROKE_DOWN, BROKEN_OFF])
def test_the_call_of_a_job_is_given_back_to_its_job(bench: Bench, loss: str) -> None:
    bench.serve()
    bench.servicer.plan.extend([AWAY, loss])
    error = failed(ingest, bench.patient())
    assert isinstance(error, Determinate)
    assert error.blameless == (loss == OTHERS)
    assert bench.servicer.calls == 2
