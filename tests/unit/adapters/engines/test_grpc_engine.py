"""The channel to an engine: where it leads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from odfabric.errors import LimitExceeded
from odfabric.formats.engine_messages.grpc_target import grpc_target
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import ValidateRequest
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.settings import Settings

Listen = Callable[[str], None]


class Servicer(engine_pb2_grpc.EngineServiceServicer):  # type: ignore[misc]
    """An engine that can say who it is, and never has judged a query."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
        """Only its name."""
        return pb.GetInfoResponse(name="found")

    def ValidateQuery(
        self, request: pb.ValidateQueryRequest, context: grpc.ServicerContext
    ) -> pb.ValidateQueryResponse:
        """Waits for the end of the test."""
        self.ended.wait(30)
        return pb.ValidateQueryResponse()


@pytest.fixture
def listen() -> Iterator[Listen]:
    server, servicer = grpc.server(ThreadPoolExecutor(1)), Servicer()
    engine_pb2_grpc.add_EngineServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]

    def at(address: str) -> None:
        server.add_insecure_port(grpc_target(address))
        server.start()

    yield at
    servicer.ended.set()
    server.stop(None).wait()


@pytest.mark.parametrize("name", ["plain", "a#b", "a?b=c", "a%20b", "a%2Cb", "a b:c", "a\\b", "a[b]{c}*", "ẃ"])
def test_a_socket_is_found_whatever_its_folder_is_called(tmp_path: Path, listen: Listen, name: str) -> None:
    (tmp_path / name).mkdir()
    socket = tmp_path / name / "engine.sock"
    listen(f"unix:{socket}")
    assert socket.is_socket()
    with GrpcEngine(EngineChannel(address=f"unix:{socket}", token="t", call_s_max=10, short_s_max=10)) as engine:
        assert engine.info().name == "found"


def test_judging_that_takes_too_long_names_the_setting_that_ended_it(tmp_path: Path, listen: Listen) -> None:
    address = f"unix:{tmp_path / 'engine.sock'}"
    listen(address)
    request = ValidateRequest(
        vocabulary=DatasetVocabulary(),
        transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),)),
        inputs=(),
    )
    with (
        GrpcEngine(EngineChannel(address=address, token="t", call_s_max=10, short_s_max=0.2)) as engine,
        pytest.raises(LimitExceeded) as caught,
    ):
        engine.validate_query(request)
    assert (caught.value.limit, caught.value.maximum) == ("engine_validate_s_max", 0.2)
    assert caught.value.limit in Settings.model_fields


def test_calls_belong_to_the_trace_of_whoever_makes_them(tmp_path: Path) -> None:
    seen: list[dict[str, str]] = []

    class Listening(engine_pb2_grpc.EngineServiceServicer):
        def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
            seen.append({str(name): str(value) for name, value in context.invocation_metadata()})
            return pb.GetInfoResponse(name="found")

    server, address = grpc.server(ThreadPoolExecutor(1)), f"unix:{tmp_path / 'engine.sock'}"
    engine_pb2_grpc.add_EngineServiceServicer_to_server(Listening(), server)  # type: ignore[no-untyped-call]
    server.add_insecure_port(grpc_target(address))
    server.start()
    traces = iter(["00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None])
    channel = EngineChannel(address=address, token="t", call_s_max=30, short_s_max=30, traceparent=lambda: next(traces))
    with GrpcEngine(channel) as engine:
        engine.info()
        engine.info()
    server.stop(None).wait()
    assert seen[0]["traceparent"] == "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert "traceparent" not in seen[1]
    assert {one["authorization"] for one in seen} == {"Bearer t"}
