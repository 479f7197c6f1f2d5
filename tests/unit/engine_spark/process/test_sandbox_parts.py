"""Parts of the sandbox without an engine: messages, sockets, leftovers, filter.

What is sent behind the walls, where it listens, what is left, the filter's jumps.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import tempfile
from pathlib import Path

import pytest

from odfabric.errors import Determinate
from odfabric_engine_spark.process.sandbox.enter import Plan
from odfabric_engine_spark.process.sandbox.file_view import View
from odfabric_engine_spark.process.sandbox.forwarder import Forwarder
from odfabric_engine_spark.process.sandbox.keeper import SOCKET_PATH_BYTES_MAX, resolved_listen
from odfabric_engine_spark.process.sandbox.start_order import Order
from odfabric_engine_spark.process.sandbox.system_calls import REFUSED, program
from odfabric_engine_spark.process.sandbox.walls import NAMESPACES, RESTRICTIONS, Layer
from odfabric_engine_spark.spark.jvm.private_folder import private_folder
from odfabric_engine_spark.spark.settings import EngineSettings


def test_order_and_plan_arrive_as_they_were_sent(tmp_path: Path) -> None:
    settings = EngineSettings(exchange=tmp_path, cache=tmp_path / "cache", cores=3, crash_at="x", idle_s=1.5)
    order = Order(
        settings=settings, listen="unix:x", token="t", ready_file=tmp_path / "r", promised=frozenset({Layer.SECCOMP})
    )
    assert Order.from_line(order.to_line()) == order
    assert order.to_line().count(b"\n") == 1
    view = View(
        read=(Path("/usr"),),
        links=((Path("/lib"), "usr/lib"),),
        listed=(Path("/src"),),
        exchange=tmp_path / "e",
        private=tmp_path / "p",
    )
    plan = Plan(
        layers=NAMESPACES | RESTRICTIONS, view=view, root=tmp_path, command=("a", "b"), environment={"TZ": "UTC"}
    )
    assert Plan.from_json(plan.to_json()) == plan


def test_a_socket_whose_path_is_too_long_becomes_a_port(tmp_path: Path) -> None:
    short = Path("/run/x.sock")
    assert resolved_listen("unix:", short) == "unix:/run/x.sock"
    longest = Path("/" + "x" * (SOCKET_PATH_BYTES_MAX - 1))
    assert resolved_listen("unix:", longest) == f"unix:{longest}"
    assert resolved_listen("unix:", Path(f"{longest}x")) == "127.0.0.1:0"
    assert resolved_listen("unix:", Path("/run/a,b/x.sock")) == "127.0.0.1:0"
    assert resolved_listen("0.0.0.0:5544", short) == "0.0.0.0:5544"


def test_a_forwarder_passes_bytes_on_however_long_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / ("long" * 40)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind("engine.sock")
        engine.listen()
        forwarder = Forwarder("127.0.0.1:0", folder=folder, name="engine.sock", connections_max=1)
        with pytest.raises(Determinate):
            Forwarder(forwarder.address, folder=folder, name="engine.sock", connections_max=1)
        forwarder.start()
        host, _, port = forwarder.address.partition(":")
        with socket.create_connection((host, int(port)), timeout=20) as caller:
            inner, _ = engine.accept()
            caller.sendall(b"ask" * 100_000)
            asked = b""
            while len(asked) < 300_000:
                asked += inner.recv(1 << 16)
            inner.sendall(b"answer")
            assert caller.recv(100) == b"answer"
            with socket.create_connection((host, int(port)), timeout=20) as second:
                assert second.recv(1) == b"", "one more than may be"
            inner.close()
            assert caller.recv(1) == b"", "the engine's end is told"


def test_private_folders_of_killed_engines_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left, used, strange = (tmp_path / f"odf-engine-{name}" for name in ("left", "used", "strange"))
    for folder in (left, used, strange):
        folder.mkdir()
    (left / "lock").touch()
    with (used / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with private_folder() as mine:
            assert os.stat(mine).st_mode & 0o077 == 0
            assert {path.name for path in tmp_path.iterdir()} == {used.name, strange.name, mine.name}
        assert not mine.exists()


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
def test_the_filter_decides_each_call(processor: str) -> None:
    architecture = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}[processor]
    socket_call = {"x86_64": 41, "aarch64": 198}[processor]
    clone = {"x86_64": 56, "aarch64": 220}[processor]
    allow, refuse, unknown = 0x7FFF0000, 0x00050001, 0x00050026

    def decided(number: int, *arguments: int, by: int = architecture) -> int:
        padded = [*arguments, 0, 0, 0, 0, 0, 0][:6]
        return interpret(program(processor), struct.pack("IIQ6Q", number, by, 0, *padded))

    for number in REFUSED[processor].values():
        assert decided(number) == refuse
    assert decided(1000) == allow
    assert decided(1000, by=0x40000003) == refuse
    assert decided(435) == unknown
    assert [decided(socket_call, family) for family in (1, 2, 10, 16)] == [allow] * 4
    assert [decided(socket_call, family) for family in (0, 3, 17, 38, 40)] == [refuse] * 5
    assert decided(clone, 0x003D0F00) == allow
    assert [decided(clone, 0x11 | flag) for flag in (0x20000, 0x10000000, 0x20000000, 0x40000000)] == [refuse] * 4


def interpret(code: bytes, data: bytes) -> int:
    """Runs a filter as the kernel does."""
    instructions = [struct.unpack_from("HBBI", code, at) for at in range(0, len(code), 8)]
    place, loaded = 0, 0
    while True:
        operation, then, otherwise, value = instructions[place]
        place += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            loaded = struct.unpack_from("I", data, value)[0]
        else:
            met = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[operation]
            place += then if met else otherwise
