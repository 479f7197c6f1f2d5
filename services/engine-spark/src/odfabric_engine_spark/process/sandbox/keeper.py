"""The keeper: the process outside a sandbox, known to others as the engine.

Owns which walls are asked for, and the start and the end of what is behind them. Invariant: with it everything ends that it started;
it runs nothing that a user sent. Not here: putting the walls up (`enter`), the engine itself (`sandboxed_server`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from odfabric.asked_to_end import AskedToEnd
from odfabric.errors import Determinate
from odfabric_engine_spark.process.parent_process import lives
from odfabric_engine_spark.process.ready_file import remove_ready_file, write_ready_file
from odfabric_engine_spark.process.sandbox import landlock
from odfabric_engine_spark.process.sandbox.enter import EXIT_NO_WALL, SIGNALLED, Plan
from odfabric_engine_spark.process.sandbox.file_view import view_of
from odfabric_engine_spark.process.sandbox.forwarder import Forwarder
from odfabric_engine_spark.process.sandbox.start_order import Order
from odfabric_engine_spark.process.sandbox.walls import INIT_MODULE, NAMESPACES, RESTRICTIONS, Layer, Sandbox
from odfabric_engine_spark.serve.contract.address import check_contract_address
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.jvm.class_archive import start_making_if_missing
from odfabric_engine_spark.spark.jvm.jvm_process import find_java
from odfabric_engine_spark.spark.jvm.private_folder import private_folder
from odfabric_engine_spark.spark.settings import EngineSettings

IN_EXCHANGE = "unix:"
"""Where callers that share the exchange folder want it to listen."""
SOCKET_PATH_BYTES_MAX = 100
"""Longest path of a socket that every system takes."""
DIVIDES_ADDRESSES = ","
"""gRPC takes what follows for another address, however it is quoted."""

_ENGINE = (sys.executable, "-P", "-m", "odfabric_engine_spark.process.sandboxed_server")
_LOOK_EVERY_S = 0.02
_REST_S = 0.2
"""Pause between looks at an engine that serves."""
_PATIENCE_S = 3.0
_PASSED_ON = ("PYTHONPATH", "LD_LIBRARY_PATH")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the operator asked for."""

    settings: EngineSettings
    sandbox: Sandbox
    listen: str
    token: str
    ready_file: Path | None


def keep(kept: Kept) -> int | None:
    """Runs an engine in a sandbox until it ends; its exit code.

    None if this machine offers no wall at all and none is insisted on.

    Raises Determinate if the engine may not run with the walls that can be had. Must run in the main thread.
    """
    ended = AskedToEnd()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    if kept.sandbox is Sandbox.SEALED and kept.settings.spark_master:
        raise Determinate("it cannot be sealed and reach the executors of a cluster", hint="choose --sandbox=auto")
    for layers in _wishes(kept.sandbox, alone=not kept.settings.spark_master):
        code = _keep_behind(layers, kept, ended)
        if code != EXIT_NO_WALL:
            return code
    if kept.sandbox is Sandbox.SEALED:
        raise Determinate("this machine cannot seal it", hint="allow user namespaces, or choose --sandbox=auto")
    return None


def _wishes(sandbox: Sandbox, *, alone: bool) -> Iterator[frozenset[Layer]]:
    """Sets of walls, the strongest first; none on a system that is not Linux.

    With executors elsewhere it needs the network.
    """
    if sys.platform != "linux":
        return
    restrictions = RESTRICTIONS if landlock.version() else RESTRICTIONS - {Layer.LANDLOCK}
    if alone:
        yield NAMESPACES | restrictions
    if sandbox is Sandbox.AUTO:
        sys.stderr.write("the engine cannot be sealed: it may reach the network\n")
        yield restrictions


def _keep_behind(layers: frozenset[Layer], kept: Kept, ended: AskedToEnd) -> int:
    exchange = ExchangeFolder.at(kept.settings.exchange).root
    _remove_sockets(exchange)
    doors = _doors(kept, exchange)
    try:
        with private_folder() as folder:
            behind, ready = _started(layers, kept, exchange, folder, doors)
            try:
                return _watched(behind, ready, kept, doors, ended)
            finally:
                _end(behind, kept.settings)
    finally:
        for door in doors:
            (exchange / door.socket).unlink(missing_ok=True)
            if door.forwarder is not None:
                door.forwarder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """A socket of the engine in the exchange folder, and its address for callers."""

    socket: str
    address: str
    forwarder: Forwarder | None = None


def _doors(kept: Kept, exchange: Path) -> list[Door]:
    """One for our own contract, and one for `engine.Engine` where it is offered."""
    settings = kept.settings
    listens = [(socket_name(os.getpid()), kept.listen)]
    if settings.compat:
        check_contract_address(settings)
        listens.append((socket_name(os.getpid(), "-compat"), settings.compat_listen))
    return [_door(socket, listen, exchange, settings.connections_max) for socket, listen in listens]


def _door(socket: str, listen: str, exchange: Path, connections_max: int) -> Door:
    listen = resolved_listen(listen, exchange / socket)
    if listen == f"unix:{exchange / socket}":
        return Door(socket=socket, address=listen)
    forwarder = Forwarder(listen, folder=exchange, name=socket, connections_max=connections_max)
    return Door(socket=socket, address=forwarder.address, forwarder=forwarder)


