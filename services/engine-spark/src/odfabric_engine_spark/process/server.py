"""The engine process: gRPC server, Spark below it, and how both begin and end.

Owns the life of the process. Invariant: it serves only callers that know the token; when it says so in the ready file it can
take calls; when its JVM is gone, a call cannot be ended or the interpreter stands still it exits with a code that is not 0, and the
supervisor starts another. Not here: what calls do (`operations`), their deadlines (`running_calls`).
"""

from __future__ import annotations

import gc
import hmac
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import grpc

from odfabric.asked_to_end import AskedToEnd
from odfabric.errors import Determinate
from odfabric.formats.engine_messages.grpc_target import grpc_target
from odfabric.generated.engine_v1 import engine_pb2_grpc
from odfabric.model.engine import EngineInfo
from odfabric_engine_spark.arrays.memory_reuse import give_back_freed_memory, reuse_freed_memory
from odfabric_engine_spark.process.digest import ENGINE_NAME, ENGINE_VERSION, engine_digest
from odfabric_engine_spark.process.frozen_interpreter import FrozenWatch
from odfabric_engine_spark.process.parent_process import lives
from odfabric_engine_spark.process.ready_file import remove_ready_file, write_ready_file
from odfabric_engine_spark.process.sandbox.walls import layers_around_us
from odfabric_engine_spark.serve.contract.address import check_contract_address
from odfabric_engine_spark.serve.contract.servicer import contract_handler
from odfabric_engine_spark.serve.running_calls import CallRunner
from odfabric_engine_spark.serve.servicer import EngineServicer
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.jvm.class_archive import start_making_if_missing
from odfabric_engine_spark.spark.session import SparkProcess, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings

EXIT_JVM_DIED = 70
EXIT_NO_EXECUTORS = 74
"""The cluster has had no executor for too long: a new engine registers again."""
EXIT_STUCK = 75
"""A call did not end in time after it was cancelled."""

_LOOK_EVERY_S = 0.2
_ANSWER_S = 2.0
"""Longest wait for the last answers to leave, before the process gives itself up and after the patience of an orderly end."""
_REST_S = 1.0
"""Time without a call after which freed memory and files are given back: calls often follow one another."""
_HEALTH_CALLS = 8


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[misc]
    """Lets calls pass that carry `authorization: Bearer <token>`."""

    def __init__(self, token: str) -> None:
        self._expected = f"Bearer {token}".encode()
        self._refusal = grpc.unary_unary_rpc_method_handler(_refuse)

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler:
        """The handler of the method, or the refusal."""
        given = [str(value) for name, value in handler_call_details.invocation_metadata if name == "authorization"]
        known = len(given) == 1 and hmac.compare_digest(self._expected, given[0].encode())
        return continuation(handler_call_details) if known else self._refusal


def _refuse(request: object, context: grpc.ServicerContext) -> None:
    context.abort(grpc.StatusCode.UNAUTHENTICATED, "the engine's token is needed")


@dataclass(slots=True)
class End:
    """Why the process ends: asked for, or with an exit code. The first reason wins."""

    happened: AskedToEnd = field(default_factory=AskedToEnd)
    code: int = 0

    def ask(self, code: int = 0) -> None:
        """Ends the process in order (code 0), or gives it up."""
        if not self.happened.is_set():
            self.code = code
            self.happened.set()


def serve(
    settings: EngineSettings,
    *,
    listen: str,
    token: str,
    ready_file: Path | None,
    keeper: BinaryIO | None = None,
) -> int:
    """Serves until asked to end; the exit code. Must run in the main thread.

    `keeper` is a stream from the process that keeps the engine in a sandbox: its end is the order to end.
    """
    end = End()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end.ask())
    if keeper is not None:
        threading.Thread(target=_heed, args=(keeper, end), daemon=True).start()
    check_contract_address(settings)
    exchange = ExchangeFolder.at(settings.exchange)
    reuse_freed_memory()
    spark = start_spark(settings)

    def give_up() -> None:
        end.ask(EXIT_STUCK if spark.jvm.process.poll() is None else EXIT_JVM_DIED)

    runner = CallRunner(
        spark.session,
        settings=settings,
        exchange=exchange,
        give_up=give_up,
        out_of_memory=spark.jvm.ran_out_of_memory,
        executors=spark.executors,
    )
    server = _grpc_server(settings, (TokenInterceptor(token),))
    servicer = EngineServicer(runner, info=engine_info(spark), settings=settings, executors=spark.executors)
    engine_pb2_grpc.add_EngineServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
    servers = [server]
    try:
        address, compat_address = _listening(server, listen), None
        if settings.compat:
            # A server of its own: who needs no token there cannot reach methods that need one.
            servers.append(_grpc_server(settings, ()))
            servers[-1].add_generic_rpc_handlers((contract_handler(servicer, settings),))
            compat_address = _listening(servers[-1], settings.compat_listen)
    except Determinate:
        spark.stop()
        raise
    for each in servers:
        each.start()
    # In a sandbox the archive is read only, or one query could poison it for all later ones: the keeper makes it.
    archive_making = start_making_if_missing(settings.cache) if settings.cache and keeper is None else None
    if ready_file is not None:
        write_ready_file(ready_file, address, compat_address)
    _watch(end, settings=settings, spark=spark, runner=runner)
    runner.refuse()
    if ready_file is not None:
        remove_ready_file(ready_file)
    if end.code:
        _answer_the_last(end.code, servers, runner)
        return end.code  # what hangs would hang the orderly end too; the JVM dies with us
    _answer_in_order(servers, runner, settings)
    runner.close()
    if archive_making is not None:
        archive_making.kill()
        archive_making.wait()
    spark.stop()
    return 0


