"""The channel to an engine: where it leads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from odfabric.formats.grpc_target import grpc_target
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.generated.engine_v1 import engine_pb2_grpc

Listen = Callable[[str], None]


class Servicer(engine_pb2_grpc.EngineServiceServicer):  # type: ignore[misc]
    """An engine that can say who it is."""

    def GetInfo(self, request: pb.GetInfoRequest, context: grpc.ServicerContext) -> pb.GetInfoResponse:
        """Only its name."""
        return pb.GetInfoResponse(name="found")


@pytest.fixture
def listen() -> Iterator[Listen]:
    server = grpc.server(ThreadPoolExecutor(1))
    engine_pb2_grpc.add_EngineServiceServicer_to_server(Servicer(), server)  # type: ignore[no-untyped-call]

    def at(address: str) -> None:
        server.add_insecure_port(grpc_target(address))
        server.start()

    yield at
    server.stop(None).wait()


@pytest.mark.parametrize("name", ["plain", "a#b", "a?b=c", "a%20b", "a%2Cb", "a b:c", "a\\b", "a[b]{c}*", "ẃ"])
def test_a_socket_is_found_whatever_its_folder_is_called(tmp_path: Path, listen: Listen, name: str) -> None:
    (tmp_path / name).mkdir()
    socket = tmp_path / name / "engine.sock"
    listen(f"unix:{socket}")
    assert socket.is_socket()
    with GrpcEngine(EngineChannel(address=f"unix:{socket}", token="t", call_s_max=10, short_s_max=10)) as engine:
        assert engine.info().name == "found"