def resolved_listen(listen: str, own: Path) -> str:
    """Where to listen: `unix:` alone means the engine's socket, or loopback.

    A port of the loopback if callers cannot name its path.
    """
    if listen != IN_EXCHANGE:
        return listen
    nameable = len(os.fsencode(own)) <= SOCKET_PATH_BYTES_MAX and DIVIDES_ADDRESSES not in str(own)
    return f"unix:{own}" if nameable else "127.0.0.1:0"


def socket_name(pid: int, kind: str = "") -> str:
    """Name of the socket of a keeper's engine in the exchange folder."""
    return f".engine-{pid}{kind}.sock"


def _started(
    layers: frozenset[Layer], kept: Kept, exchange: Path, folder: Path, doors: list[Door]
) -> tuple[subprocess.Popen[bytes], Path]:
    """The process that sets up the sandbox, its order, and the ready file.

    The file will say that the engine takes calls.
    """
    cache = kept.settings.cache
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        cache = cache.resolve()
    network = bool(kept.settings.spark_master)
    plan = plan_behind(layers, exchange=exchange, cache=cache, folder=folder, command=_ENGINE, network=network)
    ready = plan.view.private / "ready.json"
    sockets = [f"unix:{door.socket}" for door in doors]
    order = Order(
        settings=replace(kept.settings, exchange=exchange, cache=cache, owner_pid=0, compat_listen=sockets[-1]),
        listen=sockets[0],
        token=kept.token,
        ready_file=ready,
        promised=layers,
    )
    behind = run_behind(plan, folder)
    assert behind.stdin is not None
    with suppress(BrokenPipeError):
        behind.stdin.write(order.to_line())
        behind.stdin.flush()
    return behind, ready


def plan_behind(
    layers: frozenset[Layer],
    *,
    exchange: Path,
    cache: Path | None,
    folder: Path,
    command: tuple[str, ...],
    network: bool = False,
) -> Plan:
    """How a command runs behind these walls, with `folder` as its private one.

    `network` as in `view_of`.
    """
    java = find_java(os.environ)
    root, private = folder / "root", folder / "tmp"
    root.mkdir()
    private.mkdir()
    return Plan(
        layers=layers,
        view=view_of(exchange=exchange, private=private, java=java.home.resolve(), cache=cache, network=network),
        root=root,
        command=command,
        environment=_environment(private, java.home),
    )


def run_behind(plan: Plan, folder: Path, *, errors: TextIO | None = None) -> subprocess.Popen[bytes]:
    """Starts the command of a plan, with a pipe as its standard input.

    It dies with the calling thread.

    `errors` is where its standard error goes; ours if it is None.
    """
    plan_file = folder / "plan.json"
    plan_file.write_text(plan.to_json())
    command = [sys.executable, "-P", "-m", INIT_MODULE, str(plan_file)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors, env=plan.environment, start_new_session=True)


def _watched(behind: subprocess.Popen[bytes], ready: Path, kept: Kept, doors: list[Door], ended: AskedToEnd) -> int:
    """Until the engine has ended or shall end; the exit code."""
    owner, making, told = kept.settings.owner_pid, None, False
    try:
        while behind.poll() is None:
            if ended.wait(_REST_S if told else _LOOK_EVERY_S) or (owner and not lives(owner)):
                return 0
            if told == ready.exists():
                continue
            if told:
                _withdraw(kept.ready_file)  # it is about to end
                continue
            told = True
            _open(doors, kept.ready_file)
            making = start_making_if_missing(kept.settings.cache) if kept.settings.cache else None
        return behind.returncode
    finally:
        _withdraw(kept.ready_file)
        if making is not None:
            making.kill()
            making.wait()


def _withdraw(ready_file: Path | None) -> None:
    if ready_file is not None:
        remove_ready_file(ready_file)


def _open(doors: list[Door], ready_file: Path | None) -> None:
    for door in doors:
        if door.forwarder is not None:
            door.forwarder.start()
    if ready_file is not None:
        write_ready_file(ready_file, *(door.address for door in doors))


def _end(behind: subprocess.Popen[bytes], settings: EngineSettings) -> None:
    """Ends the engine in order, or by force when it does not end in time."""
    assert behind.stdin is not None
    with suppress(BrokenPipeError):
        behind.stdin.close()
    try:
        behind.wait(2 * settings.stop_s_max + _PATIENCE_S)
    except subprocess.TimeoutExpired:
        behind.kill()
        behind.wait()


def _remove_sockets(exchange: Path) -> None:
    """Sockets of engines that were killed."""
    for socket in exchange.glob(".engine-*.sock"):
        pid = socket.name.removesuffix(".sock").split("-")[1]
        if pid.isdecimal() and (int(pid) == os.getpid() or not lives(int(pid))):
            socket.unlink(missing_ok=True)


def _environment(private: Path, java_home: Path) -> dict[str, str]:
    # Written from nothing: what surrounds the keeper may hold secrets, and zone or language of the machine must change nothing.
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    return passed | {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TMPDIR": str(private),
        "JAVA_HOME": str(java_home),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def end_as(code: int) -> None:
    """End by the signal that ended the engine, so that waiters see the same."""
    if code > SIGNALLED:
        number = code - SIGNALLED
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
