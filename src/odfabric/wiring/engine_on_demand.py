"""The engine of a workspace as a port: found or started when it is needed, found again when it has died."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from odfabric.adapters.engine_process.launcher import EngineLauncher, EngineProcess
from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
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
from odfabric.ports.engine import ProgressListener

ResultT = TypeVar("ResultT")


class EngineOnDemand:
    """An Engine that makes sure before each call that one runs. A call that loses its engine is Determinate, as of any."""

    def __init__(self, launcher: EngineLauncher, *, call_s_max: float, short_s_max: float) -> None:
        self._launcher = launcher
        self._call_s_max = call_s_max
        self._short_s_max = short_s_max
        self._lock = threading.Lock()
        self._process: EngineProcess | None = None
        self._engine: GrpcEngine | None = None

    def info(self) -> EngineInfo:
        """See the port."""
        return self._call(lambda engine: engine.info())

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port."""
        return self._call(lambda engine: engine.ingest(request, progress=progress))

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        return self._call(lambda engine: engine.execute_transform(request, progress=progress))

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """See the port."""
        return self._call(lambda engine: engine.validate_query(request))

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        return self._call(lambda engine: engine.migrate_query(request, progress=progress))

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        return self._call(lambda engine: engine.query(request, progress=progress))

    def info_if_running(self) -> EngineInfo | None:
        """Who it is, without starting one."""
        return self.info() if self._launcher.running() is not None else None

    def close(self) -> None:
        """Close the channel; the engine itself stays for others until it idles."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()
            self._engine = self._process = None

    def _call(self, call: Callable[[GrpcEngine], ResultT]) -> ResultT:
        return call(self._running())

    def _running(self) -> GrpcEngine:
        process = self._launcher.ensure()
        with self._lock:
            if self._engine is None or process != self._process:
                # Calls under way on the old channel end by themselves: their engine is gone.
                self._engine = GrpcEngine(
                    EngineChannel(
                        address=process.address,
                        token=process.token,
                        call_s_max=self._call_s_max,
                        short_s_max=self._short_s_max,
                    )
                )
                self._process = process
            return self._engine
