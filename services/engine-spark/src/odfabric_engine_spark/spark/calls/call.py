"""One call of the engine: what it may use, and how it learns that it must end.

Owns the value that every operation gets beside its request. Invariant: an operation that loops in Python asks `check` at least
once a second, and everything it leaves on disk lies in `scratch` or at the paths of its request. Not here: who runs calls
and ends those that overrun (`running_calls`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from odfabric.errors import OdfError
from odfabric.model.engine import EngineProgress
from odfabric_engine_spark.arrays.kept_files import KeptFiles
from odfabric_engine_spark.arrays.mapped_files import MappedFiles
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.spark.settings import EngineSettings


class StopSignal:
    """Gives a call to end, with the error that is its answer. The first reason wins."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reason: OdfError | None = None

    def set(self, reason: OdfError) -> None:
        """Asks the call to end with `reason`."""
        with self._lock:
            self._reason = self._reason or reason

    @property
    def reason(self) -> OdfError | None:
        """Why the call must end, None if it may go on."""
        return self._reason


def _ignore(progress: EngineProgress) -> None:
    """The listener of a call that nobody follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCall:
    """What an operation works with.

    `session` is private to the call: views, settings and jobs started through it end with it. `scratch` is a private folder
    in the exchange folder beside the output, removed after the call. `plans`, `mapped` files and `kept_files` (None: none are kept) are
    shared with other calls.
    """

    session: SparkSession
    exchange: ExchangeFolder
    settings: EngineSettings
    scratch: Path
    stop: StopSignal = field(default_factory=StopSignal)
    listener: Callable[[EngineProgress], None] = _ignore
    plans: KeptPlans[Any] = field(default_factory=KeptPlans)
    mapped: MappedFiles = field(default_factory=MappedFiles)
    kept_files: KeptFiles | None = None

    def check(self) -> None:
        """Raises the reason if the call must end: LimitExceeded or Determinate.

        LimitExceeded at its deadline, Determinate if the caller is gone.
        """
        if self.stop.reason is not None:
            raise self.stop.reason

    def progress(self, stage: str, done: int = 0, total: int = 0) -> None:
        """Informs the caller how far the work is, and checks."""
        self.check()
        self.listener(EngineProgress(stage=stage, done=done, total=total))
