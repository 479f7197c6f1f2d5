"""An engine that may go away and come back, as one that is there.

Owns how long a call waits for an engine and whether it is repeated on the next one. Invariants: the waiting of one call is bounded; a call
that never came to an engine is made as soon as there is one; a judgement or a query that lost its engine is repeated, and refused as too
expensive when engines break down under it again and again; other calls are repeated by the one who made them (`usecases.jobs.run_job`). Not here:
how an engine is found or started (`adapters.engine_process`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from odfabric.adapters.grpc_engine.engine import GrpcEngine, Loss, loss_of
from odfabric.errors import Determinate, LimitExceeded
from odfabric.model.engine import (
    REPEATS_LIMIT,
    EngineInfo,
    EngineProgress,
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

ResultT = TypeVar("ResultT")

WAITING = EngineProgress(stage="wait for the engine", done=0, total=0)
_LOOK_S = 1.0
"""Longest wait for an answer before the listener is informed, who may want to end, and before an engine is looked for again."""
_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long one call waits for engines in all, and how often it is repeated.

    Breakdowns are repeated, nothing else.
    """

    return_s_max: float
    repeats_max: int


class PatientEngine:
    """Implements `ports.engine.Engine` over whichever engine `connect` finds.

    It raises Determinate if there is none to be had.
    """

    def __init__(self, connect: Callable[[], GrpcEngine], patience: Patience) -> None:
        self._connect = connect
        self._patience = patience

    def info(self) -> EngineInfo:
        """See the port. Does not wait: anyone who asks wants to know how it is now."""
        return self._connect().info()

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port."""
        return self._taken(lambda engine: engine.ingest(request, progress=progress), progress)

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        return self._taken(lambda engine: engine.execute_transform(request, progress=progress), progress)

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        """See the port."""
        return self._taken(lambda engine: engine.migrate_query(request, progress=progress), progress)

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        """See the port. Also raises LimitExceeded if engines break down under it."""
        return self._answered(lambda engine: engine.validate_query(request), _unheard)

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port. Also raises LimitExceeded if engines break down under it."""
        return self._answered(lambda engine: engine.query(request, progress=progress), progress)

    def derive_provenance(self, request: ProvenanceRequest, *, progress: ProgressListener) -> ProvenanceResult:
        """See the port. Also raises LimitExceeded if engines break down under it."""
        return self._answered(lambda engine: engine.derive_provenance(request, progress=progress), progress)

    def _taken(self, call: Callable[[GrpcEngine], ResultT], progress: ProgressListener) -> ResultT:
        """Makes a call once an engine takes it."""
        left_s = self._patience.return_s_max
        while True:
            try:
                return call(self._connect())
            except Determinate as error:
                if loss_of(error) is not Loss.AWAY:
                    raise
                left_s = self._await_return(progress, left_s, error)

    def _answered(self, call: Callable[[GrpcEngine], ResultT], progress: ProgressListener) -> ResultT:
        """Makes a call until an engine answers it."""
        left_s, breakdowns = self._patience.return_s_max, 0
        while True:
            try:
                return call(self._connect())
            except Determinate as error:
                loss = loss_of(error)
                if loss is None:
                    raise
                breakdowns += loss is Loss.BROKE_DOWN
                if breakdowns > self._patience.repeats_max:
                    raise LimitExceeded(
                        "the engine broke down each time that it worked on this: it may need more memory than the engine has",
                        limit=REPEATS_LIMIT,
                        maximum=self._patience.repeats_max,
                    ) from error
                left_s = self._await_return(progress, left_s, error)

    def _await_return(self, progress: ProgressListener, left_s: float, lost: Determinate) -> float:
        """Returns when an engine takes calls, with the patience that is left.

        Raises Determinate if there is none in time.
        """
        begun = time.monotonic()
        while (now_left_s := left_s - (time.monotonic() - begun)) > 0:
            progress(WAITING)
            if self._connect().answers(wait_s=min(_LOOK_S, now_left_s)):
                return left_s - (time.monotonic() - begun)
            time.sleep(min(_PAUSE_S, now_left_s))
        waited_s = self._patience.return_s_max
        raise Determinate(
            f"{lost.message}, and no engine came back within {waited_s:g} s", hint=lost.hint, blameless=lost.blameless
        ) from lost


def _unheard(progress: EngineProgress) -> None:
    """Nobody follows a judgement."""
