"""The engine of a workspace: found or started on demand, found again if it dies."""

from __future__ import annotations

import threading

from odfabric.adapters.engine_process.launcher import EngineLauncher, EngineProcess
from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from odfabric.adapters.grpc_engine.patient import Patience, PatientEngine
from odfabric.model.engine import EngineInfo
from odfabric.telemetry import next_traceparent


class EngineOnDemand(PatientEngine):
    """An Engine that makes sure before each call that one runs."""

    def __init__(self, launcher: EngineLauncher, *, call_s_max: float, short_s_max: float, patience: Patience) -> None:
        super().__init__(self._running, patience)
        self._launcher = launcher
        self._call_s_max = call_s_max
        self._short_s_max = short_s_max
        self._lock = threading.Lock()
        self._process: EngineProcess | None = None
        self._engine: GrpcEngine | None = None

    def info_if_running(self) -> EngineInfo | None:
        """Who it is, without starting one."""
        return self.info() if self._launcher.running() is not None else None

    def close(self) -> None:
        """Close the channel; the engine itself stays for others until it idles."""
        with self._lock:
            if self._engine is not None:
                self._engine.close()
            self._engine = self._process = None

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
                        traceparent=next_traceparent,
                    )
                )
                self._process = process
            return self._engine