def _answer_the_last(code: int, servers: Sequence[grpc.Server], runner: CallRunner) -> None:
    """Informs those whose calls are under way, in a process that gives itself up."""
    if code == EXIT_JVM_DIED:
        runner.await_calls(_ANSWER_S)  # they fail by themselves, and know more than that the JVM is gone
    endings = [each.stop(_ANSWER_S) for each in servers]
    runner.let_go(by_others=code != EXIT_JVM_DIED)
    for ending in endings:
        ending.wait(_ANSWER_S)


def _answer_in_order(servers: Sequence[grpc.Server], runner: CallRunner, settings: EngineSettings) -> None:
    """Lets calls under way end by themselves for a while.

    Those that do not are informed that the end is none of their fault.
    """
    endings = [each.stop(settings.stop_s_max + _ANSWER_S) for each in servers]
    runner.await_calls(settings.stop_s_max)
    runner.let_go(by_others=True)
    for ending in endings:
        ending.wait(_ANSWER_S)


def engine_info(spark: SparkProcess) -> EngineInfo:
    """Who this engine is."""
    java_version = spark.session._jvm.java.lang.System.getProperty("java.version")
    return EngineInfo(
        name=ENGINE_NAME,
        version=ENGINE_VERSION,
        digest=engine_digest(spark.jvm.java.version),
        spark_version=spark.session.version,
        java_version=str(java_version),
        sandbox=tuple(sorted(layers_around_us())),
    )


def _listening(server: grpc.Server, listen: str) -> str:
    """Where the server listens, with the port that was free. Raises Determinate."""
    try:
        port = server.add_insecure_port(grpc_target(listen))
    except RuntimeError as error:
        raise Determinate(f"cannot listen on {listen}", hint="is another engine there already?") from error
    return listen if listen.startswith("unix:") else f"{listen.rpartition(':')[0]}:{port}"


def _grpc_server(settings: EngineSettings, interceptors: tuple[TokenInterceptor, ...]) -> grpc.Server:
    calls = settings.calls_at_once_max + settings.calls_waiting_max + _HEALTH_CALLS
    return grpc.server(
        ThreadPoolExecutor(calls, thread_name_prefix="grpc"),
        interceptors=interceptors,
        maximum_concurrent_rpcs=calls,
        options=(
            ("grpc.so_reuseport", 0),  # two engines on one port would share the calls of one workspace
            ("grpc.max_receive_message_length", settings.message_bytes_max),
            ("grpc.max_send_message_length", settings.message_bytes_max),
            ("grpc.max_metadata_size", 16 * 1024),
        ),
    )


def _heed(keeper: BinaryIO, end: End) -> None:
    keeper.read()
    end.ask()


def _watch(end: End, *, settings: EngineSettings, spark: SparkProcess, runner: CallRunner) -> None:
    """Returns when the process shall end."""
    executors = spark.executors
    rests = False
    frozen = FrozenWatch(settings.frozen_s_max)
    while not end.happened.wait(_LOOK_EVERY_S):
        frozen.moves()
        rested, rests = rests, runner.idle_s > _REST_S
        if rests and not rested:
            gc.collect()  # what is left in cycles may hold files of calls, which take room though they were removed
            give_back_freed_memory()
        if rests:
            runner.let_go_of_removed_files()
        if executors is not None:
            executors.look()
        if spark.jvm.process.poll() is not None:
            sys.stderr.write(f"the JVM ended with {spark.jvm.process.returncode}\n")
            end.ask(EXIT_JVM_DIED)
        elif executors is not None and executors.lost and runner.idle_s > 0:
            sys.stderr.write(f"the engine ends: {executors.missing()}\n")
            end.ask(EXIT_NO_EXECUTORS)
        elif (settings.owner_pid and not lives(settings.owner_pid)) or (
            settings.idle_s and runner.idle_s > settings.idle_s
        ):
            end.ask()
    frozen.end()
